"""Predicted drift against the exact first gradient step as the weights' scale goes to 0, and
agreement of drifts.

Label distributions: brute-force enumeration of small tasks, the paper's numbers, finite data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy, softplus

from rb_interp.errors import TaskError
from rb_interp.probes.embeddings import cosines
from rb_interp.tasks import AnchorTask
from rb_interp.theory.drift import (
    agreement,
    emb_mlp_map,
    empirical,
    leading_direction,
    one_layer_drift,
    one_layer_maps,
    permuted_r2,
    population,
    population_pull,
    pull,
    value_flow,
)
from rb_interp.theory.theorem_1 import one_layer_logits, reasoning_moments

TASK = AnchorTask(
    length=3,
    keys=(6, 9),
    memory_anchors=(0, 1),
    reasoning_anchors=(3, 4),
    masked=((3, 3),),
    d_vocab=20,
    n_sequences=32,
    unordered=True,
    balanced_keys=True,
)
NOISY = AnchorTask(
    length=5,
    keys=(6, 9),
    memory_anchors=(0, 1),
    reasoning_anchors=(3, 4),
    masked=(),
    d_vocab=20,
    n_sequences=80,
)
ANCHORS, KEYS = [0, 1, 3, 4], [6, 7, 8, 9]
ONE_LAYER = {
    "W_E": (20, 20),
    "W_Q": (20, 4),
    "W_K": (20, 4),
    "W_V": (20, 4),
    "W_O": (4, 20),
    "W_in": (20, 8),
    "W_out": (8, 20),
}


def training_rows(task: AnchorTask) -> tuple[Tensor, Tensor]:
    data = task.dataset(seed=1)
    rows = data.rows("train")
    return torch.tensor(data.tokens[rows]), torch.tensor(data.labels[rows])


def draw(shapes: dict[str, tuple[int, ...]], scale: float) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(5)
    return {
        name: scale * torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }


def descent(
    logits: Callable[..., Tensor], weights: dict[str, Tensor], name: str, task: AnchorTask
) -> Tensor:
    """Minus the gradient of the mean cross entropy over the training rows."""
    tokens, labels = training_rows(task)
    leaf = weights[name].clone().requires_grad_()
    loss = cross_entropy(logits(tokens, **{**weights, name: leaf}), labels)
    return -torch.autograd.grad(loss, leaf)[0]


def relative(predicted: Tensor, measured: Tensor) -> float:
    return float((predicted - measured).norm() / measured.norm())


def order(errors: list[float]) -> float:
    """Power of the scale that errors at 1 and 1/2 of it follow."""
    return math.log2(errors[0] / errors[1])


def soft(x: Tensor) -> Tensor:
    """Twice differentiable, 0 at 0 with slope 1, and curved there: sigma''(0) = 1/2."""
    return 2 * (softplus(x) - math.log(2))


def emb_mlp(act: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda tokens, W_E, W_in, W_out: act(W_E[tokens].sum(1) @ W_in) @ W_out


def one_layer(tokens: Tensor, W_E: Tensor, **weights: Tensor) -> Tensor:
    return one_layer_logits(W_E[tokens], **weights)


# tanh is odd: sigma' is off by scale^4 and softmax by the output, scale^3. A curved sigma: by
# scale^2.
@pytest.mark.parametrize(("act", "power"), [(torch.tanh, 3), (soft, 2)])
def test_proposition_1_is_the_gradient_in_the_limit(act: Callable, power: int) -> None:
    shapes = {"W_E": (20, 6), "W_in": (6, 8), "W_out": (8, 20)}
    R, errors = pull(*training_rows(TASK), 20, dtype=torch.float64), []
    for scale in (0.02, 0.01):
        weights = draw(shapes, scale)
        predicted = R @ emb_mlp_map(weights["W_in"], weights["W_out"])
        errors.append(relative(predicted, descent(emb_mlp(act), weights, "W_E", TASK)))
    assert errors[1] < 1e-3
    assert order(errors) == pytest.approx(power, abs=0.1)


def test_the_letter_of_equation_4_counts_a_row_once_and_misses_repeated_anchors() -> None:
    weights = draw({"W_E": (20, 6), "W_in": (6, 8), "W_out": (8, 20)}, 0.001)
    measured = descent(emb_mlp(torch.tanh), weights, "W_E", TASK)
    R = pull(*training_rows(TASK), 20, count="sequences", dtype=torch.float64)
    error = (R @ emb_mlp_map(weights["W_in"], weights["W_out"]) - measured).norm(
        dim=1
    ) / measured.norm(dim=1)
    assert float(error[KEYS].max()) < 1e-6  # keys occur once in a row
    assert float(error[[0, 1]].min()) > 0.1


@pytest.mark.parametrize("task", [TASK, NOISY])
def test_one_layer_position_by_position_is_the_gradient_in_the_limit(task: AnchorTask) -> None:
    tokens, labels = training_rows(task)
    R, R_last = (pull(tokens, labels, 20, last=last, dtype=torch.float64) for last in (False, True))
    errors: dict[str, list[float]] = {"anchors": [], "keys": [], "W_V": []}
    for scale in (2e-3, 1e-3):
        weights = draw(
            ONE_LAYER, 0.3
        )  # the embedding alone is small, so that W_f and W_VO count beside I
        weights["W_E"] *= scale / 0.3
        maps = one_layer_maps(*(weights[name] for name in ("W_V", "W_O", "W_in", "W_out")))
        predicted = one_layer_drift(R, *maps, task.length, pull_last=R_last)
        measured = descent(one_layer, weights, "W_E", task)
        for name, group in (("anchors", ANCHORS), ("keys", KEYS)):
            errors[name].append(relative(predicted[group], measured[group]))
        flow = value_flow(
            weights["W_E"], R, weights["W_O"], weights["W_in"], weights["W_out"], task.length
        )
        errors["W_V"].append(relative(flow, descent(one_layer, weights, "W_V", task)))
    for (
        name,
        found,
    ) in errors.items():  # softmax is off by the output, which holds the embedding itself: scale^1
        assert found[1] < 0.02, name
        assert order(found) == pytest.approx(1, abs=0.1), name


def test_the_printed_one_layer_form_takes_two_thirds_of_the_drift_of_anchors_and_gives_keys_a_direct_one() -> (
    None
):
    # key first, then two anchors: an anchor stands last in 1/2 of its occurrences, the printed form
    # has 1/3; so it predicts 2/3 of the direct part, and R^2 = 1 - (1/3)^2 = 8/9 at any small scale
    tokens, labels = training_rows(TASK)
    R, R_last = (pull(tokens, labels, 20, last=last, dtype=torch.float64) for last in (False, True))
    torch.testing.assert_close(R_last[ANCHORS], R[ANCHORS] / 2)
    assert not R_last[KEYS].any()
    weights = draw(ONE_LAYER, 1e-4)
    maps = one_layer_maps(*(weights[name] for name in ("W_V", "W_O", "W_in", "W_out")))
    measured, predicted = descent(one_layer, weights, "W_E", TASK), one_layer_drift(R, *maps, 3)
    cos, r2 = agreement(predicted[ANCHORS], measured[ANCHORS])
    assert float(cos) == pytest.approx(1, abs=1e-4)
    assert float(r2) == pytest.approx(8 / 9, abs=1e-3)
    assert float(predicted[KEYS].norm()) > 1e4 * float(measured[KEYS].norm())


def test_pull_by_hand_and_beside_numpy() -> None:
    tokens, labels = torch.tensor([[3, 1, 1], [3, 2, 1]]), torch.tensor([0, 1])
    R = pull(tokens, labels, 4)
    torch.testing.assert_close(
        R[3], torch.tensor([0.25, 0.25, -0.25, -0.25])
    )  # half 0, half 1, once a row
    torch.testing.assert_close(R[1], torch.tensor([1.0, 0.5, 0.0, 0.0]) - 1.5 / 4)
    assert not R[0].any()
    once = pull(tokens, labels, 4, count="sequences")
    torch.testing.assert_close(once[1], torch.tensor([0.25, 0.25, -0.25, -0.25]))
    torch.testing.assert_close(pull(tokens, labels, 4, last=True)[1], once[1])
    data = NOISY.dataset(seed=1)
    for count in ("occurrences", "sequences"):
        rate, P = empirical(data, np.array(ANCHORS + KEYS), count)
        found = pull(*training_rows(NOISY), 20, count)[ANCHORS + KEYS]
        np.testing.assert_allclose(found, rate[:, None] * (P - 1 / P.shape[1]), atol=1e-6)


def test_leading_directions_of_several_members_one_of_them_diverged() -> None:
    change = torch.stack(
        [torch.diag(torch.tensor([1.0, 3.0])), torch.full((2, 2), torch.inf), torch.zeros(2, 2)]
    )
    vector, share = leading_direction(change)
    torch.testing.assert_close(vector[0].abs(), torch.tensor([0.0, 1.0]))
    assert float(share[0]) == pytest.approx(0.9)
    assert vector[1].isnan().all()
    assert share[1:].isnan().all()


@pytest.mark.parametrize(
    ("tokens", "labels"), [([[0], [1]], [2, 0]), ([[0], [1]], [0, -1]), ([[0], [7]], [0, 1])]
)
def test_tokens_and_labels_outside_the_vocabulary_are_refused(tokens, labels):
    with pytest.raises(
        TaskError, match=r"s run from -?\d to \d; d_vocab=2 has 0 to 1\. Raise d_vocab\."
    ):
        pull(torch.tensor(tokens), torch.tensor(labels), 2)


GENERATOR = torch.Generator().manual_seed(0)
M = torch.randn(2, 7, 3, generator=GENERATOR, dtype=torch.float64)
P = M + torch.randn(2, 7, 3, generator=GENERATOR, dtype=torch.float64)
KINDS = np.array(["memory", "memory", "reasoning", "key", "reasoning", "reasoning", "memory"])


@pytest.mark.parametrize("centred", [True, False])
def test_a_prediction_that_is_off_by_a_factor(centred: bool) -> None:
    for factor in (1.0, 2 / 3, 0.0, -1.0):
        cos, r2 = agreement(factor * M, M, centred)
        torch.testing.assert_close(r2, torch.full((2,), 1 - (1 - factor) ** 2, dtype=torch.float64))
        if factor:
            torch.testing.assert_close(
                cos, torch.full((2,), float(np.sign(factor)), dtype=torch.float64)
            )
        else:
            assert cos.isnan().all()


def test_what_is_common_to_all_tokens_counts_only_uncentred() -> None:
    common = torch.tensor([5.0, 1.0, -2.0], dtype=torch.float64)
    torch.testing.assert_close(agreement(P + common, M - common), agreement(P, M))
    (raw, _), (centred, _) = agreement(P + common, M - common, centred=False), agreement(P, M)
    assert (raw < centred - 0.2).all()


def test_nothing_but_rounding_has_no_direction() -> None:
    constant = torch.ones(7, 3) * torch.tensor([1.0, 2.0, 3.0]) + 2e-7 * torch.randn(
        7, 3, generator=GENERATOR
    )
    cos, r2 = agreement(constant, M[0].float())
    assert cos.isnan()
    assert float(r2) == pytest.approx(0, abs=1e-6)
    assert agreement(M[0].float(), constant)[1].isnan()


def test_mean_over_every_permutation() -> None:
    places = [np.flatnonzero(kind == KINDS) for kind in ("memory", "reasoning")]
    found = []
    for first in permutations(places[0]):
        for second in permutations(places[1]):
            order = np.arange(7)
            order[places[0]], order[places[1]] = first, second
            found.append(agreement(P[:, order], M)[1])
    torch.testing.assert_close(permuted_r2(P, M, KINDS), torch.stack(found).mean(0))


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
