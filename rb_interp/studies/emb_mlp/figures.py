"""The figures of the Emb-MLP study: learning, embeddings, labels of a token, theory beside
training, and scaling."""

from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from rb_interp.claims import Term
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.paper_1 import draw_embedding, draw_learning
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.intervals import over_seeds, two_digits
from rb_interp.studies.emb_mlp.config import AGREES
from rb_interp.studies.emb_mlp.drift import FLOOR

SWEEPS = {
    "descent": "Emb-MLP, plain gradient descent",
    "adamw": "Emb-MLP, AdamW",
    "one_layer": "one-layer model, plain gradient descent",
}
AGREEMENT = {
    ("r2", "each_step"): "R², weights of each step",
    ("r2", "step_0"): "R², weights of step 0",
    ("cos", "each_step"): "cosine, weights of each step",
}
FLOWS = {
    "cos": "change of W$_V$: cosine of\npredicted and measured",
    "cos_direction": "its leading direction: |cosine|\nwith the predicted one",
    "share_leading": "share of the measured change\nin one direction",
}
DRIFT = Term("drift", "r2", None, "leaving", "anchor")
WITH_POSITIONS = replace(DRIFT, quantity="r2_positions")
PERMUTED = replace(DRIFT, quantity="r2_permuted")
SERIES = (
    kit.Series(DRIFT, "weights of each step", kit.TRAINED, "o"),
    kit.Series(WITH_POSITIONS, "knowing each token’s position too", "#b0620a", "D"),
    kit.Series(PERMUTED, "permuted within kind", kit.GREY, "x"),
)
LABELS = {"reasoning_anchor": kit.REASONING, "memory_anchor": kit.MEMORY, "key": kit.KEY}
COSINES = (
    ("reasoning_anchor", "population"),
    ("reasoning_anchor", "empirical"),
    ("memory_anchor", "empirical"),
)


def draw_label_distributions(evidence: Evidence) -> Figure:
    """P^s less the uniform distribution for three kinds of token, and cosines between tokens (after
    Figs. 4B, 4C)."""
    evidence.table("label_distributions")
    figure, [lines, matrices] = kit.panels(2, 3, 5.2, height_ratios=(1, 1.15))
    for axes, (group, colour) in zip(lines, LABELS.items(), strict=True):
        table = evidence.table("label_distributions", group=group)
        tokens = sorted(table["token"].unique())
        middle = tokens[(len(tokens) - 1) // 2]
        examples = [tokens[0], tokens[-1]] if group == "reasoning_anchor" else [middle]
        for token, shade in zip(examples, (colour, kit.INK), strict=False):
            rows = evidence.table("label_distributions", token=token).sort_values("label")
            labels, counted = rows["label"], rows["empirical_excess"]
            axes.plot(labels, rows["population_excess"], color=shade, lw=1.5, zorder=3)
            kit.open_dots(axes, labels, counted, shade, ms=2.2, mew=0.6, zorder=2)
        title = f"{group.replace('_', ' ')}: {' and '.join(map(str, examples))}"
        axes.set(title=title, xlabel="label (token)")
        if axes is not lines[0]:
            axes.sharey(lines[0])
    lines[0].set_ylabel("P$^s$(label) − u  (probability)")
    for axes, (group, labels) in zip(matrices, COSINES, strict=True):
        with kit.missing(axes):
            pairs = evidence.table("label_cosines", group=group, labels=labels)
            table = pairs.pivot(index="token", columns="other", values="cos")
            write = two_digits if len(table) <= 10 else None
            look: dict[str, Any] = {"low": 0.8, "colours": kit.ATTENTION, "write": write}
            kit.heat_map(axes, table, [*table.index], **look)
            source = {"population": "Eq. 8", "empirical": "training rows"}[labels]
            axes.set(title=f"{group.split('_')[0]}, {source}")
            axes.set_xlabel(f"{group.replace('_', ' ')} (token)")
    label = "cosine of P$^s$ − u (from 0.8)"
    figure.colorbar(matrices[0].images[0], ax=list(matrices), label=label, shrink=0.8)
    population = kit.line("population (Eqs. 7 and 8)", kit.INK)
    kit.legend(figure, 2, [population, kit.key("in the training rows")])
    return figure


def _along(
    axes: Axes, evidence: Evidence, sweep: str, table: str, column: str, **where: Any
) -> None:
    """A column of a table of members along training, one line per rate, cut at FLOOR; markers at
    ``leaving``."""
    of_sweep = evidence.sweep(sweep)
    for gamma in of_sweep.gammas:
        colour, marker = kit.gamma_look(gamma, evidence.gammas)
        rows = of_sweep.table(table, gamma=gamma, **where).query("step > 0").copy()
        rows[column] = rows[column].clip(lower=FLOOR)
        means = over_seeds(rows, ["step"], [column])
        kit.band(axes, rows, column, means, colour, limits=(FLOOR, 1.0))
        leaving = rows.query("leaving")
        look = {"mfc": colour, "mec": "white", "mew": 0.5, "zorder": 5}
        look["label"] = f"γ = {gamma:g}, at “leaving”"
        axes.plot(leaving["step"], leaving[column], marker, ms=5, **look)
    kit.steps(axes, 1e5, log=True)
    axes.set_ylim(FLOOR - 0.05, 1.05)
    kit.zero(axes, AGREES, ls=kit.DASHED, zorder=1)


def draw_agreement(evidence: Evidence) -> Figure:
    """R² and cosine of predicted and measured drift of all anchors against training step, one
    column per sweep."""
    evidence.table("drift")
    figure, axes = kit.panels(len(AGREEMENT), len(SWEEPS), 6.4, 8.4, sharex="col", sharey="row")
    for line, ((column, prediction), label) in zip(axes, AGREEMENT.items(), strict=True):
        for panel, sweep in zip(line, SWEEPS, strict=True):
            with kit.missing(panel):
                _along(
                    panel, evidence, sweep, "drift", column, group="anchor", prediction=prediction
                )
                if sweep == "one_layer" and prediction == "each_step":
                    _with_positions(panel, evidence.sweep(sweep), evidence.gammas, column)
        line[0].set_ylabel(label)
    for panel, title in zip(axes[0], SWEEPS.values(), strict=True):
        panel.set_title(title)
    for panel in axes[:-1].flat:
        panel.set_xlabel("")
    positions = "knowing positions too (one-layer model)"
    kit.legend(figure, 4, [kit.line(positions, kit.GREY, kit.DASHED, 1.2)])
    return figure


def _with_positions(axes: Axes, evidence: Evidence, gammas: list[float], column: str) -> None:
    for gamma in evidence.gammas:
        rows = evidence.table("drift", gamma=gamma, group="anchor", prediction="positions").copy()
        rows[column] = rows[column].clip(lower=FLOOR)
        means = over_seeds(rows, ["step"], [column]).query("n == n.max()").sort_values("step")
        look = {"lw": 1.2, "ls": kit.DASHED, "zorder": 3.5}
        axes.plot(means["step"], means["mean"], color=kit.gamma_colour(gamma, gammas), **look)


def draw_drift_r2(evidence: Evidence) -> Figure:
    """R² at leaving against the rate, every seed and the interval over seeds, one panel per
    sweep."""
    figure, [axes] = kit.panels(1, len(SWEEPS), 3.4, 8.4, sharey=True)
    for panel, (sweep, title) in zip(axes, SWEEPS.items(), strict=True):
        with kit.missing(panel):
            of_sweep = evidence.sweep(sweep)
            series = [s for s in SERIES if sweep == "one_layer" or s.term != WITH_POSITIONS]
            kit.rates(panel, of_sweep, *series, average="mean", width=0.06)
            if sweep != "adamw":
                claim = "T1" if sweep == "descent" else "T4"
                kit.threshold(panel, of_sweep, claim, gamma=SMALL)
            if sweep == "descent" and LARGE in of_sweep.gammas:
                small = of_sweep.interval(replace(DRIFT, gamma=SMALL)).estimate
                y = small - evidence.threshold("T2")
                left = of_sweep.gammas.index(LARGE) - 0.4
                kit.dashed(panel, left, left + 0.8, y)
                kit.note(panel, "T2", (left, y), ha="left", va="bottom")
            panel.set_title(title.replace(", ", ",\n"))
            panel.set_ylim(FLOOR, 1.15)
    axes[0].set_ylabel("R² of the anchors' drift at “leaving”\n(values below −1 lie outside)")
    kit.legend(figure, 3)
    return figure


def draw_value_flow(evidence: Evidence) -> Figure:
    """Predicted and measured change of W_V against training step, one line per rate."""
    evidence.table("value_flow")
    figure, [axes] = kit.panels(1, 3, 3.1, sharey=True)
    for panel, (column, title) in zip(axes, FLOWS.items(), strict=True):
        with kit.missing(panel):
            _along(panel, evidence, "one_layer", "value_flow", column)
            panel.set(title=title, ylim=(-0.1, 1.04))
    axes[0].set_ylabel("no unit (1: exact)")
    kit.legend(figure, 3)
    return figure


def draw_scaling(evidence: Evidence) -> Figure:
    """Error of Theorem 1 by width and its exponent (Eq. 13), and uniform attention at
    initialisation (Lemma 1)."""
    slopes = evidence.table("exponents_summary", quantity="exponent").sort_values("gamma")
    gammas = slopes["gamma"].tolist()
    figure, [[errors, exponents, lemma]] = kit.panels(1, 3, 3.6, 9.0)
    for y, (gamma, row) in enumerate(zip(gammas, slopes.to_dict("records"), strict=True)):
        colour, marker = kit.gamma_look(gamma, gammas)
        rows = evidence.table("inner_products", gamma=gamma)
        label = f"γ = {gamma:g}"
        kit.open_dots(errors, rows["d_model"], rows["error"], colour, marker, ms=3, label=label)
        means = evidence.table("inner_products_summary", gamma=gamma).sort_values("d_model")
        widths = means["d_model"]
        errors.plot(widths, means["mean"], color=colour, lw=1.4, zorder=3)
        errors.plot(widths, means["by_eq_13"], color=colour, lw=0.9, ls=kit.DASHED, zorder=2)
        values = evidence.table("exponents", gamma=gamma).sort_values("seed")["exponent"].dropna()
        kit.dots(exponents, y, values, kit.interval_of(row), colour, marker)
    errors.set(xscale="log", yscale="log", xlabel="d_model (log scale)")
    errors.set_title("Eq. 13: error by width")
    d_models = sorted(set(evidence.table("inner_products")["d_model"]))
    errors.xaxis.set_major_locator(FixedLocator(d_models))
    errors.xaxis.set_minor_locator(NullLocator())
    errors.xaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")
    errors.set_ylabel("largest error of an inner product\n(embedding units squared)")
    positions = range(len(gammas))
    look = {"color": kit.INK, "ls": kit.DASHED, "label": "slope 1 − γ (Eq. 13)"}
    exponents.plot(positions, 1 - slopes["gamma"], **look)
    exponents.set_xticks(positions, [f"{gamma:g}" for gamma in gammas])
    exponents.set(xlabel="rate γ", title="its exponent (below: as allowed)")
    exponents.set_ylabel("exponent of d_model (no unit)")
    table = evidence.table("lemma_1")
    for number, (d_model, rows) in enumerate(table.sort_values("gamma").groupby("d_model")):
        look = {"mfc": "white", "ms": 3.8, "lw": 1.2, "label": f"d_model = {d_model}"}
        look["color"] = kit.ATTENTION(0.4 + 0.2 * number)
        look["marker"] = kit.MARKERS[number % len(kit.MARKERS)]
        share = rows["share"]
        lemma.errorbar(rows["gamma"], share, [share - rows["low"], rows["high"] - share], **look)
    tolerance = float(table["tolerance"].iloc[0])
    kit.zero(lemma, 1 - tolerance, ls=kit.DASHED, zorder=1)
    lemma.set(title="Lemma 1: uniform attention", xlabel="rate γ", ylim=(-0.03, 1.06))
    lemma.set_ylabel(f"share with |A$_{{ij}}$ − 1/i| ≤ {tolerance:g}")
    kit.legend(figure, 6)
    return figure


FIGURES = {
    "learning": lambda evidence: draw_learning(evidence.sweep("adamw"), "B"),
    "embedding": lambda evidence: draw_embedding(
        evidence.sweep("adamw"), ("init", "early", "late")
    ),
    "label_distributions": draw_label_distributions,
    "agreement": draw_agreement,
    "drift_r2": draw_drift_r2,
    "value_flow": draw_value_flow,
    "scaling": draw_scaling,
}
