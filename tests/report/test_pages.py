"""The report of each study: every figure draws, and the page holds every verdict, without a raw value."""

import re

import pytest
from report.pages import visible
from studies.labels.synthetic_labels import make_labels

from rb_interp.figures.save import save_figures
from rb_interp.report.page import render_page, report_facts, typeset
from rb_interp.runs.registry import study as study_of

pytestmark = pytest.mark.wide

MADE = {"labels": lambda: make_labels(5)}


@pytest.mark.parametrize("name", MADE)
def test_every_figure_draws_and_every_verdict_stands_in_the_page(name, tmp_path):
    study, evidence = study_of(name), MADE[name]()
    images = save_figures(study.load("figures"), evidence, tmp_path)
    page = render_page(study, evidence, images)
    text = visible(page)
    for id, image in images.items():
        assert f'<figure id="figure-{id}">' in page, id
        assert b"This run has no" not in image
    assert "This run has no" not in text
    for verdict in evidence.verdicts:
        assert f'<span id="claim-{verdict.id}">' in page
        assert visible(typeset(verdict.statement)) in text
        assert visible(typeset(verdict.criterion)) in text
    for outcome, count in report_facts(study, evidence)["counts"].items():
        assert (f"{outcome} ({count})" in text) == (count > 0)
    assert not re.search(r"\b(nan|None|inf)\b", text)
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page) == []
    assert "{{" not in page
