"""Circuit names for planted numbers, at and beside every threshold; answers of two circuits compared
by hand, and the figure of them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from rb_interp.errors import RunError
from rb_interp.studies.anchor.circuits import ROUTES, SOURCES, circuit_table, compare, name_circuit
from rb_interp.studies.anchor.figures import draw_equivalence
from rb_interp.tasks import Battery, Inputs

AVERAGE = {
    "tv_half": 0.2,
    "key_attention": 0.5,
    "anchor_attention": 0.4,
    "carry": 0.4,
    "accuracy": 0.5,
}
CARRY = {
    "tv_half": 0.4,
    "key_attention": 0.2,
    "anchor_attention": 0.5,
    "carry": 0.5,
    "accuracy": 0.5,
}


@pytest.mark.parametrize(
    ("numbers", "change", "name"),
    [
        (AVERAGE, {}, "average-then-key"),
        (AVERAGE, {"tv_half": 0.2001}, "mixed"),
        (AVERAGE, {"key_attention": 0.4999}, "mixed"),
        (AVERAGE, {"carry": 0.5}, "average-then-key"),
        (AVERAGE, {"carry": 0.5, "anchor_attention": 0.5}, "mixed"),  # both
        (AVERAGE, {"accuracy": 0.4999}, "none"),
        (AVERAGE, {"accuracy": math.nan}, "none"),
        (AVERAGE, {"tv_half": math.nan}, "mixed"),
        (CARRY, {}, "key-to-anchors"),
        (CARRY, {"carry": 0.4999}, "mixed"),
        (CARRY, {"anchor_attention": 0.4999}, "mixed"),
        (CARRY, {"tv_half": 0.1}, "key-to-anchors"),
        (CARRY, {"accuracy": 0.0}, "none"),
    ],
)
def test_names_at_their_thresholds(numbers: dict, change: dict, name: str) -> None:
    assert name_circuit(**{**numbers, **change}) == name


NOWHERE = dict.fromkeys(ROUTES, 0.1)


def readings(gamma: float, seed: int, numbers: dict[str, float]) -> pd.DataFrame:
    """The readings of a member that its names need, and beside each what must not be taken for
    it."""
    layers = {"tv_half": 0, "key_attention": 1, "anchor_attention": 1, "carry": 0}
    rows = []
    for column, source in (SOURCES | ROUTES).items():
        right = {
            "gamma": gamma,
            "seed": seed,
            "stage": source.stage,
            "set": source.set,
            "probe": source.probe,
        }
        right |= {
            "layer": layers.get(column),
            "head": 0,
            "quantity": source.quantity,
            "value": {**NOWHERE, **numbers}[column],
        }
        worse = 1.0 if source.quantity == "tv" else 0.0
        better = 1.0 - worse
        wrong = [
            {"stage": "matched"},
            {"set": "mem"},
            {"quantity": "other"},
            {"probe": "other"},
            {"seed": 99},
        ]
        if column in layers:
            wrong.append({"layer": 2})
            rows.append({**right, "head": 1, "value": worse})  # another head shows less
        rows += [right, *({**right, "value": better, **change} for change in wrong)]
    return pd.DataFrame(rows)


def test_table_takes_the_right_layer_head_stage_and_rows() -> None:
    table = pd.concat(
        [
            readings(0.8, 0, AVERAGE | {"key_from_anchors": 0.8, "anchors_from_anchors": 0.8}),
            readings(0.8, 1, CARRY | {"key_from_key": math.nan}),
            readings(0.3, 0, {**CARRY, "accuracy": 0.1}),
        ]
    )
    found = circuit_table(table[table["seed"] != 99])
    assert found[["gamma", "seed", "circuit", "cause"]].to_numpy().tolist() == [
        [0.3, 0, "none", "none"],
        [0.8, 0, "average-then-key", "key-to-anchors"],
        [0.8, 1, "key-to-anchors", "mixed"],
    ]
    assert found.iloc[1][list(AVERAGE)].to_dict() == AVERAGE


def test_member_without_a_reading_is_named() -> None:
    table = readings(0.8, 0, AVERAGE)
    table = table[(table["probe"] != "attention_to_key") & (table["seed"] == 0)]
    with pytest.raises(
        RunError,
        match=r"gamma 0.8, stage 'final', set 'rsn_train', L0 of seed 0",
    ):
        circuit_table(table)
    assert circuit_table(
        table[table["stage"] == "matched"]
    ).empty  # no final stage, no circuit to name


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
