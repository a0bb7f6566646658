"""Probability inside a group's label range: by hand, on models that know all, the pooled labels, or nothing."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from rb_interp.probes.labels import label_range, mean_outputs, pooled_inside
from rb_interp.tasks import AnchorTask, Inputs

PAPER = tuple((30, 29 + 20 * i) for i in (1, 2, 3, 4))
TASK = AnchorTask(memory_anchors=(1, 8), memory_labels="ranges", label_ranges=PAPER)


class Told(torch.nn.Module):
    """Answers what it is told, by the token at the last position; other positions get rubbish that must not be read."""

    def __init__(self, table: np.ndarray) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.log(torch.from_numpy(table)))
        self.cfg, self.hook_dict = type("cfg", (), {"d_vocab": table.shape[1], "n_ctx": 9}), {}

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.table[tokens] + 3.0  # a constant that the softmax takes away
        logits[:, :-1] = 100 * torch.rand(logits[:, :-1].shape)
        return logits


def uniform(*ranges: tuple[int, int], d_vocab: int = 200) -> np.ndarray:
    """Output distribution of each group: uniform on its range."""
    table = np.full((len(ranges), d_vocab), 1e-30)
    for row, (low, high) in zip(table, ranges, strict=True):
        row[low : high + 1] = 1 / (high - low + 1)
    return table


def read(table: np.ndarray, untrained: np.ndarray | None = None, labels: np.ndarray | None = None):
    """The reading of a model that answers ``table[group]``; two inputs of each group."""
    groups = np.repeat(np.arange(4), 2)
    tokens = np.column_stack([np.full(8, 3), groups])
    labels = np.full(8, 35) if labels is None else labels
    told = None if untrained is None else Told(untrained)
    return label_range(Told(table), Inputs(tokens, labels), groups=groups, ranges=PAPER, untrained=told)


def test_two_groups_by_hand():
    """The mean of rows 0 and 2, and row 1."""
    probabilities = np.array([[0.5, 0.25, 0.25, 0.0], [0.125, 0.5, 0.25, 0.125], [0.25, 0.0, 0.5, 0.25]])
    groups = np.array([0, 1, 0])
    outputs = mean_outputs(probabilities, groups, [(0, 1), (1, 3)])
    np.testing.assert_allclose(outputs, [[0.375, 0.125, 0.375, 0.125], probabilities[1]])


def test_pooled_is_what_the_paper_s_ranges_give_by_counting():
    """Each label's weight in the pool, counted one by one: 1/4 (1/20 + 1/40 + 1/60 + 1/80) for the first twenty."""
    pool = {label: Fraction(0) for label in range(30, 110)}
    for low, high in PAPER:
        for label in range(low, high + 1):
            pool[label] += Fraction(1, 4 * (high - low + 1))
    assert sum(pool.values()) == 1
    by_hand = [float(sum(pool[label] for label in range(low, high + 1))) for low, high in PAPER]
    assert by_hand[0] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4) == pytest.approx(25 / 48)
    np.testing.assert_allclose(pooled_inside(PAPER), by_hand)
    assert round(pooled_inside(TASK.label_ranges).min(), 2) == 0.52
    np.testing.assert_allclose(pooled_inside([(0, 9), (20, 29)]), [0.5, 0.5])  # ranges that share nothing


def test_one_that_knows_the_ranges_reads_one_and_is_not_accurate():
    values = read(uniform(*PAPER), labels=np.repeat([49, 69, 89, 109], 2)).values
    assert values["lowest_inside"] == pytest.approx(1)
    assert values["accuracy"] == 0  # each distribution is flat, its first label is the answer


def test_one_that_knows_the_pooled_labels_reads_what_pooled_says():
    pool = uniform(*PAPER).mean(0)
    reading = read(np.tile(pool, (4, 1)))
    np.testing.assert_allclose(reading.arrays["inside"], pooled_inside(PAPER))
    assert reading.values["lowest_inside"] == pytest.approx(reading.values["pooled"]) == pytest.approx(25 / 48)


def test_one_that_knows_nothing_reads_the_width_of_the_ranges():
    reading = read(uniform(*PAPER), untrained=uniform(*[(0, 199)] * 4))
    assert [reading.untrained[f"inside_{g}"] for g in (1, 2, 3, 4)] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert reading.untrained["lowest_inside"] == pytest.approx(0.1)


def test_one_that_memorised_reads_one_as_well():
    labels = np.repeat([31, 51, 71, 91], 2)
    memorised = np.full((4, 200), 1e-9)
    memorised[np.arange(4), labels[::2]] = 1
    values = read(memorised, labels=labels).values
    assert (values["accuracy"], round(values["lowest_inside"], 4)) == (1, 1)


def test_the_lowest_group_counts_and_the_last_position_is_read():
    table = uniform(*PAPER)
    table[2] = uniform((80, 99))[0]  # ten of twenty labels lie above 89
    reading = read(table)
    assert reading.values["lowest_inside"] == reading.values["inside_3"] == pytest.approx(0.5)
    np.testing.assert_allclose(reading.arrays["outputs"], table, atol=1e-12)
    assert reading.n == 8
    assert list(reading.values) == [
        "lowest_inside",
        "inside_1",
        "inside_2",
        "inside_3",
        "inside_4",
        "pooled",
        "accuracy",
    ]
