"""Verdicts in the terminal: within 100 columns, on any terminal, with calibration where a claim needs it."""

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from synthetic_evidence import make_evidence

from rb_interp.claims import Verdicts
from rb_interp.report.terminal import print_verdicts, print_within

pytestmark = pytest.mark.wide

UNKNOWN = {"effect": None, "low": None, "high": None, "untrained": None}
NUMBERS = {"effect": 0.0841, "low": -0.021, "high": 0.189}


@pytest.fixture(scope="module")
def verdicts() -> Verdicts:
    found = make_evidence().verdicts
    changed = {
        "A1": {"outcome": "HOLDS", "effect": 0.312, "met_at_initialisation": True},
        "A5": {"outcome": "FAILS", **NUMBERS},
        "M1": {"outcome": "OPEN", "calibrated": True},
        "M7b": {"outcome": "NOT JUDGED", "calibrated": False, **UNKNOWN},
    }
    quiet = {"met_at_initialisation": False, "calibrated": None, "learned": None}
    return Verdicts(replace(found[name], **quiet | change) for name, change in changed.items())


def printed(verdicts, encoding: str = "utf-8", show=print_verdicts) -> list[str]:
    class Stream(StringIO):
        @property
        def encoding(self):
            return encoding

    stream = Stream()
    show(verdicts, Console(file=stream, width=140))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_table_fits_and_names_every_claim(verdicts, encoding):
    lines = printed(verdicts, encoding)
    assert max(map(len, lines)) <= 100
    assert [line.split()[:2] for line in lines if re.match(r"[AM]\d", line)] == [
        *(["A1", "HOLDS"], ["A5", "FAILS"], ["M1", "OPEN"], ["M7b", "NOT"])
    ]
    text, minus = "\n".join(lines), "−" if encoding == "utf-8" else "-"
    assert f"0.0841 [{minus}0.0210, 0.189]" in text
    assert "1 HOLDS, 1 FAILS, 1 OPEN, 1 NOT JUDGED; * met at initialisation" in text
    assert encoding == "utf-8" or text.isascii()


def test_strings_of_a_run_are_text_in_the_terminal(verdicts):
    """Neither a style of the tables nor a command to the terminal."""
    strange = "[red]x[/red]\x1b[2J"
    told = "\n".join(printed(Verdicts(replace(verdict, id=strange, statement=strange) for verdict in [verdicts[0]])))
    assert told.count(r"[red]x[/red]\x1b") == 3  # its id in the table and in a note, and the statement
    within = make_evidence().within
    within = replace(within, groups=tuple(replace(group, name="[/]\x07") for group in within.groups))
    assert r"[/]\x07" in "\n".join(printed(within, show=print_within))
