"""The report as content and as files: nothing is lost on the way from the evidence to the page."""

import base64
import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from report.pages import claim_rows, visible
from synthetic_evidence import make_evidence

from rb_interp.claims import Standing, Verdicts, Within, judge
from rb_interp.figures.numbers import number
from rb_interp.figures.panels import sentence_figure
from rb_interp.report.content import OUTCOMES, json_safe, report_content
from rb_interp.report.section import (
    Details,
    Figure,
    Narrative,
    Paragraph,
    Section,
)
from rb_interp.report.write import render_html, typeset, write_report
from rb_interp.runs.config import from_mapping
from rb_interp.runs.protocol import Study
from rb_interp.settings import to_toml
from rb_interp.studies.anchor import ANCHOR
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.studies.anchor.error_rates import MECHANISM_CLAIMS
from rb_interp.studies.anchor.figures import FIGURES

pytestmark = pytest.mark.wide

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")


@pytest.fixture(scope="module")
def evidence():
    made = make_evidence(seeds=2)
    standings = dict.fromkeys(MECHANISM_CLAIMS, Standing(True)) | {"M4": Standing(False)}
    first, *others = judge(made.readings, CLAIMS, scale="smoke", standings=standings)
    escaped = replace(first, statement="L0 averages <all> tokens & nothing else.")
    meta = {**made.meta, "toml": to_toml("anchor", made.config), "expected_by_chance": (0.525, 0.25)}
    return replace(made, scale="smoke", verdicts=Verdicts([escaped, *others]), meta=meta)


def titled(spec):
    """The same figure with its caption, but its title for a picture: pictures are looked at by other tests."""
    return replace(spec, draw=lambda evidence: sentence_figure(spec.title))


@pytest.fixture(scope="module")
def folder(evidence, tmp_path_factory):
    folder, study = tmp_path_factory.mktemp("run"), replace(ANCHOR, figures=(*map(titled, FIGURES[:-1]), FIGURES[-1]))
    assert write_report(study, evidence, folder) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text()


def page_of(evidence, study: Study = ANCHOR) -> str:
    content = report_content(study, evidence)
    return render_html(content, {figure["id"]: b"" for figure in content["figures"]})


def test_every_claim_stands_in_the_page_with_its_verdict(evidence, page):
    rows, counts = claim_rows(page), Counter(verdict.outcome for verdict in evidence.verdicts)
    assert list(rows) == [claim.id for claim in CLAIMS]
    for verdict in evidence.verdicts:
        text = visible(rows[verdict.id])
        assert verdict.outcome in text
        assert f"{verdict.n_meeting} of {verdict.n_seeds}" in text
        for words in (verdict.statement, verdict.criterion, verdict.reason):
            assert visible(typeset(words)) in text or "<" in words
    tally = re.findall(r'<li><b>(\d+)</b>\s*<span class="verdict ([\w-]+)">', page)
    said = {outcome.replace("-", " "): int(n) for n, outcome in tally}
    assert said == {outcome: counts[outcome] for outcome in OUTCOMES}
    families = re.findall(r'<tr class="family"><th colspan="6" scope="colgroup">(\w[\w ]*)<', page)
    assert families == ["Learning order", "Embedding", "Initialisation", "Mechanism", "Equivalence of circuits"]


def test_every_figure_stands_in_the_page_with_its_caption(evidence, folder, page):
    images = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', page)
    text = visible(page)
    for spec, image in zip(FIGURES, images, strict=True):
        assert base64.b64decode(image) == (folder / "figures" / f"{spec.id}.svg").read_bytes()
        caption = spec.caption(evidence)
        assert visible(typeset(caption.seen)) in text
        assert visible(typeset(caption.would_refute)) in text


def test_the_file_of_data_holds_the_same_as_the_page(evidence, folder, page):
    told, text = json.loads((folder / "report.json").read_text()), visible(page)
    assert told == json.loads(json.dumps(report_content(ANCHOR, evidence), allow_nan=False))
    for claim, verdict in zip(told["claims"], evidence.verdicts.to_json(), strict=True):
        assert {name: claim[name] for name in verdict} == json_safe(verdict)
    assert "0.53 HOLDS and 0.25 FAILS" in text
    answer = told["answer"]
    for sentence in [*answer["sentences"], *answer["warnings"], *told["glossary"].values()]:
        assert visible(typeset(sentence)) in text


def test_the_page_needs_nothing_but_itself_and_shows_no_raw_values(page):
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page) == []
    assert "<script" not in page
    assert "url(" not in page
    assert "L0 averages <all> tokens & nothing else." in visible(page)
    assert "<all>" not in page
    assert not re.search(r"\b(nan|None|inf)\b|layer \d|[Tt]win|[Pp]lacebo", visible(page))
    places = re.findall(r' id="([^"]+)"', page)
    assert len(places) == len(set(places))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(places)


def test_the_configuration_on_the_page_can_be_run_again(evidence, page):
    block = visible(re.findall(r"<pre>(.*?)</pre>", page.replace("\n", "␤"))[-1]).replace("␤", "\n")
    data = tomllib.loads(block)
    assert data.pop("study") == "anchor"
    assert from_mapping(AnchorConfig, data) == evidence.config


def test_a_reader_is_warned(evidence):
    def warnings(**changes):
        return report_content(ANCHOR, replace(evidence, **changes))["answer"]["warnings"]

    smoke, few, unknown = warnings()[:3]
    assert "smoke run" in smoke
    assert "has 2 seeds" in few
    assert unknown.startswith("Not calibrated: M4. ")
    enough, calm = make_evidence(seeds=12), {"met_at_initialisation": False, "calibrated": None}
    quiet = {v.id: replace(v, **calm, learned=None, withheld=False, first_seed=0) for v in enough.verdicts}
    held = {"withheld": True, "calibrated": False, "outcome": "NOT JUDGED", "uncalibrated_outcome": "HOLDS"}

    def warned(**changes):
        verdicts = {**quiet, **{name: replace(quiet[name], **change) for name, change in changes.items()}}
        return report_content(ANCHOR, replace(enough, verdicts=Verdicts(verdicts.values())))["answer"]["warnings"]

    assert warned() == []
    at_start = {"met_at_initialisation": True}
    (met,) = warned(A1={**at_start, "outcome": "HOLDS"}, A2={**at_start, "outcome": "FAILS"})
    assert met.endswith("by it: A1.")
    (withheld,) = warned(M1=held)
    assert withheld.endswith("models whose mechanism is known: M1 (the numbers alone: HOLDS).")
    unlearned = {"learned": False, "outcome": "NOT JUDGED"}
    few = {"A2": unlearned | {"withheld": True, "uncalibrated_outcome": "FAILS"}, "A2b": unlearned}
    (told,) = warned(**few, M7b={"learned": False, "outcome": "HOLDS"})  # enough of the seeds that count
    assert told.startswith("Not learned: ")
    assert told.endswith("they are not judged: A2 (the numbers alone: FAILS), A2b.")
    first, *_ = quiet["E1"].seeds
    (early,) = warned(E1={"first_seed": first + 1})
    assert f"so that seeds from {first + 1} on alone decide: E1. " in early


def test_verdicts_within_groups_stand_beside_those_of_all_seeds():
    evidence = make_evidence(seeds=12)
    average, carried = evidence.within.groups
    assert (average.name, len(average.seeds), carried.name, len(carried.seeds)) == (
        *("average-then-key", 7, "key-to-anchors", 5),
    )
    named = evidence.tables["circuits"].query("gamma == 0.8 and circuit == 'key-to-anchors'")
    assert list(carried.seeds) == sorted(named["seed"])
    assert {"M2", "A1"}.isdisjoint(verdict.id for verdict in average.verdicts)  # M2 compares two gammas
    page = page_of(evidence)
    section = page.partition('<section id="within">')[2].partition("</section>")[0]
    assert "grouped by circuit, gamma 0.8." in visible(section)
    assert "it describes and does not test" in visible(section)
    header, seeds, *rows = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in section.split("<tr>")[1:]]
    assert [visible(cell).strip() for cell in header] == ["claim", "all seeds", average.name, carried.name]
    assert "7/12 share 0.58 [0.28, 0.85]" in visible(seeds[2])
    for row, verdict in zip(rows, average.verdicts, strict=True):
        assert f'href="#claim-{verdict.id}"' in row[0]
        for cell, found in zip(row[1:], (evidence.verdicts, average.verdicts, carried.verdicts), strict=True):
            one = found[verdict.id]
            for shown in (one.outcome, f"{one.n_meeting}/{one.n_seeds}", number(one.effect)):
                assert shown in visible(cell)
    assert "Within groups" not in page_of(replace(evidence, within=None))
    assert "Within groups" not in page_of(replace(evidence, within=Within("circuit", ())))


def test_a_figure_stands_in_the_section_that_shows_it_and_nowhere_else(evidence):
    def page(*shown):
        blocks = (Paragraph("look"), Details("more", tuple(map(Figure, shown))))
        told = Narrative(sections=(Section("own", "Own section", blocks),))
        return page_of(evidence, replace(ANCHOR, narrative=lambda evidence: told))

    second = FIGURES[1]
    html = page(second.id)
    own = re.search(r'<section id="own">.*?</section>', html, flags=re.DOTALL)[0]
    assert re.findall(r'<figure id="([^"]+)">\s*<h3>([^<]+)</h3>', own) == [(f"figure-{second.id}", second.title)]
    assert visible(typeset(second.caption(evidence).would_refute)) in visible(own)
    others = [spec.title for spec in FIGURES if spec is not second]
    headings = [visible(text) for text in re.findall(r"<h3>(\d+\. [^<]+)</h3>", html)]
    assert headings == [f"{number}. {title}" for number, title in enumerate(others, start=1)]
    assert html.count("data:image/svg+xml") == len(FIGURES)


def test_data_that_json_cannot_hold_becomes_plain():
    @dataclass
    class Odd:
        def __str__(self) -> str:
            return "odd"

    given = {"a": np.float32(0.5), 2: np.array([1.0, np.nan]), "c": (np.inf, True, None), "d": Odd(), "e": np.int64(3)}
    assert json_safe(given) == {"a": 0.5, "2": [1.0, None], "c": [None, True, None], "d": "odd", "e": 3}
