"""Label distributions: brute-force enumeration of small tasks, the paper's numbers, finite data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rb_interp.probes.embeddings import cosines
from rb_interp.tasks import AnchorTask
from rb_interp.theory.label_distributions import (
    empirical,
    population,
    population_pull,
    reasoning_moments,
)

PAPER = AnchorTask.preset("paper")


@st.composite
def settings_of_small_tasks(draw: st.DrawFn) -> dict[str, Any]:
    q, n_reasoning, n_keys = (
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 5)),
    )
    kind = draw(st.sampled_from(["keys", "near_sum", "ranges"]))
    ranges = ((3, draw(st.integers(3, 9))), (5, 40)) if kind == "ranges" else ()
    reasoning = (10, 9 + n_reasoning)
    masked = ((10,) * q,) if n_reasoning > 1 and draw(st.booleans()) else ()
    return {
        "q": q,
        "length": q + 1 + draw(st.integers(0, 2)),
        "keys": (20, 19 + n_keys),
        "memory_anchors": (0, 3) if kind == "ranges" else (0, draw(st.integers(0, 3))),
        "reasoning_anchors": reasoning,
        "masked": masked,
        "d_vocab": 80,
        "n_sequences": 4000,
        "memory_labels": kind,
        "label_ranges": ranges,
        "memory_share": draw(st.sampled_from([0.25, 0.5, 0.7])),
    }


def enumerated(task: AnchorTask, masked: bool) -> np.ndarray:
    """Weight of every (token, label) a row, by listing combinations, keys, labels and noise keys
    one by one."""
    table, total = np.zeros((task.d_vocab, task.d_vocab)), 0.0
    low_key, high_key = task.keys
    n_noise = task.length - task.q - 1
    per_group = 4 // max(len(task.label_ranges), 1)
    for kind in ("mem", "rsn_train") if masked else ("mem", "rsn_train", "rsn_test"):
        for anchors in task.combinations(kind).tolist():
            for key in range(low_key, high_key + 1):
                if kind != "mem":
                    labels = [key + sum(anchors)]
                elif task.memory_labels == "keys":
                    labels = list(range(low_key, high_key + 1))
                elif task.memory_labels == "near_sum":
                    labels = list(range(key - sum(anchors), key + sum(anchors) + 1))
                else:
                    low, high = task.label_ranges[anchors[0] // per_group]
                    labels = list(range(low, high + 1))
                for label in labels:
                    weight = (
                        task.rows_per_combination(kind) / (high_key - low_key + 1) / len(labels)
                    )
                    total += weight
                    for token in [key, *anchors]:
                        table[token, label] += weight
                    for noise in range(low_key, high_key + 1):
                        table[noise, label] += weight * n_noise / (high_key - low_key + 1)
    return table / total


@settings(max_examples=20, deadline=None)
@given(chosen=settings_of_small_tasks(), masked=st.booleans())
def test_populations_and_pulls_against_enumeration(chosen: dict[str, Any], masked: bool) -> None:
    task = AnchorTask(**chosen)
    table = enumerated(task, masked)
    for group in ("key", "memory_anchor", "reasoning_anchor"):
        rate = table[task.tokens(group)].sum(1)
        if (rate > 0).all():
            expected = table[task.tokens(group)] / rate[:, None]
            np.testing.assert_allclose(population(task, group, masked), expected, atol=1e-12)
    used = table.sum(1, keepdims=True)
    np.testing.assert_allclose(
        population_pull(task, masked), table - used / task.d_vocab, atol=1e-12
    )


def test_the_papers_numbers() -> None:
    reasoning, memory = (
        population(PAPER, f"{name}_anchor") - 1 / PAPER.d_vocab for name in ("reasoning", "memory")
    )
    found = cosines(reasoning)[0, 1:]
    np.testing.assert_allclose(
        found, [0.998, 0.992, 0.982, 0.970, 0.955, 0.938, 0.919, 0.899, 0.878], atol=6e-4
    )
    np.testing.assert_allclose(cosines(memory), 1, atol=1e-12)
    across = cosines(np.concatenate([memory[:1], reasoning[[0, 4, 9]]]))[0, 1:]
    np.testing.assert_allclose(across, [0.49, 0.40, 0.30], atol=6e-3)
    np.testing.assert_allclose(
        [np.linalg.norm(memory[0]), np.linalg.norm(reasoning[0])], [0.0707, 0.0683], atol=6e-5
    )


@pytest.mark.parametrize(("q", "length"), [(1, 2), (2, 9), (3, 4)])
def test_moments_are_those_of_the_distribution(q: int, length: int) -> None:
    task = AnchorTask(q=q, length=length, keys=(21, 50), reasoning_anchors=(11, 14), masked=())
    mean, variance = reasoning_moments(task)
    labels = np.arange(task.d_vocab)
    for s, P in zip(
        task.tokens("reasoning_anchor"), population(task, "reasoning_anchor"), strict=True
    ):
        assert P @ labels - s == pytest.approx(mean)
        assert P @ (labels - P @ labels) ** 2 == pytest.approx(variance)


def test_finite_data_comes_close_to_the_population() -> None:
    # 20,000 rows; a cell of a reasoning anchor holds a share of .04 or less of 4,000 occurrences:
    # sd below .0031
    task = AnchorTask()
    _, P = empirical(task.dataset(seed=3), task.tokens("reasoning_anchor"))
    assert np.abs(P - population(task, "reasoning_anchor", masked=True)).max() < 5 * 0.0031
    assert np.abs(P - population(task, "reasoning_anchor")).max() > 0.005  # what is masked shows
