"""Eq. (13): the exact step in the limit of small weights, and how its error grows with d_model."""

from __future__ import annotations

import numpy as np
import pytest

from rb_interp.errors import TaskError
from rb_interp.tasks import AnchorTask
from rb_interp.theory.label_distributions import excess, population
from rb_interp.theory.theorem_1 import exponent, gaussian_profile, inner_product_error, stepped_embeddings

TASK = AnchorTask(length=3, unordered=True, balanced_keys=True, masked=(), n_sequences=2000, d_vocab=100)
ANCHORS = TASK.tokens("reasoning_anchor")
WIDTHS = (100, 200, 400, 800)


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_a_step_from_nothing_is_the_label_distribution(share: float) -> None:
    # an anchor stands last in half of its occurrences: r_s eta / 2 = L / 2 = 1.5, whatever the share of memory rows
    task = AnchorTask(
        length=3, unordered=True, balanced_keys=True, masked=(), n_sequences=10_000, d_vocab=100, memory_share=share
    )
    found = stepped_embeddings(task, gamma=3.0, seed=0)[ANCHORS].numpy()
    np.testing.assert_allclose(found, 1.5 * excess(population(task, "reasoning_anchor")), atol=2e-5)


def test_error_in_that_limit_is_that_of_the_normal_curve() -> None:
    real = 1.5 * excess(population(TASK, "reasoning_anchor"))
    for C_1, factor in ((None, 1.5), (1.0, 1.0)):
        ideal = gaussian_profile(TASK, ANCHORS, 100, factor, centre="label")
        error = np.abs(ideal @ ideal.T - real @ real.T).max()
        found = inner_product_error(TASK, 4.0, 100, C_1=C_1)
        assert found.error == pytest.approx(error, abs=1e-5)
        assert found.size == pytest.approx(np.abs(real @ real.T).mean(), abs=1e-5)


def test_growth_stays_within_the_bound() -> None:
    for gamma in (0.3, 0.5, 0.8, 1.0):
        errors = np.array([[inner_product_error(TASK, gamma, d, s).error for d in WIDTHS] for s in range(2)])
        assert exponent(WIDTHS, errors).mean() < 1 - gamma, gamma


def test_seeds_repeat_and_differ() -> None:
    found = [inner_product_error(TASK, 0.5, 100, seed).error for seed in (0, 0, 1)]
    assert found[0] == pytest.approx(found[1], rel=1e-5)  # float32 sums depend on the number of threads
    assert found[2] != pytest.approx(found[0], rel=1e-2)


def test_exponents_of_powers() -> None:
    d = np.array(WIDTHS)
    np.testing.assert_allclose(exponent(WIDTHS, np.stack([3 * d**0.7, 2 * d**-0.5])), [0.7, -0.5])


def test_a_task_without_reasoning_has_no_error() -> None:
    with pytest.raises(TaskError, match=r"memory_share=1.0 leaves no reasoning row to learn from; lower memory_share"):
        inner_product_error(AnchorTask(memory_share=1.0), 0.8, 100)
