"""Generated stories: grammatical as far as rules can tell, varied, and the same for the same
seed."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from pathlib import Path

import pytest

from rb_interp.errors import TextError
from rb_interp.text import stories as grammar
from rb_interp.text.stories import generate_stories


@pytest.fixture(scope="module")
def stories() -> list[str]:
    return generate_stories(1500, seed=11)


def words(story: str) -> list[str]:
    return re.findall(r"[a-z']+", story.lower())


def unigram_entropy(stories: list[str]) -> float:
    counts = Counter(word for story in stories for word in words(story))
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values())


def test_the_seed_alone_decides_and_a_longer_call_begins_alike(stories):
    assert generate_stories(50, seed=11) == stories[:50]
    assert not set(generate_stories(300, seed=12)) & set(stories)
    assert len(set(generate_stories(100, seed=-1) + generate_stories(100, seed=1))) == 200


def test_stories_are_of_the_length_told_and_differ(stories):
    lengths = [len(story.split()) for story in stories]
    assert 110 <= min(lengths) < max(lengths) <= 230
    assert len(set(stories)) == len(stories)


@pytest.mark.parametrize(
    "mistake",
    [
        r"[{}\[\]|]",
        r"(^|\n) | (\n|$)|  | [.,!?]",
        r"[.!?,][A-Za-z]|[.!?,]{2}",
        r"\b[Aa] [aeiou](?!ni|se)|\b[Aa]n [^aeiou]",
        r"\b(\w+) \1\b",
        r"[^.!?\"]\n|[^.!?\"]$",
        r"(^|\n|[.!?] )[a-z]|(^|[\n ])\"[a-z]",
    ],
)
def test_no_story_has_this_mistake(stories, mistake):
    found = [story for story in stories if re.search(mistake, story)]
    assert not found, re.search(f".*({mistake}).*", found[0])


def test_notation_worked_by_hand():
    slot = grammar._Slot("who")
    assert grammar._parsed("a[b|c{who}]") == (("a", (("b",), ("c", slot))),)
    assert grammar._parsed("a||{who}") == (("a",), (), (slot,))
    for wrong in ("a[b", "a]b", "a{b", "[[a]"):
        with pytest.raises(TextError, match="^brackets do not match in: "):
            grammar._parsed(wrong)
    plot = grammar._plot('child/animal toy=light_toy\na [b |\n  c]\n"d." e\n"f."\n\n  g')
    assert plot == (
        ("child", "animal"),
        (("toy", "light_toy"),),
        grammar._parsed('a [b|c]\n"d." e\n"f."\ng'),
    )
    options = grammar._parsed("x|y|z")
    story = grammar._Story(lambda: 0.5)
    assert sorted(story.unused(options)[0] for _ in range(3)) == ["x", "y", "z"]
    assert story.unused(options) == ("y",)


def test_words_are_spread_as_in_the_docstring(stories):
    assert len({word for story in stories for word in words(story)}) > 850
    assert unigram_entropy(stories) == pytest.approx(5.68, abs=0.03)


def test_real_stories_have_a_similar_entropy(stories):
    if "RB_INTERP_DATA" not in os.environ:
        pytest.skip("RB_INTERP_DATA is unset: no real stories to compare with")
    with open(
        Path(os.environ["RB_INTERP_DATA"]) / "tinystories" / "tinystories_train.jsonl",
        encoding="utf-8",
    ) as file:
        real = [json.loads(line)["text"] for _, line in zip(range(2000), file, strict=False)]
    assert unigram_entropy(real) - unigram_entropy(stories) == pytest.approx(0.21, abs=0.06)
