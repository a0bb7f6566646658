"""Wrong values for arguments: of other kinds, out of range, spoilt, broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch

INPUTS: list[Callable[[Any, SimpleNamespace], Any]] = [
    lambda value, p: replace(value, labels=None),
    lambda value, p: replace(value, roles=p.few.roles),
    lambda value, p: p.few,
    lambda value, p: p.rb.Inputs(value.tokens),
    lambda value, p: replace(value, tokens=value.tokens + 1000),
    lambda value, p: replace(value, tokens=value.tokens[:, :2]),
    lambda value, p: replace(value, labels=np.zeros(3, dtype=int)),
    lambda value, p: replace(value, tokens=value.tokens.astype(float)),
    lambda value, p: replace(value, tokens=value.tokens[0]),
    lambda value, p: replace(value, labels=np.full(len(value), 10**6)),
    lambda value, p: value.tokens,
    lambda value, p: value.take(np.arange(1)),
    lambda value, p: replace(value, roles=p.rb.Roles({"key": np.zeros((len(value), 1))})),
    lambda value, p: replace(value, labels=np.array(["x"] * len(value))),
    lambda value, p: replace(value, labels=np.zeros((len(value), 2))),
    lambda value, p: replace(value, tokens=value.tokens.astype(object)),
    lambda value, p: value.take(np.arange(0)),
    lambda value, p: replace(value, roles=p.rb.Roles({"key": np.full((len(value), 1), 99)})),
    lambda value, p: replace(value, roles=p.rb.Roles({"key": value.tokens[:, :1], "anchor": value.tokens[:, :0]})),
]


def wrong_values(p: SimpleNamespace) -> list[Any]:
    """What people give by mistake, whatever was asked for."""
    return [
        None, -1, 0, 1.5, float("nan"), float("inf"), -float("inf"), True, "x", "", b"x", [], {}, (), object(), int,
        np.array([object(), None]), np.array(3), np.zeros((2, 2, 2)), np.zeros(0), np.array([-1, -2]),
        np.array([np.nan, 1.0]), np.array(["a", "b"]), torch.zeros(0), torch.zeros(3), torch.zeros(2, 3),
        torch.arange(4), torch.full((2, 2), torch.nan), 1 + 2j, np.array([1j, 2]), 2**31, 2**63, 10**30, -(2**63),
        p.model, p.other, p.mlp, torch.nn.Linear(2, 2), p.cache, p.inputs, p.few, p.inputs.roles, p.few.roles,
        p.readings, pd.DataFrame(), [None], ["x"], [[1, 2], [3]], [1, "x"], {"x": 1}, {"x": None}, {None: None},
        {"x": np.zeros(0)}, len, p.task, p.config, p.reading, iter(()), range(3), set(), Path("nowhere"), "a\0b",
        np.datetime64("2020"), slice(None), [np.nan], [-1], [10**20], ("", ""), lambda *given: None,
    ]  # fmt: skip


def _frame(value: pd.DataFrame, rng: np.random.Generator) -> list[Any]:
    column = str(rng.choice(list(value.columns)))
    missing = value.assign(**{column: None})
    return [value.drop(columns=column), value.iloc[:0], value.assign(**{column: "x"}), missing, value.to_dict()]


def spoilt(value: Any, p: SimpleNamespace, rng: np.random.Generator) -> list[Any]:
    """A valid value with one thing wrong."""
    if isinstance(value, pd.DataFrame):
        return _frame(value, rng)
    if isinstance(value, np.ndarray):
        value = value.astype(np.int64) if value.dtype.kind in "iu" else value
        floats = value.astype(float) if value.dtype.kind in "iufb" else np.zeros(value.shape)
        return [
            value[:1], value[:0], value[None], value[..., None], value.T, value[..., :1], value.ravel(), -floats,
            (floats * 1000).astype(np.int64), floats * np.nan, floats.astype(complex), value.astype(object),
            value.astype(str), value.tolist(), torch.from_numpy(np.ascontiguousarray(floats)),
            -floats.astype(np.int64), value.astype(bool),
            np.concatenate([value, value]), np.zeros_like(value),
        ]  # fmt: skip
    if isinstance(value, torch.Tensor):
        floats = value.float()
        return [
            value[:1], value[:0], value[None], value[..., None], value.mT if value.ndim > 1 else value, value[..., :1],
            value.flatten(), -value, value * 1000, floats * torch.nan, value.to(torch.complex64), value.numpy(), floats,
            value.tolist(), value.bool(), torch.cat([value, value]), torch.zeros_like(value), value.double(),
            value.int(), value.half(),
        ]  # fmt: skip
    if isinstance(value, p.rb.Inputs):
        return [partial(change, value, p) for change in INPUTS]
    if isinstance(value, bool):
        return [not value, "yes", 2]
    if isinstance(value, int):
        return [-value - 1, value + 1, value + 0.5, str(value), [value], 10**12, np.array([value, value])]
    if isinstance(value, float):
        return [-value, value * 1e300, str(value), [value], 10**400, np.array([value, value])]
    if isinstance(value, str):
        return [value[:-1], value.upper(), value + " ", [value], value.encode(), value * 5]
    if isinstance(value, list | tuple):
        items = list(value)
        return [items[:1], items + items, [*items, None], [[item] for item in items], set(), items[0] if items else 0,
                dict(enumerate(items)), iter(items), [str(item) for item in items], [*items, -1]]  # fmt: skip
    if isinstance(value, dict):
        first = next(iter(value), "x")
        return [{**value, first: None}, {**value, first: "x"}, {**value, first: []}, {**value, first: np.nan},
                {**value, "unknown": next(iter(value.values()), 0)}, list(value), dict(enumerate(value.values())),
                {**value, first: np.array([10**6])}, {**value, first: -1}]  # fmt: skip
    if isinstance(value, torch.nn.Module):
        return [p.other, p.mlp, p.speaker, p.cache, type(value), value.state_dict(), broken(value)]
    return [type(value), str(value), [value], (value, value)]


def broken(model: torch.nn.Module) -> torch.nn.Module:
    """A model whose training has diverged: every weight is nan."""
    from copy import deepcopy

    model = deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(torch.nan)
    return model
