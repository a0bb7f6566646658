"""A rate of initialisation is a number that some scheme takes."""

import pytest

from rb_interp.errors import ModelError
from rb_interp.models.config import check_gamma


@pytest.mark.parametrize("gamma", [-0.1, 20.5, float("nan"), "0.8", True, None])
def test_a_gamma_that_no_scheme_takes_is_refused(gamma):
    with pytest.raises(ModelError, match="expected 0 to 20"):
        check_gamma(gamma)
