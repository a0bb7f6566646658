"""What a reader sees of a page."""

import re
from dataclasses import replace
from html import unescape
from unittest.mock import patch

import pytest
from drawing import texts

from rb_interp.claims.rule import OUTCOMES
from rb_interp.claims.samples import ReadingsTable
from rb_interp.figures.evidence import Evidence
from rb_interp.figures.kit import draw, settle
from rb_interp.report.page import render_page, typeset
from rb_interp.statistics.intervals import median_and_range


def visible(page: str) -> str:
    """The text of a page, or of a part of one, with plain spaces."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))).replace("\xa0", " ")


def check_addresses(study, evidence) -> set[str]:
    """Whatever figures and tables read at the address of a claim's number is that number.

    A table may name another layer than the claim. Returns the claims whose numbers are read.
    """
    return _check_reads(evidence, *read_while_drawn(study, evidence)[2:])


def read_while_drawn(study, evidence) -> tuple:
    """Figures by id, the page, and what they read: term, table and rows, figures' before the
    page's."""
    read, original = [], Evidence._rows

    def recorded(self, table, term):
        rows = original(self, table, term)
        read.append((replace(term, sweep=term.sweep or self.name), table, rows))
        return rows

    drawings = study.load("figures")
    with patch.object(Evidence, "_rows", recorded):
        figures = {id: draw(drawing, evidence) for id, drawing in drawings.items()}
        n_of_figures = len(read)
        # as files figures are looked at by other tests
        page = render_page(study, evidence, dict.fromkeys(drawings, b""))
    return figures, page, read, n_of_figures


def _check_reads(evidence, read, n_of_figures) -> set[str]:
    judged = ReadingsTable((evidence.whole or evidence).readings)
    claims = set()
    for i, (term, table, rows) in enumerate(read):
        claimed = []
        for claim in evidence.claims:
            claimed += [(claim.id, t) for t in claim.terms if _address(t) == _address(term)]
        own = [(id, t) for id, t in claimed if (t.layer, t.head) == (term.layer, term.head)]
        if not claimed or rows.empty or (i >= n_of_figures and not own and term.layer is not None):
            continue
        assert own, (term, claimed)
        claims |= {id for id, _ in own}
        values = judged.sample(own[0][1]).values
        if table == "readings":
            shown = rows.sort_values("seed").set_index("seed")["value"].dropna()
            assert shown.to_dict() == values, term
        else:
            median = median_and_range([*values.values()])[0]
            assert rows["median"].tolist() == pytest.approx([median], nan_ok=True), term
    return claims


def _address(term) -> tuple:
    gamma = None if term.gamma is None else round(term.gamma, 9)
    return term.probe, term.quantity, gamma, term.stage, term.set, term.sweep


def check_page(study, evidence, lacking=()) -> str:
    """The page of a run shows every figure and every verdict; figures and readings that the run
    lacks are told.

    A bare run has sentences in place of all.
    """
    figures, page, read, n_of_figures = read_while_drawn(study, evidence)
    for figure in figures.values():
        settle(figure)
    said = {id for id, figure in figures.items() if "This run has no" in texts(figure)}
    text = visible(page)
    for id in figures:
        assert f'<figure id="figure-{id}">' in page, id
        assert f'<h3 id="{id.replace("_", "-")}">{id}</h3>' not in page, f"{id} is not placed"
    assert said | {
        *re.findall(r"This run has no (?:rows in the table|readings of)\W+(\w+)", text)
    } == {*lacking}
    assert re.findall(r"The table “.{40}|.{40}\b(?:nan|None(?! of)|inf)\b", text) == []
    for verdict in evidence.verdicts:
        assert f'<span id="claim-{verdict.id}">' in page
        assert visible(typeset(verdict.statement)) in text
        assert all(
            visible(typeset(condition.criterion)) in text for condition in verdict.conditions
        )
    for outcome in OUTCOMES:
        count = sum(verdict.outcome == outcome for verdict in evidence.verdicts)
        assert (f"{outcome} ({count})" in text) == (count > 0)
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page) == []
    assert set(re.findall(r'href="#(claim-[^"]*)"', page)) <= set(
        re.findall(r'id="(claim-[^"]*)"', page)
    )
    _check_reads(evidence, read, n_of_figures)
    rows = {name: getattr(evidence, name).iloc[:0] for name in ("readings", "summary")}
    bare = replace(evidence, tables={}, arrays={}, **rows)
    for drawing in study.load("figures").values():
        draw(drawing, bare)
    assert "This run has no" in visible(render_page(study, bare, dict.fromkeys(figures, b"")))
    return page
