"""The layout of numbers, on embeddings made by hand."""

import numpy as np
import pytest

from rb_interp.errors import ArgumentError
from rb_interp.probes import from_arrays, lattice

IDS = np.arange(20, 100)
STEPS = (3, 4)


def lattice_values(vectors: np.ndarray, ids: np.ndarray, steps=STEPS):
    W_E = np.zeros((ids[-1] + 1, vectors.shape[1]))
    W_E[ids] = vectors
    return lattice(from_arrays(W_E=W_E), tokens=ids, steps=steps, n_null=0).values


def circle(ids: np.ndarray, period: float) -> np.ndarray:
    return np.stack([np.cos(2 * np.pi * ids / period), np.sin(2 * np.pi * ids / period)], 1)


def test_numbers_on_a_line_are_ordered_and_have_no_steps():
    values = lattice_values(np.outer(IDS - 60.0, [1, 2, 0]) + 7, IDS)
    assert values["pc_order"] == pytest.approx(1)
    assert values["participation"] == pytest.approx(1)
    assert values["nearest"] < 0.1
    assert abs(values["contrast"]) < 0.01


def test_numbers_on_a_circle_are_in_order_and_have_no_steps():
    values = lattice_values(circle(IDS, len(IDS)), IDS)
    angles = (
        2 * np.pi * np.arange(1, 11) / len(IDS)
    )  # C(k): pairs that go round the end of the list do not count
    assert [values[f"cos_{k}"] for k in range(1, 11)] == pytest.approx(np.cos(angles).tolist())
    assert values["participation"] == pytest.approx(2)
    assert values["nearest"] == 0
    assert 0 < values["contrast"] < 0.02  # the curve of the circle alone


def test_numbers_on_a_lattice_of_steps_three_and_four_are_told():
    ids = IDS[:28]
    values = lattice_values(np.concatenate([circle(ids, 3.5), 2 * circle(ids, 56)], 1), ids)
    assert values["nearest"] >= 0.9
    assert values["contrast"] > 0.5
    assert lattice_values(circle(ids, 5.5), ids)["contrast"] < 0
    assert lattice_values(circle(ids, 5.5), ids, (5, 6))["contrast"] > 0.5


def test_a_random_embedding_reads_its_nulls():
    rng = np.random.default_rng(1)
    model, first = (from_arrays(W_E=rng.standard_normal((100, 64))) for _ in range(2))
    reading = lattice(model, tokens=IDS, untrained=first, n_null=100)
    inside = {
        name: 0.005 < null.p_value(reading.values[name]) < 0.999
        for name, null in reading.nulls.items()
    }
    assert all(inside.values()), inside
    assert reading.nulls["nearest"].draws.mean() == pytest.approx(2 * (77 + 76) / 80 / 79, abs=0.01)
    assert reading.nulls["pc_order"].draws.mean() == pytest.approx(0.17, abs=0.03)
    assert reading.values["participation_ratio"] == pytest.approx(1, abs=0.1)
    lone = lattice(model, tokens=[20], n_null=0)
    assert np.isnan(lone.values["nearest"])
    assert "too few" in lone.notes["nearest"]


@pytest.mark.parametrize("steps", [(), (1, 4), (3, 50), (10**7,)])
def test_steps_that_no_two_tokens_can_be_apart_are_refused(steps):
    source = from_arrays(W_E=np.random.default_rng(0).standard_normal((50, 6)))
    with pytest.raises(ArgumentError, match=r"lattice got steps=\(.*; give one or more .* 2 to 49"):
        lattice(source, tokens=np.arange(20), steps=steps)
