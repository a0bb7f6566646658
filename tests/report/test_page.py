"""The report as content and as files: nothing is lost on the way from the evidence to the page."""

import re
import sys
from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.figure import Figure
from report.pages import visible

from rb_interp.claims import CalibrationStatus, Term, Verdicts, judge
from rb_interp.claims.verdict import notes
from rb_interp.figures.kit import draw
from rb_interp.report.page import Page, typeset, warnings, write_report
from rb_interp.runs.config import from_mapping
from rb_interp.settings import to_toml
from rb_interp.studies.anchor import ANCHOR
from rb_interp.studies.anchor.checks import MECHANISM_CLAIMS
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.studies.anchor.figures import FIGURES

pytestmark = pytest.mark.wide

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli")


@pytest.fixture(scope="module")
def evidence(anchor_run):
    made = anchor_run.evidence
    standings = dict.fromkeys(MECHANISM_CLAIMS, CalibrationStatus(True)) | {
        "M4": CalibrationStatus(False)
    }
    verdicts = judge(made.readings, CLAIMS, standings=standings)
    meta = {
        **made.meta,
        "toml": to_toml("anchor", made.config),
        "expected_by_chance": (0.525, 0.25),
    }
    reached = made.readings.assign(reached=True)
    tables = {
        name: table.assign(reached=True) if "reached" in table else table
        for name, table in made.tables.items()
    }
    return replace(
        made, scale="smoke", readings=reached, tables=tables, verdicts=verdicts, meta=meta
    )


@pytest.fixture(scope="module")
def page(evidence, tmp_path_factory):
    """A report whose figures are empty: pictures are looked at by other tests."""
    study = replace(ANCHOR, figures=dict.fromkeys(FIGURES, lambda evidence: Figure(figsize=(1, 1))))
    return write_report(study, evidence, tmp_path_factory.mktemp("run")).read_text()


def test_the_page_says_what_chance_gives_and_what_to_beware_of(evidence, page):
    assert "0.53 HOLDS and 0.25 FAILS" in visible(page)
    for sentence in warnings(evidence):
        assert visible(typeset(sentence)) in visible(page)


def test_the_configuration_on_the_page_can_be_run_again(evidence, page):
    block = visible(re.findall(r"<pre>(.*?)</pre>", page.replace("\n", "␤"))[-1]).replace("␤", "\n")
    data = tomllib.loads(block)
    assert data.pop("study") == "anchor"
    assert from_mapping(AnchorConfig, data) == evidence.config


def test_a_reader_is_warned(evidence):
    smoke, few = warnings(evidence)
    assert "smoke run" in smoke
    assert "has 2 seeds" in few
    unknown = next(notes(evidence.verdicts))
    assert unknown.startswith("Not calibrated")
    assert unknown.endswith(": M4.")
    enough = replace(
        evidence,
        scale="custom",
        curves=pd.concat([evidence.curves.assign(seed=seed) for seed in range(8)]),
    )
    calm = {"met_at_initialisation": False, "calibrated": None, "unreached": (), "outcome": "OPEN"}
    quiet = {
        v.id: replace(v, **calm, learned=None, withheld=False, first_seed=0)
        for v in enough.verdicts
    }
    unlearned = {"learned": False, "outcome": "NOT JUDGED"}
    changes = {
        "A1": {"met_at_initialisation": True, "outcome": "HOLDS"},
        "M1": {
            "withheld": True,
            "calibrated": False,
            "outcome": "NOT JUDGED",
            "reason": "the probe misleads: .4",
        },
        **{
            "A2": unlearned | {"withheld": True},
            "A2b": unlearned,
            "M7b": {"learned": False, "outcome": "HOLDS"},
        },
        "E1": {"first_seed": quiet["E1"].seeds[0] + 1},
    }
    assert list(warnings(enough)) == []
    assert list(notes(quiet.values())) == []
    changed = {
        **quiet,
        **{name: replace(quiet[name], **change) for name, change in changes.items()},
    }
    sentences = list(notes(changed.values()))
    assert [one.rpartition(": ")[2] for one in sentences] == ["M1.", "A2, A2b.", "A1.", "E1."]
    page = Page(ANCHOR, replace(enough, verdicts=Verdicts(changed.values())), {}).verdicts()
    lines = {line.split("**")[1]: line for line in page.splitlines() if line.startswith("- ")}
    words = {"M1": "the probe misleads", "A2": "not learned", "A1": "met untrained"}
    for claim, caution in words.items():  # beside the claim that it concerns
        assert [id for id, line in lines.items() if f">{caution}<" in line].count(claim) == 1
    assert ">met untrained<" not in lines["A3"]


def test_members_that_never_came_to_a_stage_are_named_where_it_is_shown(evidence):
    """Below figures and tables that show it, and nowhere else."""
    table = evidence.readings
    late = (table["stage"] == "half") & (table["gamma"] == 0.3) & (table["seed"] < 2)
    found = replace(evidence, readings=table.assign(reached=~late))
    told = "Stage not reached, shown at the last step: half at γ = 0.3: 2 of 2 members."
    assert evidence.unreached() == ""
    assert found.unreached() == told
    page = Page(ANCHOR, found, {})
    shown = {
        stage: page.readings(page.terms("geometry", {"cos_reasoning": "cos"}, stage=stage))
        for stage in ("half", "final")
    }
    assert [f"*{told}*" in text for text in shown.values()] == [True, False]
    other = pd.concat([table.assign(reached=True), table.assign(sweep="other", reached=~late)])
    of_other = replace(evidence, readings=other).unreached()
    assert of_other == told.replace("half", "other, half")
    terms = page.terms("geometry", {"cos_reasoning": "cos"}, stage="half")
    shown_of_main = Page(ANCHOR, replace(evidence, readings=other), {}).readings(terms)
    assert "not reached" not in shown_of_main

    def drawing(stage):
        def drawn(evidence):
            evidence.values(Term("geometry", "cos_reasoning", 0.3, stage))
            return Figure()

        return drawn

    assert [draw(drawing(stage), found).get_supxlabel() for stage in ("half", "final")] == [
        told,
        "",
    ]
    assert draw(drawing("half"), evidence).get_supxlabel() == ""
    draw(drawing("half"), found)
    after_a_figure = page.readings(page.terms("geometry", {"cos_reasoning": "cos"}))
    assert "not reached" not in after_a_figure


def test_an_interval_of_all_members_counts_no_seeds(evidence):
    verdict = replace(evidence.verdicts["A1"], unit="interval", n_seeds=1)
    page = Page(ANCHOR, replace(evidence, verdicts=Verdicts([verdict])), {})
    of_members = page.all_claims()
    assert of_members.count("met by") == 1  # the heading
    assert "| interval<br> |" in of_members  # no share of seeds
