# pyright: reportUnnecessaryTypeIgnoreComment=true
"""Every intervention has its whole signature: pyright reads this file, nothing runs it.

Each line with ``pyright: ignore`` has a mistake. If a checker accepted it, pyright would report the
comment as unnecessary. A test compares the calls with the public names.
"""

import numpy as np

import rb_interp as rb
from rb_interp import interventions
from rb_interp.models.protocol import HookedModel

Shares = dict[str, float]


def unknown_arguments(
    model: HookedModel,
    inputs: rb.Inputs,
    other: rb.Inputs,
    numbers: np.ndarray,
    basis: np.ndarray,
    shares: Shares,
) -> None:
    """One argument of each call is misspelt."""
    interventions.ablation(model, inputs, sites="z.0", methods="zero")  # pyright: ignore[reportCallIssue]
    interventions.ablations(model, inputs, ["z.0"], method="zero")  # pyright: ignore[reportCallIssue]
    interventions.attribution_matrix(model, inputs, other, component=["z"])  # pyright: ignore[reportCallIssue]
    interventions.blocked_attention(model, inputs, layer=0, querry="last")  # pyright: ignore[reportCallIssue]
    interventions.circuit_by_cause(shares, accuracy=0.9, accuracies=0.9)  # pyright: ignore[reportCallIssue]
    interventions.direct_effect(model, inputs, neurons=3)  # pyright: ignore[reportCallIssue]
    interventions.forced_average(model, inputs, layers=[0])  # pyright: ignore[reportCallIssue]
    interventions.interchange(model, inputs, other, "z.0", numbers, control=other, held="z.1")  # pyright: ignore[reportCallIssue]
    interventions.patching_effect(model, inputs, other, sites="z.0", controls=other)  # pyright: ignore[reportCallIssue]
    interventions.patching_matrix(model, inputs, other, role=["key"])  # pyright: ignore[reportCallIssue]
    interventions.path_matrix(model, inputs, other, ["z.0"], ["q.1"], mlp="frozen")  # pyright: ignore[reportCallIssue]
    interventions.path_matrix(model, inputs, other, ["z.0"], ["q.1"], at_once=True)  # pyright: ignore[reportCallIssue]
    interventions.path_patch(model, inputs, other, "z.0", "q.1", receivers=["q.1"])  # pyright: ignore[reportCallIssue]
    interventions.routes(model, inputs, changed={}, change={})  # pyright: ignore[reportCallIssue]
    interventions.subspace_effect(model, inputs, basis=basis, kept=True)  # pyright: ignore[reportCallIssue]


def mistyped_arguments(
    model: HookedModel,
    inputs: rb.Inputs,
    other: rb.Inputs,
    numbers: np.ndarray,
    basis: np.ndarray,
    shares: Shares,
) -> None:
    """One argument of each call is of another kind."""
    interventions.ablation(model, inputs, sites="z.0", metric=3)  # pyright: ignore[reportArgumentType]
    interventions.ablations(model, inputs, ["z.0"], methods=3)  # pyright: ignore[reportArgumentType]
    interventions.attribution_matrix(model, inputs, other, layers="0")  # pyright: ignore[reportArgumentType]
    interventions.blocked_attention(model, inputs, layer=0, key=3)  # pyright: ignore[reportArgumentType]
    interventions.circuit_by_cause(shares, accuracy="high")  # pyright: ignore[reportArgumentType]
    interventions.direct_effect(model, inputs, by="layer")  # pyright: ignore[reportArgumentType]
    interventions.forced_average(model, inputs, layer="0")  # pyright: ignore[reportArgumentType]
    interventions.interchange(model, inputs, other, "z.0", numbers, control=other, hold=3)  # pyright: ignore[reportArgumentType]
    interventions.interchange(model, inputs, other, "z.0", {"a": numbers}, control=3)  # pyright: ignore[reportArgumentType]
    interventions.patching_effect(model, inputs, other, sites="z.0", direction="denoising")  # pyright: ignore[reportArgumentType]
    interventions.patching_matrix(model, inputs, other, roles=3)  # pyright: ignore[reportArgumentType]
    interventions.path_matrix(model, inputs, other, ["z.0"], ["q.1"], mlps="frosen")  # pyright: ignore[reportArgumentType]
    interventions.path_matrix(model, inputs, other, ["z.0"], [["q.1", 1]])  # pyright: ignore[reportArgumentType]
    interventions.path_patch(model, inputs, other, "z.0", "q.1", control=3)  # pyright: ignore[reportArgumentType]
    interventions.routes(model, inputs, changed=other)  # pyright: ignore[reportArgumentType]
    interventions.subspace_effect(model, inputs, basis=basis, complement="yes")  # pyright: ignore[reportArgumentType]
