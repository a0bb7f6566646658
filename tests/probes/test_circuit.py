"""Circuit names for planted numbers, at and beside every threshold; the carrying probe on planted patterns."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from lens_models import lens_model

from rb_interp.errors import RunError
from rb_interp.probes.carrying import carrying
from rb_interp.probes.circuit import SOURCES, circuit_table, name_circuit
from rb_interp.tasks import Roles

AVERAGE = {"tv_half": 0.2, "key_attention": 0.5, "anchor_attention": 0.4, "carry": 0.4, "accuracy": 0.5}
CARRY = {"tv_half": 0.4, "key_attention": 0.2, "anchor_attention": 0.5, "carry": 0.5, "accuracy": 0.5}


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


def readings(gamma: float, seed: int, numbers: dict[str, float]) -> pd.DataFrame:
    """The five readings of a member, and beside each what must not be taken for it."""
    layers = {"tv_half": 0, "key_attention": 2, "anchor_attention": 2, "carry": 0, "accuracy": None}
    rows = []
    for column, source in SOURCES.items():
        right = {"gamma": gamma, "seed": seed, "stage": source.stage, "rows": source.rows, "probe": source.probe}
        right |= {"layer": layers[column], "head": 0, "quantity": source.quantity, "value": numbers[column]}
        worse = 1.0 if source.head == "min" else 0.0
        better = 1.0 - worse
        wrong = [{"stage": "matched"}, {"rows": "mem"}, {"quantity": "other"}, {"probe": "other"}, {"seed": 99}]
        if column != "accuracy":
            wrong.append({"layer": 1})
            rows.append({**right, "head": 1, "value": worse})  # another head shows less
        rows += [right, *({**right, "value": better, **change} for change in wrong)]
    return pd.DataFrame(rows)


def test_table_takes_the_right_layer_head_stage_and_rows() -> None:
    table = pd.concat(
        [readings(0.8, 0, AVERAGE), readings(0.8, 1, CARRY), readings(0.3, 0, {**CARRY, "accuracy": 0.1})]
    )
    found = circuit_table(table[table["seed"] != 99])
    assert found[["gamma", "seed", "circuit"]].to_numpy().tolist() == [
        [0.3, 0, "none"],
        [0.8, 0, "average-then-key"],
        [0.8, 1, "key-to-anchors"],
    ]
    assert found.iloc[1][list(AVERAGE)].to_dict() == AVERAGE


def test_member_without_a_reading_is_named() -> None:
    table = readings(0.8, 0, AVERAGE)
    table = table[(table["probe"] != "carrying") & (table["seed"] == 0)]
    with pytest.raises(
        RunError, match=r"gamma=0.8, seed=0: the readings lack carrying/key_from_last_anchor at stage 'fin"
    ):
        circuit_table(table)
    assert circuit_table(table[table["stage"] == "matched"]).empty  # no final stage, no circuit to name


@pytest.mark.lens
def test_carrying_reads_planted_patterns() -> None:
    import torch

    rng, n = np.random.default_rng(0), 60
    key = rng.integers(0, 4, (n, 1))
    roles = Roles({"key": key, "anchor": key + np.array([1, 2])})
    model, tokens = lens_model("plain"), rng.integers(0, 30, (n, 6))
    uniform = torch.tril(torch.ones(6, 6)) / torch.arange(1, 7)[:, None]

    def plant(pattern, hook):
        planted = uniform.repeat(n, 4, 1, 1).to(pattern)
        rows = torch.arange(n)
        at, last = torch.as_tensor(key[:, 0]), torch.as_tensor(key[:, 0] + 2)
        planted[rows, 2, last] = 0.0
        planted[rows, 2, last, at] = 1.0  # head 2 carries the key to the last anchor
        return planted

    with model.hooks(fwd_hooks=[("blocks.1.attn.hook_pattern", plant)]):
        carried = carrying(model, tokens, roles, layer=1, head=2)
        averaged = carrying(model, tokens, roles, layer=1, head=0)
    assert carried.values["key_from_last_anchor"] == carried.values["key_from_anchor_2"] == 1
    assert carried.nulls["key_from_last_anchor"].p_value(1.0) == pytest.approx(1 / 201)
    assert carried.values["key_from_anchor_1"] == pytest.approx((1 / (key + 2)).mean())
    assert averaged.values["key_from_last_anchor"] == pytest.approx((1 / (key + 3)).mean())
    # a pattern that depends on positions alone: what the null reads is exactly what the head reads
    np.testing.assert_allclose(averaged.nulls["key_from_last_anchor"].draws, (1 / (key + 3)).mean())
    assert carried.n == n
    twin = carrying(model, tokens, roles, layer=1, head=2, twin=model)
    assert twin.twin == pytest.approx(dict(twin.values))
    assert twin.twin["key_from_last_anchor"] < 0.9  # the hook is gone
