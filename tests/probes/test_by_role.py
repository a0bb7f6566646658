"""Attention of the last position by role: by hand, under the null, and what is refused."""

import numpy as np
import pytest
from lens_models import lens_model
from scipy.stats import kstest

from rb_interp.errors import RolesError
from rb_interp.probes import attention_by_role
from rb_interp.probes._attention import ROUNDING, between_roles, masks_by_role, other_rows
from rb_interp.statistics.nulls import dirichlet_rows, permutations
from rb_interp.statistics.reading import Null
from rb_interp.tasks import Roles
from rb_interp.tasks.inputs import Inputs


def mean_by_role(attention, key, anchors):
    """Mean attention of the last query, ``[row, pos]``, on each role."""
    seen = masks_by_role(key, anchors, attention.shape[1])
    looking = np.ones((len(attention), 1, 1), dtype=bool)
    return dict(zip(seen, between_roles(attention[:, None], looking, np.stack([*seen.values()], 2))[0], strict=True))


def permuted_roles(attention, positions, n_null, rng):
    seen = np.zeros(attention.shape, dtype=bool)
    np.put_along_axis(seen, positions, True, 1)
    looking, orders = np.ones((len(attention), 1, 1), dtype=bool), permutations(n_null, len(attention), rng)
    return Null("", other_rows(attention[:, None], looking, seen[..., None], orders)[:, 0, 0] + ROUNDING)


def test_hand_made_attention():
    """Row 1: the block key, anchor, anchor stands first, so the last position is noise. Row 2: it stands last."""
    attention = np.array([[0.1, 0.2, 0.3, 0.15, 0.25], [0.05, 0.15, 0.5, 0.2, 0.1]])
    values = mean_by_role(attention, np.array([[0], [2]]), np.array([[1, 2], [3, 4]]))
    expected = {"key": 0.3, "anchor_1": 0.2, "anchor_2": 0.2, "anchors": 0.4, "self": 0.125, "noise": 0.175}
    assert values == pytest.approx(expected)
    assert sum(values[name] for name in ("key", "anchors", "self", "noise")) == pytest.approx(1)


def test_a_head_that_finds_the_key_beats_its_null_and_a_fixed_position_does_not():
    rng = np.random.default_rng(0)
    key = rng.integers(0, 7, (300, 1))
    finds_key, fixed = np.zeros((300, 9)), np.zeros((300, 9))
    np.put_along_axis(finds_key, key, 1.0, 1)
    fixed[:, 0] = 1.0
    assert permuted_roles(finds_key, key, 200, rng).p_value(1.0) == 1 / 201
    null = permuted_roles(fixed, key, 200, rng)
    np.testing.assert_allclose(null.draws, (key == 0).mean())
    assert null.p_value((key == 0).mean()) == 1


def test_p_values_are_uniform_where_attention_ignores_the_roles():
    n, rng = 300, np.random.default_rng(1)
    p_values = []
    for _ in range(n):
        attention, anchors = dirichlet_rows(60, 9, rng), rng.integers(1, 8, (60, 1)) + np.arange(2)
        observed = mean_by_role(attention, anchors[:, :1] - 1, anchors)["anchors"]
        p_values.append(permuted_roles(attention, anchors, 200, rng).p_value(observed))
    assert kstest(p_values, "uniform").statistic < 1.63 / np.sqrt(n) + 1 / 201


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ({"key": [[0], [1]], "anchor": [[1], [1]]}, "one position twice in row 1: key [1], anchor [1]"),
        (
            {"key": [[0], [4]], "anchor": [[1], [1]]},
            "role 'key' at positions 0 to 4; these rows have positions 0 to 3.",
        ),
    ],
)
def test_roles_that_do_not_fit_are_refused(positions, message):
    roles = Roles({role: np.array(at) for role, at in positions.items()}, task="a puzzle")
    with pytest.raises(RolesError) as error:
        attention_by_role(lens_model("plain", n_layers=2), Inputs(np.zeros((2, 4), int), roles=roles))
    assert message in str(error.value)
