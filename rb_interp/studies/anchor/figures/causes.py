"""What each intervention costs or moves, beside its control, against the initialisation rate, with each threshold.

PANELS say which interventions are shown, what each is read in and when, and where its thresholds lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims.criterion import Condition
from rb_interp.claims.learning_order import SMALL
from rb_interp.figures import legend
from rb_interp.figures.evidence import NOTHING, Evidence, MissingEvidenceError
from rb_interp.figures.numbers import SIGNS, interval_text, share_text, two_digits
from rb_interp.figures.panels import gamma_axis, interval_of, mean_at, no_reading, note, offsets, spread_of, try_panel
from rb_interp.figures.spec import Caption
from rb_interp.figures.style import GREY, INK, WIDTH, gamma_colour, gamma_marker, new_figure
from rb_interp.statistics.intervals import Interval
from rb_interp.studies.anchor.checks import AT_HALF, CHECKS
from rb_interp.studies.anchor.claims import CAUSAL, SECOND

COLUMNS = 4
LINEAR = 0.1
"""Nats within which the scale is linear; it is logarithmic beyond."""
SLOTS = {"effect": -0.23, "control": 0.19}
SHORT_DASHES = (0, (2.4, 1.2))


def draw_causes(evidence: Evidence) -> Figure:
    """Effect and control of every intervention by rate: each seed, their mean and its 95 % interval."""
    evidence.table("effects")
    rows = [PANELS[start : start + COLUMNS] for start in range(0, len(PANELS), COLUMNS)]
    figure = new_figure(0.4 + 2.2 * len(rows), max(WIDTH, COLUMNS * (0.55 + 0.42 * len(evidence.gammas))))
    grid, drawn = figure.subplots(len(rows), COLUMNS, squeeze=False), {}
    for line, panels in zip(grid, rows, strict=True):
        lines = max(len(conditions(panel)) for panel in panels)
        for axes, panel in zip(line, panels, strict=True):
            try_panel(axes, _panel, evidence, panel)
            _heading(axes, panel, lines)
            if axes.lines:
                drawn[axes] = quantity_of(evidence, panel)
        _nats_scale([axes for axes in line if drawn.get(axes) == NATS])
        _units(line, drawn)
    _share_scale([axes for axes, quantity in drawn.items() if quantity != NATS])
    legend.above(figure, _entries(evidence), columns=5, columnspacing=1.2)
    return figure


def _units(row: np.ndarray, drawn: dict[Axes, str]) -> None:
    """The unit beside the first panel of each unit in a row, without numbers at the panels that share it."""
    before = ""
    for axes in row:
        unit = drawn.get(axes, "")
        if unit and unit == before:
            axes.tick_params(labelleft=False)
        elif unit:
            axes.set_ylabel(UNITS[unit])
        before = unit


def _panel(axes: Axes, evidence: Evidence, panel: Panel) -> None:
    found = {gamma: by_seed(evidence, panel, gamma) for gamma in evidence.gammas}
    if not any(found.values()):
        raise MissingEvidenceError(f"This run has no effect of {panel.intervention}.")
    for place, (gamma, rows) in enumerate(found.items()):
        if not rows:
            no_reading(axes, place, 0.5, va="center", fontsize=6.5)
            continue
        colour, marker = gamma_colour(gamma, evidence.gammas), gamma_marker(gamma, evidence.gammas)
        for name, ink in (("effect", colour), ("control", GREY)):
            interval = over_seeds(evidence, panel, gamma, name)
            values = np.array([row[name] for row in rows], dtype=float)
            _seeds(axes, place + SLOTS[name], values, interval, ink, marker, filled=name == "effect")
    axes.axhline(0, color="#bdbdbd", lw=0.6, zorder=0)
    _thresholds(axes, evidence, panel)
    gamma_axis(axes, evidence)
    axes.set_xlabel("rate γ", labelpad=1)


def _seeds(
    axes: Axes, x: float, values: np.ndarray, interval: Interval, colour: object, marker: str, filled: bool
) -> None:
    """Seeds as dots beside each other, filled or hollow; on their right the mean as a bar and its interval."""
    values = values[np.isfinite(values)]
    if not len(values):
        return
    face = {"mfc": colour, "mec": "white", "mew": 0.3} if filled else {"mfc": "white", "mec": colour, "mew": 0.7}
    axes.plot(x + offsets(len(values), 0.08), values, ls="", marker=marker, ms=3.1, zorder=3, **face)
    mean_at(axes, x + 0.165, interval, colour, half=0.055, bar=2.2, whisker=1.1)


def _thresholds(axes: Axes, evidence: Evidence, panel: Panel) -> None:
    """Thresholds as dashed lines across the marks that they are about; the lowest of several there is named below."""
    found: dict[tuple[float, str], list[tuple[float, str]]] = {}
    for condition, ids in conditions(panel).items():
        y = level(evidence, condition)
        if np.isfinite(y) and condition.of.gamma in evidence.gammas:
            found.setdefault((condition.of.gamma, marks_of(condition)), []).append((y, ids.split(",")[0]))
    for (gamma, marks), lines in found.items():
        middle = evidence.gammas.index(gamma) + SLOTS[marks]
        end, side = (middle + 0.25, "right") if marks == "control" else (middle - 0.13, "left")
        for number, (y, name) in enumerate(sorted(lines, reverse=True)):
            axes.plot([middle - 0.13, middle + 0.24], [y, y], color=INK, lw=0.9, ls=SHORT_DASHES, zorder=5)
            above = {"xytext": (0, -1.2 if number else 1.2), "va": "top" if number else "bottom"}
            note(axes, name, (end, y), "data", halo=1.6, fontsize=5.5, ha=side, **above)


def _heading(axes: Axes, panel: Panel, lines: int) -> None:
    """Title, and right below it in small type the conditions; ``lines`` keeps the titles of a row level."""
    texts = [condition_text(condition, ids) for condition, ids in conditions(panel).items()]
    height = 4 + 8.4 * lines
    axes.annotate("\n".join(texts), (0, 1), xycoords="axes fraction", xytext=(0, height - 1), fontsize=5.8,
                  textcoords="offset points", va="top", color="#444444", annotation_clip=False)  # fmt: skip
    axes.set_title(panel.title, fontsize=7.5, pad=height + 1)


def _nats_scale(panels: list[Axes]) -> None:
    """One scale for the panels of a row, linear within LINEAR and logarithmic beyond, with room for every seed.

    The mean of seeds that differ by orders of magnitude has an interval that reaches far below 0, where nothing is.
    """
    if not panels:
        return
    values = [2 * LINEAR, *_drawn_seeds(panels)]
    low, high = min(0.0, *values), max(values)
    powers = [10.0**power for power in range(-1, 1 + int(np.floor(np.log10(max(high, 1)))))]
    ticks = [0, *powers, *(-power for power in powers if power <= -low)]
    for axes in panels:
        axes.set_yscale("symlog", linthresh=LINEAR, linscale=0.7)
        axes.set_ylim(min(2 * low, -0.4 * LINEAR), 3 * high)
        axes.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
        axes.minorticks_off()


def _share_scale(panels: list[Axes]) -> None:
    """One scale for all shares, with room for every seed: a lost accuracy may be negative."""
    for axes in panels:
        axes.set_ylim(min(-0.06, *(value - 0.06 for value in [0.0, *_drawn_seeds(panels)])), 1.12)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1])


def _drawn_seeds(panels: list[Axes]) -> list[float]:
    lines = [line for axes in panels for line in axes.lines if line.get_marker() != "None"]
    return [float(y) for line in lines for y in np.ravel(line.get_ydata()) if np.isfinite(y)]


def _entries(evidence: Evidence) -> list[legend.Entry]:
    last = evidence.gammas[-1]
    colour, marker = gamma_colour(last, evidence.gammas), gamma_marker(last, evidence.gammas)
    return [
        legend.mark("effect, one seed", colour, marker, filled=True, mew=0.3),
        legend.mean_interval(colour),
        legend.mark("control, one seed", GREY, marker, mew=0.7),
        legend.mean_interval(GREY),
        legend.threshold("threshold", style=SHORT_DASHES),
    ]


def caption_causes(evidence: Evidence) -> Caption:
    """Caption of the causes, with the numbers of M9 and M10 at the small initialisation."""
    evidence.table("effects")
    claims = {"M1": "M1, M10", "M8": "M8, M9"}
    refuted = "; ".join(f"{check.refuted_if} ({claims.get(check.of, check.of)})" for check in CHECKS)
    numbers = []
    for name, panel, unit, write in (
        ("an attention of exactly 1/i costs", PANELS[0], "nats", interval_text),
        ("swapping L1's output moves the answer by the key in", PANELS[8], "of pairs", share_text),
        ("swapping L0's by the sum in", PANELS[9], "of pairs", share_text),
    ):
        effect, control = (write(*spread(evidence, panel, SMALL, of)) for of in ("effect", "control"))
        numbers.append(f"{name} {effect} {unit} (control {control})")
    gate = next(two_digits(check.check.gate.threshold) for check in CHECKS if check.check.gate is not None)
    more = two_digits(evidence.threshold("M10", 1))
    return Caption(
        "What happens when a mechanism is taken away or exchanged (filled), beside a control of the same form and "
        "size that leaves alone what the mechanism is said to need (hollow, grey): an effect no larger than its "
        f"control shows nothing. Nats lost are on a scale that is linear within {LINEAR:g} and logarithmic beyond, "
        "shared by the panels of a row; the interval of seeds that differ by orders of magnitude runs out of it. A "
        "share of answers moved is that of inputs, answered rightly before, whose answer becomes the predicted one, "
        "for the control of a swap that of inputs whose answer changes at all; swapped by key (by sum): predicted is "
        "the answer with the other input's key (sum), taken where either circuit carries it (same position: from an "
        "input whose key stands at the same one). Number line reversed: each reasoning anchor is moved along one "
        "direction of the embedding (W_V's leading one, or the anchors' own first component) to where the anchor in "
        "the reverse order stands, so the predicted sum is that of those anchors. "
        "The last row has the first row's effects beside controls that match: "
        "what other members whose circuit has the same name attend to, directions within the embeddings in use, and "
        "the spans of as many keys. L0's attention and W_V are intervened on at half "
        f"(γ = {SMALL:g}) or at the same step (other rates), the rest at the end of training. A dashed line is a "
        f"threshold, at the rate that it is about, for the mean over seeds (“{more} + control”: that far above the "
        f"control's mean). M7b is judged on seeds with an accuracy of at least {gate} on memory; all are "
        f"shown. At γ = {SMALL:g}, median over seeds [lowest, highest]: {'; '.join(numbers)}.",
        f"marks on the wrong side of a dashed line: {refuted}.",
    )


class Panel(NamedTuple):
    """One intervention on one set of inputs, and its name in the figure (W$_V$ is that of L0)."""

    intervention: str
    set: str
    title: str


PANELS = (
    Panel("forced_average", "rsn_train", "L0's attention:\nexactly 1/i"),
    Panel("leading_direction_only", "rsn_train", "W$_V$: leading direction\nalone"),
    Panel("without_reasoning", "rsn_train", "W$_V$: without reasoning\nanchors"),
    Panel("without_memory", "rsn_train", "W$_V$: without memory\nanchors"),
    Panel("key_blocked", "rsn_train", "L1 cannot see the\nkey (reasoning inputs)"),
    Panel("key_blocked", "mem", "L1 cannot see the\nkey (memory inputs)"),
    Panel("key_blocked_answers", "rsn_train", "L1 cannot see the\nkey (reasoning inputs)"),
    Panel("key_blocked_answers", "mem", "L1 cannot see the\nkey (memory inputs)"),
    Panel("swap_key", "rsn_train", "L1's attention\nswapped, by key"),
    Panel("swap_sum", "rsn_train", "L0's attention\nswapped, by sum"),
    Panel("swap_key_in_place", "rsn_train", "L1's attention,\nsame position, by key"),
    Panel("swap_sum_in_place", "rsn_train", "L0's attention,\nsame position, by sum"),
    Panel("swap_key_carried", "rsn_train", "L0's attention at\nthe anchors, by key"),
    Panel("swap_sum_carried", "rsn_train", "embeddings at the\nanchors, by sum"),
    Panel("number_line", "rsn_train", "number line reversed\n(W$_V$'s direction)"),
    Panel("number_line_component", "rsn_train", "number line reversed\n(own component)"),
    Panel("forced_average_matched", "rsn_train", "L0's attention: 1/i,\nbeside its circuit's"),
    Panel("leading_direction_only_matched", "rsn_train", "W$_V$: leading alone,\nbeside the embedding's"),
    Panel("without_reasoning_matched", "rsn_train", "W$_V$: without reasoning\nanchors, beside keys"),
    Panel("without_memory_matched", "rsn_train", "W$_V$: without memory\nanchors, beside keys"),
)
"""The panels of the figure, row by row, four in a row; the last row has the controls that match."""
NATS = "loss_increase"
UNITS = {
    NATS: "nats lost (cross entropy)",
    "moved_as_predicted": "share of answers moved",
    "accuracy_drop": "accuracy lost (share)",
}
"""What an intervention is read in, as the axes say it."""
SHORT = {"without_memory": "effect without memory"}


def quantity_of(evidence: Evidence, panel: Panel) -> str:
    """The quantity that an intervention is read in, one of UNITS; nats lost where it was not made."""
    found = {row["quantity"] for row in evidence.records("effects", intervention=panel.intervention)}
    return next((quantity for quantity in UNITS if quantity in found), NATS)


def conditions(panel: Panel) -> dict[Condition, str]:
    """The conditions that are drawn in a panel, each with the claims whose condition it is.

    >>> list(conditions(PANELS[1]).values())
    ['M3', 'M3']
    """
    checks = [(check.of, check.check) for check in CHECKS] + [(claim.id, claim) for claim in (*CAUSAL, *SECOND)]
    named: dict[Condition, list[str]] = {}
    for claim_id, claim in checks:
        for condition in claim.conditions:
            if (condition.of.probe, condition.of.set) == (panel.intervention, panel.set):
                named.setdefault(condition, []).append(claim_id)
    return {condition: ", ".join(ids) for condition, ids in named.items()}


def stage_of(intervention: str, gamma: float, gammas: Sequence[float]) -> str:
    """When an intervention is read: final, or half; at other rates than the small one at the same step, matched.

    >>> [stage_of("forced_average", gamma, [0.3, 0.8]) for gamma in (0.8, 0.3)], stage_of("swap_key", 0.3, [0.3])
    (['half', 'matched'], 'final')
    """
    if intervention not in AT_HALF:
        return "final"
    return "half" if gamma == SMALL or SMALL not in gammas else "matched"


def by_seed(evidence: Evidence, panel: Panel, gamma: float) -> list[dict[str, Any]]:
    """Rows of ``effects`` of a panel at a rate, seeds ascending, without NaN effects; none where there is none."""
    rows = evidence.records("effects", **_place(evidence, panel, gamma))
    return sorted((row for row in rows if row["effect"] == row["effect"]), key=lambda row: row["seed"])


def over_seeds(evidence: Evidence, panel: Panel, gamma: float, quantity: str) -> Interval:
    """Mean of ``effect``, ``control`` or ``difference`` of a panel at a rate, with its interval; NaN where absent."""
    rows = evidence.records("effects_summary", quantity=quantity, **_place(evidence, panel, gamma))
    return interval_of(rows[0]) if rows else NOTHING


def spread(evidence: Evidence, panel: Panel, gamma: float, quantity: str) -> Interval:
    """Median of ``effect``, ``control`` or ``difference`` of a panel at a rate, with its range; NaN where absent."""
    rows = evidence.records("effects_summary", quantity=quantity, **_place(evidence, panel, gamma))
    return spread_of(rows[0]) if rows else NOTHING


def _place(evidence: Evidence, panel: Panel, gamma: float) -> dict[str, Any]:
    stage = stage_of(panel.intervention, gamma, evidence.gammas)
    return {"intervention": panel.intervention, "set": panel.set, "gamma": gamma, "stage": stage}


def marks_of(condition: Condition) -> str:
    """Whether a condition is about the marks of the ``effect`` or of the ``control``."""
    return "control" if condition.of.quantity == "control" else "effect"


def level(evidence: Evidence, condition: Condition) -> float:
    """Where a threshold lies for the mean over seeds: as it is, or above the control or above what is subtracted.

    Returns NaN where the run lacks what the threshold is measured from.
    """
    base, quantity = condition.minus or condition.of, condition.minus.quantity if condition.minus else "control"
    if condition.minus is None and condition.of.quantity != "difference":
        return condition.threshold
    assert base.gamma is not None
    return condition.threshold + over_seeds(evidence, Panel(base.probe, base.set, ""), base.gamma, quantity).estimate


def condition_text(condition: Condition, ids: str) -> str:
    """A condition in words, measured from what is drawn.

    >>> [condition_text(condition, ids) for condition, ids in conditions(PANELS[0]).items()]
    ['M1, M10: ≤ .10', 'M1, M10: control ≥ .20 + effect', 'M2: ≥ .10 + effect at γ = 0.8']
    """
    subject = "control " if marks_of(condition) == "control" else ""
    base = " + control" if condition.of.quantity == "difference" else ""
    if condition.minus is not None:
        same = condition.minus.gamma == condition.of.gamma
        base = f" + {SHORT.get(condition.minus.probe, 'effect')}{'' if same else f' at γ = {condition.minus.gamma:g}'}"
    return f"{ids}: {subject}{SIGNS[condition.operator]} {two_digits(condition.threshold)}{base}"
