"""The report of a run: report.html from its study's Markdown template, and figures/.

A study's template is Jinja that makes Markdown. It extends ``page.md.jinja``, fills the blocks
``opening`` and ``details``, and calls the methods of `Page`: ``figure``, ``terms``, ``readings``,
``rows``, ``grid``, ``threshold``, ``constant`` and ``checks``.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from rb_interp.claims.claim import COPIES, Term
from rb_interp.claims.rule import MIN_SEEDS, OUTCOMES
from rb_interp.claims.verdict import cautions, effect_text
from rb_interp.errors import StudyError, nearest
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.figures.kit import save_figures
from rb_interp.settings import read_toml
from rb_interp.statistics.intervals import mean_text, number, seeds_text, share_text, two_digits
from rb_interp.store import write_file

if TYPE_CHECKING:
    from rb_interp.claims import Verdict

__all__ = ["Page", "write_report"]

FOLDER = Path(__file__).parent
ENDS = {
    "mean": ("mean", "low", "high"),
    "median": ("median", "lowest", "highest"),
    "share": ("share", "low", "high"),
    "effect": ("effect", "low", "high"),
    "control": ("control", "control_low", "control_high"),
    "true_positive": ("true_positive_rate", "true_positive_low", "true_positive_high"),
    "false_positive": ("false_positive_rate", "false_positive_low", "false_positive_high"),
}
"""A number over seeds or models -> the columns of a table with it and its ends."""
DIGIT = re.compile(r"(?<![\w)-])-(?=[.\d])")


class ReportedStudy(Protocol):
    """What a report needs of a study."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def question(self) -> str: ...
    @property
    def report(self) -> Path | None: ...

    def load(self, name: str) -> Any:
        """Its figures, glossary and causal checks."""


def write_report(study: ReportedStudy, evidence: Evidence, folder: str | Path) -> Path:
    """Draw all figures into ``folder/figures`` and write ``report.html``; returns the page."""
    folder = Path(folder)
    images = save_figures(study.load("figures"), evidence, folder / "figures")
    write_file(folder / "report.html", render_page(study, evidence, images).encode())
    return folder / "report.html"


def render_page(study: ReportedStudy, evidence: Evidence, images: Mapping[str, bytes]) -> str:
    """The page as HTML; ``images``: figure id -> SVG; StudyError for a figure that is unknown, or
    shown twice."""
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined
    )
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.filters.update(two=two_digits, typeset=typeset, seeds=seeds_text)
    template = '{% extends "page.md.jinja" %}'
    if study.report:
        template = study.report.read_text(encoding="utf-8")
    page = Page(study, evidence, images)
    text = environment.from_string(template).render(page.names())
    body, sections = _html(text)
    shell = environment.get_template("page.html.jinja")
    return shell.render(title=study.title, question=study.question, body=body, sections=sections)


def _html(text: str) -> tuple[Markup, dict[str, str]]:
    """Markdown as HTML whose headings have ids, and id -> words of the second-level headings."""
    markdown = MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = markdown.parse(text)
    sections = {}
    for heading, title in pairwise(tokens):
        if heading.type == "heading_open":
            plain = re.sub(r"<[^>]*>", "", title.content).lower()
            anchor = re.sub(r"\W+", "-", plain).strip("-")
            heading.attrSet("id", anchor)
            if heading.tag == "h2":
                sections[anchor] = title.content
    return Markup(markdown.renderer.render(tokens, markdown.options, {})), sections


def _or_sentence(render: Callable[..., Any]) -> Callable[..., Any]:
    """A sentence in place of what the run lacks; below the rest, who never came to its stages."""

    def render_or_say(page: Page, *args: Any, **kwargs: Any) -> Any:
        requests = page.evidence.requests
        requests.clear()
        try:
            text = render(page, *args, **kwargs)
            note = page.evidence.unreached(requests)
            return text + Markup("\n*{}*\n").format(note) if note else text
        except MissingEvidenceError as missing:
            return Markup("*{}*").format(str(missing))

    return render_or_say


class Page:
    """What a template can show of a run."""

    def __init__(
        self, study: ReportedStudy, evidence: Evidence, images: Mapping[str, bytes]
    ) -> None:
        self.study = study
        self.evidence = evidence
        self.images = images
        self.placed = []

    def names(self) -> dict[str, Any]:
        """Every name that a template may use."""
        names = {name: getattr(self, name) for name in dir(self) if not name.startswith("_")}
        names["warnings"] = list(warnings(self.evidence))
        names["glossary"] = self._glossary()
        names["versions"] = self.evidence.meta.get("versions") or {}
        return names

    def figure(
        self, id: str, title: str, claims: str = "", caller: Callable[[], str] = str
    ) -> Markup:
        """A figure with its title; its caption stands between ``{% call %}`` and ``{% endcall %}``."""
        if id not in self.images or id in self.placed:
            problem = "it is shown already" if id in self.placed else nearest(id, self.images)
            raise StudyError(
                f"the report of '{self.study.name}' shows the figure '{id}'; {problem}"
            )
        self.placed.append(id)
        links = ", ".join(f"[{claim}](#claim-{claim})" for claim in claims.split())
        image = Markup('<img src="data:image/svg+xml;base64,{}" alt="{}">').format(
            b64encode(self.images[id]).decode(), title
        )
        text = Markup(
            '### {}\n\n<figure id="figure-{}">{}\n<figcaption>\n\n{}{}\n\n</figcaption></figure>\n'
        )
        return text.format(title, id, image, caller(), f" Claims: {links}." if links else "")

    def rest(self) -> list[str]:
        """Figures that the template has not shown, in their order."""
        return [id for id in self.images if id not in self.placed]

    def table(self, headings: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Markup:
        """A table; numbers as readers see them."""
        lines = [headings, ["---"] * len(headings), *rows]
        text = Markup("\n")
        for line in lines:
            cells = (str(escape(_text(cell))).replace("|", "\\|") for cell in line)
            text += Markup(f"| {' | '.join(cells)} |\n")
        return text

    def terms(self, probe: str, quantities: Mapping[str, str], **address: Any) -> list[Term]:
        """Terms of a probe, to be read at every rate: quantity -> what the page calls it.

        Args:
            address: stage (``final`` if not given), set, layer, head and sweep. A mapping of
                several stages, sets, layers or sweeps gives a term for each, with its words behind.
        """
        address = {"sweep": "", **address}
        address.setdefault("stage", "final")
        choices = []
        for value in address.values():
            choices.append(value.items() if isinstance(value, Mapping) else [(value, "")])
        terms = []
        for (quantity, phrase), *options in product(quantities.items(), *choices):
            values: dict[str, Any] = {}
            for name, (value, _) in zip(address, options, strict=True):
                values[name] = value
            label = ", ".join(filter(None, [phrase, *(text for _, text in options)]))
            terms.append(Term(probe, quantity, None, label=label, **values))
        return terms

    @_or_sentence
    def readings(self, terms: Iterable[Term], over: str = "median") -> Markup:
        """Readings over seeds: terms down, rates across.

        Args:
            over: ``median`` [range] or ``mean`` [95 %].
        """
        terms = list(terms)
        gammas = self.evidence.gammas
        rows = []
        for term in terms:
            evidence = self.evidence.sweep(term.sweep)
            interval_of = evidence.spread if over == "median" else evidence.interval
            cells = []
            for gamma in gammas:
                interval = (
                    interval_of(replace(term, gamma=gamma)) if gamma in evidence.gammas else None
                )
                cells.append("" if interval is None else mean_text(*interval))
            if set(cells) - {"n/a", ""}:
                rows.append([term.label, *cells])
        if not rows:
            raise MissingEvidenceError(f"This run has no readings of {terms[0].probe}.")
        return self.table([HEADINGS[over], *(f"γ = {gamma:g}" for gamma in gammas)], rows)

    @_or_sentence
    def rows(
        self,
        rows: str | Iterable[Mapping],
        columns: Mapping[str, str],
        sweep: str = "",
        **where: Any,
    ) -> Markup:
        """Rows of a table, by its name or as given; ``columns``: column -> heading, those of ENDS
        with their ends."""
        if isinstance(rows, str):
            table = self.evidence.sweep(sweep).table(rows, **where)
            table = table.sort_values("gamma", kind="stable") if "gamma" in columns else table
            rows = table.to_dict("records")
        lines = [[_cell(row, column) for column in columns] for row in rows]
        return self.table([*columns.values()], lines)

    @_or_sentence
    def grid(
        self,
        name: str,
        down: str | Sequence[str],
        across: str,
        cell: str = "mean",
        sweep: str = "",
        **where: Any,
    ) -> Markup:
        """A table with the values of ``across`` as columns, and of ``down`` as rows; a cell is as
        in `rows`."""
        table = self.evidence.sweep(sweep).table(name, **where)
        down = [down] if isinstance(down, str) else list(down)
        heads = list(dict.fromkeys(table[across]))
        lines = []
        for keys, group in table.groupby(down, sort=False):
            cells = {row[across]: _cell(row, cell) for row in group.to_dict("records")}
            lines.append([*keys, *(cells.get(head, "") for head in heads)])  # pyright: ignore[reportGeneralTypeIssues]
        if across == "gamma":
            heads = [f"γ = {head:g}" for head in heads]
        return self.table([*down, *heads], lines)

    def constant(self, address: str) -> Any:
        """A value by its address, ``package.module:name``."""
        module, _, name = address.partition(":")
        return getattr(import_module(module), name)

    def checks(self) -> Markup:
        """Each causal check: what is done and its control, effect and control by rate, both
        verdicts."""
        gammas = self.evidence.gammas
        verdicts = {verdict.id: verdict for verdict in self.evidence.verdicts}
        template = Markup("{}<br>control {}")
        lines = []
        for check, result in zip(self.study.load("checks"), self.evidence.checks, strict=True):
            action = f"{check.done}. Control: {check.control_done}. "
            action += f"Refuted if {check.refuted_if}. In {result.quantity}."
            cells = dict.fromkeys(gammas, "")
            for cell in result.by_gamma:
                cells[cell["gamma"]] = template.format(
                    _cell(cell, "effect"), _cell(cell, "control")
                )
            outcomes = (_decided(result.verdict), _decided(verdicts.get(check.of)))
            effects = (cells[gamma] for gamma in gammas)
            lines.append([check.of, typeset(action), *effects, *outcomes])
        rates = (f"γ = {gamma:g}" for gamma in gammas)
        return self.table(["claim", "intervention", *rates, "it decides", "the claim"], lines)

    def threshold(self, claim: str, number: int = 0) -> str:
        """The threshold of a condition, as it is written in figures."""
        value = self.evidence.threshold(claim, number)
        return two_digits(value) if abs(value) <= 1 else f"{value:g}"

    def verdicts(self) -> Markup:
        """Every claim under its outcome, with the seeds that meet it and its cautions."""
        parts = []
        for outcome in OUTCOMES:
            verdicts = [verdict for verdict in self.evidence.verdicts if verdict.outcome == outcome]
            if verdicts:
                lines = Markup("\n").join(map(_verdict_line, verdicts))
                parts.append(
                    Markup("### {} ({})\n\n{}\n").format(badge(outcome), len(verdicts), lines)
                )
        return Markup("\n").join(parts)

    def within(self) -> Markup:
        """Verdicts within groups of seeds, beside those of all seeds."""
        assert self.evidence.within is not None
        groups = self.evidence.within.groups
        by_id = {verdict.id: verdict for verdict in self.evidence.verdicts}
        sizes = (f"{len(g.seeds)} of {g.total}, {share_text(*g.share)}" for g in groups)
        lines = [["seeds", "", *sizes]]
        for verdict in groups[0].verdicts:
            verdicts = [by_id.get(verdict.id), *(group.verdicts[verdict.id] for group in groups)]
            lines.append([verdict.id, *map(_decided, verdicts)])
        return self.table(["claim", "all seeds", *(group.name for group in groups)], lines)

    def all_claims(self) -> Markup:
        """Every claim with its criterion, what was measured, and why it was judged so."""
        measured = "criterion, and what was measured"
        headings = ("claim", measured, "met by", "median [range]", "untrained", "verdict")
        return self.table(headings, map(self._claim, self.evidence.verdicts))

    def _claim(self, verdict: Verdict) -> list[Any]:
        conditions = verdict.conditions if len(verdict.conditions) > 1 else ()
        criterion = "all of these conditions" if conditions else typeset(verdict.criterion)
        text = Markup("{}: {}<br>{}").format(verdict.source, criterion, typeset(verdict.reason))
        for result in (*conditions, *verdict.context):
            mark = "shown, not judged:"
            met_by = ""
            if result.criterion:
                mark = badge(result.outcome)
                if verdict.unit == "seed":
                    met_by = f", met by {result.n_meeting}/{result.n_seeds}"
            numbers = f"{effect_text(result)}{met_by}, untrained {number(result.untrained)}"
            statistic = typeset(result.criterion or result.statistic)
            text += Markup("<br>{} {}: {}").format(mark, statistic, numbers)
        share = ""
        if verdict.n_seeds and verdict.unit != "interval":
            share = verdict.n_meeting / verdict.n_seeds
            share = share_text(share, verdict.share_low, verdict.share_high)
        marks = {True: self._positives(verdict.id), False: "not calibrated", None: ""}
        withheld = verdict.withheld and verdict.calibrated is not None
        notes = [marks[verdict.calibrated]]
        if withheld:
            notes = [f"withheld; alone {verdict.uncalibrated_outcome}"]
        if verdict.learned is False:
            notes.append(verdict.reason.partition(":")[0])
        if verdict.met_at_initialisation:
            notes.append("met at initialisation")
        decided = Markup("<br>").join([badge(verdict.outcome), *filter(None, notes)])
        met_by = Markup("{}<br>{}").format(verdict.met_by, share)
        id = Markup('<span id="claim-{}">**{}**</span>').format(verdict.id, verdict.id)
        return [id, text, met_by, effect_text(verdict), number(verdict.untrained), decided]

    def _positives(self, claim: str) -> str:
        """How many models known to be true the calibration of a claim rests on, by their source."""
        known = self.evidence.meta.get("calibration")
        if known is None:
            return "calibrated"
        rows = [*({**row, "source": "hand-written"} for row in known.rates), *known.trained]
        rows = [row for row in rows if row["detector"] == claim and row["n_positive"]]
        rows = [row for row in rows if row["source"] not in COPIES]
        counts = ", ".join(f"{row['source']} {row['n_positive']}" for row in rows)
        return f"calibrated on models known to be true: {counts}"

    def _glossary(self) -> dict[str, str]:
        """Words of every report, of verdicts, of the study, and those that it shares."""
        glossary = read_toml(FOLDER / "glossary.toml")
        of_study = glossary.get(self.study.name, {})
        shared = {name: glossary["shared"][name] for name in of_study.pop("uses", [])}
        verdicts = glossary["verdicts"] if self.evidence.verdicts else {}
        return {
            **glossary["every"],
            **verdicts,
            **shared,
            **of_study,
            **self.study.load("glossary"),
        }


HEADINGS = {
    "median": "median over seeds [lowest, highest]",
    "mean": "mean over seeds [95 % interval]",
}


def _verdict_line(verdict: Verdict) -> Markup:
    marks = []
    for caution, sentence in cautions(verdict).items():
        marks.append(Markup('<span class="caution" title="{}">{}</span>').format(sentence, caution))
    line = Markup("- [**{}**](#claim-{}) {} *{}* {}")
    cautions_text = Markup(" ").join(marks)
    return line.format(
        verdict.id, verdict.id, typeset(verdict.statement), verdict.met_by, cautions_text
    )


def badge(outcome: str) -> Markup:
    """An outcome as a coloured word."""
    return Markup('<span class="verdict {}">{}</span>').format(outcome.replace(" ", "-"), outcome)


def _decided(verdict: Verdict | None) -> str:
    """An outcome and how many seeds meet the claim; nothing without a verdict."""
    return Markup("{} {}").format(badge(verdict.outcome), verdict.met_by) if verdict else ""


def _text(cell: Any) -> Any:
    if isinstance(cell, bool | str):
        return cell
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    if isinstance(cell, int | float):
        return number(cell)
    return "n/a" if cell is None or cell is pd.NA else cell


def _cell(row: Mapping[str, Any], column: str) -> Any:
    if column == "ends":
        return f"[{mean_text(row['low'], math.nan, math.nan)}, {mean_text(row['high'], math.nan, math.nan)}]"
    if column in ENDS and ENDS[column][-1] in row:
        ends = (row.get(end) for end in ENDS[column])
        return mean_text(*(math.nan if end is None else end for end in ends))
    return f"{row[column]:g}" if column == "gamma" and row[column] == row[column] else row[column]


def warnings(evidence: Evidence) -> Iterator[str]:
    """What a reader of any part of the page must not overlook: a smoke run, too few seeds."""
    if evidence.scale == "smoke":
        yield "This is a smoke run. It shows that every part works and says nothing about the question."
    if evidence.meta.get("note"):
        yield evidence.meta["note"]
    if evidence.verdicts and len(evidence.seeds) < MIN_SEEDS:
        few = seeds_text(len(evidence.seeds))
        yield f"This run has {few}. No claim about members can hold or fail with fewer than {MIN_SEEDS}."


def typeset(text: str) -> str:
    """Plain text with the signs of print.

    >>> typeset("B >= -0.1 in 2-3 layers")
    'B ≥ −0.1 in 2-3 layers'
    """
    return DIGIT.sub("−", text.replace(">=", "≥").replace("<=", "≤"))
