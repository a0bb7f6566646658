"""Dynamics: when does each mechanism appear, and when does each loss fall?

Along the checkpoints that a run kept of a member (step 0, the log-spaced ones, the last, and its
own ``half``), each quantity below is read on rsn_train rows, without null and untrained model. The
values of a quantity give one event:

    mechanism   the first checkpoint that meets the threshold and is followed by one that meets it too (or is the last);
                its step lies between that checkpoint and the one before, where the line between the
                two values meets the threshold, linear in log(step + 25); met at the first
                checkpoint already: that one, "from the start"
    loss        the first evaluation with f_X <= 1/2, f_X = min(L_X / ln d_vocab, 1), for X = mem, rsn_train, rsn_test
    never       nan, censored at the last step

The thresholds are the claims' and the circuit rules' own. Two events are compared by log2((a + 25)
/ (b + 25)).

How it can mislead. An event's step is known to the spacing of checkpoints only, about a factor 2 at
the quick preset. All seeds share those checkpoints, so an interval over seeds does not contain that
error: a mean of -.5 doublings with a narrow interval is one checkpoint's worth. Only the order
against rsn_train is finer, because each member is kept at the very evaluation at which that loss
has halved; how far before it is not. What comes and goes between two checkpoints is missed. The
order is one of thresholds, and thresholds differ in how late they lie: a share of .80 is met well
after the share began to rise, so "after the loss" may mean that a mechanism matures then, not that
it begins. A threshold may also be met by accident: at the quick sizes s1 / s2 passes 1.5 within 25
steps, long before any loss moves, and the attention of a large initialisation has "stopped
averaging" before training. key-to-anchors and average-then-key exclude each other, and signs of
both are in this list: split the order table by circuit. Coming first is no cause; patching tests
causes.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Real

from rb_interp import probes
from rb_interp.claims.rule import COMPARE
from rb_interp.errors import RunError
from rb_interp.models.protocol import HookedModel
from rb_interp.runs import Run, StudyResult, readings_table
from rb_interp.runs.member_models import MemberModels, measure_members
from rb_interp.statistics.intervals import t_interval
from rb_interp.statistics.learning_order import fraction_left
from rb_interp.studies.anchor.circuits import ANCHORS_MIN, CARRY_MIN, KEY_MIN
from rb_interp.studies.anchor.claims import BY_ID
from rb_interp.studies.anchor.readings import OPTIONS, one_pass
from rb_interp.tasks import SETS, Inputs
from rb_interp.tasks.dataset import HALF
from rb_interp.training.member_group import Member

Side = Literal[">=", "<=", ">", "<"]
OFFSET = 25
"""Added to steps before a logarithm, so that step 0 has one: an evaluation interval of the quick
preset."""


class Mechanism(NamedTuple):
    """A mechanism's sign: its event, the quantity that is read, the criterion, and where that was
    fixed."""

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
    Mechanism(
        "L0 stops averaging", "uniformity/tv", ">", BY_ID["M1"].conditions[0].threshold, "M1"
    ),
    _claimed("one direction dominates L0's values", "value_alignment/spectrum_ratio", "M3"),
    _claimed("that direction aligns with reasoning anchors", "value_alignment/cos_reasoning", "M4"),
    _claimed("L0 writes the anchor sum", "variance_explained/attn_out.0:anchor_sum", "M8", 1),
    Mechanism(
        "L0 carries the key", "attention_to_key/key_from_last_anchor", ">=", CARRY_MIN, "circuit"
    ),
    Mechanism("the last layer looks at the key", "attention_by_role/key", ">=", KEY_MIN, "circuit"),
    Mechanism(
        "the last layer looks at the anchors",
        "attention_by_role/anchors",
        ">=",
        ANCHORS_MIN,
        "circuit",
    ),
    _claimed("the last layer writes the key", "variance_explained/attn_out.last:key", "M8"),
    _claimed("reasoning anchors are ordered", "geometry/order_rho", "E1"),
    _claimed("the leading component orders the keys", "geometry/pc1_key", "E3"),
)
"""Every mechanism event. In quantities, ``last`` is the last layer, where ``attention_by_role`` is
read as well."""
QUANTITIES = (*(mechanism.quantity for mechanism in MECHANISMS), "value_alignment/cos_memory")
"""What is read at each checkpoint, as probe/quantity; the last dates no event; cos_reasoning is
compared with it."""

ROWS = 300
"""Inputs that the probes see at each checkpoint, at most: enough for a mean to .03, and cheap."""


def dynamics(run: Run, progress: bool = True) -> StudyResult:
    """Read every mechanism of every member at every checkpoint that the run kept, and date the
    events.

    Returns the tables ``dynamics`` (a row per member, kept checkpoint and quantity, as
    probe/quantity) and ``events``. Members whose training diverged are in neither. Raises RunError
    where a checkpoint is missing or broken.
    """
    config: Any = run.config
    sweep, halves = run.sweep(), run.sweep().stage_steps("half")

    def read(models: MemberModels, member: Member) -> Iterator[tuple[str, str, probes.Reading]]:
        data, kept = sweep.dataset(member.seed), sweep.checkpoint_steps
        inputs = data.inputs(data.sample("rsn_train", min(ROWS, config.probe_rows)))
        for step in (
            *kept,
            *(["half"] if halves[member] >= 0 and halves[member] not in kept else []),
        ):
            models.load(member, step)
            found = pd.Series(mechanism_values(models.model, inputs), name="value").rename_axis(
                "quantity"
            )
            yield (
                "",
                "rsn_train",
                probes.Reading("dynamics", {}, tables={"dynamics": found.reset_index()}),
            )

    places = ["gamma", "seed", "step"]
    values = measure_members(run, read, [""], progress).tables["dynamics"][
        [*places, "quantity", "value"]
    ]
    values = pd.DataFrame(values).sort_values(places, kind="stable", ignore_index=True)
    return StudyResult(
        readings_table(),
        {"dynamics": values, "events": event_table(values, sweep.curves(), config.task.d_vocab)},
    )


def mechanism_values(model: HookedModel, inputs: Inputs) -> dict[str, float]:
    """Every one of QUANTITIES, of one model on the given inputs.

    Where a layer has several heads, the one that shows the most counts: the lowest tv, the highest
    of all else; the attn_out's shares of variance sum the heads. Raises what the probes raise.
    """
    last, heads, seen = model.cfg.n_layers - 1, range(model.cfg.n_heads), one_pass(model, inputs)

    def read(probe: Any, **where: int) -> dict[str, float]:
        source = model if probe in OPTIONS else seen  # those that compare tokens read weights
        return dict(probe(source, inputs, n_null=0, **where, **OPTIONS.get(probe, {})).values)

    def over_heads(probe: Any, layer: int, *names: str) -> dict[str, float]:
        found = [read(probe, layer=layer, head=head) for head in heads]
        most = min if probe is probes.uniformity else max
        return {
            f"{probe.__name__}/{name}": float(most(values[name] for values in found))
            for name in names
        }

    written, embedding = read(probes.variance_explained), read(probes.geometry)
    return {
        **over_heads(probes.uniformity, 0, "tv"),
        **over_heads(probes.value_alignment, 0, "spectrum_ratio", "cos_reasoning", "cos_memory"),
        **over_heads(probes.attention_to_key, 0, "key_from_last_anchor"),
        **over_heads(probes.attention_by_role, last, "key", "anchors"),
        "variance_explained/attn_out.0:anchor_sum": float(written["attn_out.0:anchor_sum"]),
        "variance_explained/attn_out.last:key": float(written[f"attn_out.{last}:key"]),
        **{f"geometry/{name}": float(embedding[name]) for name in ("order_rho", "pc1_key")},
    }


def event_table(values: pd.DataFrame, curves: pd.DataFrame, d_vocab: int) -> pd.DataFrame:
    """The events of every member of a curves table: gamma, seed, event, event_of, step, censored.

    Args:
        values: gamma, seed, step, quantity, value. curves: the learning curves of the same members.
    """
    rows = []
    for place, own in values.groupby(["gamma", "seed"], sort=True):
        gamma, seed = cast(tuple[float, int], place)
        losses = curves.loc[(curves["gamma"] == gamma) & (curves["seed"] == seed)]
        series = own.pivot(index="step", columns="quantity", values="value")  # steps ascend
        found = [
            (name, "loss", loss_step(losses.loc[losses["set"] == name], d_vocab)) for name in SETS
        ]
        for event, quantity, side, threshold, _ in MECHANISMS:
            step = event_step(series.index.to_numpy(), series[quantity].to_numpy(), threshold, side)
            found.append((event, "mechanism", step))
        rows += [(gamma, seed, *event, bool(np.isnan(event[2]))) for event in found]
    return pd.DataFrame(rows, columns=["gamma", "seed", "event", "event_of", "step", "censored"])


def loss_step(curve: pd.DataFrame, d_vocab: int) -> float:
    """Step of the first evaluation with f <= 1/2 in one set's rows of a curves table; nan where
    that never happens.

    >>> curve = pd.DataFrame({"step": [0, 25, 50], "loss": np.log([4, 2, 3])})
    >>> loss_step(curve, d_vocab=4), loss_step(curve, d_vocab=2)
    (25.0, nan)
    """
    ordered = curve.sort_values("step")
    reached = fraction_left(ordered["loss"].to_numpy(dtype=np.float64), d_vocab) <= HALF
    return float(ordered["step"].to_numpy()[reached.argmax()]) if reached.any() else np.nan


def event_step(
    steps: Real[np.ndarray, " step"],
    values: Float[np.ndarray, " value"],
    threshold: float,
    side: Side,
) -> float:
    """Step at which values meet ``value side threshold`` and still do at the next checkpoint; nan
    for never.

    Between the checkpoint before and the one that meets it, where a straight line over log(step +
    25) crosses the threshold; the checkpoint itself where one of the two values is not finite; the
    first step where that one meets it. The last checkpoint needs no next one. A nan meets nothing.

    >>> round(event_step(np.array([0, 75, 375]), np.array([0.0, 0.2, 0.8]), 0.5, ">="), 6)   # log 100 .. log 400
    175.0
    >>> event_step(np.array([0, 75, 375]), np.array([0.9, 0.2, 0.3]), 0.5, ">=")   # met once, and gone at the next
    nan
    """
    if (np.diff(steps) <= 0).any():
        raise RunError(
            "the steps do not ascend; sort the checkpoints and drop those that are there twice."
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


def order_table(events: pd.DataFrame, circuits: pd.DataFrame) -> pd.DataFrame:
    """Each mechanism event beside each loss event over seeds, by gamma and circuit.

    Columns: gamma, circuit, mechanism, loss; n (members); n_both, in which both happened; n_first,
    of those in which the mechanism came first, and n_after, in which it came after; log2_ratio, the
    mean over n_both of log2((step_mechanism + 25) / (step_loss + 25)), in doublings of step + 25,
    negative where the mechanism comes first, with its 95 % Student t interval over seeds, low and
    high; n_never and n_loss_never, members in which mechanism or loss event never happened by the
    last step. Ratios between -1 and 1 are below the spacing of checkpoints.

    Args:
        events: as in `event_table`; runs with other seeds may be put below each other.
        circuits: gamma, seed, circuit, one row a member. Members that it lacks are "not named".

    Raises RunError where a member has an event, or a circuit, twice.
    """
    table = events.merge(circuits[["gamma", "seed", "circuit"]], on=["gamma", "seed"], how="left")
    table = table.fillna({"circuit": "not named"})
    twice = table.loc[table.duplicated(["gamma", "seed", "event"]), ["gamma", "seed"]]
    if len(twice):
        gamma, seed = twice.iloc[0]
        raise RunError(
            f"the member with gamma={gamma:g}, seed={seed:g} is there twice; give other seeds to "
            f"each run."
        )
    names = [table.loc[table["event_of"] == of, "event"].unique() for of in ("mechanism", "loss")]
    rows = []
    for place, members in table.groupby(["gamma", "circuit"], sort=True):
        gamma, circuit = cast(tuple[float, str], place)
        steps = members.pivot(index="seed", columns="event", values="step").reindex(
            columns=table["event"].unique()
        )
        for mechanism, loss in product(*names):
            order = _order(*steps[[mechanism, loss]].to_numpy(dtype=np.float64).T)
            rows.append(
                {"gamma": gamma, "circuit": circuit, "mechanism": mechanism, "loss": loss, **order}
            )
    empty = {
        "gamma": 0.0,
        "circuit": "",
        "mechanism": "",
        "loss": "",
        **_order(np.empty(0), np.empty(0)),
    }
    return pd.DataFrame(rows or [empty]).iloc[
        : len(rows)
    ]  # without rows too it has the types of the columns


def _order(
    mechanism: Float[np.ndarray, " seed"], loss: Float[np.ndarray, " seed"]
) -> dict[str, int | float]:
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
