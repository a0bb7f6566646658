"""Interventions of the anchor study beside their controls, patching matrices, and the order of
events."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
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
SAID_OF = {"none": "none: rule not learned", "mixed": "mixed: no circuit's routes"}
"""What the legend says of names that tell of no circuit."""
KEPT = "#d4d4d4"
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
    Panel(
        "leading_direction_only_matched",
        "rsn_train",
        "W$_V$: leading alone,\nbeside the embedding's",
    ),
    Panel(
        "without_reasoning_matched", "rsn_train", "W$_V$: without reasoning\nanchors, beside keys"
    ),
    Panel("without_memory_matched", "rsn_train", "W$_V$: without memory\nanchors, beside keys"),
)
"""The panels of the figure, row by row, four in a row; the last row has the controls that match."""
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
    units = dict(
        evidence.table("effects")[["intervention", "quantity"]].itertuples(index=False, name=None)
    )
    figure, axes = kit.panels(5, 4, 11.4, 4 * (0.75 + 0.42 * max(len(evidence.gammas), 3)))
    for one, panel in zip(axes.flat, PANELS, strict=True):
        unit = units.get(panel.intervention, NATS)
        with kit.missing(one):
            if unit == NATS:
                one.set_yscale("symlog", linthresh=0.1, linscale=0.7)
                one.yaxis.set_major_formatter(lambda value, _place: f"{value:g}".replace("-", "−"))
            else:
                one.set_ylim(-0.1, 1.12)
            _effects(one, evidence, panel)
            one.set(xlabel="rate γ", ylabel=UNITS[unit])
            one.set_title(panel.title, fontsize=7.5)
    marks, read = [], set(evidence.table("effects")["gamma"])
    for gamma in filter(read.__contains__, evidence.gammas):
        look = kit.gamma_colour(gamma, evidence.gammas), kit.gamma_marker(gamma, evidence.gammas)
        marks.append(kit.key(f"γ = {gamma:g}: effect, one seed", *look))
    marks.append(kit.key("grey: control, one seed (shape: its rate)", kit.GREY))
    marks.append(kit.line("threshold of a claim (*: for the control)", kit.INK, kit.DASHED, 0.9))
    kit.legend(figure, 3, marks)
    return figure


def _effects(axes: Axes, evidence: Evidence, panel: Panel) -> None:
    drawn = False
    for place, gamma in enumerate(evidence.gammas):
        rows = sorted(
            evidence.records("effects", **_place(evidence, panel, gamma)),
            key=lambda row: row["seed"],
        )
        rows = [row for row in rows if row["effect"] == row["effect"]]
        colour, marker = (
            kit.gamma_colour(gamma, evidence.gammas),
            kit.gamma_marker(gamma, evidence.gammas),
        )
        for name, shift, ink in (
            (("effect", -0.23, colour), ("control", 0.19, kit.GREY)) if rows else ()
        ):
            values, drawn = [row[name] for row in rows], True
            kit.dots(axes, place + shift, values, interval_or_nan(values), ink, marker, 0.08)
    if not drawn:
        raise MissingEvidenceError(f"This run has no effect of “{' '.join(panel.title.split())}”.")
    named = {}
    for condition, ids in conditions(panel).items():
        y, of_control = level(evidence, condition), condition.of.quantity == "control"
        if np.isfinite(y) and condition.of.gamma in evidence.gammas:
            middle = evidence.gammas.index(condition.of.gamma) + (0.19 if of_control else -0.23)
            axes.plot(
                [middle - 0.13, middle + 0.24],
                [y, y],
                color=kit.INK,
                lw=0.9,
                ls=kit.DASHED,
                zorder=5,
            )
            named[f"{ids} *" if of_control else ids] = y
    kit.zero(axes)
    kit.rates_axis(axes, evidence)
    kit.margin(axes, named)


def conditions(panel: Panel) -> dict[Condition, str]:
    """The conditions that are drawn in a panel, each with the claims whose condition it is.

    >>> list(conditions(PANELS[1]).values())
    ['M3', 'M3']
    """
    checks = [(check.of, check.check) for check in CHECKS] + [
        (claim.id, claim) for claim in (*CAUSAL, *SECOND)
    ]
    named: dict[Condition, list[str]] = {}
    for claim_id, claim in checks:
        for condition in claim.conditions:
            if (condition.of.probe, condition.of.set) == (panel.intervention, panel.set):
                named.setdefault(condition, []).append(claim_id)
    return {condition: ", ".join(ids) for condition, ids in named.items()}


def stage_of(intervention: str, gamma: float, gammas: Sequence[float]) -> str:
    """When an intervention is read: final, or half; at other rates than the small one at the same
    step, matched.

    >>> [stage_of("forced_average", gamma, [0.3, 0.8]) for gamma in (0.8, 0.3)], stage_of("swap_key", 0.3, [0.3])
    (['half', 'matched'], 'final')
    """
    if intervention not in AT_HALF:
        return "final"
    return "half" if gamma == SMALL or SMALL not in gammas else "matched"


def _place(evidence: Evidence, panel: Panel, gamma: float) -> dict[str, object]:
    stage = stage_of(panel.intervention, gamma, evidence.gammas)
    return {"intervention": panel.intervention, "set": panel.set, "gamma": gamma, "stage": stage}


def level(evidence: Evidence, condition: Condition) -> float:
    """Where a threshold lies for the mean over seeds: as it is, or above the control or above what
    is subtracted.

    Returns NaN where the run lacks what the threshold is measured from.
    """
    base, quantity = (
        condition.minus or condition.of,
        condition.minus.quantity if condition.minus else "control",
    )
    if condition.minus is None and condition.of.quantity != "difference":
        return condition.threshold
    where = _place(evidence, Panel(base.probe, base.set, ""), base.gamma or SMALL)
    values = [row[quantity] for row in evidence.records("effects", **where)]
    return condition.threshold + interval_or_nan(values).estimate


def draw_patching(evidence: Evidence) -> Figure:
    """Recovered logit difference by component, layer and role: a row per counterfactual, a column
    per rate.

    The small initialisation has one column a circuit. Another rate has a circuit's name if all its
    members share it.
    """
    table, named = (
        evidence.table("patching", stage="final"),
        evidence.table("circuits")[["gamma", "seed", "cause"]],
    )
    table = table.merge(named, on=["gamma", "seed"], how="left").fillna({"cause": "not named"})
    shown = []
    for gamma, members in table.groupby("gamma"):
        causes = sorted(members["cause"].unique())
        split = [(gamma, cause, members[members["cause"] == cause]) for cause in causes]
        shown += split if gamma == SMALL or len(causes) == 1 else [(gamma, "", members)]
    names = sorted(
        {f"{c}.{layer}" for c, layer in zip(table["component"], table["layer"], strict=True)},
        key=forward,
    )
    roles = [role for role in ROLES if role in set(table["role"])]
    width = max(kit.WIDTH, 1.0 + len(shown) * (0.25 + 0.2 * len(roles)))
    figure, axes = kit.panels(
        2, len(shown), 1.6 + 0.38 * len(names), width, sharex=True, sharey=True
    )
    look = {
        "low": 0,
        "high": 1,
        "colours": kit.ATTENTION,
        "write": two_digits,
        "aspect": "auto",
        "size": 5.5,
    }
    for line, changed in zip(axes, ("key", "anchors"), strict=True):
        for one, (gamma, circuit, members) in zip(line, shown, strict=True):
            here = members.loc[members["counterfactual"] == changed]
            here = here.assign(name=here["component"] + "." + here["layer"].astype(str))
            matrix = here.pivot_table("recovered", "name", "role", dropna=False).reindex(
                index=names, columns=roles
            )
            kit.heat_map(one, matrix, [in_words(name) for name in names], roles, **look)
            one.tick_params(axis="x", labelrotation=90)
            n, control = here["seed"].nunique(), two_digits(here["control"].abs().max())
            title = [f"γ = {gamma:g} ({seeds_text(n)})", circuit, f"control at most {control}"]
            one.set_title("\n".join(filter(None, title)), fontsize=7)
        line[0].set_ylabel(f"inputs differ in the {changed}")
    figure.colorbar(
        axes[0, 0].images[0],
        ax=axes,
        location="bottom",
        shrink=0.45,
        label="recovered logit difference",
    )
    return figure


def draw_dynamics(evidence: Evidence) -> Figure:
    """Step of every event in every seed, one column per rate: losses above, mechanisms that are
    dated below."""
    events, read = evidence.table("events"), evidence.table("dynamics")
    circuits = evidence.table("circuits")[["gamma", "seed", "cause"]]
    events = events.merge(circuits, on=["gamma", "seed"], how="left").fillna({"cause": "none"})
    gammas, last = sorted(events["gamma"].unique().tolist()), float(read["step"].to_numpy().max())
    never, rows = (
        2.5 * (last + OFFSET),
        [event for event in CRITERIA if event in set(events["event"])],
    )
    width = max(kit.WIDTH, 2.1 + 1.7 * len(gammas))
    figure, [axes] = kit.panels(
        1, len(gammas), 1.3 + 0.31 * len(rows), width, sharex=True, sharey=True
    )
    for one, gamma in zip(axes, gammas, strict=True):
        dated = events.loc[events["gamma"] == gamma].sort_values("seed")
        for row, event in enumerate(rows):
            colour, here = kit.SET_COLOURS.get(event, kit.INK), dated.loc[dated["event"] == event]
            for y, member in zip(
                row + np.linspace(-0.3, 0.1, len(here)), here.itertuples(), strict=True
            ):
                x = member.step + OFFSET if np.isfinite(member.step) else never
                one.plot(
                    x,
                    y,
                    MARKS.get(member.cause, "P"),
                    ms=3.2,
                    mfc="white",
                    mec=colour,
                    mew=0.8,
                    zorder=3,
                )
            during = here.loc[here["step"] > 0, "step"].to_numpy(dtype=float)
            mean, low, high = np.exp(np.array(interval_or_nan(np.log(during + OFFSET))))
            one.plot([mean] * 2, [row + 0.2, row + 0.42], color=colour, lw=1.8, zorder=4)
            one.plot([low, high], [row + 0.31] * 2, color=colour, lw=1.0)
        seeds = read.loc[read["gamma"] == gamma].groupby("step")["seed"].nunique()
        for step in seeds.index[seeds == seeds.max()]:
            one.axvline(step + OFFSET, color=KEPT, lw=0.6, zorder=0)
        ticks = [0, *(10**power for power in range(2, 1 + int(np.log10(max(last, 100)))))]
        one.set(xscale="log", ylim=(len(rows) - 0.4, -0.6), title=kit.title_of(evidence, gamma))
        one.set_xlim(0.8 * OFFSET, 1.25 * never)
        one.set_xticks(
            [*(step + OFFSET for step in ticks), never], [*(f"{step:,}" for step in ticks), "never"]
        )
        one.set_xticks([], minor=True)
        one.tick_params(axis="x", labelrotation=45)
    names = [f"loss: {kit.SETS[event]}" if event in kit.SETS else event for event in rows]
    axes[0].set_yticks(
        range(len(names)), [f"{name}\n{CRITERIA[e]}" for name, e in zip(names, rows, strict=True)]
    )
    axes[0].tick_params(axis="y", labelsize=6.5)
    figure.supxlabel(f"training step (scaled as the logarithm of step + {OFFSET})", fontsize=7.5)
    marks = [
        kit.line("checkpoint that all seeds have", KEPT, width=1.2),
        kit.line("mean, 95 % interval", kit.INK),
    ]
    names = [name for name in MARKS if name in set(events["cause"])]
    kit.legend(
        figure,
        4,
        [*(kit.key(SAID_OF.get(name, name), marker=MARKS[name]) for name in names), *marks],
    )
    return figure
