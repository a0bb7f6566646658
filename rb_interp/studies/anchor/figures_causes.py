"""Interventions of the anchor study beside their controls, patching matrices, and the order of
events."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.claim import Condition
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.settings import SMALL
from rb_interp.statistics.intervals import interval_or_nan, seeds_text, two_digits
from rb_interp.studies.anchor.checks import AT_HALF, CHECKS
from rb_interp.studies.anchor.claims import CAUSAL, SECOND
from rb_interp.studies.anchor.dynamics import MECHANISMS, OFFSET

PARTS = {
    "resid_pre": "stream, start",
    "q": "queries",
    "k": "keys",
    "v": "values",
    "pattern": "pattern",
    "z": "heads' output",
    "attn_out": "attention",
    "resid_mid": "stream, middle",
    "mlp_out": "MLP",
    "resid_post": "stream, end",
}
"""Components in forward order within a layer, in words."""
ROLES = ("key", "first_anchor", "last_anchor", "anchor", "last", "noise", "all")
MARKS = {
    "average-then-key": "o",
    "gather-at-last-anchor": "^",
    "key-to-anchors": "D",
    "mixed": "s",
    "none": "v",
}
"""Marks of the circuits, named by cause."""
LEGEND_LABELS = {"none": "none: rule not learned", "mixed": "mixed: no circuit's routes"}
"""What the legend says of names that tell of no circuit."""
CHECKPOINT_COLOUR = "#d4d4d4"
CRITERIA = {
    **dict.fromkeys(kit.SETS, "≤ ½ ln d_vocab"),
    **{m.event: f"{kit.SIGNS[m.side]} {two_digits(m.threshold)}" for m in MECHANISMS},
}
"""Rows of the figure of events from above, and the criterion of each."""


def forward(component: str) -> tuple[int, int, str]:
    """Key that sorts components in forward order.

    >>> sorted(["mlp_out.0", "attn_out.1", "attn_out.0"], key=forward)
    ['attn_out.0', 'mlp_out.0', 'attn_out.1']
    """
    part, _, layer = component.partition(".")
    order = list(PARTS)
    return (
        int(layer.split(".")[0]) if layer else 0,
        order.index(part) if part in order else len(order),
        component,
    )


def in_words(component: str) -> str:
    """A component as figures call it.

    >>> in_words("mlp_out.1")
    'L1: MLP'
    """
    part, _, layer = component.partition(".")
    return f"L{layer}: {PARTS[part]}" if part in PARTS and layer.isdigit() else component


class Panel(NamedTuple):
    """One intervention on one set of inputs, and its name in the figure (W$_V$ is that of L0)."""

    intervention: str
    title: str
    set: str = "rsn_train"


PANELS = (
    Panel("forced_average", "L0's attention:\nexactly 1/i"),
    Panel("leading_direction_only", "W$_V$: leading direction\nalone"),
    Panel("without_reasoning", "W$_V$: without reasoning\nanchors"),
    Panel("without_memory", "W$_V$: without memory\nanchors"),
    Panel("key_blocked", "L1 cannot see the\nkey (reasoning inputs)"),
    Panel("key_blocked", "L1 cannot see the\nkey (memory inputs)", "mem"),
    Panel("key_blocked_answers", "L1 cannot see the\nkey (reasoning inputs)"),
    Panel("key_blocked_answers", "L1 cannot see the\nkey (memory inputs)", "mem"),
    Panel("swap_key", "L1's attention\nswapped, by key"),
    Panel("swap_sum", "L0's attention\nswapped, by sum"),
    Panel("swap_key_in_place", "L1's attention,\nsame position, by key"),
    Panel("swap_sum_in_place", "L0's attention,\nsame position, by sum"),
    Panel("swap_key_carried", "L0's attention at\nthe anchors, by key"),
    Panel("swap_sum_carried", "embeddings at the\nanchors, by sum"),
    Panel("number_line", "number line reversed\n(W$_V$'s direction)"),
    Panel("number_line_component", "number line reversed\n(own component)"),
    Panel("forced_average_matched", "L0's attention: 1/i,\nbeside its circuit's"),
    Panel("leading_direction_only_matched", "W$_V$: leading alone,\nbeside the embedding's"),
    Panel("without_reasoning_matched", "W$_V$: without reasoning\nanchors, beside keys"),
    Panel("without_memory_matched", "W$_V$: without memory\nanchors, beside keys"),
)
"""The panels of the figure, row by row, four in a row; the last row has the controls that match."""
EFFECT, CONTROL = -0.23, 0.19
"""Places of effects and controls beside the tick of a rate."""
NATS = "loss_increase"
UNITS = {
    NATS: "nats lost",
    "moved_as_predicted": "share of answers moved",
    "accuracy_drop": "accuracy lost (share)",
}
"""What an intervention is read in, as the axes say it."""


def draw_causes(evidence: Evidence) -> Figure:
    """Effect and control of every intervention by rate: each seed, their mean and its 95 %
    interval."""
    units = evidence.table("effects").groupby("intervention")["quantity"].last().to_dict()
    figure, axes = kit.panels(5, 4, 11.4, 4 * (0.75 + 0.42 * max(len(evidence.gammas), 3)))
    for ax, panel in zip(axes.flat, PANELS, strict=True):
        unit = units.get(panel.intervention, NATS)
        with kit.missing(ax):
            if unit == NATS:
                ax.set_yscale("symlog", linthresh=0.1, linscale=0.7)
                ax.yaxis.set_major_formatter(
                    lambda value, _position: f"{value:g}".replace("-", "−")
                )
            else:
                ax.set_ylim(-0.1, 1.12)
            _effects(ax, evidence, panel)
            ax.set(xlabel="rate γ", ylabel=UNITS[unit])
            ax.set_title(panel.title, fontsize=7.5)
    marks = []
    for gamma in sorted(set(evidence.table("effects")["gamma"])):
        look = kit.gamma_look(gamma, evidence.gammas)
        marks.append(kit.key(f"γ = {gamma:g}: effect, one seed", *look))
    marks.append(kit.key("grey: control, one seed (shape: its rate)", kit.GREY))
    marks.append(kit.line("threshold of a claim (*: for the control)", kit.INK, kit.DASHED, 0.9))
    kit.legend(figure, 3, marks)
    return figure


def _effects(axes: Axes, evidence: Evidence, panel: Panel) -> None:
    any_rows = False
    for number, gamma in enumerate(evidence.gammas):
        rows = [
            row for row in _effects_at(evidence, panel, gamma) if row["effect"] == row["effect"]
        ]
        rows.sort(key=lambda row: row["seed"])
        colour, marker = kit.gamma_look(gamma, evidence.gammas)
        any_rows = any_rows or bool(rows)
        for name, shift, ink in (("effect", EFFECT, colour), ("control", CONTROL, kit.GREY)):
            values = [row[name] for row in rows]
            if values:
                kit.dots(axes, number + shift, values, interval_or_nan(values), ink, marker, 0.08)
    if not any_rows:
        raise MissingEvidenceError(f"This run has no effect of “{' '.join(panel.title.split())}”.")
    margin_labels = {}
    for condition, ids in conditions(panel).items():
        y = level(evidence, condition)
        of_control = condition.of.quantity == "control"
        if np.isfinite(y) and condition.of.gamma in evidence.gammas:
            middle = evidence.gammas.index(condition.of.gamma) + (CONTROL if of_control else EFFECT)
            kit.dashed(axes, middle - 0.13, middle + 0.24, y, zorder=5)
            margin_labels[f"{ids} *" if of_control else ids] = y
    kit.zero(axes)
    kit.rates_axis(axes, evidence)
    kit.margin(axes, margin_labels)


def conditions(panel: Panel) -> dict[Condition, str]:
    """The conditions that are drawn in a panel, each with the claims whose condition it is.

    >>> list(conditions(PANELS[1]).values())
    ['M3', 'M3']
    """
    claim_ids: dict[Condition, list[str]] = {}
    for claim in (*(check.check for check in CHECKS), *CAUSAL, *SECOND):
        for condition in claim.conditions:
            if (condition.of.probe, condition.of.set) == (panel.intervention, panel.set):
                claim_ids.setdefault(condition, []).append(claim.id)
    return {condition: ", ".join(ids) for condition, ids in claim_ids.items()}


def stage_of(intervention: str, gamma: float, gammas: Sequence[float]) -> str:
    """When an intervention is read: final, or half; at other rates than the small one at the same
    step, matched.

    >>> [stage_of("forced_average", gamma, [0.3, 0.8]) for gamma in (0.8, 0.3)], stage_of("swap_key", 0.3, [0.3])
    (['half', 'matched'], 'final')
    """
    if intervention not in AT_HALF:
        return "final"
    return "half" if gamma == SMALL or SMALL not in gammas else "matched"


def _effects_at(evidence: Evidence, panel: Panel, gamma: float) -> list[dict[Any, Any]]:
    """Rows of the effects that a panel shows at a rate."""
    stage = stage_of(panel.intervention, gamma, evidence.gammas)
    where = {"intervention": panel.intervention, "set": panel.set, "gamma": gamma, "stage": stage}
    return evidence.records("effects", **where)


def level(evidence: Evidence, condition: Condition) -> float:
    """Where a threshold lies for the mean over seeds: as it is, or above the control or above what
    is subtracted.

    Returns NaN where the run lacks what the threshold is measured from.
    """
    base = condition.minus
    if base is None and condition.of.quantity == "difference":
        base = replace(condition.of, quantity="control")
    if base is None:
        return condition.threshold
    rows = _effects_at(evidence, Panel(base.probe, "", base.set), base.gamma or SMALL)
    return condition.threshold + interval_or_nan([row[base.quantity] for row in rows]).estimate


def draw_patching(evidence: Evidence) -> Figure:
    """Recovered logit difference by component, layer and role: a row per counterfactual, a column
    per rate.

    The small initialisation has one column a circuit. Another rate has a circuit's name if all its
    members share it.
    """
    table = _with_cause(evidence, evidence.table("patching", stage="final"), "not named")
    table["name"] = table["component"] + "." + table["layer"].astype(str)
    groups: list[tuple[Any, str, pd.DataFrame]] = []
    for gamma, members in table.groupby("gamma"):
        by_cause = [(gamma, str(cause), rows) for cause, rows in members.groupby("cause")]
        split = gamma == SMALL or len(by_cause) == 1
        groups += by_cause if split else [(gamma, "", members)]
    names = sorted(set(table["name"]), key=forward)
    labels = [in_words(name) for name in names]
    roles = [role for role in ROLES if role in set(table["role"])]
    width = max(kit.WIDTH, 1.0 + len(groups) * (0.25 + 0.2 * len(roles)))
    height = 1.6 + 0.38 * len(names)
    figure, axes = kit.panels(2, len(groups), height, width, sharex=True, sharey=True)
    for line, changed in zip(axes, ("key", "anchors"), strict=True):
        for panel, (gamma, circuit, members) in zip(line, groups, strict=True):
            rows = members.query("counterfactual == @changed")
            matrix = rows.pivot_table("recovered", "name", "role", dropna=False)
            matrix = matrix.reindex(index=names, columns=roles)
            kit.share_map(panel, matrix, labels, roles, aspect="auto", size=5.5)
            panel.tick_params(axis="x", labelrotation=90)
            seeds = seeds_text(len(set(rows["seed"])))
            control = f"control at most {two_digits(rows['control'].abs().to_numpy().max())}"
            title = filter(None, [f"γ = {gamma:g} ({seeds})", circuit, control])
            panel.set_title("\n".join(title), fontsize=7)
        line[0].set_ylabel(f"inputs differ in the {changed}")
    look: dict[str, Any] = {"location": "bottom", "shrink": 0.45}
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="recovered logit difference", **look)
    return figure


def _with_cause(evidence: Evidence, table: pd.DataFrame, unnamed: str) -> pd.DataFrame:
    """A table of members with their circuits by cause."""
    causes = evidence.table("circuits")[["gamma", "seed", "cause"]]
    return table.merge(causes, on=["gamma", "seed"], how="left").fillna({"cause": unnamed})


def draw_dynamics(evidence: Evidence) -> Figure:
    """Step of every event in every seed, one column per rate: losses above, mechanisms that are
    dated below."""
    events = _with_cause(evidence, evidence.table("events"), "none")
    values = evidence.table("dynamics")
    gammas = sorted(events["gamma"].unique().tolist())
    names = [event for event in CRITERIA if event in set(events["event"])]
    last = float(values["step"].to_numpy().max())
    never = 2.5 * (last + OFFSET)
    ticks = [0, *(10**power for power in range(2, 1 + int(np.log10(max(last, 100)))))]
    positions = [*(step + OFFSET for step in ticks), never]
    width = max(kit.WIDTH, 2.1 + 1.7 * len(gammas))
    height = 1.3 + 0.31 * len(names)
    figure, [axes] = kit.panels(1, len(gammas), height, width, sharex=True, sharey=True)
    for panel, gamma in zip(axes, gammas, strict=True):
        of_rate = events.query("gamma == @gamma").sort_values("seed")
        for row, event in enumerate(names):
            colour = kit.SET_COLOURS.get(event, kit.INK)
            _dates(panel, row, of_rate.query("event == @event"), never, colour)
        seed_counts = values.query("gamma == @gamma").groupby("step")["seed"].nunique()
        seeds = pd.Series(seed_counts).to_dict()
        for step in [step for step, n in seeds.items() if n == max(seeds.values())]:
            panel.axvline(step + OFFSET, color=CHECKPOINT_COLOUR, lw=0.6, zorder=0)
        panel.set(xscale="log", ylim=(len(names) - 0.4, -0.6), title=kit.title_of(evidence, gamma))
        panel.set_xlim(0.8 * OFFSET, 1.25 * never)
        panel.set_xticks(positions, [*(f"{step:,}" for step in ticks), "never"])
        panel.set_xticks([], minor=True)
        panel.tick_params(axis="x", labelrotation=45)
    labels = [f"loss: {kit.SETS[name]}" if name in kit.SETS else name for name in names]
    labels = [f"{label}\n{CRITERIA[name]}" for label, name in zip(labels, names, strict=True)]
    axes[0].set_yticks(range(len(names)), labels)
    axes[0].tick_params(axis="y", labelsize=6.5)
    figure.supxlabel(f"training step (scaled as the logarithm of step + {OFFSET})", fontsize=7.5)
    marks = []
    for name, marker in MARKS.items():
        if name in set(events["cause"]):
            marks.append(kit.key(LEGEND_LABELS.get(name, name), marker=marker))
    marks.append(kit.line("checkpoint that all seeds have", CHECKPOINT_COLOUR, width=1.2))
    marks.append(kit.line("mean, 95 % interval", kit.INK))
    kit.legend(figure, 4, marks)
    return figure


def _dates(axes: Axes, row: int, members: pd.DataFrame, never: float, colour: str) -> None:
    """Step of one event in every seed, with mean and interval of those during training."""
    heights = row + np.linspace(-0.3, 0.1, len(members))
    steps = (members["step"] + OFFSET).fillna(never)
    for x, y, cause in zip(steps, heights, members["cause"], strict=True):
        kit.open_dots(axes, x, y, colour, MARKS.get(cause, "P"), ms=3.2, mew=0.8, zorder=3)
    during = members.query("step > 0")["step"].to_numpy(dtype=float)
    mean, low, high = np.exp(np.array(interval_or_nan(np.log(during + OFFSET))))
    axes.plot([mean] * 2, [row + 0.2, row + 0.42], color=colour, lw=1.8, zorder=4)
    axes.plot([low, high], [row + 0.31] * 2, color=colour, lw=1.0)
