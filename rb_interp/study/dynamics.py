"""Dynamics: when does each mechanism appear, beside the fall of each loss?

Along the checkpoints that a run kept of a member (step 0, the log-spaced ones, the last, and its own ``half``), each
quantity below is read on rsn_train rows, without null and twin. From each series follows one event:

    mechanism   the first checkpoint that meets the threshold and is followed by one that meets it too (or is the last);
                its step lies between that checkpoint and the one before, where the line between the two values meets
                the threshold, linear in log(step + 25); met at the first checkpoint already: that one, "from the start"
    loss        the first evaluation with f_X <= 1/2, f_X = min(L_X / ln d_vocab, 1), for X = mem, rsn_train, rsn_test
    never       nan, censored at the last step

The thresholds are the claims' and the circuit rules' own. Two events are compared by log2((a + 25) / (b + 25)).

How it can mislead. An event's step is known to the spacing of checkpoints only, about a factor 2 at the quick preset.
All seeds share those checkpoints, so an interval over seeds does not contain that error: a mean of -.5 doublings with a
narrow interval is one checkpoint's worth. Only the order against rsn_train is finer, because each member is kept at the
very evaluation at which that loss has halved; how far before it is not. What comes and goes between two checkpoints is
missed. The order is one of thresholds, and thresholds differ in how late they lie: a share of .80 is met well after the
share began to rise, so "after the loss" may mean that a mechanism matures then, not that it begins. A threshold may
also be met by accident: at the quick sizes s1 / s2 passes 1.5 within 25 steps, long before any loss moves, and the
attention of a large initialisation has "stopped averaging" before training. key-to-anchors and average-then-key exclude
each other, and signs of both are in this list: split the order table by circuit. Coming first is no cause; patching
tests causes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Real
from tqdm import tqdm

from rb_interp.errors import RunError, nearest
from rb_interp.models.build import lens_model
from rb_interp.models.lens import write_weights
from rb_interp.probes import carrying, composition, geometry, routing, uniformity, value_alignment
from rb_interp.probes.capture import LensModel, Tokens
from rb_interp.probes.circuit import ANCHORS_MIN, CARRY_MIN, KEY_MIN
from rb_interp.probes.learning_order import HALF, fraction_left
from rb_interp.statistics.intervals import t_interval
from rb_interp.study.run import Run
from rb_interp.tasks import SETS
from rb_interp.tasks.roles import Roles
from rb_interp.training.loop import stage_name, step_name
from rb_interp.training.member_group import Member

Side = Literal[">", ">=", "<="]
SIDES = {">": np.greater, ">=": np.greater_equal, "<=": np.less_equal}
OFFSET = 25
"""Added to steps before a logarithm, so that step 0 has one: an evaluation interval of the quick preset."""
ROWS = 300
"""Rows that the probes see at each checkpoint, at most: enough for a mean to .03, and cheap."""


class Mechanism(NamedTuple):
    """A mechanism's sign: its event, the quantity that is read, the criterion, and where that was fixed."""

    event: str
    quantity: str
    side: Side
    threshold: float
    source: str


MECHANISMS = (
    Mechanism("layer 1 stops averaging", "uniformity/tv", ">", 0.10, "M1"),
    Mechanism("one direction dominates layer 1's values", "value_alignment/spectrum_ratio", ">=", 1.5, "M3"),
    Mechanism("that direction aligns with reasoning anchors", "value_alignment/cos_reasoning", ">=", 0.70, "M4"),
    Mechanism("layer 1 writes the anchor sum", "composition/attn_out.0:anchor_sum", ">=", 0.80, "M8"),
    Mechanism("layer 1 carries the key", "carrying/key_from_last_anchor", ">=", CARRY_MIN, "circuit"),
    Mechanism("the last layer looks at the key", "routing/key", ">=", KEY_MIN, "circuit"),
    Mechanism("the last layer looks at the anchors", "routing/anchors", ">=", ANCHORS_MIN, "circuit"),
    Mechanism("the last layer writes the key", "composition/attn_out.last:key", ">=", 0.80, "M8"),
    Mechanism("reasoning anchors are ordered", "geometry/order_rho", "<=", -0.80, "E1"),
    Mechanism("the leading component orders the keys", "geometry/pc1_key", ">=", 0.90, "E3"),
)
"""Every mechanism event. In quantities, ``last`` is the last layer, where ``routing`` is read as well."""
QUANTITIES = (*(mechanism.quantity for mechanism in MECHANISMS), "value_alignment/cos_memory")
"""What is read at each checkpoint, as probe/quantity; the last dates nothing and is kept beside cos_reasoning."""


@dataclass(frozen=True)
class Dynamics:
    """How a run's members came to what they are.

    Attributes:
        values: gamma, seed, step, quantity, value: one row per member, kept checkpoint and quantity (probe/quantity).
        events: gamma, seed, event, kind ("loss" or "mechanism"), step (nan: never), censored (True: never).
    """

    values: pd.DataFrame
    events: pd.DataFrame


def dynamics(run: Run, progress: bool = True) -> Dynamics:
    """Read every mechanism of every member at every checkpoint that the run kept, and date the events.

    Values are nan where a member's weights are not finite. Raises RunError where a checkpoint is missing or broken.
    """
    probed, rows = _Probed(run), []
    work = list(_work(run))
    bar = tqdm(total=sum(len(members) for _, members in work), disable=not progress, unit="model", desc="dynamics")
    with bar:
        for name, members in work:
            checkpoint = run.store.read(name)
            for member in members:
                weights = checkpoint.member(member.gamma, member.seed)
                place = {"gamma": member.gamma, "seed": member.seed, "step": checkpoint.step}
                rows += [{**place, "quantity": q, "value": value} for q, value in probed(member, weights).items()]
                bar.update()
    values = pd.DataFrame(rows).sort_values(["gamma", "seed", "step"], kind="stable", ignore_index=True)
    return Dynamics(values, event_table(values, run.curves(), run.config.task.d_vocab))


def _work(run: Run) -> Iterator[tuple[str, list[Member]]]:
    """Names of checkpoints, and the members to read in each: all, or the one whose ``half`` it is."""
    steps = run.kept_steps
    yield from ((step_name(step), list(run.members)) for step in steps)
    for member, half in run.stage_steps().items():
        if half >= 0 and half not in steps:
            yield stage_name("half", member), [member]


class _Probed:
    """One model, written anew for each member and step, and each seed's rows."""

    def __init__(self, run: Run) -> None:
        task, config, first = run.config.task, run.config, run.members[0]
        weights = run.weights(first.gamma, first.seed, "init")
        self.model = lens_model(config.model, task.d_vocab, task.length, weights)
        self.inputs = {}
        for seed in config.seeds:
            data = task.dataset(seed)
            rows = data.sample("rsn_train", min(ROWS, config.probe_rows))
            self.inputs[seed] = data.tokens[rows], data.roles(rows)

    def __call__(self, member: Member, weights: dict[str, Any]) -> dict[str, float]:
        if not all(weight.isfinite().all() for weight in weights.values()):
            return dict.fromkeys(QUANTITIES, np.nan)
        write_weights(self.model, weights)
        return mechanism_values(self.model, *self.inputs[member.seed])


def mechanism_values(model: LensModel, tokens: Tokens, roles: Roles) -> dict[str, float]:
    """Every one of QUANTITIES, of one model on the given rows.

    Where a layer has several heads, the one that shows the most counts: the lowest tv, the highest of all else; the
    composition of attn_out sums the heads. Raises what the probes raise.
    """
    last, heads = model.cfg.n_layers - 1, range(model.cfg.n_heads)

    def read(probe: Any, **where: int) -> dict[str, float]:
        return dict(probe(model, tokens, roles, n_null=0, **where).values)

    def over_heads(probe: Any, layer: int, *names: str) -> dict[str, float]:
        found = [read(probe, layer=layer, head=head) for head in heads]
        most = min if probe is uniformity else max
        return {f"{probe.__name__}/{name}": float(most(values[name] for values in found)) for name in names}

    written, embedding = read(composition), read(geometry)
    return {
        **over_heads(uniformity, 0, "tv"),
        **over_heads(value_alignment, 0, "spectrum_ratio", "cos_reasoning", "cos_memory"),
        **over_heads(carrying, 0, "key_from_last_anchor"),
        **over_heads(routing, last, "key", "anchors"),
        "composition/attn_out.0:anchor_sum": float(written["attn_out.0:anchor_sum"]),
        "composition/attn_out.last:key": float(written[f"attn_out.{last}:key"]),
        **{f"geometry/{name}": float(embedding[name]) for name in ("order_rho", "pc1_key")},
    }


def event_table(values: pd.DataFrame, curves: pd.DataFrame, d_vocab: int) -> pd.DataFrame:
    """The events of every member of a curves table: gamma, seed, event, kind, step, censored.

    Raises RunError where ``values`` (as in Dynamics) lacks a quantity of a member, or has one twice at a step.
    """
    _check_once(values, ["gamma", "seed", "step", "quantity"], "a quantity")
    rows = []
    for _, losses in curves.groupby(["gamma", "seed"], sort=True):
        gamma, seed = float(losses["gamma"].iloc[0]), int(losses["seed"].iloc[0])
        series = _series(values, gamma, seed)
        steps = series.index.to_numpy()
        found = [(name, "loss", loss_step(losses.loc[losses["set"] == name], d_vocab)) for name in SETS]
        for event, quantity, side, threshold, _ in MECHANISMS:
            at = event_step(steps, series[quantity].to_numpy(), threshold, side)
            found.append((event, "mechanism", at))
        rows += [(gamma, seed, *event, bool(np.isnan(event[2]))) for event in found]
    return pd.DataFrame(rows, columns=["gamma", "seed", "event", "kind", "step", "censored"])


def _series(values: pd.DataFrame, gamma: float, seed: int) -> pd.DataFrame:
    """One member's values: a row a step (a pivot sorts them) and a column a quantity."""
    own = values[(values["gamma"] == gamma) & (values["seed"] == seed)]
    missing = sorted(set(QUANTITIES) - set(own["quantity"]))
    if missing:
        raise RunError(
            f"the values of the member with gamma={gamma:g}, seed={seed} lack {', '.join(missing)}; events need every "
            f"quantity of QUANTITIES. Make the table with dynamics(run)."
        )
    return own.pivot(index="step", columns="quantity", values="value")


def loss_step(curve: pd.DataFrame, d_vocab: int) -> float:
    """Step of the first evaluation with f <= 1/2 in one set's rows of a curves table; nan where that never happens.

    >>> curve = pd.DataFrame({"step": [0, 25, 50], "loss": np.log([4, 2, 3])})
    >>> loss_step(curve, d_vocab=4), loss_step(curve, d_vocab=2)
    (25.0, nan)
    """
    ordered = curve.sort_values("step")
    reached = fraction_left(ordered["loss"].to_numpy(dtype=np.float64), d_vocab) <= HALF
    return float(ordered["step"].to_numpy()[reached.argmax()]) if reached.any() else np.nan


def event_step(
    steps: Real[np.ndarray, " step"], values: Float[np.ndarray, " value"], threshold: float, side: Side
) -> float:
    """Step at which a series meets ``value side threshold`` and stays there at the next checkpoint; nan for never.

    Between the checkpoint before and the one that meets it, where a straight line over log(step + 25) crosses the
    threshold; the checkpoint itself where one of the two values is not finite; the first step where that one meets it.
    The last checkpoint needs no next one. A nan meets nothing.

    Raises RunError for steps that do not ascend, another number of values, or an unknown side.

    >>> round(event_step(np.array([0, 75, 375]), np.array([0.0, 0.2, 0.8]), 0.5, ">="), 6)   # log 100 .. log 400
    175.0
    >>> event_step(np.array([0, 75, 375]), np.array([0.9, 0.2, 0.3]), 0.5, ">=")   # met once, and gone at the next
    nan
    """
    if side not in SIDES:
        raise RunError(f"there is no side '{side}'; {nearest(side, SIDES)}")
    if len(steps) != len(values) or (np.diff(steps) <= 0).any():
        raise RunError(
            f"got {len(values)} values at the steps {np.asarray(steps).tolist()}; expected one value a step, steps "
            f"ascending. Sort the checkpoints and drop those that are there twice."
        )
    met = SIDES[side](values, threshold)
    stays = met & np.append(met[1:], True)
    if not stays.any():
        return np.nan
    at = int(stays.argmax())
    before, after = values[max(at - 1, 0)], values[at]
    if at == 0 or not np.isfinite([before, after]).all():
        return float(steps[at])
    share = (threshold - before) / (after - before)
    low, high = np.log(steps[at - 1] + OFFSET), np.log(steps[at] + OFFSET)
    return float(np.exp(low + share * (high - low)) - OFFSET)


def order_table(events: pd.DataFrame, circuits: pd.DataFrame | None = None) -> pd.DataFrame:
    """Each mechanism event beside each loss event over seeds, by gamma, and by circuit where circuits are given.

    Columns: gamma, (circuit,) mechanism, loss; n (members); n_both, in which both happened; n_first, of those in which
    the mechanism came first; log2_ratio, their mean log2((step_mechanism + 25) / (step_loss + 25)), in doublings of
    step + 25, negative where the mechanism comes first, with its 95 % Student t interval over seeds, low and high;
    n_never and n_loss_never, members in which mechanism or loss event never happened by the last step. Ratios between
    -1 and 1 are below the spacing of checkpoints.

    Args:
        events: as in Dynamics; runs with other seeds may be put below each other.
        circuits: gamma, seed, circuit, one row a member (circuits.parquet). Members that it lacks are "not named".

    Raises RunError where a member has an event, or a circuit, twice.
    """
    by = ["gamma"] if circuits is None else ["gamma", "circuit"]
    table = events if circuits is None else _with_circuits(events, circuits)
    _check_once(table, ["gamma", "seed", "event"], "an event")
    names = {kind: table.loc[table["kind"] == kind, "event"].unique() for kind in ("mechanism", "loss")}
    rows = []
    for _, members in table.groupby(by, sort=True):
        place = {name: members[name].iloc[0] for name in by}
        steps = members.pivot(index="seed", columns="event", values="step").reindex(columns=table["event"].unique())
        for mechanism, loss in product(names["mechanism"], names["loss"]):
            order = _order(*steps[[mechanism, loss]].to_numpy(dtype=np.float64).T)
            rows.append({**place, "mechanism": mechanism, "loss": loss, **order})
    return pd.DataFrame(rows)


def _with_circuits(events: pd.DataFrame, circuits: pd.DataFrame) -> pd.DataFrame:
    _check_once(circuits, ["gamma", "seed"], "a circuit")
    named = events.merge(circuits[["gamma", "seed", "circuit"]], on=["gamma", "seed"], how="left")
    return named.fillna({"circuit": "not named"})


def _check_once(table: pd.DataFrame, columns: list[str], what: str) -> None:
    twice = table.loc[table.duplicated(columns)]
    if len(twice):
        gamma, seed = twice["gamma"].iloc[0], twice["seed"].iloc[0]
        raise RunError(
            f"the member with gamma={gamma:g}, seed={seed} has {what} twice; give each member once. Runs that are put "
            f"together must have different seeds."
        )


def _order(mechanism: Float[np.ndarray, " seed"], loss: Float[np.ndarray, " seed"]) -> dict[str, int | float]:
    both = np.isfinite(mechanism) & np.isfinite(loss)
    ratio = np.log2((mechanism[both] + OFFSET) / (loss[both] + OFFSET))
    mean, low, high = t_interval(ratio)
    return {
        "n": len(both),
        "n_both": int(both.sum()),
        "n_first": int((mechanism[both] < loss[both]).sum()),
        "log2_ratio": mean,
        "low": low,
        "high": high,
        "n_never": int(np.isnan(mechanism).sum()),
        "n_loss_never": int(np.isnan(loss).sum()),
    }
