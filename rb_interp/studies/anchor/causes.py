"""Interventions on every member: what mechanisms are worth, with controls, and what components add.

Interventions on L0 are made where its claims are read: at ``half`` for gamma .8, at the same step
(``matched``) for the other members, and on the untrained model. Those on the finished circuit are
made at the end. What each one does, and what its control does instead, stands in ``checks``. Those
on L0 stand a second time beside a control that matches (``_matched``): spans of as many keys,
directions within the embedding, patterns of members of the same circuit.

Beside the name by cause stands what the last layer has from each position (``carried``): its input
there is taken from a row of another key and other anchors, and each answer counts for the hypothesis that
it follows: the position brings the key, the sum of the anchors, or both. A right reading of the names:
average-then-key has the key from ``key`` and the sum from ``last``; gather-at-last-anchor both from
``last_anchor``; key-to-anchors both from ``anchor``, and from no single one.
"""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pandas as pd

from rb_interp.errors import ModelError
from rb_interp.interventions.ablating import ablations
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.patterns import (
    blocked_attention,
    forced_average,
    pattern_of,
    row_entropies,
)
from rb_interp.interventions.subspaces import leading, matched_spans, subspace_effect, token_basis
from rb_interp.interventions.swaps import (
    interchange,
    key_and_sum,
    n_other_answers,
    permuted_number_line,
)
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.values import value_matrix
from rb_interp.runs import Run, StudyResult, Sweep, readings_table
from rb_interp.runs.measurement import MemberModels, measure_members
from rb_interp.runs.results import frame
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.reading import Reading
from rb_interp.tasks import SETS, AnchorDataset, Inputs
from rb_interp.training.member_group import Member

REASONING = "rsn_train"
MEMORY = "mem"
"""Sets of inputs that are read."""
ROWS = 300
"""Inputs of each set, at most."""
PAIRS = 64
"""Pairs of inputs in a patching matrix."""
DRAWS = 20
"""Draws of a random control, as claim M10 asks."""
MATCHED_DRAWS = 10
"""Draws of a control that matches."""
MAX_PATTERNS = 4
"""Members of the same circuit whose patterns stand beside the average, at most."""
COMPONENTS = ("resid_pre", "attn_out", "mlp_out", "resid_post")
ROLES = ("key", "first_anchor", "last_anchor", "noise", "last")
CARRIED = """gamma seed role:str answer:str share low high p_value explains:bool
noise_redrawn self random_sites random_subspaces n"""
"""Columns of the table ``carried``."""
CARRYING_ROLES = ("key", "anchor", "last_anchor", "last")
"""Positions from which the last layer may have key and sum."""

NamedEffect = tuple[str, str, Effect]
"""Name of the intervention, the set that it was made on, and its effect."""


def own_stage(sweep: Sweep, member: Member) -> str:
    """The stage at which L0 is read: ``half`` at gamma .8, else ``matched``, the same step."""
    return "matched" if SMALL in sweep.config.gammas and member.gamma != SMALL else "half"


def measure_causes(run: Run, circuits: pd.DataFrame, progress: bool = True) -> StudyResult:
    """Intervene on all members of a finished run, whose circuits are named by cause in a table.

    Returns the tables ``effects``, ``ablations``, ``patching`` and ``carried``, and the effects as readings,
    which claims are judged on: ``effect``, ``control`` and ``difference``. Raises RunError if a
    checkpoint that a stage needs is missing.
    """
    sweep = run.sweep()
    models = MemberModels(sweep)
    entropies = {seed: _entropies(models, seed) for seed in sweep.seeds}

    def intervene(models: MemberModels, member: Member) -> Iterator[tuple[str, str, Reading]]:
        data = sweep.dataset(member.seed)
        inputs = _inputs(data, REASONING)
        same_gamma = circuits.query("abs(gamma - @member.gamma) < 1e-9")
        is_member = same_gamma["seed"] == member.seed
        same_cause = same_gamma["cause"].isin(list(same_gamma["cause"][is_member]))
        seeds = same_gamma["seed"][same_cause & ~is_member][:MAX_PATTERNS]
        for stage in ("init", own_stage(sweep, member), "final"):
            patterns = []
            for seed in seeds if stage in ("half", "matched") else ():
                models.load(Member(member.gamma, int(seed)), stage)
                patterns.append(pattern_of(models.model, inputs.tokens))
            models.load(member, stage)
            effects = list(_effects(stage, models.model, data, entropies[member.seed]))
            if patterns:
                effect = forced_average(models.model, inputs, beside=patterns)
                effects.append(("forced_average_matched", REASONING, effect))
            for name, set, effect in effects:
                row = {"step": models.step, **effect.summary(), "intervention": name}
                yield stage, set, Reading(name, {}, tables={"effects": pd.DataFrame([row])})
        for set, table in contributions(models.model, data):
            yield "final", set, Reading("ablation", {}, tables={"ablations": table})
        for table in matrices(models.model, data):
            yield "final", REASONING, Reading("patching", {}, tables={"patching": table})
        for table in carried(models.model, data):
            yield "final", REASONING, Reading("carried", {}, tables={"carried": table})

    result = measure_members(run, intervene, [""], progress)
    tables = {"carried": [], **result.tables}
    tables["carried"] = frame(tables["carried"], CARRIED)
    return StudyResult(readings_table(effect_readings(tables["effects"])), tables)


def _effects(
    stage: str, model: HookedModel, data: AnchorDataset, entropies: np.ndarray | None
) -> Iterator[NamedEffect]:
    """The effects of a stage; on the untrained model, those that a claim compares with it."""
    if stage != "final" and entropies is not None:
        inputs = _inputs(data, REASONING)
        for name, metric in (("forced_average", "loss"), ("forced_average_answers", "accuracy")):
            effect = forced_average(
                model, inputs, entropies, n_draws=DRAWS, metric=metric, seed=data.seed
            )
            yield name, REASONING, effect
    if stage in ("half", "matched"):
        yield from value_subspaces(model, data)
    if stage in ("init", "final"):
        yield from swaps(model, data)
    if stage == "final":
        yield from finished_circuit(model, data)


def value_subspaces(model: HookedModel, data: AnchorDataset) -> Iterator[NamedEffect]:
    """Nats lost on rsn_train as L0's W_V reads less; nothing if L0 has several heads."""
    if model.cfg.n_heads > 1:
        return
    inputs = _inputs(data, REASONING)
    bases = {
        "leading_direction_only": leading(value_matrix(model)),
        "without_reasoning": token_basis(model, inputs, "reasoning_anchor"),
        "without_memory": token_basis(model, inputs, "memory_anchor"),
    }
    for name, basis in bases.items():
        leading_only = name == "leading_direction_only"
        effect = subspace_effect(
            model, inputs, basis, complement=leading_only, n_draws=DRAWS, seed=data.seed
        )
        yield name, REASONING, effect
        match = matched_spans(
            model,
            inputs,
            basis.shape[1],
            group=None if leading_only else "key",
            n_draws=MATCHED_DRAWS,
            seed=data.seed,
        )
        effect = subspace_effect(model, inputs, basis, complement=leading_only, match=match)
        yield f"{name}_matched", REASONING, effect


def swaps(model: HookedModel, data: AnchorDataset) -> Iterator[NamedEffect]:
    """Shares of pairs whose answer follows key and sum taken from another input.

    Yields nothing for a task whose answers differ from key plus sum.
    """
    if n_other_answers(data, REASONING):
        return
    swaps_by_suffix = {
        "": key_and_sum(model, data, circuit="average-then-key"),
        "_in_place": key_and_sum(model, data, circuit="average-then-key", same_position=True),
        "_carried": key_and_sum(model, data, circuit="key-to-anchors"),
    }
    for suffix, swapped in swaps_by_suffix.items():
        yield f"swap_key{suffix}", REASONING, swapped.key
        yield f"swap_sum{suffix}", REASONING, swapped.sum


def finished_circuit(model: HookedModel, data: AnchorDataset) -> Iterator[NamedEffect]:
    """What the last layer's attention to the key is worth, and the number line."""
    layer = model.cfg.n_layers - 1
    for set in (REASONING, MEMORY):
        inputs = _inputs(data, set)
        for name, metric in (("key_blocked", "loss"), ("key_blocked_answers", "accuracy")):
            effect = blocked_attention(
                model, inputs, layer=layer, metric=metric, n_draws=5, seed=data.seed
            )
            yield name, set, effect
    if model.cfg.n_heads > 1 or n_other_answers(data, REASONING):
        return
    for name, direction in (("number_line", "value"), ("number_line_component", "component")):
        effect = permuted_number_line(
            model, data, direction=direction, n_draws=DRAWS, seed=data.seed
        )
        yield name, REASONING, effect


def contributions(model: HookedModel, data: AnchorDataset) -> Iterator[tuple[str, pd.DataFrame]]:
    """Loss and accuracy on each set as a sublayer's output is ablated, by three methods."""
    sites = []
    for layer in range(model.cfg.n_layers):
        sites += [f"attn_out.{layer}", f"mlp_out.{layer}"]
    for set in SETS:
        rows = data.sample(set, ROWS)
        if len(rows):
            control = data.task.counterfactual(data, rows, "noise")
            table = ablations(model, data.inputs(rows), sites, control=control)
            ends = ["low", "high", "control_low", "control_high"]
            yield set, table.drop(columns=["answered", "note", *ends])


def matrices(model: HookedModel, data: AnchorDataset) -> Iterator[pd.DataFrame]:
    """Recovered logit difference by component, layer and role, of another key or anchors."""
    rows = data.sample(REASONING, PAIRS)
    clean = data.inputs(rows)
    other_noise = data.task.counterfactual(data, rows, "noise")
    for changed in ("key", "anchors"):
        corrupted = data.task.counterfactual(data, rows, changed)
        control = corrupted.with_tokens_of(other_noise, "noise")
        matrix = patching_matrix(
            model, clean, corrupted, components=COMPONENTS, roles=ROLES, control=control
        )
        yield matrix.to_frame().assign(counterfactual=changed)


def carried(model: HookedModel, data: AnchorDataset) -> Iterator[pd.DataFrame]:
    """What each position brings to the last layer from another input: its key, its sum, or both.

    Rows end in noise, and their source has other key and anchors at the same positions. Yields
    nothing for a position if no pair tells the three hypotheses apart, and at all for a task whose
    answers differ from key plus sum.
    """
    rows = data.sample(REASONING, ROWS)
    rows = rows[data.anchor_positions[rows, -1] < data.tokens.shape[1] - 1]
    if n_other_answers(data, REASONING):
        return
    base = data.inputs(rows)
    source = data.task.counterfactual(data, rows, "both")
    control = data.task.counterfactual(data, rows, "noise")
    moved = np.take_along_axis(source.tokens - base.tokens, base.roles.position("key"), 1)[:, 0]
    predicted = {
        "key": base.labels + moved,
        "sum": source.labels - moved,
        "key and sum": source.labels,
    }
    for role in CARRYING_ROLES:
        site = f"resid_pre.{model.cfg.n_layers - 1}@{role}"
        with suppress(ModelError):  # no pair tells the hypotheses apart
            effect = interchange(model, base, source, site, predicted, control=control)
            yield effect.hypotheses.assign(role=role)


def _inputs(data: AnchorDataset, set: str) -> Inputs:
    return data.inputs(data.sample(set, ROWS))


def _entropies(models: MemberModels, seed: int) -> np.ndarray | None:
    """Row entropies of L0's pattern in the seed's gamma .3 member, at matched (claim M10)."""
    sweep = models.sweep
    if not {LARGE, SMALL} <= set(sweep.config.gammas):
        return None
    models.load(Member(LARGE, seed), "matched")
    return row_entropies(models.model, _inputs(sweep.dataset(seed), REASONING).tokens)


def effect_readings(effects: pd.DataFrame) -> pd.DataFrame:
    """The quantities of each intervention at each stage, with the untrained model's beside them."""
    quantities = ["effect", "control", "difference"]
    keys = ["gamma", "seed", "set", "probe", "quantity"]
    rows = effects.rename(columns={"quantity": "unit", "intervention": "probe"})
    rows = rows.assign(null_mean=rows["control"])
    columns = [column for column in rows if column not in quantities]
    rows = rows.melt(columns, quantities, "quantity")
    at_start = rows["stage"] == "init"
    untrained = rows.loc[at_start].set_index(keys)["value"].rename("untrained")
    rows = rows.join(untrained, on=keys)
    rows["untrained"] = rows["untrained"].mask(at_start)
    tested = rows["quantity"] == "effect"
    rows["null"] = rows["control_name"].where(tested, None)
    rows["null_mean"] = rows["null_mean"].where(tested)
    rows["p_value"] = rows["p_value"].where(tested)
    return rows.assign(null_sd=np.nan, layer=np.nan, head=np.nan)
