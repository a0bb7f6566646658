"""Documents come back whole from every format, each example is proved, and a hub in place of the
real one is asked.

Generated stories: grammatical as far as rules can tell, varied, and the same for the same
seed.
"""

import json
import math
import os
import re
from collections import Counter
from pathlib import Path

import datasets
import pyarrow as pa
import pytest
from ontologies import record
from pyarrow.parquet import write_table

from rb_interp.errors import TextError
from rb_interp.text import corpora as grammar
from rb_interp.text import read_prontoqa, read_stories
from rb_interp.text.corpora import generate_stories
from rb_interp.text.prontoqa import Example

EXAMPLE = Example(
    "Each wumpus is not hot. Rompuses are hot. Max is a rompus.",
    "True or false: Max is hot.",
    ("Max is a rompus.", "Rompuses are hot.", "Max is hot."),
    "True",
    1,
)
CHAIN = list(EXAMPLE.chain_of_thought)
FLAT = {
    "question": EXAMPLE.question,
    "query": EXAMPLE.query,
    "chain_of_thought": CHAIN,
    "answer": "True",
}
ASKED = "Is the following statement true or false?"
LOGIC_LLM = {
    "id": "ProntoQA_1",
    "context": EXAMPLE.question,
    "question": f"{ASKED} Max is hot.",
    "options": ["A) True", "B) False"],
    "answer": "A",
    "explanation": CHAIN,
}
TURNED = {**LOGIC_LLM, "answer": "B"}
NESTED = {
    "example1": {"in_context_example0": FLAT, "test_example": FLAT},
    "example2": {"test_example": FLAT},
}
FORMATS = {
    "the original": (NESTED, 3),
    "a list": ([FLAT, LOGIC_LLM], 2),
    "lines": ((FLAT, LOGIC_LLM), 2),
    "options turned": ([{**TURNED, "options": ["A) False", "B) True"]}], 1),
    "options as a mapping": ([{**TURNED, "options": {"A": "False", "B": "True"}}], 1),
    "chain as one text, answer as a truth value": (
        [{**FLAT, "chain_of_thought": " ".join(CHAIN), "answer": True}],
        1,
    ),
    "chain under the original's name": (
        [{**LOGIC_LLM, "explanation": None, "chain_of_thought": CHAIN}],
        1,
    ),
}
BROKEN = {
    "no answer": (
        {**FLAT, "answer": None},
        "example 2: its keys are question, query, chain_of_thought; expected que",
    ),
    "a sentence that is null": (
        {**FLAT, "chain_of_thought": [CHAIN[0], None, *CHAIN[1:]]},
        "all of them texts.",
    ),
    "letter without options": (
        {**LOGIC_LLM, "options": None},
        "the answer is 'A', and the query is True",
    ),
    "wrong label": ({**FLAT, "answer": "False"}, "the answer is 'False', and the query is True"),
    "broken chain": (
        {**FLAT, "chain_of_thought": CHAIN[:2]},
        "0 hops and 2 sentences in the chain",
    ),
}
THREE = ["Tom ran.\n\nHe fell.", "Sue’s cat slept\u2028well.", "“Hi!” said Ann."]


def write(path: Path, content: object) -> Path:
    """Lines of a tuple; a text or bytes as they are; all else as JSON."""
    if isinstance(content, tuple):
        content = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in content)
    content = json.dumps(content) if isinstance(content, list | dict) else content
    path.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return path


def test_the_prompt_is_the_originals():
    assert EXAMPLE.text == (
        "Q: Each wumpus is not hot. Rompuses are hot. Max is a rompus. True or false: Max is hot.\n"
        "A: Max is a rompus. Rompuses are hot. Max is hot. True"
    )
    assert EXAMPLE.text.startswith(EXAMPLE.prompt + " ")


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_gives_the_same_example(tmp_path, name):
    content, n = FORMATS[name]
    assert read_prontoqa(write(tmp_path / "a.json", content)) == [EXAMPLE] * n
    write(tmp_path / "notes.md", "not read")
    write(
        tmp_path / "z.jsonl",
        ({**FLAT, "query": "True or false: Max is not hot.", "answer": "False"},),
    )
    assert [e.answer for e in read_prontoqa(str(tmp_path))] == ["True"] * n + ["False"]


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_hold_is_refused(tmp_path, name):
    record, message = BROKEN[name]
    path = write(tmp_path / "a.json", [FLAT, record])
    with pytest.raises(TextError) as caught:
        read_prontoqa(path)
    assert str(caught.value).startswith(f"{path}, example 2: ")
    assert message in str(caught.value)


@pytest.mark.parametrize("ontology", ["true", "false"])
def test_a_file_of_real_words_is_read(tmp_path, ontology):
    examples = {}
    for seed in range(20):
        records = [record(number, ontology, 1 + seed % 5, "postorder") for number in (seed, 99)]
        examples[f"example{seed}"] = {"in_context_example0": records[0], "test_example": records[1]}
    path = write(tmp_path / "5hop_trueontology.json", examples)
    assert Counter(e.hops for e in read_prontoqa(path)) == dict.fromkeys(range(1, 6), 8)
    examples["example7"]["test_example"]["chain_of_thought"][1] = "Cats are purple."
    with pytest.raises(TextError, match="example 16: .*'Cats are purple.' is no rule"):
        read_prontoqa(write(path, examples))


@pytest.mark.wide
def test_real_examples_pass():
    if "RB_INTERP_DATA" not in os.environ:
        pytest.skip("RB_INTERP_DATA does not name the folder with the original's examples")
    folder = Path(os.environ["RB_INTERP_DATA"]) / "prontoqa"
    valid = read_prontoqa(folder / "v1_fictional_valid.jsonl")
    assert Counter(example.hops for example in valid) == dict.fromkeys(range(1, 6), 100)
    logic_llm = read_prontoqa(folder / "LogicLLM_ProntoQA_dev.json")
    assert Counter(example.hops for example in logic_llm) == {5: 500}


def test_each_format_gives_the_same_stories(tmp_path):
    ends = [f"{text}\n<|endoftext|>" for text in THREE]
    write(tmp_path / "a.txt", "\n".join(ends))
    write(
        tmp_path / "b.jsonl",
        (*({"text": text, "source": "x"} for text in THREE), {"text": " ", "source": "x"}),
    )
    write(tmp_path / "c.json", [{"story": text, "summary": "-"} for text in THREE])
    write(tmp_path / "d.json", THREE)
    write(
        tmp_path / "e.txt",
        b"\xef\xbb\xbf" + "<|end_of_text|>".join(THREE).replace("\n", "\r\n").encode(),
    )
    write(tmp_path / "f.JSON", tuple({"text": text} for text in ends))
    write_table(pa.table({"n": [1, 2, 3], "text": THREE}), tmp_path / "g.parquet")
    write(tmp_path / "notes.md", "not a story")
    for file in sorted(tmp_path.glob("?.*")):
        assert read_stories(file) == THREE, file.name
    assert read_stories(str(tmp_path)) == THREE
    assert read_stories(tmp_path, 2) == THREE[:2]


def test_blank_lines_part_stories_only_where_no_token_does(tmp_path):
    path = write(tmp_path / "a.txt", "One.\nMore of one.\n \nTwo.\n\n\n")
    assert read_stories(path) == ["One.\nMore of one.", "Two."]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "a.jsonl",
            ({"text": "x"}, {"words": "y"}),
            ", record 2: {'text': None, 'words': 'y'}; expected a string und",
        ),
        (
            "a.jsonl",
            ({"text": "x", "story": "y"},),
            ", record 1: {'text': 'x', 'story': 'y'}; expected a string under",
        ),
        (
            "a.txt",
            '"Tom ran.\n\nHe said ""Hi!"""\n"Sue slept."',
            " has stories in quotes, with quotes doubled as in a",
        ),
        (
            "a.txt",
            " \n<|endoftext|>",
            " holds no story: expected at least one text that is not empty.",
        ),
        (
            "a.jsonl",
            '{"text": "x"}\n{"te',
            " could not be read (ArrowInvalid: JSON parse error: Missing a closing",
        ),
    ],
)
def test_what_is_no_story_is_told_with_its_place(tmp_path, name, content, message):
    path = write(tmp_path / name, content)
    with pytest.raises(TextError) as caught:
        read_stories(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_the_hub_is_asked_for_its_training_split(monkeypatch):
    asked, rows = [], []

    def load_dataset(name, split, streaming):
        asked.append((name, split, streaming))
        yield from rows

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(TextError, match=r"^hub:me/mine holds no story"):
        read_stories("hub:me/mine")
    rows += [{"text": text} for text in ["One.", " ", "One.", "Two.", "Three."]]
    assert read_stories("hub", n=2) == ["One.", "Two."]
    assert read_stories("hub:me/mine") == ["One.", "Two.", "Three."]
    rows[:] = [FLAT]
    assert read_prontoqa("hub") == [EXAMPLE]
    assert asked[1:] == [
        ("roneneldan/TinyStories", "train", True),
        ("me/mine", "train", False),
        ("smoorsmith/prontoqa", "train", False),
    ]


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


def test_every_bracket_of_the_grammar_is_closed():
    content = grammar._story_file()
    texts = [*content["lists"].values(), *content["lists_of_kinds"].values()]
    texts += re.split(r"^# .*\n", content["plots"], flags=re.MULTILINE)
    for text in texts:
        tokens = grammar._TOKENS.findall(text)
        assert grammar._options(tokens, 0)[1] == len(tokens), text
        assert "".join(tokens) == text


def test_notation_worked_by_hand():
    slot = grammar._Slot("who")
    assert grammar._parse("a[b|c{who}]") == (("a", (("b",), ("c", slot))),)
    assert grammar._parse("a||{who}") == (("a",), (), (slot,))
    plot = grammar._plot('child/animal toy=light_toy\na [b |\n  c]\n"d." e\n"f."\n\n  g')
    assert plot == (
        ("child", "animal"),
        (("toy", "light_toy"),),
        grammar._parse('a [b|c]\n"d." e\n"f."\ng'),
    )
    options = grammar._parse("x|y|z")
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
