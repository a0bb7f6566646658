"""What a terminal is shown: no commands to it, and signs that it has."""

from dataclasses import replace
from io import BytesIO, TextIOWrapper

import pytest
from own_studies import ONE
from rich.console import Console

from rb_interp.errors import StudyError
from rb_interp.runs.terminal import print_studies, print_verdicts


def printed(show, value, encoding: str = "utf-8") -> str:
    file = TextIOWrapper(BytesIO(), encoding)
    show(value, Console(file=file, width=80))
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def test_a_study_s_question_is_text_and_gives_no_command():
    studies = {
        "one": replace(ONE, question="Is\x1b[2J it −1 [red] γ?"),
        "broken": StudyError("No."),
    }
    page = printed(print_studies, studies)
    assert "Is\\x1b[2J it −1 [red] γ?" in page
    assert "  No.\n" in page
    assert "Is\\x1b[2J it -1 [red] ??" in printed(print_studies, studies, "ascii")


@pytest.mark.trains
def test_verdicts_are_a_table_with_their_counts(one):
    lines = [" ".join(line.split()) for line in printed(print_verdicts, one.verdicts).splitlines()]
    assert lines[0] == "claim verdict met by median [range] untrained statement"
    assert lines[1].startswith("S1 HOLDS 8/8 ")
    assert "* Embeddings are not zero." in lines[1]
    assert "1 HOLDS, 0 FAILS, 0 OPEN, 0 NOT JUDGED; * met at initialisation" in lines
    assert printed(print_verdicts, ()) == ""
