"""The figures of the language study: losses, cosines of token embeddings, ranks, next tokens, and
skills."""

import math
import textwrap
from dataclasses import replace
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rb_interp.claims import Term
from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.settings import SMALL
from rb_interp.statistics.intervals import mean_text, over_seeds
from rb_interp.studies.language.config import PAPER_COSINES
from rb_interp.studies.language.measure import delta_table
from rb_interp.studies.language.reasoning import N_SHOWN
from rb_interp.text.classes import CLASSES
from rb_interp.text.settings import CORPORA, MOST_STEPS

DOTTED = (0, (1, 1.2))
GROUPS = {"prontoqa": "PrOntoQA", "stories": "stories", "control": "stories, matched in frequency"}
EARLY = Term("token_similarity", "difference", None, "early")
DIFFERENCES = tuple(
    kit.Series(replace(EARLY, quantity=quantity), label, colour, marker)
    for quantity, label, colour, marker in (
        ("difference", "PrOntoQA − stories", kit.INK, "o"),
        ("difference_control", "the same, stories' matched", "#8a5a00", "D"),
        ("difference_counterpart", "the same, PrOntoQA's matched", "#b8860b", "s"),
        ("difference_centred", "the first, centred", "#6d2a78", "^"),
    )
)
KINDS = {
    "answer_two_way": ("answer, True against False alone", "#c4312a", "o"),
    "answer": ("answer, whole vocabulary", "#e58a7f", "s"),
    "chain": ("chain, all steps right", kit.INK, "D"),
    "premise": ("step: premise", "#3c9bd6", "^"),
    "rule": ("step: rule from the context", "#0a3d91", "v"),
    "conclusion": ("step: conclusion", "#6d2a78", "P"),
}
DECISIVE = {
    "rule": ("rule: object read in the prompt", kit.CORPUS_COLOURS["prontoqa"], MOST_STEPS),
    "fact": ("fact: object remembered", kit.CORPUS_COLOURS["stories"], len(CLASSES)),
}
"""Kind of target -> label, colour, and among how many objects a guess is."""
BY_CHANCE = 0.50
"""Share of two-way answers that are right by guessing."""
N_TIMES = 4
"""Kept steps after step 0 whose chains are shown, the last among them."""
NAMED, LONGEST = 20, 9
"""How many tokens are shown with their texts, and how much of a text."""


def _smallest(evidence: Evidence) -> float:
    return SMALL if SMALL in evidence.shown_gammas else evidence.shown_gammas[-1]


def _by_group(term: Term) -> list[kit.Series]:
    """A series a group, whose quantities are the term's with the group's name behind."""
    series = []
    for group, label in GROUPS.items():
        of_group = replace(term, quantity=f"{term.quantity}_{group}")
        colour = kit.CORPUS_COLOURS[group]
        series.append(kit.Series(of_group, label, colour, kit.CORPUS_MARKERS[group]))
    return series


def early_steps(evidence: Evidence, gamma: float) -> list[int]:
    """Steps of the stage ``early``, one a seed; empty if the run has none."""
    term = Term("corpus_loss", "early_step", gamma, "final")
    steps = [evidence.value(term, seed) for seed in evidence.seeds]
    return [int(step) for step in steps if math.isfinite(step)]


def draw_learning(evidence: Evidence) -> Figure:
    """Loss of each corpus along training by rate (after Fig. 1); how much more is lost on stories
    (after Fig. 7A)."""
    gammas = evidence.shown_gammas
    figure = kit.new_figure(5.6, max(kit.WIDTH, 2.1 * len(gammas)))
    grid = figure.add_gridspec(2, 3 * len(gammas))
    losses = [figure.add_subplot(grid[0, 3 * i : 3 * i + 3]) for i in range(len(gammas))]
    entropies = {row["corpus"]: row["entropy"] for row in evidence.records("corpora")}
    for axes, gamma in zip(losses, gammas, strict=True):
        with kit.missing(axes):
            for corpus in CORPORA:
                colour = kit.CORPUS_COLOURS[corpus]
                for part, dash, label in (
                    ("train", "-", "trained on"),
                    ("test", kit.DASHED, "held out"),
                ):
                    look = (colour, dash, f"{GROUPS[corpus]}, {label}")
                    kit.curve(axes, evidence, gamma, f"{corpus}_{part}", "loss", *look)
                if corpus in entropies:
                    axes.axhline(entropies[corpus], color=colour, lw=0.7, ls=DOTTED, zorder=1)
            for step in early_steps(evidence, gamma):
                look = {"ms": 6, "mec": "white", "clip_on": False, "zorder": 6}
                axes.plot([step], [0], "^", color=kit.INK, **look)
            axes.set_ylim(0, 1.6 * max(entropies.values()) if entropies else None)
            delta = mean_text(*evidence.interval(Term("corpus_loss", "delta_loss", gamma, "final")))
            axes.set_title(f"{kit.title_of(evidence, gamma)}\nΔL = {delta}")
    losses[0].set_ylabel("loss (nats per token)")
    course, plain, fair = (
        figure.add_subplot(grid[1, i * len(gammas) : (i + 1) * len(gammas)]) for i in range(3)
    )
    with kit.missing(course):
        for gamma, rows in cast(Any, delta_table(evidence.curves).groupby("gamma")):
            means = over_seeds(rows, ["step"], ["delta_loss"])
            colour = kit.gamma_colour(gamma, gammas)
            kit.band(course, rows, "delta_loss", means, colour, label=f"γ = {gamma:g}")
        kit.zero(course)
        kit.steps(course, float(evidence.curves["step"].to_numpy().max()))
        course.set_ylabel("ΔL = (L$_{stories}$ − L$_{PrOntoQA}$) / L$_{PrOntoQA}$")
    for axes, claim in ((plain, "G1"), (fair, "G1n")):
        with kit.missing(axes):
            trained = evidence.condition(claim).of
            held_out = replace(trained, quantity=f"{trained.quantity}_test")
            series = (
                kit.Series(trained, marker="o"),
                kit.Series(held_out, "held-out text", "#9a6a1c", "x"),
            )
            kit.rates(axes, evidence, *series, untrained=True, joined=True, average="mean")
            kit.zero(axes)
            kit.threshold(axes, evidence, claim, gamma=SMALL)
    plain.set_title("its mean over training")
    fair.set_title("the same, per unigram entropy")
    early = kit.key("stage “early” of a seed", kit.INK, "^", True)
    kit.legend(figure, 4, [early, kit.line("unigram entropy", kit.GREY, DOTTED, 0.7)])
    return figure


def draw_reasoning(evidence: Evidence) -> Figure:
    """Losses on what is read in the prompt and on what is remembered, by rate; below, the chains that
    the lowest seed writes to three held-out questions as training goes on."""
    gammas = evidence.shown_gammas
    width = max(kit.WIDTH, 2.5 * len(gammas))
    figure, axes = kit.panels(1 + N_SHOWN, len(gammas), 8.4, width, sharey="row")
    for (losses, *examples), gamma in zip(axes.T, gammas, strict=True):
        with kit.missing(losses):
            for kind, (label, colour, n_guesses) in DECISIVE.items():
                kit.curve(losses, evidence, gamma, kind, "loss", colour, "-", label)
                if (
                    kind == "fact" or evidence.config.task.query != "property"
                ):  # rules are more then
                    losses.axhline(math.log(n_guesses), color=colour, lw=0.7, ls=DOTTED, zorder=1)
            kit.steps(losses, float(evidence.curves["step"].to_numpy().max()), log=True)
            losses.set_title(kit.title_of(evidence, gamma))
        for number, panel in enumerate(examples):
            panel.axis("off")
            with kit.missing(panel):
                of_member = {"gamma": gamma, "seed": evidence.seeds[0]}
                written = evidence.table("chains", **of_member, example=number).sort_values("step")
                last = len(written) - 1
                shown = np.unique(np.linspace(min(1, last), last, N_TIMES).astype(int))
                *_, premise, query = written["prompt"].iloc[0].split(". ")
                texts = [(f"{premise}. {query.splitlines()[0]}", kit.INK)]
                for row in written.iloc[shown].to_dict("records"):
                    mark, colour = ("right", kit.INK) if row["right"] else ("wrong", kit.GREY)
                    texts.append((f"step {row['step']:,}, {mark}: {row['written']}", colour))
                top = 1.0
                for text, colour in texts:
                    lines = textwrap.wrap(text, 46, max_lines=4)
                    panel.text(0, top, "\n".join(lines), color=colour, va="top", fontsize=6)
                    top -= len(lines) / (1 + 4 * N_TIMES)
    axes[0, 0].set(ylabel="loss at the object (nats)", ylim=(0, 1.3 * math.log(len(CLASSES))))
    kit.legend(figure, 3, [kit.line("a guess among what may stand there", kit.GREY, DOTTED, 0.7)])
    return figure


def draw_token_cosines(evidence: Evidence) -> Figure:
    """Cosine matrices of PrOntoQA's, the stories' and frequency-matched tokens, all and the most
    frequent."""
    gamma = _smallest(evidence)
    figure, axes = kit.panels(2, len(GROUPS), 4.9)
    for (all_tokens, most_frequent), (group, name) in zip(axes.T, GROUPS.items(), strict=True):
        with kit.missing(all_tokens), kit.missing(most_frequent):
            early = replace(EARLY, gamma=gamma)
            seed, matrix = evidence.first(replace(early, quantity=f"cos_{group}_matrix"))
            _, tokens = evidence.first(replace(early, quantity=f"tokens_{group}"))
            if not len(matrix):
                raise MissingEvidenceError(
                    "This run has no token that is typical of this corpus, or none to match."
                )
            kit.heat_map(all_tokens, matrix)
            all_tokens.set(xticks=[], yticks=[])
            all_tokens.set_xlabel(f"the {len(matrix)} most frequent typical tokens")
            texts = evidence.table("tokens", seed=seed).set_index("token")["text"]
            names = [as_shown(str(texts.get(token, token))) for token in tokens[:NAMED].tolist()]
            kit.heat_map(most_frequent, matrix[:NAMED, :NAMED], names)
            most_frequent.tick_params(labelsize=5.5, pad=1)
            most_frequent.tick_params(axis="x", labelrotation=90)
            mean = mean_text(*evidence.interval(replace(early, quantity=f"cos_{group}")))
            all_tokens.set_title(f"{name}\nmean cos {mean}")
    images = [panel.images[0] for panel in axes.flat if panel.images]
    if images:
        figure.colorbar(images[0], ax=axes, label="cosine", shrink=0.5, aspect=30)
    return figure


def as_shown(text: str) -> str:
    """A token's text with its spaces visible, nine characters at most, and no mathematics.

    >>> as_shown(" every"), as_shown("$1"), as_shown(" mathematician"), as_shown(chr(10))
    ('·every', '\\\\$1', '·mathema…', '⏎')
    """
    text = text.replace(" ", "·").replace("\n", "⏎").replace("\t", "→")
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return text.replace("$", r"\$")


def draw_token_similarity(evidence: Evidence) -> Figure:
    """Mean cosines by corpus at early and final, differences early beside their nulls, and cosines
    along training."""
    figure, axes = kit.panels(2, 2, 5.8, 7.6)

    def beside(x: float, series: kit.Series, term: Term) -> None:
        """The untrained model, the interval over tokens, and two standard deviations of the
        null."""
        kit.level(axes_now, x, evidence.untrained(term), kit.GREY, 0.1)
        address = {"quantity": term.quantity, "gamma": term.gamma, "stage": term.stage}
        intervals = evidence.table("token_intervals", **address)
        low, high = over_seeds(intervals, ["gamma"], ["low", "high"])["mean"]
        axes_now.vlines(x, low, high, color=series.colour, lw=4.5, alpha=0.28, zorder=0.8)
        mean = _null(evidence, term, "null_mean")
        spread = 2 * _null(evidence, term, "null_sd")
        ends = mean - spread, mean + spread
        axes_now.fill_between([x - 0.1, x + 0.1], *ends, color="#d2d2d2", lw=0, zorder=0)

    for axes_now, stage in ((axes[0, 0], "early"), (axes[0, 1], "final"), (axes[1, 0], "")):
        with kit.missing(axes_now):
            cosines = replace(EARLY, quantity="cos", stage=stage)
            series = _by_group(cosines) if stage else DIFFERENCES
            kit.rates(axes_now, evidence, *series, average="mean", width=0.04, beside=beside)
            kit.zero(axes_now)
            axes_now.set_title(f"mean cosine, {stage}" if stage else "differences, early")
            if stage == "early" and SMALL in evidence.gammas:
                ends = evidence.gammas.index(SMALL) - 0.45, evidence.gammas.index(SMALL) + 0.45
                for group, value in PAPER_COSINES.items():
                    axes_now.plot(ends, [value] * 2, color=kit.CORPUS_COLOURS[group], ls=DOTTED)
    with kit.missing(axes[1, 0]):
        kit.threshold(axes[1, 0], evidence, "G3", gamma=SMALL)
    with kit.missing(axes[1, 1]):
        _course(axes[1, 1], evidence)
    axes[0, 0].set_ylabel("mean cos of two tokens")
    axes[1, 0].set_ylabel("difference of mean cosines")
    entries = [
        kit.line("untrained models", kit.GREY),
        kit.line("the paper", kit.INK, DOTTED, 1.0),
        kit.line("null, ± 2 sd", "#d2d2d2", width=5.0),
        kit.line("95 % over tokens", kit.GREY, width=4.5, alpha=0.28),
    ]
    kit.legend(figure, 3, entries)
    return figure


def _null(evidence: Evidence, term: Term, column: str) -> float:
    """Mean over seeds of a null's mean or standard deviation; NaN without one."""
    try:
        return float(evidence.values(term, column).mean())
    except MissingEvidenceError:
        return math.nan


def _course(axes: Axes, evidence: Evidence) -> None:
    """Mean cosines of each list of tokens against kept steps, with the stage ``early`` of every
    seed."""
    gamma = _smallest(evidence)
    table = evidence.table("similarity", gamma=gamma)
    for group in GROUPS:
        quantity = f"cos_{group}"
        means = evidence.table("similarity_summary", gamma=gamma, quantity=quantity)
        means = means.dropna(subset=["mean"])
        if len(means):  # no control where the stories have fewer typical tokens than PrOntoQA
            kit.band(axes, table, quantity, means, kit.CORPUS_COLOURS[group])
    kit.zero(axes)
    kit.kept_steps(axes, np.unique(table["step"].to_numpy(dtype=float)))
    for step in sorted(set(early_steps(evidence, gamma))):
        axes.axvline(step, color=kit.INK, lw=0.8, ls=DOTTED, zorder=1.0)
    axes.set_title(f"mean cosine along training, γ = {gamma:g} (dotted: early)")


def draw_embedding_rank(evidence: Evidence) -> Figure:
    """Participation ratio over the untrained model's, leading shares of the variance, stable ranks
    of the weights."""
    figure, [[ratio, shares, weights]] = kit.panels(1, 3, 3.1, 7.8, width_ratios=(1.15, 1, 1.15))
    rank = Term("embedding_rank", "", None, "final")
    with kit.missing(ratio):
        participation = replace(rank, quantity="participation_ratio")
        all_tokens = replace(rank, quantity="participation_ratio_all")
        series = [*_by_group(participation), kit.Series(all_tokens, "all tokens", kit.INK, "^")]
        kit.rates(ratio, evidence, *series, average="mean", width=0.035)
        kit.zero(ratio, 1.0)
        ratio.set_title("embeddings: effective directions,\nfinal over untrained")
    with kit.missing(shares):
        terms = {f"the first {n}": replace(rank, quantity=f"share_{n}_all") for n in (1, 3, 10)}
        kit.quantities(shares, evidence, terms)
        shares.set_ylim(0, 1.02)
        shares.set_title("all tokens: share of the variance\nalong leading directions, final")
    with kit.missing(weights):
        terms = {}
        for name in ("W_QK", "W_OV", "W_in", "W_out"):
            terms[name] = Term("weight_rank", f"stable_rank_{name}", None, "final", layer=0)
        kit.quantities(weights, evidence, terms, relative=True)
        kit.zero(weights, 1.0)
        weights.set(ylim=(0, None), title="L0: stable rank,\nfinal over untrained")
    kit.legend(figure, 4)
    return figure


def draw_next_token(evidence: Evidence) -> Figure:
    """Correlation of the geometries by rate and stage, a panel for each list of tokens, beside its
    null."""
    figure, [axes] = kit.panels(1, 3, 3.0, sharey=True)
    colours = {**{g: kit.CORPUS_COLOURS[g] for g in CORPORA}, "all": kit.INK}
    marks = {"init": ("untrained", "v"), "early": ("early", "o"), "final": ("final", "s")}

    def null_bar(x: float, _: kit.Series, term: Term) -> None:
        kit.level(panel, x, _null(evidence, term, "null_mean"), kit.GREY, 0.1)

    for panel, (group, colour) in zip(axes, colours.items(), strict=True):
        with kit.missing(panel):
            series = []
            for stage, (_, marker) in marks.items():
                term = Term("next_token", f"spearman_{group}", None, stage)
                series.append(kit.Series(term, "", colour, marker))
            kit.rates(panel, evidence, *series, average="mean", width=0.05, beside=null_bar)
            kit.zero(panel)
        panel.set_title({**GROUPS, "all": "both, all pairs"}[group])
    axes[0].set_ylabel("Spearman over pairs of tokens")
    null = kit.line("null: tokens permuted among neighbours in frequency", kit.GREY, width=2.0)
    entries = [kit.key(label, kit.INK, marker) for label, marker in marks.values()]
    kit.legend(figure, 4, [*entries, null])
    return figure


def draw_skills(evidence: Evidence) -> Figure:
    """Accuracy at the last step against hops: answers, where questions have some, above steps and
    whole chains; a column per rate."""
    gammas, kinds = evidence.shown_gammas, [*KINDS]
    rows_of_panels = [("chain of thought", kinds[2:])]
    if evidence.config.task.query == "property":
        rows_of_panels.insert(0, ("answer", kinds[:2]))
    n_rows, width = len(rows_of_panels), max(kit.WIDTH, 2.1 * len(gammas))
    figure, axes = kit.panels(n_rows, len(gammas), 2.2 * n_rows, width, sharey=True)
    for line, (title, members) in zip(axes, rows_of_panels, strict=True):
        for panel, gamma in zip(line, gammas, strict=True):
            with kit.missing(panel):
                where = {"gamma": gamma, "step": evidence.config.train.steps}
                for kind in members:
                    where |= {"accuracy_of": kind, "quantity": "accuracy"}
                    rows = evidence.table("skills_summary", **where).sort_values("hops")
                    label, colour, marker = KINDS[kind]
                    ends = rows["low"].clip(0, 1), rows["high"].clip(0, 1)
                    panel.vlines(rows["hops"], *ends, color=colour, lw=0.9)
                    look = {"marker": marker, "ms": 4, "mfc": "white", "label": label}
                    panel.plot(rows["hops"], rows["mean"], color=colour, **look)
            panel.set(title=f"{title}, γ = {gamma:g}", ylim=(-0.03, 1.05), xlabel="hops")
            panel.set_xticks(evidence.config.task.hops)
            if title == "answer":
                kit.zero(panel, BY_CHANCE, ls=kit.DASHED)
    axes[0, 0].set_ylabel("share right")
    chance = kit.line("chance of two answers", kit.GREY, kit.DASHED, 0.8)
    kit.legend(figure, 3, [chance] if n_rows == 2 else [])
    return figure


FIGURES = {
    "learning": draw_learning,
    "reasoning": draw_reasoning,
    "token_similarity": draw_token_similarity,
    "token_cosines": draw_token_cosines,
    "embedding_rank": draw_embedding_rank,
    "next_token": draw_next_token,
    "skills": draw_skills,
}
