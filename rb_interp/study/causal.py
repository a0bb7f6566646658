"""Intervene on every member of a run: what each mechanism is worth, beside its placebo, and what each part contributes.

Interventions on the first layer are made where its claims are read: at ``half`` for gamma .8, at the same step
(``matched``) for the other members, and on the untrained twin. Those on the finished circuit are made at the end. What
each is and what its placebo does instead stands in ``claims.causes.WORDS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from rb_interp.claims.registry import LARGE
from rb_interp.interventions.ablation import ablations
from rb_interp.interventions.attention import blocked_attention, forced_average, row_entropies
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.interchange import key_and_sum
from rb_interp.interventions.number_line import permuted_number_line
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.subspace import leading, subspace_effect, token_basis, value_matrix
from rb_interp.study.measure import MEMORY, REASONING, typed
from rb_interp.study.models import MemberModels
from rb_interp.study.run import MATCHED_GAMMA, Run
from rb_interp.tasks import SETS, AnchorDataset
from rb_interp.tasks.counterfactual import Inputs, counterfactual, inputs
from rb_interp.training.member_group import Member

ROWS = 300
"""Inputs of each set, at most."""
PAIRS = 64
"""Pairs of inputs in a patching matrix."""
DRAWS = 20
"""Draws of a random placebo, as claim M10 asks."""
COMPONENTS = ("resid_pre", "attn_out", "mlp_out", "resid_post")
ROLES = ("key", "first_anchor", "last_anchor", "noise", "last")

Found = tuple[str, str, Effect]
"""Name of the intervention, the set whose rows it was made on, and its effect."""


@dataclass(frozen=True)
class Causes:
    """What intervening on a run gives; the column formats are in docs/tables.md.

    Attributes:
        effects: one row per member, stage and intervention. ablations: one per member, set, component and method.
        patching: one per member, change, component, layer and role.
    """

    effects: pd.DataFrame
    ablations: pd.DataFrame
    patching: pd.DataFrame

    def readings(self) -> pd.DataFrame:
        """The effects as readings, which claims are judged on: quantities ``effect``, ``placebo``, ``difference``."""
        return typed(pd.DataFrame([row for _, member in self._by_intervention() for row in _as_readings(member)]))

    def _by_intervention(self) -> Iterator[tuple[Any, pd.DataFrame]]:
        yield from self.effects.groupby(["gamma", "seed", "intervention", "rows"], sort=False)


def measure_causes(run: Run, progress: bool = True) -> Causes:
    """Intervene on all members of a finished run.

    Raises RunError where a checkpoint that a stage needs is missing or broken.
    """
    effects, ablated, patched = [], [], []
    models = MemberModels(run)
    data = {seed: run.config.task.dataset(seed) for seed in run.config.seeds}
    entropies = {seed: _entropies(models, data[seed]) for seed in run.config.seeds}
    for member in tqdm(run.members, disable=not progress, unit="member", desc="intervening"):
        rows = data[member.seed]
        for stage in ("init", _early(run, member), "final"):
            checkpoint = models.load(member, stage)
            place = {"gamma": member.gamma, "seed": member.seed, "stage": stage, "step": checkpoint.step}
            found = list(_at(stage, models.model, rows, entropies[member.seed]))
            effects += [{**place, "rows": s, **effect.summary(), "intervention": n} for n, s, effect in found]
        place = {"gamma": member.gamma, "seed": member.seed, "stage": "final"}
        ablated += [table.assign(**place) for table in contributions(models.model, rows)]
        patched += [table.assign(**place) for table in matrices(models.model, rows)]
    return Causes(pd.DataFrame(effects), _joined(ablated), _joined(patched))


def _at(stage: str, model: Any, data: AnchorDataset, entropies: np.ndarray | None) -> Iterator[Found]:
    """The effects of a stage; on the untrained twin, those that a claim compares with it."""
    if stage != "final" and entropies is not None:
        yield (
            "forced_average",
            REASONING,
            forced_average(model, _inputs(data, REASONING), entropies, n_draws=DRAWS, seed=data.seed),
        )
    if stage in ("half", "matched"):
        yield from value_subspaces(model, data)
    if stage in ("init", "final"):
        yield from swaps(model, data)
    if stage == "final":
        yield from finished_circuit(model, data)


def value_subspaces(model: Any, data: AnchorDataset) -> Iterator[Found]:
    """Nats lost on rsn_train as layer 1's W_V reads less; nothing with several heads, which share no direction."""
    if model.cfg.n_heads > 1:
        return
    given = _inputs(data, REASONING)
    length = given.tokens.shape[1]
    bases = {
        "leading_direction_only": leading(value_matrix(model)),
        "without_reasoning": token_basis(model, given.roles, "reasoning_anchor", length),
        "without_memory": token_basis(model, given.roles, "memory_anchor", length),
    }
    for name, basis in bases.items():
        keep = name == "leading_direction_only"
        yield name, REASONING, subspace_effect(model, given, basis, keep=keep, n_draws=DRAWS, seed=data.seed)


def swaps(model: Any, data: AnchorDataset) -> Iterator[Found]:
    """Shares of pairs whose answer follows key and sum taken from another input, at either circuit's sites."""
    average_then_key = {"circuit": "average-then-key"}
    given: dict[str, dict[str, Any]] = {
        "": average_then_key,
        "_in_place": {**average_then_key, "same_position": True},
        "_carried": {"circuit": "key-to-anchors"},
    }
    for suffix, options in given.items():
        swapped = key_and_sum(model, data, **options)
        yield f"swap_key{suffix}", REASONING, swapped.key
        yield f"swap_sum{suffix}", REASONING, swapped.sum


def finished_circuit(model: Any, data: AnchorDataset) -> Iterator[Found]:
    """What the last layer's look at the key is worth on reasoning and on memory inputs, and the number line."""
    last = model.cfg.n_layers - 1
    for rows in (REASONING, MEMORY):
        for name, quantity in (("key_blocked", "nats_lost"), ("key_blocked_answers", "accuracy_lost")):
            given = _inputs(data, rows)
            yield name, rows, blocked_attention(model, given, last, quantity=quantity, seed=data.seed)
    if model.cfg.n_heads == 1:
        for name, direction in (("number_line", "value"), ("number_line_component", "component")):
            effect = permuted_number_line(model, data, direction=direction, n_draws=DRAWS, seed=data.seed)
            yield name, REASONING, effect


def contributions(model: Any, data: AnchorDataset) -> Iterator[pd.DataFrame]:
    """What each sublayer's output is worth on each set: loss and accuracy when it is ablated, by three methods."""
    sites = [f"{component}.{layer}" for layer in range(model.cfg.n_layers) for component in ("attn_out", "mlp_out")]
    for name in SETS:
        chosen = data.sample(name, ROWS)
        if len(chosen):
            table = ablations(model, inputs(data, chosen), counterfactual(data, chosen, "noise"), sites)
            yield table.assign(rows=name)


def matrices(model: Any, data: AnchorDataset) -> Iterator[pd.DataFrame]:
    """Recovered logit difference by component, layer and role, where clean and corrupted differ in key or anchors."""
    chosen = data.sample(REASONING, PAIRS)
    clean, other = inputs(data, chosen), counterfactual(data, chosen, "noise")
    for change in ("key", "anchors"):
        corrupted = counterfactual(data, chosen, change)
        quiet = with_noise_of(corrupted, other)
        found = patching_matrix(model, clean, corrupted, components=COMPONENTS, roles=ROLES, placebo=quiet)
        yield found.table().assign(change=change)


def with_noise_of(given: Inputs, other: Inputs) -> Inputs:
    """Given inputs with the noise tokens of others of the same positions."""
    tokens, noise = given.tokens.copy(), given.roles.position("noise")
    np.put_along_axis(tokens, noise, np.take_along_axis(other.tokens, noise, 1), 1)
    return Inputs(tokens, given.labels, given.roles)


def _inputs(data: AnchorDataset, rows: str) -> Inputs:
    return inputs(data, data.sample(rows, ROWS))


def _early(run: Run, member: Member) -> str:
    """The stage at which the first layer is intervened on: the step of half of the gamma .8 member, if there is one."""
    return "matched" if MATCHED_GAMMA in run.config.gammas and member.gamma != MATCHED_GAMMA else "half"


def _entropies(models: MemberModels, data: AnchorDataset) -> np.ndarray | None:
    """Mean entropy of each row of layer 1's pattern in the same seed's gamma .3 member, at matched (claim M10)."""
    gammas = models.run.config.gammas
    if LARGE not in gammas or MATCHED_GAMMA not in gammas:
        return None
    models.load(Member(LARGE, data.seed), "matched")
    return row_entropies(models.model, _inputs(data, REASONING).tokens, 0)


def _as_readings(rows: pd.DataFrame) -> Iterator[dict]:
    """The three quantities of one member's intervention at each stage, with the untrained twin's beside them."""
    untrained = rows.loc[rows["stage"] == "init"]
    for row in rows.to_dict("records"):
        for quantity in ("effect", "placebo", "difference"):
            twin = float(untrained[quantity].iloc[0]) if len(untrained) else np.nan
            null = {"null": row["placebo_name"], "null_mean": row["placebo"]} if quantity == "effect" else {}
            yield {
                **{name: row[name] for name in ("gamma", "seed", "stage", "step", "rows", "n")},
                **{"probe": row["intervention"], "layer": np.nan, "head": np.nan, "quantity": quantity},
                **{"value": row[quantity], "twin": np.nan if row["stage"] == "init" else twin},
                **{"null": None, "null_mean": np.nan, "null_sd": np.nan, "p_value": np.nan, **null},
                **({"p_value": row["p_value"]} if quantity == "effect" else {}),
            }


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
