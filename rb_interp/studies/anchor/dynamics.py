"""Dynamics: when does each mechanism appear, and when does each loss fall?

Along the checkpoints that a run kept of a member (step 0, the log-spaced ones, the last, and its
own ``half``), each quantity below is read on rsn_train rows, without null and untrained model. The
values of a quantity give one event:

    mechanism   the first checkpoint that meets the threshold and is followed by one that meets it
                too (or is the last); its step lies between that checkpoint and the one before,
                where the line between the two values meets the threshold, linear in log(step + 25);
                met at the first checkpoint already: that one, "from the start"
    loss        the first evaluation with f_X <= 1/2, f_X = min(L_X / ln d_vocab, 1), for X = mem,
                rsn_train, rsn_test
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

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import pandas as pd
from jaxtyping import Float, Real

from rb_interp import probes
from rb_interp.claims.claim import COMPARE
from rb_interp.errors import RunError
from rb_interp.interventions.sites import Site
from rb_interp.models.arrays import ActivationSource
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.variance import component_hooks
from rb_interp.runs import Run, StudyResult, readings_table
from rb_interp.runs.measurement import MemberModels, measure_members
from rb_interp.runs.results import frame
from rb_interp.statistics.intervals import t_interval
from rb_interp.statistics.learning_order import fraction_left
from rb_interp.studies.anchor.circuits import ANCHORS_MIN, CARRY_MIN, KEY_MIN
from rb_interp.studies.anchor.claims import BY_ID
from rb_interp.tasks import SETS, Inputs
from rb_interp.tasks.anchor import GROUPS
from rb_interp.tasks.dataset import HALF
from rb_interp.training.member_group import Member

OPTIONS: dict[Callable[..., probes.Reading], dict[str, Any]] = {
    probes.value_alignment: {"groups": GROUPS, "contrast": ("reasoning", "memory")},
    probes.geometry: {
        "groups": GROUPS,
        "clusters": ("memory", "reasoning"),
        "ordered": ("key", "reasoning"),
    },
}
"""Which tokens a probe compares."""


Side = Literal[">=", "<=", ">", "<"]
OFFSET = 25
"""Added to steps before a logarithm, so that step 0 has one: an evaluation interval of the quick
preset."""


class Mechanism(NamedTuple):
    """A mechanism's sign."""

    event: str
    quantity: str
    """What is read, as probe/quantity."""
    side: Side
    threshold: float


def _claimed(event: str, quantity: str, claim: str, number: int = 0) -> Mechanism:
    """A mechanism whose sign is what a claim asks for."""
    condition = BY_ID[claim].conditions[number]
    return Mechanism(event, quantity, condition.operator, condition.threshold)


MECHANISMS = (
    Mechanism("L0 stops averaging", "uniformity/tv", ">", BY_ID["M1"].conditions[0].threshold),
    _claimed("one direction dominates L0's values", "value_alignment/spectrum_ratio", "M3"),
    _claimed("that direction aligns with reasoning anchors", "value_alignment/cos_reasoning", "M4"),
    _claimed("L0 writes the anchor sum", "variance_explained/attn_out.0:anchor_sum", "M8", 1),
    Mechanism("L0 carries the key", "attention_to_key/key_from_last_anchor", ">=", CARRY_MIN),
    Mechanism("the last layer looks at the key", "attention_by_role/key", ">=", KEY_MIN),
    Mechanism(
        "the last layer looks at the anchors", "attention_by_role/anchors", ">=", ANCHORS_MIN
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
    """Read every mechanism of every member at every checkpoint of the run, and date the events.

    Returns the tables ``dynamics`` (a row per member, checkpoint and quantity, as probe/quantity)
    and ``events``. Members whose training diverged are in neither. Raises RunError if a checkpoint
    is missing or broken.
    """
    config: Any = run.config
    sweep = run.sweep()
    halves = sweep.stage_steps("half")

    def read(models: MemberModels, member: Member) -> Iterator[tuple[str, str, probes.Reading]]:
        data = sweep.dataset(member.seed)
        inputs = data.inputs(data.sample("rsn_train", min(ROWS, config.probe_rows)))
        steps: list[int | str] = list(sweep.checkpoint_steps)
        if halves[member] >= 0 and halves[member] not in steps:
            steps.append("half")
        for step in steps:
            models.load(member, step)
            values = mechanism_values(models.model, inputs)
            table = pd.DataFrame(values.items(), columns=["quantity", "value"])
            yield "", "rsn_train", probes.Reading("dynamics", {}, tables={"dynamics": table})

    table = measure_members(run, read, [""], progress).tables["dynamics"]
    keys = ["gamma", "seed", "step"]
    values = pd.DataFrame(table[[*keys, "quantity", "value"]])
    values = values.sort_values(keys, kind="stable", ignore_index=True)
    events = event_table(values, sweep.curves(), config.task.d_vocab)
    return StudyResult(readings_table(), {"dynamics": values, "events": events})


def mechanism_values(model: HookedModel, inputs: Inputs) -> dict[str, float]:
    """QUANTITIES of one model on the given inputs.

    Where a layer has several heads, the one that shows the most counts: the lowest tv, the highest
    of all else; the attn_out's shares of variance sum the heads. Raises what the probes raise.
    """
    last = model.cfg.n_layers - 1
    activations = one_pass(model, inputs)
    values = {}

    def read(probe: Any, **options: Any) -> Mapping[str, float]:
        source = (
            model if probe in OPTIONS else activations
        )  # those that compare tokens read weights
        return probe(source, inputs, n_null=0, **options, **OPTIONS.get(probe, {})).values

    def over_heads(probe: Any, layer: int, *quantities: str) -> None:
        heads = [read(probe, layer=layer, head=head) for head in range(model.cfg.n_heads)]
        most = min if probe is probes.uniformity else max
        for quantity in quantities:
            value = most(head[quantity] for head in heads)
            values[f"{probe.__name__}/{quantity}"] = float(value)

    over_heads(probes.uniformity, 0, "tv")
    over_heads(probes.value_alignment, 0, "spectrum_ratio", "cos_reasoning", "cos_memory")
    over_heads(probes.attention_to_key, 0, "key_from_last_anchor")
    over_heads(probes.attention_by_role, last, "key", "anchors")
    shares = read(probes.variance_explained)
    values["variance_explained/attn_out.0:anchor_sum"] = float(shares["attn_out.0:anchor_sum"])
    values["variance_explained/attn_out.last:key"] = float(shares[f"attn_out.{last}:key"])
    embedding = read(probes.geometry)
    values["geometry/order_rho"] = float(embedding["order_rho"])
    values["geometry/pc1_key"] = float(embedding["pc1_key"])
    return values


def event_table(values: pd.DataFrame, curves: pd.DataFrame, d_vocab: int) -> pd.DataFrame:
    """The events of every member of a curves table: gamma, seed, event, event_of, step, censored.

    Args:
        values: gamma, seed, step, quantity, value. curves: the learning curves of the same members.
    """
    events = []
    for keys, member in values.groupby(["gamma", "seed"], sort=True):
        gamma, seed = cast(tuple[float, int], keys)
        losses = curves.query("gamma == @gamma and seed == @seed")
        for set in SETS:
            step = loss_step(losses.query("set == @set"), d_vocab)
            events.append((gamma, seed, set, "loss", step))
        series = member.pivot(index="step", columns="quantity", values="value")  # steps ascend
        steps = series.index.to_numpy()
        for event, quantity, side, threshold in MECHANISMS:
            step = event_step(steps, series[quantity].to_numpy(), threshold, side)
            events.append((gamma, seed, event, "mechanism", step))
    table = pd.DataFrame(events, columns=["gamma", "seed", "event", "event_of", "step"])
    return table.assign(censored=table["step"].isna())


def loss_step(curve: pd.DataFrame, d_vocab: int) -> float:
    """Step of the first evaluation with f <= 1/2 in one set's rows of a curves table; nan for none.

    >>> curve = pd.DataFrame({"step": [0, 25, 50], "loss": np.log([4, 2, 3])})
    >>> loss_step(curve, d_vocab=4), loss_step(curve, d_vocab=2)
    (25.0, nan)
    """
    ordered = curve.sort_values("step")
    left = fraction_left(ordered["loss"].to_numpy(dtype=np.float64), d_vocab)
    steps = ordered["step"].to_numpy()[left <= HALF]
    return float(steps[0]) if len(steps) else np.nan


def event_step(
    steps: Real[np.ndarray, " step"],
    values: Float[np.ndarray, " value"],
    threshold: float,
    side: Side,
) -> float:
    """Step at which values meet ``value side threshold`` and still do at the next checkpoint.

    It lies between the checkpoint before and the one that meets it, where a straight line over
    log(step + 25) crosses the threshold; it is the checkpoint itself if one of the two values is
    not finite, the first step if that one meets it, and nan for never. The last checkpoint needs no
    next one. A nan meets nothing.

    >>> steps = np.array([0, 75, 375])  # log(step + 25): log 25, log 100, log 400
    >>> round(event_step(steps, np.array([0.0, 0.2, 0.8]), 0.5, ">="), 6)
    175.0
    >>> event_step(steps, np.array([0.9, 0.2, 0.3]), 0.5, ">=")  # met once, and gone at the next
    nan
    """
    met = np.array([COMPARE[side](value, threshold) for value in values])
    stays = met & np.append(met[1:], True)
    if not stays.any():
        return np.nan
    first = int(stays.argmax())
    if first == 0:
        return float(steps[0])
    before = values[first - 1]
    after = values[first]
    if not np.isfinite([before, after]).all():
        return float(steps[first])
    share = (threshold - before) / (after - before)
    low, high = np.log(steps[first - 1 : first + 1] + OFFSET)
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

    Raises RunError if a member has an event, or a circuit, twice.
    """
    table = events.merge(circuits[["gamma", "seed", "circuit"]], on=["gamma", "seed"], how="left")
    table = table.fillna({"circuit": "not named"})
    repeated = table.loc[table.duplicated(["gamma", "seed", "event"]), ["gamma", "seed"]]
    if len(repeated):
        gamma, seed = repeated.iloc[0]
        raise RunError(
            f"the member with gamma={gamma:g}, seed={seed:g} is there twice; give other seeds to "
            f"each run."
        )
    mechanisms = table.query("event_of == 'mechanism'")["event"].unique()
    losses = table.query("event_of == 'loss'")["event"].unique()
    rows = []
    for keys, members in table.groupby(["gamma", "circuit"], sort=True):
        steps = members.pivot(index="seed", columns="event", values="step")
        steps = steps.reindex(columns=[*mechanisms, *losses]).astype(np.float64)
        for mechanism, loss in product(mechanisms, losses):
            order = _order(steps[mechanism].to_numpy(), steps[loss].to_numpy())
            rows.append((*cast(tuple, keys), mechanism, loss, *order))
    return frame(rows, ORDER_COLUMNS)


ORDER_COLUMNS = (
    "gamma circuit:str mechanism:str loss:str n n_both:int n_first:int n_after:int log2_ratio low "
    "high n_never:int n_loss_never:int"
)


def _order(
    mechanism: Float[np.ndarray, " seed"], loss: Float[np.ndarray, " seed"]
) -> tuple[float, ...]:
    """The columns of the order table from ``n`` on."""
    dated = np.isfinite(mechanism) & np.isfinite(loss)
    ratio = np.log2((mechanism[dated] + OFFSET) / (loss[dated] + OFFSET))
    n_first = (mechanism[dated] < loss[dated]).sum()
    n_after = (mechanism[dated] > loss[dated]).sum()
    n_never = np.isnan(mechanism).sum()
    n_loss_never = np.isnan(loss).sum()
    interval = t_interval(ratio)
    return (len(dated), dated.sum(), n_first, n_after, *interval, n_never, n_loss_never)


def one_pass(model: HookedModel, inputs: Inputs, components: bool = True) -> ActivationSource:
    """All that the probes read of some rows: the patterns, and what the components write."""
    hooks = [Site("pattern", layer).hook for layer in range(model.cfg.n_layers)]
    if components:
        hooks += component_hooks(model).values()
    return probes.captured(model, inputs.tokens, hooks)
