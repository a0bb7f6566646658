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
from rb_interp.report.content import json_safe
from rb_interp.report.glossary import GLOSSARY
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
    assert "calibrated: false" in warnings()
    quiet = [{**claim, "calibrated": True} for claim in make_claims()]
    enough = make_evidence(seeds=5)
    assert report_content(replace(enough, claims=quiet))["answer"]["warnings"] == []
    met = [{**claim, "met_at_initialisation": True} for claim in quiet]
    (warning,) = report_content(replace(enough, claims=met))["answer"]["warnings"]
    assert warning.endswith("by it: A1.")


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
