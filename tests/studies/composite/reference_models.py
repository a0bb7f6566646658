"""Hand-written models of the composite task: two layers, one head, LayerNorm after each sublayer.

    via_last      L0 moves both anchors to the last position, L1 brings the key there
    via_anchors   L0 moves the key to both anchors, L1 moves both anchors to the last position
    via_a2        L0 moves first anchor and key to the second anchor, L1 moves all of it to the last position

Paper 2, Fig. 3, draws the first two. A pair's shift is looked up in one MLP, from the shares of the
anchors in what an attention has gathered. The key is a number on a line. Equal shares hide the
order of the anchors, so they serve models whose answers are symmetric; a share of 1/3 for the first
anchor and 2/3 for the second tells it.

A LayerNorm leaves all as it is, nearly: two constant directions carry most of the length and a
third one holds minus the sum of all others, so that the mean is 0 and the standard deviation all
but the same everywhere.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from rb_interp.models.blueprint import Blueprint
from rb_interp.models.build import lens_model
from rb_interp.models.protocol import HookedModel
from rb_interp.models.schemes import parameters
from rb_interp.studies.composite.task import CompositeDataset

UNIT = 0.04
"""Length of the number 1 on the lines of keys and of answers."""
STEP, PEAK = 20.0, 30.0
"""Score of a position over the one before it, and of an anchor over other tokens."""
LENGTH = 200.0
"""Entry of each of the two constant directions."""
EQUAL, ORDERED = (1 / 2, 1 / 2), (1 / 3, 2 / 3)
"""Attention to the first and to the second anchor."""
FLOWS = ("via_last", "via_anchors", "via_a2")


def pair_shifts(data: CompositeDataset, phase: str) -> np.ndarray:
    """Shift of each ordered pair, with that of the mirrored pair for held-out ones where the phase
    is symmetric."""
    table = data.pair_shifts.copy()
    for first, second in data.task.held_out if phase == "symmetric" else ():
        table[first - 1, second - 1] = data.pair_shifts[second - 1, first - 1]
    return table


def reference_model(data: CompositeDataset, flow: str, phase: str, shares=ORDERED) -> HookedModel:
    """A model of a flow that knows the data's exceptions, and answers held-out pairs as the phase
    says.

    Args:
        data: whose trained shifts it knows. flow: one of FLOWS. phase: ``inferential`` or
            ``symmetric``.
        shares: attention to each anchor, which via_a2 has no use for. L1's MLP knows the pairs.
    """
    task, n = data.task, len(data.task.shifts)
    groups = ("own", "gathered", "first", "second", "place")
    named = [
        f"{group}_{i}" for group in groups for i in range(task.length if group == "place" else n)
    ]
    sizes = {"d_model": len(named) + 16, "d_head": 2 * n + task.length, "d_mlp": 4 * n**2}
    blueprint = Blueprint(task, ["key", "anchor", "seen", "carried", "out", *named], **sizes)
    keys, anchors = task.tokens("key"), task.tokens("anchor")
    blueprint.embed(keys, "key", UNIT * (keys - keys.mean()))
    blueprint.embed(anchors, "anchor", 1.0)
    for i in range(n):
        blueprint.embed(anchors[i : i + 1], f"own_{i}", 1.0)
    for i, one_hot in enumerate(np.eye(task.length)):
        blueprint.set_positions(f"place_{i}", one_hot)
    shifts = pair_shifts(data, phase)
    {"via_last": _via_last, "via_anchors": _via_anchors, "via_a2": _via_a2}[flow](
        blueprint, n, shares
    )
    if flow == "via_a2":
        _look_up_apart(blueprint, shifts)
    else:
        _look_up_mixed(blueprint, shifts, shares)
    blueprint.answer(
        {"out": UNIT}, keys.mean(), int(keys[0] + shifts.min()), int(keys[-1] + shifts.max())
    )
    return _model(blueprint)


def _via_last(blueprint: Blueprint, n: int, shares: tuple[float, float]) -> None:
    _gather_anchors(blueprint, 0, n, shares)
    blueprint.attend(
        1, {"constant": 1.0}, {"position": STEP, "seen": -STEP * (blueprint.task.length + 1)}
    )
    blueprint.move(1, {"key": 1.0}, {"out": 1.0})


def _via_anchors(blueprint: Blueprint, n: int, shares: tuple[float, float]) -> None:
    blueprint.attend(0, {"constant": 1.0}, {"position": STEP, "anchor": -3 * STEP})
    blueprint.move(0, {"key": 1.0}, {"carried": 1.0})
    _gather_anchors(blueprint, 1, n, shares)
    blueprint.move(1, {"carried": 1.0}, {"out": 1.0})


def _via_a2(blueprint: Blueprint, n: int, shares: tuple[float, float]) -> None:
    """In L0 each position looks at the two before it, in equal shares; in L1 the last one at the
    latest anchor."""
    for i in range(2, blueprint.task.length):
        blueprint.attend(0, {f"place_{i}": 1.0}, {f"place_{i - 1}": PEAK, f"place_{i - 2}": PEAK})
    blueprint.move(0, {"key": 2.0}, {"carried": 1.0})
    blueprint.attend(
        1, {"constant": 1.0}, {"position": STEP, "anchor": STEP * (blueprint.task.length + 1)}
    )
    blueprint.move(1, {"carried": 1.0}, {"out": 1.0})
    for i in range(n):
        blueprint.move(0, {f"own_{i}": 2.0}, {f"gathered_{i}": 1.0})
        blueprint.move(1, {f"gathered_{i}": 1.0}, {f"first_{i}": 1.0})
        blueprint.move(1, {f"own_{i}": 1.0}, {f"second_{i}": 1.0})


def _gather_anchors(blueprint: Blueprint, layer: int, n: int, shares: tuple[float, float]) -> None:
    """Attend to the anchors alone, with the given shares, once there are two; write their shares
    and their number."""
    slope = math.log(shares[1] / shares[0])
    blueprint.attend(layer, {"constant": 1.0}, {"anchor": PEAK, "position": slope})
    blueprint.move(layer, {"anchor": 1.0}, {"seen": 1.0})
    for i in range(n):
        blueprint.move(layer, {f"own_{i}": 1.0}, {f"gathered_{i}": 1.0})


def _look_up_mixed(blueprint: Blueprint, shifts: np.ndarray, shares: tuple[float, float]) -> None:
    """Units that see the shares m of anchors: 1 for (i, i) where m_i = 1; for (i, j) a hat over m_i
    - m_j."""
    n, centre = len(shifts), shares[0] - shares[1]
    equal = centre == 0
    width = 1.0 if equal else min(-2 * centre, 1 + centre)
    assert not equal or (shifts == shifts.T).all(), "equal shares cannot tell the order of anchors"
    units = []
    for i in range(n):
        largest = max(shares)
        units.append(({f"gathered_{i}": 1.0, "seen": -largest}, shifts[i, i] / (1 - largest)))
        for j in range(i + 1 if equal else 0, n):
            if i == j:
                continue
            others = {f"gathered_{k}": -12.0 for k in range(n) if k not in (i, j)}
            for edge, height in ((centre - width, 1.0), (centre, -2.0), (centre + width, 1.0)):
                read = {f"gathered_{i}": 1.0, f"gathered_{j}": -1.0, "seen": -edge, **others}
                units.append((read, height * shifts[i, j] / width))
    _write_units(blueprint, units)


def _look_up_apart(blueprint: Blueprint, shifts: np.ndarray) -> None:
    """One unit a pair, 1 where both anchors match, in what L1 has read at the second anchor."""
    n = len(shifts)
    pairs = [(i, j) for i in range(n) for j in range(n)]
    units = [
        ({f"first_{i}": 1.0, f"second_{j}": 1.0, "constant": -1.0}, shifts[i, j]) for i, j in pairs
    ]
    _write_units(blueprint, units)


def _write_units(blueprint: Blueprint, units: list[tuple[dict[str, float], float]]) -> None:
    """Units of L1's MLP by what each reads, and the number that it adds to the answer."""
    W_in, W_out = (blueprint.weights[f"blocks.1.mlp.{name}"] for name in ("W_in", "W_out"))
    assert len(units) <= W_in.shape[1]
    for number, (read, shift) in enumerate(units):
        for name, weight in read.items():
            W_in[blueprint.at[name], number] = weight
        W_out[number, blueprint.at["out"]] = UNIT * shift


def _model(blueprint: Blueprint) -> HookedModel:
    """The model of a blueprint, whose writes sum to 0 and whose LayerNorm gives back what it
    takes."""
    task, config = blueprint.task, replace(blueprint.config, norm="post")
    weights = {name: array.copy() for name, array in blueprint.weights.items()}
    plus, minus, balance = range(blueprint.spare.start, blueprint.spare.start + 3)
    weights["pos_embed.W_pos"][:, [plus, minus]] = LENGTH, -LENGTH
    for name, array in weights.items():
        if name.endswith(("W_E", "W_pos", "W_O", "W_out")):
            array[..., balance] -= array.sum(-1)
    deviation = math.sqrt(2 * LENGTH**2 / config.d_model)
    for parameter in parameters(config, task.d_vocab, task.length):
        if parameter.name.endswith((".ln1.w", ".ln2.w")):
            weights[parameter.name] = np.full(parameter.shape, deviation)
        weights.setdefault(parameter.name, np.zeros(parameter.shape))
    return lens_model(
        config, task.d_vocab, task.length, {k: torch.from_numpy(v) for k, v in weights.items()}
    )
