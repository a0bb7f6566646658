"""Intervene on every member: what each mechanism is worth, with its control, and what each
component contributes.

Interventions on L0 are made where its claims are read: at ``half`` for gamma .8, at the same step
(``matched``) for the other members, and on the untrained model. Those on the finished circuit are
made at the end. What each one does, and what its control does instead, stands in ``checks``. Those
on L0 stand a second time beside a control that matches (``_matched``): spans of as many keys,
directions within the embedding, patterns of members of the same circuit.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from rb_interp.interventions.ablating import ablations
from rb_interp.interventions.blocked_edges import blocked_attention
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.patterns import forced_average, pattern_of, row_entropies
from rb_interp.interventions.subspaces import leading, matched_spans, subspace_effect, token_basis
from rb_interp.interventions.swaps import key_and_sum, n_other_answers, permuted_number_line
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.values import value_matrix
from rb_interp.runs import Run, StudyResult, readings_table
from rb_interp.runs.member_models import MemberModels, measure_members
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.reading import Reading
from rb_interp.studies.anchor.readings import MEMORY, REASONING, own_stage
from rb_interp.tasks import SETS, AnchorDataset, Inputs
from rb_interp.training.member_group import Member

ROWS = 300
"""Inputs of each set, at most."""
PAIRS = 64
"""Pairs of inputs in a patching matrix."""
DRAWS = 20
"""Draws of a random control, as claim M10 asks."""
MATCHED_DRAWS = 10
"""Draws of a control that matches."""
OTHERS = 4
"""Members of the same circuit whose patterns stand beside the average, at most."""
COMPONENTS = ("resid_pre", "attn_out", "mlp_out", "resid_post")
ROLES = ("key", "first_anchor", "last_anchor", "noise", "last")

Found = tuple[str, str, Effect]
"""Name of the intervention, the set that it was made on, and its effect."""


def measure_causes(run: Run, circuits: pd.DataFrame, progress: bool = True) -> StudyResult:
    """Intervene on all members of a finished run, whose circuits are named by cause in a table.

    Returns the tables ``effects``, ``ablations`` and ``patching``, and the effects as readings,
    which claims are judged on: ``effect``, ``control`` and ``difference``. Raises RunError where a
    checkpoint that a stage needs is missing.
    """
    sweep = run.sweep()
    models = MemberModels(sweep)
    entropies = {seed: _entropies(models, seed) for seed in sweep.seeds}

    def intervene(models: MemberModels, member: Member) -> Iterator[tuple[str, str, Reading]]:
        data, alike = sweep.dataset(member.seed), _same_circuit(circuits, member)
        for stage in ("init", own_stage(sweep, member), "final"):
            patterns = _patterns(models, alike, stage, data) if stage in ("half", "matched") else []
            models.load(member, stage)
            found = [*_effects(stage, models.model, data, entropies[member.seed])]
            if patterns:
                effect = forced_average(models.model, _inputs(data, REASONING), beside=patterns)
                found.append(("forced_average_matched", REASONING, effect))
            for name, set, effect in found:
                row = pd.DataFrame(
                    [{"step": models.step, **effect.summary(), "intervention": name}]
                )
                yield stage, set, Reading(name, {}, tables={"effects": row})
        for set, table in contributions(models.model, data):
            yield "final", set, Reading("ablation", {}, tables={"ablations": table})
        for table in matrices(models.model, data):
            yield "final", REASONING, Reading("patching", {}, tables={"patching": table})

    found = measure_members(run, intervene, [""], progress)
    return replace(found, readings=readings_table(effect_readings(found.tables["effects"])))


def _effects(
    stage: str, model: HookedModel, data: AnchorDataset, entropies: np.ndarray | None
) -> Iterator[Found]:
    """The effects of a stage; on the untrained model, those that a claim compares with it."""
    if stage != "final" and entropies is not None:
        given = _inputs(data, REASONING)
        yield (
            "forced_average",
            REASONING,
            forced_average(model, given, entropies, n_draws=DRAWS, seed=data.seed),
        )
    if stage in ("half", "matched"):
        yield from value_subspaces(model, data)
    if stage in ("init", "final"):
        yield from swaps(model, data)
    if stage == "final":
        yield from finished_circuit(model, data)


def value_subspaces(model: HookedModel, data: AnchorDataset) -> Iterator[Found]:
    """Nats lost on rsn_train as L0's W_V reads less; nothing where L0 has several heads."""
    if model.cfg.n_heads > 1:
        return
    given = _inputs(data, REASONING)
    bases = {
        "leading_direction_only": leading(value_matrix(model)),
        "without_reasoning": token_basis(model, given, "reasoning_anchor"),
        "without_memory": token_basis(model, given, "memory_anchor"),
    }
    for name, basis in bases.items():
        keep, k = name == "leading_direction_only", basis.shape[1]
        yield (
            name,
            REASONING,
            subspace_effect(model, given, basis, keep=keep, n_draws=DRAWS, seed=data.seed),
        )
        match = matched_spans(
            model, given, k, group=None if keep else "key", n_draws=MATCHED_DRAWS, seed=data.seed
        )
        yield (
            f"{name}_matched",
            REASONING,
            subspace_effect(model, given, basis, keep=keep, match=match),
        )


def swaps(model: HookedModel, data: AnchorDataset) -> Iterator[Found]:
    """Shares of pairs whose answer follows key and sum taken from another input, at either
    circuit's sites.

    Yields nothing for a task whose answers differ from key plus sum.
    """
    if n_other_answers(data, REASONING):
        return
    swaps_by_name: dict[str, dict[str, Any]] = {
        "": {"circuit": "average-then-key"},
        "_in_place": {"circuit": "average-then-key", "same_position": True},
        "_carried": {"circuit": "key-to-anchors"},
    }
    for suffix, options in swaps_by_name.items():
        swapped = key_and_sum(model, data, **options)
        yield f"swap_key{suffix}", REASONING, swapped.key
        yield f"swap_sum{suffix}", REASONING, swapped.sum


def finished_circuit(model: HookedModel, data: AnchorDataset) -> Iterator[Found]:
    """What the last layer's look at the key is worth on reasoning and on memory inputs, and the
    number line."""
    last = model.cfg.n_layers - 1
    for set in (REASONING, MEMORY):
        for name, metric in (("key_blocked", "loss"), ("key_blocked_answers", "accuracy")):
            asked = {"layer": last, "metric": metric, "n_draws": 5, "seed": data.seed}
            yield name, set, blocked_attention(model, _inputs(data, set), **asked)
    if model.cfg.n_heads == 1 and not n_other_answers(data, REASONING):
        for name, direction in (("number_line", "value"), ("number_line_component", "component")):
            effect = permuted_number_line(
                model, data, direction=direction, n_draws=DRAWS, seed=data.seed
            )
            yield name, REASONING, effect


def contributions(model: HookedModel, data: AnchorDataset) -> Iterator[tuple[str, pd.DataFrame]]:
    """What each sublayer's output is worth on each set: loss and accuracy when it is ablated, by
    three methods."""
    sites = [
        f"{component}.{layer}"
        for layer in range(model.cfg.n_layers)
        for component in ("attn_out", "mlp_out")
    ]
    for name in SETS:
        chosen = data.sample(name, ROWS)
        if len(chosen):
            quiet = data.task.counterfactual(data, chosen, "noise")
            yield (
                name,
                ablations(model, data.inputs(chosen), sites, control=quiet).drop(
                    columns=["answered", "note"]
                ),
            )


def matrices(model: HookedModel, data: AnchorDataset) -> Iterator[pd.DataFrame]:
    """Recovered logit difference by component, layer and role, where clean and corrupted differ in
    key or anchors."""
    chosen = data.sample(REASONING, PAIRS)
    clean, other = data.inputs(chosen), data.task.counterfactual(data, chosen, "noise")
    for changed in ("key", "anchors"):
        corrupted = data.task.counterfactual(data, chosen, changed)
        control = corrupted.with_tokens_of(other, "noise")
        found = patching_matrix(
            model, clean, corrupted, components=COMPONENTS, roles=ROLES, control=control
        )
        yield found.to_frame().assign(counterfactual=changed)


def _same_circuit(circuits: pd.DataFrame, member: Member) -> list[Member]:
    """The members of other seeds, OTHERS at most, whose circuit has this member's name."""
    here = circuits.loc[np.isclose(circuits["gamma"], member.gamma)]
    name = here.loc[here["seed"] == member.seed, "cause"]
    others = here.loc[here["cause"].isin(name) & (here["seed"] != member.seed), "seed"]
    return [Member(member.gamma, int(seed)) for seed in others[:OTHERS]]


def _patterns(
    models: MemberModels, others: list[Member], stage: str, data: AnchorDataset
) -> list[Tensor]:
    """What L0 of other members attends to at a stage of their own, on this member's inputs."""
    found, tokens = [], _inputs(data, REASONING).tokens
    for other in others:
        models.load(other, stage)
        found.append(pattern_of(models.model, tokens))
    return found


def _inputs(data: AnchorDataset, set: str) -> Inputs:
    return data.inputs(data.sample(set, ROWS))


def _entropies(models: MemberModels, seed: int) -> np.ndarray | None:
    """Mean entropy of each row of L0's pattern in the same seed's gamma .3 member, at matched
    (claim M10)."""
    sweep = models.sweep
    if not {LARGE, SMALL} <= {*sweep.config.gammas}:
        return None
    models.load(Member(LARGE, seed), "matched")
    return row_entropies(models.model, _inputs(sweep.dataset(seed), REASONING).tokens)


def effect_readings(effects: pd.DataFrame) -> pd.DataFrame:
    """The three quantities of each intervention at each stage, with the untrained model's beside
    them."""
    own, place = ["effect", "control", "difference"], ["gamma", "seed", "set", "probe", "quantity"]
    rows = effects.rename(columns={"quantity": "unit", "intervention": "probe"}).assign(
        null_mean=effects["control"]
    )
    rows = rows.melt([*{*rows} - {*own}], own, "quantity")
    before = rows.loc[rows["stage"] == "init"].set_index(place)["value"].rename("untrained")
    rows, tested = rows.join(before, on=place), rows["quantity"] == "effect"
    return rows.assign(
        untrained=rows["untrained"].mask(rows["stage"] == "init"),
        null=rows["control_name"].where(tested, None),
        null_mean=rows["null_mean"].where(tested),
        p_value=rows["p_value"].where(tested),
        **dict.fromkeys(("null_sd", "layer", "head"), np.nan),
    )
