"""One intervention at a time on the members of a run: what ``rb-interp patch`` and ``rb-interp ablate`` show."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from tqdm import tqdm

from rb_interp.errors import ModelError, RunError, TaskError, nearest
from rb_interp.interventions.ablation import METHODS, ablations
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.sites import Site, where
from rb_interp.study.causal import with_noise_of
from rb_interp.study.models import MemberModels
from rb_interp.study.run import Run
from rb_interp.tasks import SETS
from rb_interp.tasks.counterfactual import counterfactual, inputs
from rb_interp.training.member_group import Member

COMPONENTS = ("resid_pre", "q", "k", "v", "z", "attn_out", "mlp_out", "resid_post")
ROLES = ("key", "first_anchor", "last_anchor", "noise", "last")


def patch_member(
    run: Run,
    gamma: float,
    seed: int,
    *,
    stage: str | int = "final",
    change: str = "key",
    rows: str = "rsn_train",
    pairs: int = 64,
    components: Sequence[str] = COMPONENTS,
    roles: Sequence[str] = ROLES,
    metric: str = "logit_diff",
) -> pd.DataFrame:
    """The patching matrix of one member: one row per component, layer and role, with ``recovered`` and its placebo.

    Clean inputs are rows of a set; corrupted ones differ in the key, the anchors, or ``both``. See
    ``interventions.patching.patching_matrix``.

    Raises RunError for a member, stage or set that the run does not have, TaskError for an unknown change, ModelError
    and RolesError for an unknown component, metric or role.
    """
    if change not in ("key", "anchors", "both"):
        known = ("key", "anchors", "both")
        raise TaskError(f"clean and corrupted inputs cannot differ in '{change}'; {nearest(change, known)}")
    if pairs < 2:
        raise RunError(f"pairs={pairs}; an interval over pairs of inputs needs at least 2.")
    model = run.model(gamma, seed, stage)
    data = run.config.task.dataset(seed)
    chosen = data.sample(rows, pairs)
    corrupted = counterfactual(data, chosen, change)
    placebo = with_noise_of(corrupted, counterfactual(data, chosen, "noise"))
    found = patching_matrix(
        model, inputs(data, chosen), corrupted, components=tuple(dict.fromkeys(components)),
        roles=tuple(dict.fromkeys(roles)), metric=metric, placebo=placebo,
    )  # fmt: skip
    return found.table().assign(gamma=gamma, seed=seed, stage=str(stage), change=change)


def ablate_members(
    run: Run,
    sites: Sequence[str] = (),
    *,
    gammas: Sequence[float] = (),
    stage: str | int = "final",
    methods: Sequence[str] = METHODS,
    n: int = 300,
    progress: bool = True,
) -> pd.DataFrame:
    """Accuracy and loss of every member on the three sets with single sites ablated, beside the placebo.

    Args:
        sites: such as ``attn_out.0`` or ``z.1.0@key``; by default the output of each sublayer.
        gammas: of the members; all by default. n: rows of each set, at most.

    Raises RunError for a gamma or stage that the run does not have, ModelError and RolesError for an unknown site,
    role or method.
    """
    for gamma in gammas:
        if gamma not in run.config.gammas:
            raise RunError(f"this run has no member with gamma={gamma:g}; its gammas are {list(run.config.gammas)}.")
    if n < 2:
        raise RunError(f"n={n}; resampling takes values from another input, so give at least 2 inputs of each set.")
    layers = range(run.config.model.n_layers)
    sites = list(sites) or [f"{component}.{layer}" for layer in layers for component in ("attn_out", "mlp_out")]
    parsed = [Site.parse(site) for site in sites]
    models, tables = MemberModels(run), []
    data = run.config.task.dataset(run.config.seeds[0])
    for site in parsed:
        site.check(models.model)
        where(site, data.roles(), run.config.task.length, len(data))
    for method in methods:
        if method not in METHODS:
            raise ModelError(f"there is no ablation '{method}'; {nearest(method, METHODS)}")
    members = [member for member in run.members if not gammas or member.gamma in gammas]
    for member in tqdm(members, disable=not progress, unit="member", desc="ablating"):
        models.load(member, stage)
        tables += [table.assign(stage=str(stage)) for table in _on_each_set(models, member, parsed, methods, n)]
    return pd.concat(tables, ignore_index=True)


def _on_each_set(
    models: MemberModels, member: Member, sites: Sequence[Site], methods: Sequence[str], n: int
) -> list[pd.DataFrame]:
    data, tables = models.run.config.task.dataset(member.seed), []
    for name in SETS:
        chosen = data.sample(name, n)
        if len(chosen) > 1:
            quiet = counterfactual(data, chosen, "noise")
            table = ablations(models.model, inputs(data, chosen), quiet, sites, methods=tuple(methods))
            tables.append(table.assign(gamma=member.gamma, seed=member.seed, rows=name))
    return tables
