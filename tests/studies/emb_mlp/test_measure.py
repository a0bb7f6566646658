"""A tiny study has the columns that its pages promise."""

import pytest
from table_columns import check_run

pytestmark = pytest.mark.wide


def test_readings_and_tables_have_their_columns(run):
    check_run(run)
