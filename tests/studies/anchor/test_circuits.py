"""Circuit names for planted numbers, at and beside every threshold; the attention_to_key probe on
planted patterns."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from rb_interp.errors import RunError
from rb_interp.studies.anchor.circuits import ROUTES, SOURCES, circuit_table, name_circuit

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
    layers = {"tv_half": 0, "key_attention": 2, "anchor_attention": 2, "carry": 0}
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
        worse = 1.0 if source.head == "min" else 0.0
        better = 1.0 - worse
        wrong = [
            {"stage": "matched"},
            {"set": "mem"},
            {"quantity": "other"},
            {"probe": "other"},
            {"seed": 99},
        ]
        if column in layers:
            wrong.append({"layer": 1})
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
        match=r"gamma=0.8, seed=0: the readings lack attention_to_key/key_from_last_anchor at stage 'fin",
    ):
        circuit_table(table)
    assert circuit_table(
        table[table["stage"] == "matched"]
    ).empty  # no final stage, no circuit to name
