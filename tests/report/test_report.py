"""The report as content and as files: nothing is lost on the way from the evidence to the page."""

import base64
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from report.pages import visible
from synthetic_evidence import make_evidence

from rb_interp.claims import Standing, Verdicts, Within, judge
from rb_interp.errors import StudyError
from rb_interp.figures.numbers import two_digits
from rb_interp.figures.style import draw
from rb_interp.report.page import (
    HERE,
    Page,
    json_of,
    render_page,
    report_facts,
    typeset,
    warnings,
    write_report,
)
from rb_interp.runs.config import from_mapping
from rb_interp.settings import to_toml
from rb_interp.studies.anchor import ANCHOR
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.studies.anchor.error_rates import MECHANISM_CLAIMS
from rb_interp.studies.anchor.figures import FIGURES
from rb_interp.studies.composite.phase import DECIDED
from rb_interp.studies.composite.task import FITTED
from rb_interp.tasks.anchor import MEMORY_ACCURACY, PLATEAU

pytestmark = pytest.mark.wide

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")


@pytest.fixture(scope="module")
def evidence():
    made = make_evidence()
    standings = dict.fromkeys(MECHANISM_CLAIMS, Standing(True)) | {"M4": Standing(False)}
    first, *others = judge(made.readings, CLAIMS, standings=standings)
    escaped = replace(first, statement="L0 averages <all> tokens & nothing else.")
    meta = {**made.meta, "toml": to_toml("anchor", made.config), "expected_by_chance": (0.525, 0.25)}
    return replace(made, scale="smoke", verdicts=Verdicts([escaped, *others]), meta=meta)


@pytest.fixture(scope="module")
def folder(evidence, tmp_path_factory):
    """A run whose figures are empty: pictures are looked at by other tests."""
    folder, empty = tmp_path_factory.mktemp("run"), dict.fromkeys(FIGURES, lambda evidence: Figure())
    study = replace(ANCHOR, figures={**empty, "variance_explained": FIGURES["variance_explained"]})
    assert write_report(study, evidence, folder) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text()


def page_of(evidence) -> str:
    return render_page(ANCHOR, evidence, dict.fromkeys(FIGURES, b""))


def test_every_figure_stands_in_the_page(folder, page):
    images = re.findall(r'<figure id="figure-(\w+)"><img src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert {name for name, _ in images} == set(FIGURES)
    for name, image in images:
        assert base64.b64decode(image) == (folder / "figures" / f"{name}.svg").read_bytes()


def test_the_file_of_data_has_every_verdict(evidence, folder, page):
    told = json.loads((folder / "report.json").read_text())
    assert told == json.loads(json_of(report_facts(ANCHOR, evidence)))
    for claim, verdict in zip(told["claims"], evidence.verdicts.to_json(), strict=True):
        assert {name: claim[name] for name in verdict} == json.loads(json_of(verdict))
    assert "0.53 HOLDS and 0.25 FAILS" in visible(page)
    for sentence in told["warnings"]:
        assert visible(typeset(sentence)) in visible(page)


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
    smoke, few, unknown = list(warnings(evidence))[:3]
    assert "smoke run" in smoke
    assert "has 5 seeds" in few
    assert unknown.startswith("Not calibrated")
    assert unknown.endswith(": M4.")
    enough, calm = make_evidence(seeds=8), {"met_at_initialisation": False, "calibrated": None}
    quiet = {v.id: replace(v, **calm, learned=None, withheld=False, first_seed=0) for v in enough.verdicts}
    unlearned = {"learned": False, "outcome": "NOT JUDGED"}
    changes = {
        "A1": {"met_at_initialisation": True, "outcome": "HOLDS"},
        "M1": {"withheld": True, "calibrated": False, "outcome": "NOT JUDGED", "reason": "the probe misleads: .4"},
        **{"A2": unlearned | {"withheld": True}, "A2b": unlearned, "M7b": {"learned": False, "outcome": "HOLDS"}},
        "E1": {"first_seed": quiet["E1"].seeds[0] + 1},
    }
    assert list(warnings(replace(enough, verdicts=Verdicts(quiet.values())))) == []
    changed = {**quiet, **{name: replace(quiet[name], **change) for name, change in changes.items()}}
    told = list(warnings(replace(enough, verdicts=Verdicts(changed.values()))))
    assert [one.rpartition(": ")[2] for one in told] == ["M1.", "A2, A2b.", "A1.", "E1."]


def test_members_that_never_came_to_a_stage_are_named_where_it_is_shown(evidence):
    """Below figures and tables that show it, and among the warnings; nowhere else."""
    table = evidence.readings
    late = (table["stage"] == "half") & (table["gamma"] == 0.3) & (table["seed"] < 2)
    found = replace(evidence, readings=table.assign(reached=~late))
    told = "Never at the stage, so shown at the last step: half at γ = 0.3: 2 of 5 members."
    assert evidence.unreached() == ""
    assert [told in warnings(one) for one in (evidence, found)] == [False, True]
    page = Page(ANCHOR, found, {})
    shown = {stage: page.readings("geometry", {"cos_reasoning": "cos"}, stage=stage) for stage in ("half", "final")}
    assert [f"*{told}*" in text for text in shown.values()] == [True, False]

    def drawing(stage):
        def drawn(evidence):
            evidence.values("geometry", "cos_reasoning", 0.3, stage=stage)
            return Figure()

        return drawn

    assert [draw(drawing(stage), found).get_supxlabel() for stage in ("half", "final")] == [told, ""]
    assert draw(drawing("half"), evidence).get_supxlabel() == ""


def test_verdicts_within_groups_stand_beside_those_of_all_seeds():
    evidence = make_evidence()
    average, carried = evidence.within.groups
    assert (average.name, len(average.seeds), carried.name, len(carried.seeds)) == (
        *("average-then-key", 3, "key-to-anchors", 2),
    )
    named = evidence.tables["circuits"].query("gamma == 0.8 and circuit == 'key-to-anchors'")
    assert list(carried.seeds) == sorted(named["seed"])
    assert {"M2", "A1"}.isdisjoint(verdict.id for verdict in average.verdicts)  # M2 compares two gammas
    page = page_of(evidence)
    section = page.partition('<h2 id="within-groups-of-seeds">')[2].partition("<h2")[0]
    assert "it describes and does not test" in visible(section)
    header, seeds, *rows = [re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL) for row in section.split("<tr>")[1:]]
    assert [visible(cell).strip() for cell in header] == ["claim", "all seeds", average.name, carried.name]
    assert "3 of 5, 0.60 [0.15, 0.95]" in visible(seeds[2])
    for row, verdict in zip(rows, average.verdicts, strict=True):
        for cell, found in zip(row[1:], (evidence.verdicts, average.verdicts, carried.verdicts), strict=True):
            assert f"{found[verdict.id].outcome} {found[verdict.id].met_by}" in re.sub(r" +", " ", visible(cell))
    assert "Within groups" not in page_of(replace(evidence, within=None))
    assert "Within groups" not in page_of(replace(evidence, within=Within("circuit", ())))


def test_a_figure_is_shown_once_and_one_without_a_place_comes_last(evidence, tmp_path):
    images = {**dict.fromkeys(FIGURES, b""), "more": b""}
    assert '<figure id="figure-more">' in render_page(ANCHOR, evidence, images).partition('id="the-task"')[2]
    del images["tasks"]
    with pytest.raises(StudyError, match="the report of 'anchor' shows the figure 'tasks'"):
        render_page(ANCHOR, evidence, images)
    twice = tmp_path / "twice.md.jinja"
    twice.write_text(2 * '{% call figure("tasks", "Tasks") %}{% endcall %}')
    with pytest.raises(StudyError, match="it is shown already"):
        render_page(replace(ANCHOR, report=twice), evidence, dict.fromkeys(FIGURES, b""))


def test_fixed_words_have_the_numbers_of_the_code():
    words = tomllib.loads((Path(HERE) / "glossary.toml").read_text(encoding="utf-8"))
    assert f"at most {two_digits(MEMORY_ACCURACY)}" in words["labels"]["before_memory"]
    assert f"f < {two_digits(PLATEAU)}" in words["emb-mlp"]["stages"]
    assert f"below {two_digits(FITTED)}" in words["composite"]["phase"]
    assert f"at least {two_digits(DECIDED)}" in words["composite"]["phase"]
