"""Two circuits compared: answers worked by hand, the tables of a run, and what a figure shows of
them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rb_interp.studies.anchor.equivalence import compare
from rb_interp.studies.anchor.figures import draw_equivalence
from rb_interp.tasks import Battery, Inputs

ROWS = Battery(
    Inputs(np.zeros((4, 2), dtype=int), np.array([5, 5, 5, 5])), second=np.array([6, 6, 6, 6])
)
ANSWERS = {
    seed: np.array(row)
    for seed, row in enumerate([[5, 5, 5, 5], [5, 5, 5, 6], [6, 6, 5, 5], [6, 6, 6, 5], [7] * 4])
}
NAMES = {0: "x", 1: "x", 2: "mixed", 3: "mixed", 4: "none"}


def test_answers_worked_by_hand():
    untrained = {seed: np.array([seed] * 4) for seed in NAMES}
    found = compare({"two": ROWS}, {"two": ANSWERS}, {"two": untrained}, NAMES, step=7)
    rows = found.readings.to_dict("records")
    values = {row["seed"]: row["value"] for row in rows}
    expected = {
        0: (2 + 3) / 8 - 1 / 4,
        1: (3 + 4) / 8 - 1 / 4,
        2: (2 + 3) / 8 - 1 / 4,
        3: (3 + 4) / 8 - 1 / 4,
    }
    assert values == pytest.approx({**expected, 4: np.nan}, nan_ok=True)
    assert {row["untrained"] for row in rows if row["seed"] < 4} == {0.0}
    assert {(row["probe"], row["quantity"], row["step"], row["n"]) for row in rows} == {
        ("equivalence", "two", 7, 4)
    }
    pairs = found.tables["disagreement"]
    assert list(zip(pairs["seed_a"], pairs["seed_b"], 4 * pairs["disagreement"], strict=True)) == [
        (0, 1, 1),
        (0, 2, 2),
        (0, 3, 3),
        (1, 2, 3),
        (1, 3, 4),
        (2, 3, 1),
    ]
    means = found.tables["disagreement_means"].set_index(["circuit_a", "circuit_b"])
    assert means.loc[("mixed", "x"), ["mean", "smallest", "largest", "n"]].tolist() == [
        0.75,
        0.5,
        1.0,
        4,
    ]
    row = found.tables["equivalence"].iloc[0]
    assert (row["groups"], row["n_members"]) == ("mixed 2, x 2", 4)
    assert (row["within"], row["between"], row["difference"]) == (0.25, 0.75, 0.5)
    assert (row["p_value"], row["n_relabelings"], row["exact"]) == (2 / 6, 6, True)
    right = found.tables["battery_accuracy"].set_index("seed")
    assert right["accuracy"].tolist() == [1, 0.75, 0.5, 0.25, 0]
    assert right["second_accuracy"].tolist() == [0, 0.25, 0.5, 0.75, 0]
    assert right.at[4, "circuit"] == "none"


def test_every_member_of_a_run_answers_the_same_rows(run):
    right = run.table("battery_accuracy")
    assert set(right["seed"]) == {0, 1}
    assert set(right["battery"]) == {
        "held_out",
        "length_4",
        "distractor",
        "second_block",
        *(f"key_at_{p}" for p in range(4)),
    }
    circuits = run.table("circuits").query("gamma == 0.8").set_index("seed")["circuit"]
    assert (right["circuit"] == right["seed"].map(circuits)).all()
    learned = (
        run.table("curves")
        .query("gamma == 0.8 and set == 'rsn_test' and step == 300")
        .set_index("seed")
    )
    own = right[right["battery"] == "held_out"].set_index("seed")["accuracy"]
    assert (own - learned["accuracy"]).abs().max() < 0.3  # other rows of the same kind
    places = run.readings[run.readings["probe"] == "equivalence"]
    assert set(zip(places["seed"], places["quantity"], strict=True)) == set(
        zip(right["seed"], right["battery"], strict=True)
    )


def test_the_figure_has_every_pair(run):
    batteries, names = (
        ("held_out", "length_4"),
        {0: "key-to-anchors", 1: "average-then-key", 2: "average-then-key"},
    )
    every = [
        dict.fromkeys(batteries, one) for one in (ROWS, {seed: ANSWERS[seed] for seed in names})
    ]
    found = compare(*every, every[1], names, step=7)
    panels = draw_equivalence(
        replace(run.evidence, tables={**run.evidence.tables, **found.tables})
    ).axes
    seeds = [1, 2, 0]  # average-then-key first
    for axes, battery in zip(panels, batteries, strict=False):
        assert [int(label.get_text()) for label in axes.get_yticklabels()] == seeds
        cells = axes.images[0].get_array()
        pairs = found.tables["disagreement"]
        pairs = pairs[pairs["battery"] == battery]
        assert len(pairs) == 3
        for row in pairs.to_dict("records"):
            a, b = seeds.index(row["seed_a"]), seeds.index(row["seed_b"])
            assert cells[a, b] == cells[b, a] == row["disagreement"]
