"""What a reader sees of a page."""

import re
from dataclasses import replace
from html import unescape

from rb_interp.figures.style import save_figures
from rb_interp.report.page import render_page, report_facts, typeset


def visible(page: str) -> str:
    """The text of a page, or of a part of one, with plain spaces."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))).replace("\xa0", " ")


def check_page(study, evidence, folder) -> str:
    """Every figure draws from the run, and the page shows each, and every verdict; a bare run gives sentences."""
    images = save_figures(study.load("figures"), evidence, folder)
    page = render_page(study, evidence, images)
    text = visible(page)
    for id in images:
        assert f'<figure id="figure-{id}">' in page, id
        assert f'<h3 id="{id.replace("_", "-")}">{id}</h3>' not in page, f"{id} is not placed"
    assert re.findall(r"This run has no.{40}|The table “.{40}|.{40}\b(?:nan|None(?! of)|inf)\b", text) == []
    for verdict in evidence.verdicts:
        assert f'<span id="claim-{verdict.id}">' in page
        assert visible(typeset(verdict.statement)) in text
        assert all(visible(typeset(condition.criterion)) in text for condition in verdict.conditions)
    for outcome, count in report_facts(study, evidence)["counts"].items():
        assert (f"{outcome} ({count})" in text) == (count > 0)
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page) == []
    assert set(re.findall(r'href="#(claim-[^"]*)"', page)) <= set(re.findall(r'id="(claim-[^"]*)"', page))
    rows = {name: getattr(evidence, name).iloc[:0] for name in ("readings", "summary")}
    bare = replace(evidence, tables={}, arrays={}, **rows)
    assert "This run has no" in visible(render_page(study, bare, save_figures(study.load("figures"), bare, folder)))
    return page
