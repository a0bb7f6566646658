"""What a reader sees of a page."""

import re
from dataclasses import replace
from html import unescape

from drawing import texts

from rb_interp.claims.rule import OUTCOMES
from rb_interp.figures.kit import draw, settle
from rb_interp.report.page import render_page, typeset


def visible(page: str) -> str:
    """The text of a page, or of a part of one, with plain spaces."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))).replace("\xa0", " ")


def check_page(study, evidence, lacking=()) -> str:
    """The page of a run shows every figure and every verdict; figures and readings that the run
    lacks are told.

    A bare run has sentences in place of all.
    """
    drawings, said = study.load("figures"), set()
    images = dict.fromkeys(drawings, b"")  # as files they are looked at by other tests
    for id, drawing in drawings.items():
        settle(figure := draw(drawing, evidence))
        said |= {id} if "This run has no" in texts(figure) else set()
    page = render_page(study, evidence, images)
    text = visible(page)
    for id in images:
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
    rows = {name: getattr(evidence, name).iloc[:0] for name in ("readings", "summary")}
    bare = replace(evidence, tables={}, arrays={}, **rows)
    for drawing in drawings.values():
        draw(drawing, bare)
    assert "This run has no" in visible(render_page(study, bare, images))
    return page
