"""Events: when each mechanism meets its threshold and each loss is halved, and which of the two comes first.

What an event is, and how it can mislead, stands in ``dynamics``.
"""

from __future__ import annotations

from itertools import product
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Real

from rb_interp.claims.criterion import COMPARE
from rb_interp.errors import RunError, nearest
from rb_interp.statistics.intervals import t_interval
from rb_interp.statistics.learning_order import fraction_left
from rb_interp.studies.anchor.circuits import ANCHORS_MIN, CARRY_MIN, KEY_MIN
from rb_interp.studies.anchor.claims import BY_ID
from rb_interp.tasks import SETS
from rb_interp.tasks.protocol import HALF

Side = Literal[">=", "<=", ">", "<"]
OFFSET = 25
"""Added to steps before a logarithm, so that step 0 has one: an evaluation interval of the quick preset."""


class Mechanism(NamedTuple):
    """A mechanism's sign: its event, the quantity that is read, the criterion, and where that was fixed."""

    event: str
    quantity: str
    side: Side
    threshold: float
    source: str


def _claimed(event: str, quantity: str, claim: str, number: int = 0) -> Mechanism:
    """A mechanism whose sign is what a claim asks for."""
    condition = BY_ID[claim].conditions[number]
    return Mechanism(event, quantity, condition.operator, condition.threshold, claim)


MECHANISMS = (
    Mechanism("L0 stops averaging", "uniformity/tv", ">", BY_ID["M1"].conditions[0].threshold, "M1"),
    _claimed("one direction dominates L0's values", "value_alignment/spectrum_ratio", "M3"),
    _claimed("that direction aligns with reasoning anchors", "value_alignment/cos_reasoning", "M4"),
    _claimed("L0 writes the anchor sum", "variance_explained/attn_out.0:anchor_sum", "M8", 1),
    Mechanism("L0 carries the key", "attention_to_key/key_from_last_anchor", ">=", CARRY_MIN, "circuit"),
    Mechanism("the last layer looks at the key", "attention_by_role/key", ">=", KEY_MIN, "circuit"),
    Mechanism("the last layer looks at the anchors", "attention_by_role/anchors", ">=", ANCHORS_MIN, "circuit"),
    _claimed("the last layer writes the key", "variance_explained/attn_out.last:key", "M8"),
    _claimed("reasoning anchors are ordered", "geometry/order_rho", "E1"),
    _claimed("the leading component orders the keys", "geometry/pc1_key", "E3"),
)
"""Every mechanism event. In quantities, ``last`` is the last layer, where ``attention_by_role`` is read as well."""
OWN_SIGN = {"average-then-key": "the last layer looks at the key", "key-to-anchors": "L0 carries the key"}
"""Circuit -> the event that shows it."""
QUANTITIES = (*(mechanism.quantity for mechanism in MECHANISMS), "value_alignment/cos_memory")
"""What is read at each checkpoint, as probe/quantity; the last dates no event; cos_reasoning is compared with it."""


def event_table(values: pd.DataFrame, curves: pd.DataFrame, d_vocab: int) -> pd.DataFrame:
    """The events of every member of a curves table: gamma, seed, event, event_of, step, censored.

    Raises RunError where ``values`` (as in Dynamics) lacks a quantity of a member, or has one twice at a step.
    """
    _check_once(values, ["gamma", "seed", "step", "quantity"], "a quantity")
    rows = []
    for _, losses in curves.groupby(["gamma", "seed"], sort=True):
        gamma, seed = float(losses["gamma"].iloc[0]), int(losses["seed"].iloc[0])
        own = values.loc[(values["gamma"] == gamma) & (values["seed"] == seed)]
        missing = sorted(set(QUANTITIES) - set(own["quantity"]))
        if missing:
            raise RunError(
                f"the values of the member with gamma={gamma:g}, seed={seed} lack {', '.join(missing)}; events need "
                f"every quantity of QUANTITIES. Make the table with dynamics(run)."
            )
        series = own.pivot(index="step", columns="quantity", values="value")  # steps ascend
        found = [(name, "loss", loss_step(losses.loc[losses["set"] == name], d_vocab)) for name in SETS]
        for event, quantity, side, threshold, _ in MECHANISMS:
            step = event_step(series.index.to_numpy(), series[quantity].to_numpy(), threshold, side)
            found.append((event, "mechanism", step))
        rows += [(gamma, seed, *event, bool(np.isnan(event[2]))) for event in found]
    return pd.DataFrame(rows, columns=["gamma", "seed", "event", "event_of", "step", "censored"])


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
    """Step at which values meet ``value side threshold`` and still do at the next checkpoint; nan for never.

    Between the checkpoint before and the one that meets it, where a straight line over log(step + 25) crosses the
    threshold; the checkpoint itself where one of the two values is not finite; the first step where that one meets it.
    The last checkpoint needs no next one. A nan meets nothing.

    Raises RunError for steps that do not ascend, another number of values, or an unknown side.

    >>> round(event_step(np.array([0, 75, 375]), np.array([0.0, 0.2, 0.8]), 0.5, ">="), 6)   # log 100 .. log 400
    175.0
    >>> event_step(np.array([0, 75, 375]), np.array([0.9, 0.2, 0.3]), 0.5, ">=")   # met once, and gone at the next
    nan
    """
    if side not in COMPARE:
        raise RunError(f"there is no side '{side}'; {nearest(side, COMPARE)}")
    if len(steps) != len(values) or (np.diff(steps) <= 0).any():
        raise RunError(
            f"got {len(values)} values at the steps {np.asarray(steps).tolist()}; expected one value a step, steps "
            f"ascending. Sort the checkpoints and drop those that are there twice."
        )
    met = np.array([COMPARE[side](value, threshold) for value in values])
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
    the mechanism came first, and n_after, in which it came after; log2_ratio, the mean over n_both of
    log2((step_mechanism + 25) / (step_loss + 25)), in doublings of step + 25, negative where the mechanism comes first,
    with its 95 % Student t interval over seeds, low and high; n_never and n_loss_never, members in which mechanism or
    loss event never happened by the last step. Ratios between -1 and 1 are below the spacing of checkpoints.

    Args:
        events: as in Dynamics; runs with other seeds may be put below each other.
        circuits: gamma, seed, circuit, one row a member (circuits.parquet). Members that it lacks are "not named".

    Raises RunError where a member has an event, or a circuit, twice.
    """
    by = ["gamma"] if circuits is None else ["gamma", "circuit"]
    table = events
    if circuits is not None:
        _check_once(circuits, ["gamma", "seed"], "a circuit")
        table = events.merge(circuits[["gamma", "seed", "circuit"]], on=["gamma", "seed"], how="left")
        table = table.fillna({"circuit": "not named"})
    _check_once(table, ["gamma", "seed", "event"], "an event")
    names = {of: table.loc[table["event_of"] == of, "event"].unique() for of in ("mechanism", "loss")}
    rows = []
    for _, members in table.groupby(by, sort=True):
        place = {name: members[name].iloc[0] for name in by}
        steps = members.pivot(index="seed", columns="event", values="step").reindex(columns=table["event"].unique())
        for mechanism, loss in product(names["mechanism"], names["loss"]):
            order = _order(*steps[[mechanism, loss]].to_numpy(dtype=np.float64).T)
            rows.append({**place, "mechanism": mechanism, "loss": loss, **order})
    none = {"gamma": 0.0, "circuit": "", "mechanism": "", "loss": "", **_order(np.empty(0), np.empty(0))}
    empty = pd.DataFrame([none]).iloc[:0]  # has the types of the columns
    return pd.DataFrame(rows) if rows else empty


def own_signs(order: pd.DataFrame) -> pd.DataFrame:
    """In how many of the ``n`` members with OWN_SIGN their circuit's sign came before the loss on rsn_train halved.

    Args:
        order: the table of events by circuit. Columns of the result: gamma, n, n_first.
    """
    own = order.loc[(order["loss"] == "rsn_train") & (order["circuit"].replace(OWN_SIGN) == order["mechanism"])]
    return pd.DataFrame(own.groupby("gamma", as_index=False)[["n", "n_first"]].sum())


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
        "n_after": int((mechanism[both] > loss[both]).sum()),
        "log2_ratio": mean,
        "low": low,
        "high": high,
        "n_never": int(np.isnan(mechanism).sum()),
        "n_loss_never": int(np.isnan(loss).sum()),
    }
