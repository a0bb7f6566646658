import base64
import json
import re
from collections import Counter
from dataclasses import asdict, replace
from html import unescape
from io import StringIO

import pytest
from rich.console import Console
from synthetic_evidence import make_claims, make_evidence

from rb_interp.claims import CLAIMS, judge
from rb_interp.errors import ConfigError
from rb_interp.figures.registry import FIGURES
from rb_interp.report import print_verdicts, report_content, write_report
from rb_interp.report.causal import agreement
from rb_interp.report.content import json_safe
from rb_interp.report.glossary import GLOSSARY
from rb_interp.report.write import render_html
from rb_interp.study.config import StudyConfig, from_mapping
from rb_interp.toml import to_toml

tomllib = pytest.importorskip("tomllib" if __import__("sys").version_info >= (3, 11) else "tomli")


@pytest.fixture(scope="module")
def evidence():
    plain = make_evidence(seeds=2, tier="smoke")
    judged = judge(plain.readings, "smoke")
    ours = {claim["id"]: claim for claim in make_claims(2, "smoke")}
    return replace(plain, claims=[ours.get(claim["id"], claim) for claim in judged])


@pytest.fixture(scope="module")
def folder(evidence, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    assert write_report(evidence, folder) == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "report.html").read_text()


def visible(page: str) -> str:
    """The text of a page as a reader sees it."""
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))).replace("\xa0", " ")


def counts(evidence) -> dict[str, int]:
    found = Counter(claim["verdict"] for claim in evidence.claims)
    return {verdict: found[verdict] for verdict in ("HOLDS", "FAILS", "UNDECIDED")}


def test_every_claim_stands_in_the_page_with_its_verdict(evidence, page):
    assert [claim["id"] for claim in evidence.claims] == [claim.id for claim in CLAIMS]
    rows = dict(re.findall(r'<tr id="claim-(\w+)">(.*?)</tr>', page, flags=re.DOTALL))
    assert list(rows) == [claim.id for claim in CLAIMS]
    for claim in evidence.claims:
        text = visible(rows[claim["id"]])
        assert claim["verdict"] in text
        assert f"{claim['n_meeting']} of {claim['n_seeds']}" in text
        assert claim["statement"].replace("<=", "≤") in text
    tally = re.findall(r'<li><b>(\d+)</b>\s*<span class="verdict (\w+)">', page)
    assert {verdict: int(n) for n, verdict in tally} == counts(evidence)


def test_every_figure_stands_in_the_page_with_its_caption(evidence, folder, page):
    images = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]+)"', page)
    for spec, image in zip(FIGURES, images, strict=True):
        assert base64.b64decode(image) == (folder / "figures" / f"{spec.id}.svg").read_bytes()
        caption = spec.caption(evidence)
        assert caption.seen in visible(page)
        assert re.sub(r"(?<!\S)-", "−", caption.would_refute) in visible(page)


def test_the_twin_holds_the_same_as_the_page(evidence, folder, page):
    twin = json.loads((folder / "report.json").read_text())
    assert twin == report_content(evidence)
    assert twin == json.loads(json.dumps(twin, allow_nan=False))
    for told, claim in zip(twin["claims"], evidence.claims, strict=True):
        assert {name: told[name] for name in claim} == json_safe(claim)
    assert twin["answer"]["counts"] == counts(evidence)
    for sentence in twin["answer"]["sentences"] + twin["answer"]["warnings"] + list(GLOSSARY.values()):
        assert sentence in visible(page)


def test_the_page_needs_nothing_but_itself_and_shows_no_raw_values(page):
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page) == []
    assert "<script" not in page
    assert "url(" not in page
    assert "averages <all> tokens & nothing else." in visible(page)
    assert "<all>" not in page
    assert not re.search(r"\b(nan|None|inf)\b", visible(page))


def test_a_reader_is_warned(evidence):
    def warnings(**changes):
        return " ".join(report_content(replace(evidence, **changes))["answer"]["warnings"])

    assert "smoke run" in warnings()
    assert "has 2 seeds" in warnings()
    assert "Not calibrated: M1, M3, M4" in warnings()
    quiet = [{**claim, "calibrated": True if claim["id"].startswith("M") else None} for claim in make_claims()]
    enough = make_evidence(seeds=5)
    assert report_content(replace(enough, claims=quiet))["answer"]["warnings"] == []
    met = [{**claim, "met_at_initialisation": True} for claim in quiet]
    (warning,) = report_content(replace(enough, claims=met))["answer"]["warnings"]
    assert warning.endswith("by it: A1.")
    (warning,) = report_content(replace(enough, claims=withheld(quiet)))["answer"]["warnings"]
    assert warning.endswith("models whose mechanism is known: M1 (the numbers alone: HOLDS).")


def withheld(claims: list[dict]) -> list[dict]:
    """The same claims, M1's verdict withheld."""
    reason = "the probe misleads on hand-written models: true-positive rate 0.71"
    change = {"calibrated": False, "withheld": True, "verdict": "UNDECIDED", "uncalibrated_verdict": "HOLDS"}
    return [{**claim, **change, "reason": reason} if claim["id"] == "M1" else claim for claim in claims]


def test_mechanism_claims_say_whether_their_probe_is_calibrated(evidence, page):
    def marks(html):
        rows = dict(re.findall(r'<tr id="claim-(\w+)">(.*?)</tr>', html, flags=re.DOTALL))
        return {
            name: re.findall(r'<span class="badge \w*">((?:not )?calibrated)</span>', row) for name, row in rows.items()
        }

    found = marks(page)
    for claim in evidence.claims:
        marked = claim["id"].startswith("M") and claim["calibrated"] is not None
        assert found[claim["id"]] == (["not calibrated"] if marked else []), claim["id"]
    assert found["M1"]
    assert not found["M2"]
    calibrated = [{**claim, "calibrated": True} for claim in make_claims()]
    html = page_of(replace(evidence, claims=withheld(calibrated)))
    assert marks(html) == {"A1": [], "A5": [], "M1": ["not calibrated"], "M7b": ["calibrated"]}
    assert "withheld; the numbers alone: HOLDS" in visible(html)
    assert "Why: the probe misleads on hand-written models: true-positive rate 0.71" in visible(html)


def page_of(evidence) -> str:
    content = report_content(evidence)
    return render_html(content, {figure["id"]: b"" for figure in content["figures"]})


def test_causes_stand_beside_the_claims_own_verdicts(evidence):
    changed = [{**claim, "verdict": "HOLDS" if claim["id"] == "M4" else claim["verdict"]} for claim in evidence.claims]
    evidence = replace(evidence, claims=changed)
    section = re.search(r'<section id="causes">.*?</section>', page_of(evidence), flags=re.DOTALL)[0]
    rows = re.findall(r'<tr class="what">(.*?)</tr>\s*<tr class="more">(.*?)</tr>', section, flags=re.DOTALL)
    own = {claim["id"]: claim["verdict"] for claim in evidence.claims}
    table = evidence.tables["effects"]
    for cause, (what, cells) in zip(evidence.causes, rows, strict=True):
        assert visible(what).split()[0] == cause["of"]
        assert re.findall(r'class="verdict (\w+)"', what) == [cause["verdict"], own[cause["of"]]]
        assert f"Refuted if {cause['refuted_if']}." in visible(what)
        for cell, gamma in zip(re.findall(r"<td>(.*?)</td>", cells, flags=re.DOTALL), evidence.gammas, strict=True):
            early = cause["parts"][0]["stage"] != "final"
            stage = "final" if not early else "half" if gamma == 0.8 else "matched"
            here = table[(table["intervention"] == cause["intervention"]) & (table["rows"] == cause["rows"])]
            here = here[(here["gamma"] == gamma) & (here["stage"] == stage)]
            effect, placebo = re.findall(r"(−?\d+\.\d+) \[", visible(cell))
            assert float(effect.replace("−", "-")) == pytest.approx(here["effect"].mean(), abs=0.0051)
            assert float(placebo.replace("−", "-")) == pytest.approx(here["placebo"].mean(), abs=0.0051)
            assert f"{stage}, 2 seeds" in visible(cell)


def test_disagreements_of_claims_and_causes_are_counted():
    pairs = {"M1": ("HOLDS", "FAILS"), "M2": ("FAILS", "FAILS"), "M3": ("UNDECIDED", "HOLDS"), "M4": ("FAILS", "HOLDS")}
    rows = [{"of": name, "own_verdict": own, "verdict": cause} for name, (own, cause) in pairs.items()]
    rows.append({"of": "M5", "own_verdict": None, "verdict": "HOLDS"})
    rows.append({"of": "M7", "own_verdict": "UNDECIDED", "verdict": "UNDECIDED"})
    decided, half, neither = agreement(rows)
    assert decided == (
        "Of 5 interventions on mechanisms, 1 decides as the claim does: M2 (the claim FAILS, the intervention FAILS) "
        "and 2 decide the opposite: M1 (the claim HOLDS, the intervention FAILS), M4 (the claim FAILS, the "
        "intervention HOLDS)."
    )
    assert half == "One of the two is undecided for M3 (the claim UNDECIDED, the intervention HOLDS)."
    assert neither == "Both are undecided for 1."
    assert agreement([]) == []


def test_ablations_are_means_over_seeds_for_every_method(evidence):
    content = report_content(evidence)["ablations"]
    table = evidence.tables["ablations"]
    assert [row["set"] for row in content["rows"][:3]] == ["mem", "rsn_train", "rsn_test"]
    assert len(content["rows"]) == 4 * 3
    for row in content["rows"]:
        here = table[(table["component"] == row["component"]) & (table["rows"] == row["set"])]
        for cell in row["cells"]:
            member = here[(here["method"] == cell["method"]) & (here["gamma"] == cell["gamma"])]
            assert cell["lost"]["mean"] == pytest.approx(member["accuracy_lost"].mean())
            assert cell["placebo"]["mean"] == pytest.approx(member["placebo_accuracy_lost"].mean())
            assert cell["before"]["mean"] == pytest.approx((member["accuracy"] + member["accuracy_lost"]).mean())
        assert [(cell["method"], cell["gamma"]) for cell in row["cells"]] == [
            (method, gamma) for method in ("resample", "mean", "zero") for gamma in (0.3, 0.5, 0.8)
        ]


def test_error_rates_stand_in_the_page(page):
    section = page[page.index('id="calibration"') : page.index('id="learning-order"')]
    rows = {row.split()[0]: row for row in map(visible, re.findall(r"<tr>(.*?)</tr>", section, flags=re.DOTALL))}
    assert "0.99 [0.97, 1.00] of 240 models" in rows["M1"]
    assert "0.00 [0.00, 0.01] of 480 models" in rows["M1"]
    assert rows["M1"].endswith("0.98 condensed 0.02 0.00 0.07 yes ")
    assert "0.71 [0.65, 0.77] of 240 models" in rows["M4"]
    assert "peaked averager 0.10" in rows["M4"]
    assert rows["M4"].endswith("no ")
    assert "no such model" in rows["key-to-anchors"]


def test_a_run_without_causal_evidence_says_what_makes_it(evidence):
    old = [{name: value for name, value in claim.items() if name != "calibrated"} for claim in make_claims()]
    meta = {name: value for name, value in evidence.meta.items() if name != "calibration"}
    bare = replace(evidence, tables={}, causes=[], claims=old, meta=meta)
    html = page_of(bare)
    html = visible(html[html.index('id="causes"') : html.index('id="learning-order"')])  # figures say it too
    assert "No mechanism was tested by an intervention in this run; “rb-interp probe RUN” tests them." in html
    assert "This run has no table of ablations; “rb-interp probe RUN” makes it." in html
    assert "This family of models has no table of error rates: it is not calibrated." in html
    known = replace(bare, meta={**meta, "calibration": {"family": "norm post, 2 layers", "rates": []}})
    assert "This family of models (norm post, 2 layers) has no table" in visible(page_of(known))


def test_circuits_and_learning_order_are_counted_from_the_tables(evidence):
    content = report_content(evidence)
    small = content["circuits"]["rows"][-1]
    assert small["gamma"] == 0.8
    assert {name: cell["n"] for name, cell in small["circuits"].items() if cell["n"]} == {
        "average-then-key": 1,
        "key-to-anchors": 1,
    }
    share = small["circuits"]["mixed"]
    assert (share["share"], share["low"], round(share["high"], 3)) == (0, 0, 0.842)  # 1 - .025 ** (1 / 2)
    bias = next(row for row in content["learning_order"] if row["quantity"] == "bias")
    expected = [evidence.values("learning_order", "bias", gamma).mean() for gamma in evidence.gammas]
    assert [cell["mean"] for cell in bias["cells"]] == pytest.approx(expected)


def test_the_configuration_can_be_run_again(evidence, page):
    config = StudyConfig.from_preset("smoke", seeds=(0, 3))
    assert from_mapping(tomllib.loads(to_toml(asdict(config)))) == config
    block = unescape(re.findall(r"<pre>(.*?)</pre>", page, flags=re.DOTALL)[-1])
    assert tomllib.loads(block) == {
        **json_safe(evidence.config),
        "model": {"d_model": 64, "norm": "none"},  # gammas.embedding is None, which stands for the default
    }
    with pytest.raises(ConfigError, match=r"train\.lr is a object"):
        to_toml({"train": {"lr": object()}})


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_terminal_table_fits_and_names_every_claim(encoding):
    class Stream(StringIO):
        @property
        def encoding(self):
            return encoding

    stream = Stream()
    print_verdicts(make_claims(), Console(file=stream, width=140))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert [line.split()[:2] for line in lines if re.match(r"[AM]\d", line)] == [
        ["A1", "HOLDS"],
        ["A5", "FAILS"],
        ["M1", "UNDECIDED"],
        ["M7b", "UNDECIDED"],
    ]
    minus = "−" if encoding == "utf-8" else "-"
    assert f"0.0841 [{minus}0.0210, 0.189]" in stream.getvalue()
    assert "1 HOLDS, 1 FAILS, 2 UNDECIDED; * met at initialisation" in stream.getvalue()


def test_the_terminal_says_which_probes_are_calibrated():
    def printed(claims):
        stream = StringIO()
        print_verdicts(claims, Console(file=stream, width=140))
        return stream.getvalue().splitlines()

    plain = [{**claim, "calibrated": True} for claim in make_claims()]
    lines = printed(withheld(plain))
    assert max(map(len, lines)) <= 100
    assert [line.split()[2] for line in lines if line.startswith("M")] == ["held", "yes"]
    assert [line.split()[2] for line in lines if line.startswith("A1")] == ["0.312"]
    assert lines[-1].startswith("cal.: whether the probe is calibrated; held: ")
    none = printed([claim for claim in plain if claim["id"].startswith("A")])
    assert not any("cal." in line for line in none)
