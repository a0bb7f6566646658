"""Shares of variance in tables whose shares are known."""

import numpy as np
import pytest
from crossed_seeds.components import variance_components
from scipy import stats

from rb_interp import RbInterpError

N = 6


def normal(shares, n, rng):
    """Tables of normal effects with the given shares of variance."""
    rows, columns, rest = np.sqrt(shares)
    effects = rows * rng.standard_normal((n, N, 1)) + columns * rng.standard_normal((n, 1, N))
    return effects + rest * rng.standard_normal((n, N, N)), np.array(shares)


def clusters(shares, n, rng, above=0.5, noise=0.025):
    """Tables near .05 or .95, by whether the sum of normal effects is above a threshold; shares of
    these values."""
    threshold, spread = stats.norm.ppf(1 - above), 0.9**2 * above * (1 - above) + noise**2
    found = []
    for share in shares[:2]:  # covariance of two cells that have a row (a column) in common
        both = stats.multivariate_normal.cdf([-threshold] * 2, cov=[[1, share], [share, 1]])
        found.append(0.9**2 * (both - above**2) / spread)
    values = (
        0.05
        + 0.9 * (normal(shares, n, rng)[0] > threshold)
        + noise * rng.standard_normal((n, N, N))
    )
    return values, np.array([*found, 1 - sum(found)])


def covered(tables, truth, n_draws=200):
    """How often each interval (rows, columns, rest, rows less columns) holds the truth."""
    truth, held = np.array([*truth, truth[0] - truth[1]]), []
    for table in tables:
        found = variance_components(table, n_draws=n_draws)
        ends = np.array(
            [part[1:] for part in (found.rows, found.columns, found.rest, found.difference)]
        )
        held.append((ends[:, 0] <= truth + 1e-9) & (truth - 1e-9 <= ends[:, 1]))
    return np.mean(held, axis=0)


def test_a_table_worked_out_by_hand():
    # means 2, 4, 9 of rows and 3, 4, 8 of columns; mean squares 78 / 2, 42 / 2 and 16 / 4
    found = variance_components(np.array([[1.0, 2.0, 3.0], [2.0, 1.0, 9.0], [6.0, 9.0, 12.0]]))
    np.testing.assert_allclose(found.variances, [35 / 3, 17 / 3, 4])
    shares = [share.estimate for share in (found.rows, found.columns, found.rest)]
    np.testing.assert_allclose(shares, [35 / 64, 17 / 64, 12 / 64])
    assert found.difference.estimate == pytest.approx(18 / 64)
    assert all(
        s.low <= s.estimate <= s.high
        for s in (found.rows, found.columns, found.rest, found.difference)
    )


def test_rows_and_columns_stand_for_each_other():
    table = np.random.default_rng(0).normal(size=(N, N)) + np.arange(N)[:, None]
    found, turned = (
        variance_components(table, n_draws=5_000),
        variance_components(table.T, n_draws=5_000),
    )
    np.testing.assert_allclose(found.rows, turned.columns, atol=0.02)
    np.testing.assert_allclose(found.difference, -np.array(turned.difference)[[0, 2, 1]], atol=0.03)
    shifted = variance_components(3 - 2 * table, n_draws=5_000)
    np.testing.assert_allclose(shifted.rows, found.rows)


def test_what_the_rows_decide_is_told():
    table = np.repeat([0.02, 0.97, 0.96, 0.03, 0.98, 0.01], N).reshape(N, N)
    found = variance_components(table)
    assert (found.rows.low > 0.6, found.columns.high < 0.4, found.difference.low > 0.5) == (
        True,
        True,
        True,
    )
    other = variance_components(table.T)
    assert other.columns.low > 0.6 > 0.4 > other.rows.high


def test_tables_that_say_nothing():
    alike = variance_components(np.full((N, N), 0.3))
    assert alike.variances == (0, 0, 0)
    assert np.isnan([alike.rows, alike.difference]).all()
    missing = np.arange(36.0).reshape(N, N)
    missing[2, 2] = np.nan
    assert np.isnan(
        [*variance_components(missing).variances, *variance_components(missing).rest]
    ).all()
    with pytest.raises(
        RbInterpError, match=r"shape \(1, 6\); give a table of two or more rows and columns"
    ):
        variance_components(np.zeros((1, 6)))


@pytest.mark.parametrize(
    ("world", "shares", "least"),
    [
        (normal, (0.6, 0.2, 0.2), 0.95),
        (clusters, (0.9, 0.05, 0.05), 0.95),
        (clusters, (1 / 3, 1 / 3, 1 / 3), 0.95),
        (clusters, (0.0, 0.0, 1.0), 0.95),
    ],
)
def test_intervals_cover_as_they_say(world, shares, least):
    n = 80
    found = covered(*world(shares, n, np.random.default_rng(7)))
    assert (found >= least - 2.5 * np.sqrt(least * (1 - least) / n)).all(), found
