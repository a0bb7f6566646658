"""Single interventions on the members of a run, for ``rb-interp patch`` and ``rb-interp ablate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from rb_interp.errors import RunError, TaskError
from rb_interp.interventions.ablating import METHODS, ablations
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.sites import Site
from rb_interp.runs.measured import over_seeds
from rb_interp.runs.members import MemberModels
from rb_interp.runs.run import Run
from rb_interp.runs.sweep import Sweep
from rb_interp.tasks.inputs import Inputs

COMPONENTS = ("resid_pre", "q", "k", "v", "z", "attn_out", "mlp_out", "resid_post")
ROLES = ("key", "first_anchor", "last_anchor", "noise", "last")
"""Roles that are patched where a task has keys and anchors; elsewhere those that it has, and the last position."""


def patch_member(
    run: Run,
    gamma: float,
    seed: int,
    *,
    stage: str | int = "final",
    corrupt: str = "key",
    set: str | None = None,
    pairs: int = 64,
    components: Sequence[str] = COMPONENTS,
    roles: Sequence[str] = (),
    metric: str = "logit_diff",
    sweep: str = "",
) -> pd.DataFrame:
    """The patching matrix of one member: one row per component, layer and role, with ``recovered`` and its control.

    Clean inputs are rows of a set, by default of the last that the task trains on. Corrupted inputs differ in
    ``corrupt``, such as the ``key``, the ``anchors`` or ``both``: they are the task's own counterfactuals. ``roles``
    are by default those of the task. ``sweep`` is needed where the study has several. See
    ``interventions.patching.patching_matrix``.

    Raises RunError for a member, stage or set that the run does not have, TaskError for an unknown corruption and for a
    task without counterfactuals, ModelError and RolesError for an unknown component, metric or role.
    """
    of = run.sweep(sweep)
    model, data = run.model(gamma=gamma, seed=seed, stage=stage, sweep=sweep), of.dataset(seed)
    chosen = data.sample(set or of.config.task.train_sets[-1], pairs)
    corrupted = _counterfactual(of, data, chosen, corrupt)
    control = corrupted.with_tokens_of(_counterfactual(of, data, chosen, "noise"), "noise")
    known = data.roles().positions
    own = ROLES if {"key", "anchor", "noise"} <= {*known} else (*known, "last")
    found = patching_matrix(
        model, data.inputs(chosen), corrupted, components=tuple(dict.fromkeys(components)),
        roles=tuple(dict.fromkeys(roles or own)), metric=metric, control=control,
    )  # fmt: skip
    return found.to_frame().assign(gamma=gamma, seed=seed, stage=str(stage), counterfactual=corrupt)


def ablate_members(
    run: Run,
    sites: Sequence[str] = (),
    *,
    gammas: Sequence[float] = (),
    stage: str | int = "final",
    methods: Sequence[str] = METHODS,
    n: int = 300,
    sweep: str = "",
    progress: bool = True,
) -> pd.DataFrame:
    """Accuracy and loss of every member on each set with single sites ablated, and the same for the control.

    Args:
        sites: such as ``attn_out.0`` or ``z.1.0@key``; by default the output of each sublayer.
        gammas: of the members; all by default. n: inputs of each set, at most.
        sweep: needed where the study has several.

    Without counterfactuals of the task there is no control, and its columns are NaN.

    Raises RunError for a gamma or stage that the run does not have, ModelError and RolesError for an unknown site,
    role or method.
    """
    run.check_checkpoints()
    of = run.sweep(sweep)
    if not {*gammas} <= {*of.config.gammas}:
        raise RunError(f"gammas={list(gammas)}; this run has the gammas {list(of.config.gammas)}.")
    sublayers = [f"{one}.{layer}" for layer in range(of.config.model.n_layers) for one in ("attn_out", "mlp_out")]
    parsed, models, tables = [Site.parse(site) for site in list(sites) or sublayers], MemberModels(of), []
    members = [member for member in of.members if not gammas or member.gamma in gammas]
    for member in tqdm(members, disable=not progress, unit="member", desc="ablating"):
        models.load(member, stage)
        place = {"gamma": member.gamma, "seed": member.seed, "stage": str(stage)}
        data, has = of.dataset(member.seed), hasattr(of.config.task, "counterfactual")
        for name in of.config.task.sets:
            chosen = data.sample(name, n)
            if len(chosen) > 1:
                control = _counterfactual(of, data, chosen, "noise") if has else None
                table = ablations(models.model, data.inputs(chosen), parsed, control=control, methods=tuple(methods))
                tables.append(table.assign(set=name, **place))
    return pd.concat(tables, ignore_index=True)


def ablation_means(table: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds of a table of ablations, with 95 % intervals (Student t).

    Columns: gamma, stage, set, component, method, quantity (``accuracy``, ``accuracy_drop``, ``control_accuracy_drop``
    and ``before``, the accuracy with the component), mean, low, high, n.
    """
    named = table.assign(before=table["accuracy"] + table["accuracy_drop"])
    by = ["gamma", "stage", "set", "component", "method"]
    return over_seeds(named, by, ["accuracy", "accuracy_drop", "control_accuracy_drop", "before"])


def _counterfactual(sweep: Sweep, data: Any, rows: np.ndarray, change: str) -> Inputs:
    make = getattr(sweep.config.task, "counterfactual", None)
    if make is None:
        raise TaskError(f"{type(sweep.config.task).__name__} has no counterfactual(data, rows, change, seed); add it.")
    return make(data, rows, change)
