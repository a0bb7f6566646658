"""Figures of the composite study."""

import pytest
from report.pages import check_page

from rb_interp.studies.composite import COMPOSITE

pytestmark = pytest.mark.wide


def test_the_page_shows_every_figure_and_every_verdict(smoke_run):
    """No member of this run answers rightly, or is read often enough for its eigenvalues to
    grow."""
    check_page(
        COMPOSITE,
        smoke_run("composite").evidence,
        lacking=["interchange_roles", "eigenvalue_growth"],
    )
