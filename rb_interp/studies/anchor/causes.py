"""Intervene on every member: what each mechanism is worth, with its control, and what each component contributes.

Interventions on L0 are made where its claims are read: at ``half`` for gamma .8, at the same step (``matched``) for
the other members, and on the untrained model. Those on the finished circuit are made at the end. What each one does,
and what its control does instead, stands in INTERVENTIONS. Those on L0 stand a second time beside a control that
matches (``_matched``): spans of as many keys, directions within the embedding, patterns of members of the same circuit.

CHECKS has for each mechanism the intervention that would refute it, with criteria fixed before any was read. The claims
M1 to M8 rest on attention, spectra, cosines and explained variance: correlations. A check says what ought to happen to
the model if the mechanism did the work, as a claim that is judged by the same rule and with the same seeds. Thresholds
follow those of M9 and M10: .10 nats is "costs nothing", .20 nats more than the control is "costs something", .90 of the
pairs is "moves the answer". They are ours, not the paper's, and a mechanism's own claim keeps its own verdict.

M7 has a second check, in accuracy (.50 beyond the control), added after the first had been read: at the end of training
without LayerNorm logits have no bound, single seeds lose a thousand nats, and their mean says nothing.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from rb_interp.claims.criterion import CausalCheck, Claim, Condition, Term
from rb_interp.figures.numbers import two_digits
from rb_interp.interventions import attention
from rb_interp.interventions.ablating import ablations
from rb_interp.interventions.circuits import key_and_sum, n_other_answers, permuted_number_line
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.patching import patching_matrix
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.values import value_matrix
from rb_interp.runs import Measured, Run, readings_table
from rb_interp.runs.members import MemberModels, measure_members
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.reading import Reading
from rb_interp.studies.anchor.claims import BY_ID
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


def measure_causes(run: Run, circuits: pd.DataFrame, progress: bool = True) -> Measured:
    """Intervene on all members of a finished run, whose circuits are named by cause in a table.

    Returns the tables ``effects``, ``ablations`` and ``patching``, and the effects as readings, which claims are judged
    on: ``effect``, ``control`` and ``difference``. Raises RunError where a checkpoint that a stage needs is missing.
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
                effect = attention.forced_average(models.model, _inputs(data, REASONING), beside=patterns)
                found.append(("forced_average_matched", REASONING, effect))
            for name, set, effect in found:
                row = pd.DataFrame([{"step": models.step, **effect.summary(), "intervention": name}])
                yield stage, set, Reading(name, {}, tables={"effects": row})
        for set, table in contributions(models.model, data):
            yield "final", set, Reading("ablation", {}, tables={"ablations": table})
        for table in matrices(models.model, data):
            yield "final", REASONING, Reading("patching", {}, tables={"patching": table})

    found = measure_members(run, intervene, [""], progress)
    return replace(found, readings=readings_table(effect_readings(found.tables["effects"])))


def _effects(stage: str, model: HookedModel, data: AnchorDataset, entropies: np.ndarray | None) -> Iterator[Found]:
    """The effects of a stage; on the untrained model, those that a claim compares with it."""
    if stage != "final" and entropies is not None:
        given = _inputs(data, REASONING)
        yield (
            "forced_average",
            REASONING,
            attention.forced_average(model, given, entropies, n_draws=DRAWS, seed=data.seed),
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
        "leading_direction_only": attention.leading(value_matrix(model)),
        "without_reasoning": attention.token_basis(model, given, "reasoning_anchor"),
        "without_memory": attention.token_basis(model, given, "memory_anchor"),
    }
    for name, basis in bases.items():
        keep, k = name == "leading_direction_only", basis.shape[1]
        yield (
            name,
            REASONING,
            attention.subspace_effect(model, given, basis, keep=keep, n_draws=DRAWS, seed=data.seed),
        )
        match = attention.matched_spans(
            model, given, k, group=None if keep else "key", n_draws=MATCHED_DRAWS, seed=data.seed
        )
        yield f"{name}_matched", REASONING, attention.subspace_effect(model, given, basis, keep=keep, match=match)


def swaps(model: HookedModel, data: AnchorDataset) -> Iterator[Found]:
    """Shares of pairs whose answer follows key and sum taken from another input, at either circuit's sites.

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
    """What the last layer's look at the key is worth on reasoning and on memory inputs, and the number line."""
    last = model.cfg.n_layers - 1
    for set in (REASONING, MEMORY):
        for name, metric in (("key_blocked", "loss"), ("key_blocked_answers", "accuracy")):
            asked = {"layer": last, "metric": metric, "n_draws": 5, "seed": data.seed}
            yield name, set, attention.blocked_attention(model, _inputs(data, set), **asked)
    if model.cfg.n_heads == 1 and not n_other_answers(data, REASONING):
        for name, direction in (("number_line", "value"), ("number_line_component", "component")):
            effect = permuted_number_line(model, data, direction=direction, n_draws=DRAWS, seed=data.seed)
            yield name, REASONING, effect


def contributions(model: HookedModel, data: AnchorDataset) -> Iterator[tuple[str, pd.DataFrame]]:
    """What each sublayer's output is worth on each set: loss and accuracy when it is ablated, by three methods."""
    sites = [f"{component}.{layer}" for layer in range(model.cfg.n_layers) for component in ("attn_out", "mlp_out")]
    for name in SETS:
        chosen = data.sample(name, ROWS)
        if len(chosen):
            quiet = data.task.counterfactual(data, chosen, "noise")
            yield name, ablations(model, data.inputs(chosen), sites, control=quiet)


def matrices(model: HookedModel, data: AnchorDataset) -> Iterator[pd.DataFrame]:
    """Recovered logit difference by component, layer and role, where clean and corrupted differ in key or anchors."""
    chosen = data.sample(REASONING, PAIRS)
    clean, other = data.inputs(chosen), data.task.counterfactual(data, chosen, "noise")
    for changed in ("key", "anchors"):
        corrupted = data.task.counterfactual(data, chosen, changed)
        control = corrupted.with_tokens_of(other, "noise")
        found = patching_matrix(model, clean, corrupted, components=COMPONENTS, roles=ROLES, control=control)
        yield found.to_frame().assign(counterfactual=changed)


def _same_circuit(circuits: pd.DataFrame, member: Member) -> list[Member]:
    """The members of other seeds, OTHERS at most, whose circuit has this member's name."""
    here = circuits.loc[np.isclose(circuits["gamma"], member.gamma)]
    name = here.loc[here["seed"] == member.seed, "cause"]
    others = here.loc[here["cause"].isin(name) & (here["seed"] != member.seed), "seed"]
    return [Member(member.gamma, int(seed)) for seed in others[:OTHERS]]


def _patterns(models: MemberModels, others: list[Member], stage: str, data: AnchorDataset) -> list[Tensor]:
    """What L0 of other members attends to at a stage of their own, on this member's inputs."""
    found, tokens = [], _inputs(data, REASONING).tokens
    for other in others:
        models.load(other, stage)
        found.append(attention.pattern_of(models.model, tokens))
    return found


def _inputs(data: AnchorDataset, set: str) -> Inputs:
    return data.inputs(data.sample(set, ROWS))


def _entropies(models: MemberModels, seed: int) -> np.ndarray | None:
    """Mean entropy of each row of L0's pattern in the same seed's gamma .3 member, at matched (claim M10)."""
    sweep = models.sweep
    if not {LARGE, SMALL} <= {*sweep.config.gammas}:
        return None
    models.load(Member(LARGE, seed), "matched")
    return attention.row_entropies(models.model, _inputs(sweep.dataset(seed), REASONING).tokens)


def effect_readings(effects: pd.DataFrame) -> pd.DataFrame:
    """The three quantities of each intervention at each stage, with the untrained model's beside them."""
    own, place = ["effect", "control", "difference"], ["gamma", "seed", "set", "probe", "quantity"]
    rows = effects.rename(columns={"quantity": "unit", "intervention": "probe"}).assign(null_mean=effects["control"])
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


SUBSPACE = "a random subspace of the same dimension, the change of W_V of the same norm"
KEYS = "the span of as many random keys, the change of W_V of the same norm"
ALIKE = "to what other members whose circuit has the same name attend to on the same inputs"
BLOCKED = ("L1's attention from the last position to the key set to 0", "to a random noise position")
NOISE = "from the same input with other noise"
DIRECTION = "along a random direction, the change of the same norm"
AVERAGE, LEADING = "L0's attention set to exactly 1/i", "L0's W_V reduced to its leading direction"
OUT = "the span of the {} anchors projected out of L0's W_V"
INTERVENTIONS: dict[str, tuple[str, str]] = {
    "forced_average": (AVERAGE, "to random fixed patterns of matched entropy"),
    "leading_direction_only": (LEADING, "to a random direction, what is left of the same norm"),
    "without_reasoning": (OUT.format("reasoning"), SUBSPACE),
    "without_memory": (OUT.format("memory"), SUBSPACE),
    "forced_average_matched": (AVERAGE, ALIKE),
    "leading_direction_only_matched": (
        LEADING,
        "to a random direction within the embeddings in use, what is left of the same norm",
    ),
    "without_reasoning_matched": (OUT.format("reasoning"), KEYS),
    "without_memory_matched": (OUT.format("memory"), KEYS),
    "key_blocked": BLOCKED,
    "key_blocked_answers": BLOCKED,
    "swap_key": ("L1's attention output at the last position taken from another input", NOISE),
    "swap_sum": ("L0's attention output at the last position taken from another input", NOISE),
    "swap_key_in_place": ("the same, from an input whose key stands at the same position (L1's output)", NOISE),
    "swap_sum_in_place": ("the same, from an input whose key stands at the same position (L0's output)", NOISE),
    "swap_key_carried": ("L0's attention output at the anchors taken from another input", NOISE),
    "swap_sum_carried": (
        "the anchors' embeddings taken from another input, L0's attention output held everywhere",
        NOISE,
    ),
    "number_line": (
        "the reasoning anchors' coordinates along the leading direction of L0's W_V reversed",
        DIRECTION,
    ),
    "number_line_component": (
        "the reasoning anchors' coordinates along their own first principal component reversed",
        DIRECTION,
    ),
}
"""Interventions by name: what is done, and what the control does instead; ``_matched``: with a control that matches."""
AT_HALF = tuple(
    f"{name}{end}"
    for name in ("forced_average", "leading_direction_only", "without_reasoning", "without_memory")
    for end in ("", "_matched")
)
"""Interventions on L0, made where its claims are read; the others are made at the end."""


def _check(
    of: str, intervention: str, refuted_if: str, *conditions: Condition, gate: Condition | None = None
) -> CausalCheck:
    done, control_done = INTERVENTIONS[intervention]
    check = Claim(of, BY_ID[of].statement, done, conditions, gate)
    return CausalCheck(of, intervention, done, control_done, refuted_if, check)


def _nats(intervention: str, label: str = "nats lost", gamma: float = SMALL, stage: str = "half") -> Term:
    return Term(intervention, "effect", gamma, stage, "rsn_train", label=label)


def _beyond(intervention: str, stage: str, set: str = "rsn_train", label: str = "nats lost") -> Term:
    return Term(intervention, "difference", SMALL, stage, set, label=f"{label} beyond the control's")


_DIRECTION = _nats("leading_direction_only")
_RANDOM = replace(_DIRECTION, quantity="control", label="nats lost with a random direction")
_LARGE = _nats("forced_average", gamma=LARGE, stage="matched")
_REASONING = _nats("without_reasoning", "nats lost without reasoning anchors")
_MEMORY = _nats("without_memory", "nats lost without memory anchors")
_ANSWERS = _beyond("key_blocked_answers", "final", label="accuracy lost")

_M9 = [two_digits(condition.threshold) for condition in BY_ID["M9"].conditions]
_M10 = [two_digits(condition.threshold) for condition in BY_ID["M10"].conditions]

CHECKS: tuple[CausalCheck, ...] = (
    _check(
        "M1",
        "forced_average",
        f"forcing the average costs more than {_M10[0]} nats, or a random pattern costs less than {_M10[1]} nats more "
        "than that",
        *BY_ID["M10"].conditions,
    ),
    _check(
        "M2",
        "forced_average",
        "forcing the average costs less than .10 nats more at large initialisation than at small",
        Condition(_LARGE, ">=", 0.10, _nats("forced_average")),
    ),
    _check(
        "M3",
        "leading_direction_only",
        "the other directions of W_V are needed too, or a random direction does nearly as well",
        Condition(_DIRECTION, "<=", 0.10),
        Condition(_RANDOM, ">=", 0.20, _DIRECTION),
    ),
    _check(
        "M4",
        "without_reasoning",
        "W_V does without the reasoning anchors' directions as well as without random ones",
        Condition(_beyond("without_reasoning", "half"), ">=", 0.20),
    ),
    _check(
        "M5",
        "without_memory",
        "reasoning needs the memory anchors' directions in W_V",
        Condition(_beyond("without_memory", "half"), "<=", 0.10),
    ),
    _check(
        "M6",
        "without_reasoning",
        "the memory anchors' directions matter as much as the reasoning anchors'",
        Condition(_REASONING, ">=", 0.20, _MEMORY),
    ),
    _check(
        "M7",
        "key_blocked",
        "L1 does without the key as well as without a noise token",
        Condition(_beyond("key_blocked", "final"), ">=", 0.20),
    ),
    _check(
        "M7",
        "key_blocked_answers",
        "L1 answers without the key as well as without a noise token",
        Condition(_ANSWERS, ">=", 0.50),
    ),
    _check(
        "M7b",
        "key_blocked",
        "L1 does without the key on memory inputs as well as without a noise token",
        Condition(_beyond("key_blocked", "final", "mem"), ">=", 0.20),
        gate=BY_ID["M7b"].gate,
    ),
    _check(
        "M8",
        "swap_sum",
        f"key or sum moves fewer than {_M9[0]} of the answers, or new noise alone changes more than {_M9[2]} of them",
        *BY_ID["M9"].conditions,
    ),
)
