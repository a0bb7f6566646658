"""README and docs keep their word: examples run, commands and flags exist, links lead somewhere."""

import doctest
import re
import runpy
import shlex
from functools import cache
from pathlib import Path

import pytest

import rb_interp as rb
from rb_interp.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted([*ROOT.glob("experiments/**/README.md"), *ROOT.glob("docs/*.md")])
WITH_STUDY = ("reproduce", "train")
STUDIES = (
    "anchor",
    "emb-mlp",
    "labels",
    "language",
    "composite",
    "composite-map",
    "addition-and-scan",
)
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands_in(text: str) -> list[list[str]]:
    """Words of every rb-interp command in code, from the subcommand on."""
    code = [
        line
        for _, block in FENCE.findall(text)
        for line in block.splitlines()
        if not line.startswith(">>>")
    ]
    code += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    calls = [
        call
        for line in code
        for call in re.findall(r"(?:rb-interp|rb_interp\.cli) ([^#&|]+)", line)
    ]
    return [shlex.split(call) for call in calls]


@cache
def flags_of(command: str, study: str = "anchor") -> frozenset[str]:
    import contextlib
    import io

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as stop:
        main([command, *((study,) if command in WITH_STUDY else ()), "--help"])
    assert stop.value.code == 0
    return frozenset(re.findall(r"(?<![\w-])--[a-z][a-z0-9._-]*", printed.getvalue()))


@pytest.mark.lens
def test_readme_example_runs():
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False, optionflags=options)
    assert results.attempted >= 5
    assert results.failed == 0


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_python_blocks_are_doctests(path):
    """A block that pytest does not run would rot; the closing fence must not become part of
    expected output."""
    for language, block in FENCE.findall(path.read_text()):
        if language == "python":
            assert block.startswith(">>> "), block
            assert block.endswith("\n\n"), (
                f"leave a blank line before the closing fence: {block[-60:]!r}"
            )
        else:
            assert ">>> " not in block


@pytest.mark.wide
@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_commands_and_flags_exist(path):
    text = path.read_text()
    for words in commands_in(text):
        assert words[0] in COMMANDS, words
        flags = {word.split("=")[0] for word in words if word.startswith("--")}
        study = words[1] if len(words) > 1 and words[1] in STUDIES else "anchor"
        assert flags <= flags_of(words[0], study) | {"--help"}, words
    alone = set(re.findall(r"`(--[a-z][a-z0-9._-]*)[^`]*`", FENCE.sub("", text)))
    assert alone <= flags_of("reproduce") | flags_of("reproduce", "language") | {"--train.steps"}


def anchors_of(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=page_id)
def test_relative_links_resolve(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", path.read_text())):
        if re.match(r"https?://", target):
            continue
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        assert found.exists(), target
        assert not anchor or anchor in anchors_of(found), target


def test_what_is_made_in_the_pages_is_that_of_now():
    made = runpy.run_path(str(ROOT / "docs/made_pages.py"))["made"]
    pages = {path.name: path.read_text() for path in ROOT.glob("docs/*.md")}
    assert [name for name, page in pages.items() if made(name, page) != page] == [], (
        "python docs/made_pages.py"
    )
    written = re.findall(r"<!-- made: claims (.*) -->", pages["claims.md"])
    claims = [claim.id for name in STUDIES for claim in rb.study(name).load("claims")]
    assert sorted(" ".join(written).split()) == sorted(claims)
    assert "<!-- made: checks -->" in pages["claims.md"]
    assert "<!-- made: verdicts " in pages["results_paper.md"]
