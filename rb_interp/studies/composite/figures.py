"""Figures of the composite study, learning, phases, flows, cosines and complexity, and of its map
(after paper 2)."""

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from rb_interp.claims import Term
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.paper_1 import learning
from rb_interp.probes._lattice import LAGS
from rb_interp.probes.weights import MATRICES, MIN_COSINE
from rb_interp.statistics.intervals import two_digits
from rb_interp.studies.composite.flow import CARRIES, NONE, SEVERAL
from rb_interp.studies.composite.map import AXES
from rb_interp.studies.composite.phase import INFERENTIAL, MIXED, PHASES, SYMMETRIC, UNFIT
from rb_interp.studies.composite.representation import KEYS, LEADING, growth

CURVES = {
    "train": ("trained on", kit.INK, "-"),
    "seen_train": (
        "trained pairs, training keys, fresh rows",
        kit.SET_COLOURS["rsn_train"],
        (0, (1, 1)),
    ),
    "seen_test": ("trained pairs, test keys", kit.SET_COLOURS["rsn_test"], (0, (4, 1.6))),
    "unseen": ("unseen pair (accuracy: answered inferentially)", kit.BLUE, "-"),
}
PHASE_SERIES = (
    kit.Series(Term("phase", "I", None, "final"), "inferential", kit.BLUE, "o"),
    kit.Series(Term("phase", "S", None, "final"), "symmetric", kit.RED, "s"),
)
SETS = {"seen_test": "trained pairs", "unseen": "the unseen pair"}
FAINT, WIDEST = 0.05, 5.0
"""Attention below which nothing is drawn, and width of a line of attention 1, in points."""
COLOURS = {"key": kit.BLUE, "a1": kit.RED, "a2": kit.RED}
CARRIED = (("last", "kb_ps", "pair"), ("key", "ks_pb", "key"), ("a1+a2", "source", "both"))
"""Roles taken from the source, the answer that is counted, and what the roles carry where it is
given."""
ROLE_X = {role: x for x, role in enumerate(("key", "a1", "a2", "noise", "last"))}
VECTORS = {
    "answer_cosines": (
        "v",
        ("3_3:2_2", "1_2:1_3"),
        ("key with (3,3) or (1,2)", "key with (2,2) or (1,3)"),
    ),
    "step_cosines": ("u", ("3:4", "1:2"), ("key with 4 or 1", "key with 3 or 2")),
}
"""Reading -> its vector, the comparisons below and above the diagonal, and what stands down and
across."""
TRANSPOSED = "3:4"
"""The comparison whose first anchor stands across."""
TARGETS = {"equal": (kit.RED, "o"), "different": (kit.BLUE, "s")}
"""Means of cosines, over pairs with equal targets or not: colour and marker."""
PHASE_COLOURS = {UNFIT: "#c9c9c9", INFERENTIAL: "#4b7fd0", SYMMETRIC: "#d9695f", MIXED: "#f0d98c"}
AXES_SHOWN = ("depth", "rate", "decay", "gpt2", "unseen_rate", "unseen_decay")
RANKS = [float(rank) for rank in range(LEADING, 0, -1)]


def _columns(
    evidence: Evidence, rows: int, height: float, extra: int = 0, **shared: Any
) -> tuple[Figure, np.ndarray]:
    """A figure with a column for each rate, and ``extra`` ones."""
    columns = len(evidence.shown_gammas) + extra
    return kit.panels(rows, columns, height, max(kit.WIDTH, 2.1 * columns), **shared)


def draw_phases(evidence: Evidence) -> Figure:
    """Shares of inferential and symmetric answers: every member by rate, and by position of the key
    (after Fig. 2)."""
    figure, [axes] = _columns(evidence, 1, 2.9, 1, sharey=True)
    with kit.missing(axes[0]):
        kit.rates(axes[0], evidence, *PHASE_SERIES, average="mean")
        kit.threshold(axes[0], evidence, "C1")
    for panel, gamma in zip(axes[1:], evidence.gammas, strict=True):
        with kit.missing(panel):
            rows = evidence.table("by_position", gamma=gamma)
            for series in PHASE_SERIES:
                quantity = series.term.quantity
                for _, member in rows.groupby("seed"):
                    look = {"color": series.colour, "lw": 0.5, "alpha": 0.5}
                    panel.plot(member["position"], member[quantity], **look)
                means = evidence.table("by_position_summary", gamma=gamma, quantity=quantity)
                look = {"lw": 1.4, "marker": series.marker, "ms": 3.6, "mfc": "white"}
                panel.plot(means["position"], means["mean"], color=series.colour, **look)
            _shaded(panel, evidence.task.length - 4.5, rows["position"].to_numpy().max() + 0.4)
            panel.set(title=f"γ = {gamma:g}", xlabel="position of the key")
    axes[0].set(ylim=(-0.03, 1.08), title="members, all positions")
    axes[0].set_ylabel("share of the unseen pair's rows")
    kit.legend(figure, 2)
    return figure


def _shaded(axes: Axes, left: float, right: float) -> None:
    """A grey span of the axis."""
    axes.axvspan(left, right, color=kit.GREY, alpha=0.15, lw=0, zorder=0)


def draw_learning(evidence: Evidence) -> Figure:
    """Loss and accuracy of the four sets against training step, one column per rate."""
    figure, *_ = learning(evidence, CURVES)
    kit.legend(figure, 2)
    return figure


def shown_member(evidence: Evidence, gamma: float) -> dict[str, Any]:
    """The member of a rate that stands for it: the first seed of the most frequent phase and flow
    that is fitted.

    Of two that are as frequent, one with a single flow. Where no member is fitted, of the most
    frequent one of all. ``like`` is how many members have its phase and flow.
    """
    members = evidence.records("phases", gamma=gamma)
    if not members:
        raise MissingEvidenceError("This run has no member of this rate.")
    members.sort(key=lambda row: row["seed"])
    fitted = [row for row in members if row["phase"] != UNFIT] or members
    kinds = Counter((row["phase"], row["flow"]) for row in fitted)
    for row in fitted:
        row["like"] = kinds[row["phase"], row["flow"]]
        row["of"] = len(members)
    return max(fitted, key=lambda row: (row["like"], row["flow"] not in (SEVERAL, NONE)))


def draw_diagram(evidence: Evidence) -> Figure:
    """Attention as lines between roles, layer over layer: a column for each rate, a row for each
    set (after Fig. 3)."""
    figure, axes = _columns(evidence, len(SETS), 2.55 * len(SETS) + 0.4)
    for line, (name, label) in zip(axes, SETS.items(), strict=True):
        for panel, gamma in zip(line, evidence.gammas, strict=True):
            with kit.missing(panel):
                _diagram(panel, evidence, gamma, name)
                panel.set_xlabel(label)
    sources = {
        "from the key": kit.BLUE,
        "from an anchor": kit.RED,
        "from noise or the last position": kit.GREY,
    }
    kit.legend(figure, 3, [kit.line(label, colour, "-", 3.0) for label, colour in sources.items()])
    return figure


def _diagram(axes: Axes, evidence: Evidence, gamma: float, name: str) -> None:
    member = shown_member(evidence, gamma)
    where = f"probe == 'attention_between_roles' and seed == {member['seed']} and set == '{name}' and head == 0"
    rows = evidence.readings.query(f"{where} and abs(gamma - {gamma}) < 1e-9 and value >= {FAINT}")
    layers = range(evidence.config.model.n_layers)
    for row in rows.sort_values("value").to_dict("records"):
        query, _, role = row["quantity"].partition("_to_")
        layer = int(row["layer"])
        share = row["value"]
        if role in ROLE_X and (layer < layers[-1] or query == "last"):
            look = {"lw": WIDEST * share, "alpha": 0.85, "zorder": 1 + share}
            ends = [ROLE_X[role], ROLE_X[query]]
            axes.plot(ends, [layer, layer + 1], color=COLOURS.get(role, kit.GREY), **look)
    for level, (role, x) in product(range(len(layers) + 1), ROLE_X.items()):
        if level <= layers[-1] or role == "last":
            axes.plot(x, level, "o", ms=5.5, mfc="white", mec=kit.INK, mew=0.9, zorder=5)
    if name == "seen_test":
        caption = (
            f"γ = {gamma:g}, seed {member['seed']} ({member['like']} of {member['of']} seeds):"
        )
        axes.set_title(
            f"{caption}\n{member['phase']}, {member['flow']}, {member['n_pairs']} pairs",
            fontsize=7.5,
        )
        for roles, answer, word in CARRIED:
            term = Term("interchange_roles", f"{roles}:{answer}", gamma, "final", "seen_test")
            share = evidence.value(term, member["seed"])
            if np.isfinite(share):
                middle = float(np.mean([ROLE_X[role] for role in roles.split("+")]))
                box = {"fc": "white", "ec": "#cfcfcf", "lw": 0.5, "pad": 1.2, "alpha": 0.9}
                look = {"fontsize": 6, "bbox": box, "zorder": 8, "ha": "center", "va": "bottom"}
                look["weight"] = "bold" if share >= CARRIES else "normal"
                axes.text(middle, 1.24, f"{word} {two_digits(share)}", **look)
    axes.set(xlim=(-0.6, len(ROLE_X) - 0.4), ylim=(-0.35, len(layers) + 0.3))
    axes.set_xticks(list(ROLE_X.values()), list(ROLE_X))
    axes.set_yticks(range(len(layers) + 1), ["input", *(f"after L{layer}" for layer in layers)])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def draw_cosines(evidence: Evidence) -> Figure:
    """Heat maps of v and of u by key, raw and centred, rates beside each other, and every member's
    means (Fig. 4)."""
    kinds = product(VECTORS.items(), (("", ""), ("centred_", ", centred")))
    figure, axes = _columns(evidence, 4, 9.4, 1)
    for line, ((probe, (vector, _, names)), (prefix, suffix)) in zip(axes, kinds, strict=True):
        for panel, gamma in zip(line[:-1], evidence.gammas, strict=True):
            with kit.missing(panel):
                _cosines(panel, evidence, probe, gamma, prefix)
            panel.set(title=f"{vector}{suffix}, γ = {gamma:g}", xlabel=names[1])
        line[0].set_ylabel(names[0])
        if prefix:
            line[-1].axis("off")
            continue
        with kit.missing(line[-1]):
            claims = ("D1", "D2") if vector == "v" else ("D4",)
            term_of_claim = evidence.condition(claims[0]).of
            series = []
            for name, (colour, marker) in TARGETS.items():
                term = replace(term_of_claim, quantity=name)
                series.append(kit.Series(term, f"{name} targets", colour, marker))
            kit.rates(line[-1], evidence, *series, untrained=True, average="mean", width=0.06)
            for claim in claims:
                kit.threshold(line[-1], evidence, claim, gamma=evidence.condition(claim).of.gamma)
            line[-1].set(ylim=(-1.05, 1.12), title=f"{vector}, members", ylabel="mean cosine")
    kit.legend(figure, 4)
    return figure


def _cosines(axes: Axes, evidence: Evidence, probe: str, gamma: float, prefix: str) -> None:
    """One comparison below the diagonal and one above it, with a box around each cell of equal
    targets."""
    below_diagonal = np.tri(len(KEYS), k=-1, dtype=bool)
    matrix = np.zeros((len(KEYS), len(KEYS)))
    for name, cells in zip(VECTORS[probe][1], (below_diagonal, below_diagonal.T), strict=True):
        cosines = evidence.mean_array(Term(probe, f"{prefix}{name}", gamma, "final", "grid"))
        shifts = []
        for anchors in name.split(":"):
            shifts.append(sum(evidence.task.shifts[int(a) - 1] for a in anchors.split("_")))
        if name == TRANSPOSED:
            cosines = cosines.T
            shifts.reverse()
        matrix[cells] = cosines[cells]
        equal = (KEYS + shifts[0])[:, None] == KEYS + shifts[1]
        for row, column in np.argwhere(equal & cells).tolist():
            corner = (column - 0.5, row - 0.5)
            axes.add_patch(Rectangle(corner, 1, 1, fill=False, ec=kit.INK, lw=1.1))
    kit.heat_map(axes, matrix)
    ticks = range(0, len(KEYS), 5)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, KEYS[ticks].astype(str))


def draw_condensation(evidence: Evidence) -> Figure:
    """Cosines of L0's W_Q neurons sorted by group, the first seed at each rate; on the right the
    shares of pairs."""
    figure, [axes] = _columns(evidence, 1, 2.7, 1)
    share = evidence.condition("K1").of
    for panel, gamma in zip(axes[:-1], evidence.gammas, strict=True):
        with kit.missing(panel):
            term = replace(share, gamma=gamma)
            seed, cosines = evidence.first(replace(term, quantity="cosines_W_Q"))
            _, groups = evidence.first(replace(term, quantity="group_W_Q"))
            kit.heat_map(panel, cosines)
            title = f"γ = {gamma:g}, seed {seed}\n{int(groups.max()) + 1} groups"
            panel.set(xticks=[], yticks=[], xlabel="neuron, by group", title=title)
    with kit.missing(axes[-1]):
        kit.rates(axes[-1], evidence, kit.Series(share), untrained=True)
        axes[-1].set(ylim=(-0.03, 1.05), title="all seeds")
        axes[-1].set_ylabel(f"share of pairs with |cos| > {two_digits(MIN_COSINE)}")
    kit.legend(figure, 2)
    return figure


def draw_participation(evidence: Evidence) -> Figure:
    """Participation ratio of every matrix of every layer: members, median and range by rate,
    untrained models."""
    layers = range(evidence.config.model.n_layers)
    figure, axes = kit.panels(len(layers), 1, 0.6 + 2.0 * len(layers))
    for (panel,), layer in zip(axes, layers, strict=True):
        with kit.missing(panel):
            series = []
            for matrix, marker in zip(MATRICES, kit.MARKERS, strict=False):
                name = f"participation_{matrix}"
                term = Term("weight_spectra", name, None, "final", layer=layer)
                series.append(kit.Series(term, matrix, kit.INK, marker))

            def untrained(x: float, _: kit.Series, term: Term, panel: Axes = panel) -> None:
                mean = evidence.untrained(term)
                kit.level(panel, x - 0.03, mean, kit.GREY, 0.05, "untrained models")

            kit.rates(panel, evidence, *series, width=0.03, beside=untrained)
            panel.set(yscale="log", title=f"L{layer}", ylabel="participation ratio (directions)")
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            panel.yaxis.set_minor_formatter(NullFormatter())
    kit.legend(figure, len(MATRICES) + 1)
    return figure


def _lattice(quantity: str, gamma: float) -> Term:
    return Term("lattice", quantity, gamma, "final")


def draw_items(evidence: Evidence) -> Figure:
    """Principal components of the items, mean cosine by distance, growth of their covariance (Figs.
    5c, 5d, 12)."""
    figure, axes = _columns(evidence, 3, 6.6)
    for (components, distance, growing), gamma in zip(axes.T, evidence.gammas, strict=True):
        with kit.missing(components):
            seed, scores = evidence.first(_lattice("pca", gamma))
            _, tokens = evidence.first(_lattice("tokens", gamma))
            components.plot(scores[:, 0], scores[:, 1], color=kit.GREY, lw=0.4, zorder=1)
            components.scatter(scores[:, 0], scores[:, 1], c=tokens, cmap="viridis", s=9, zorder=2)
            components.set(title=f"γ = {gamma:g}, seed {seed}", xlabel="PC1", ylabel="PC2")
        with kit.missing(distance):
            lags = range(1, LAGS + 1)
            terms = [_lattice(f"cos_{lag}", gamma) for lag in lags]
            for seed in evidence.seeds:
                values = [evidence.value(term, seed) for term in terms]
                distance.plot(lags, values, color=kit.BLUE, lw=0.5, alpha=0.6)
            means = [evidence.interval(term).estimate for term in terms]
            look = {"lw": 1.6, "marker": "o", "ms": 3}
            distance.plot(lags, means, color=kit.BLUE, label="mean over seeds", **look)
            untrained = [evidence.untrained(term) for term in terms]
            distance.plot(lags, untrained, color=kit.GREY, lw=1.6, label="untrained models")
            _shaded(distance, 2.5, 4.5)
            distance.set(xticks=lags, xlabel="distance k of two items", ylabel="C(k), mean cosine")
        with kit.missing(growing):
            table = evidence.table("eigenvalues_summary", gamma=gamma).sort_values(["rank", "step"])
            for rank, rows in cast(Any, table.groupby("rank")):
                steps, medians = rows["step"], rows["median"]
                if rank > LEADING:
                    growing.plot(steps, medians, color=kit.GREY, lw=0.7)
                    continue
                colour = kit.gamma_colour(float(rank), RANKS)
                growing.plot(steps, medians, color=colour, lw=1.4, label=f"rank {rank}")
                look = {"color": colour, "alpha": 0.15, "lw": 0}
                growing.fill_between(steps, rows["lowest"], rows["highest"], **look)
                halves = growth(evidence.table("eigenvalues", gamma=gamma, rank=rank))
                half_steps, values = halves["half_step"], halves["final"] / 2
                kit.open_dots(growing, half_steps, values, colour, "D", ms=3.2, zorder=4)
            growing.set(yscale="log", xlabel="training step", ylabel="eigenvalue")
    kit.legend(figure, 4, [kit.key("half of the final value", kit.GREY, "D")])
    return figure


FIGURES = {
    "learning": draw_learning,
    "phases": draw_phases,
    "diagram": draw_diagram,
    "cosines": draw_cosines,
    "condensation": draw_condensation,
    "participation": draw_participation,
    "items": draw_items,
}


def draw_map(evidence: Evidence) -> Figure:
    """Every axis with members; MissingEvidenceError without any."""
    n_points = {}
    for axis in AXES_SHOWN:
        points = {row["point"] for row in evidence.records("cells", axis=axis)}
        if points:
            n_points[axis] = len(points)
    if not n_points:
        raise MissingEvidenceError("This run has no members.")
    rows = -(-len(n_points) // 3)
    columns = -(-len(n_points) // rows)
    heights = []
    for first in range(0, len(n_points), columns):
        most = max([*n_points.values()][first : first + columns])
        heights.append(max(2.1, 0.6 + 0.25 * most))
    ratios = {"width_ratios": (1.35, 1.0, 1.0)[:columns], "height_ratios": heights}
    figure, axes = kit.panels(rows, columns, 0.4 + sum(heights), **ratios)
    for panel in axes.flat[len(n_points) :]:
        panel.remove()
    for panel, axis in zip(axes.flat, n_points, strict=False):
        panel.set_title(AXES[axis])
        _map_panel(panel, evidence, axis)
    kit.legend(figure, 5, [Patch(fc=PHASE_COLOURS[phase], label=phase) for phase in PHASES])
    return figure


def _map_panel(axes: Axes, evidence: Evidence, axis: str) -> None:
    table = evidence.table("cells", axis=axis)
    gammas = sorted(table["gamma"].unique())
    labels = dict(sorted(zip(table["point"], table["label"], strict=True)))
    points = list(labels)
    cells = table.query("n > 0")
    for (gamma, point), rows in cast(Any, cells.groupby(["gamma", "point"])):
        left = gammas.index(gamma) - 0.47
        y = points.index(point)
        for row in sorted(rows.to_dict("records"), key=lambda row: PHASES.index(row["phase"])):
            width = row["share"] * 0.94
            colour = PHASE_COLOURS[row["phase"]]
            axes.barh(y, width, 0.86, left=left, fc=colour, ec="white", lw=0.4)
            middle = left + width / 2
            axes.text(middle, y, str(row["n"]), ha="center", va="center", fontsize=5.5)
            left += width
    fitted = set(cells.query("phase != @UNFIT")["point"])
    for row in evidence.records("boundaries", axis=axis):
        if row["crossing"] and row["point"] in fitted:
            ends = [row["low"], row["gamma_star"], row["high"]]
            low, middle, high = np.interp(ends, gammas, range(len(gammas)))
            top = points.index(row["point"]) + 0.5
            axes.plot([low, high], [top, top], color=kit.INK, lw=1.0, zorder=6)
            look = {"ms": 3.2, "zorder": 7, "label": "boundary γ*, 95 % interval"}
            axes.plot(middle, top, "D", color=kit.INK, **look)
    axes.set(xlim=(-0.55, len(gammas) - 0.45), ylim=(-0.55, len(points) - 0.4), xlabel="γ")
    axes.set_xticks(range(len(gammas)), [f"{gamma:g}" for gamma in gammas])
    axes.set_yticks(range(len(points)), list(labels.values()))
    axes.tick_params(length=0)


MAP_FIGURES = {"map": draw_map}
