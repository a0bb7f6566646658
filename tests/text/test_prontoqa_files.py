"""Reading PrOntoQA: all formats give the same example, and every damage is named with its place."""

import json

import pytest

from rb_interp.errors import TextError
from rb_interp.text.example import Example
from rb_interp.text.prontoqa_files import read_prontoqa

EXAMPLE = Example(
    "Each wumpus is not hot. Rompuses are hot. Max is a rompus.",
    "True or false: Max is hot.",
    ("Max is a rompus.", "Rompuses are hot.", "Max is hot."),
    "True",
    1,
)
FLAT = {
    "question": EXAMPLE.question,
    "query": EXAMPLE.query,
    "chain_of_thought": list(EXAMPLE.chain_of_thought),
    "answer": "True",
}
LOGIC_LLM = {
    "id": "ProntoQA_1",
    "context": EXAMPLE.question,
    "question": "Is the following statement true or false? Max is hot.",
    "options": ["A) True", "B) False"],
    "answer": "A",
    "explanation": list(EXAMPLE.chain_of_thought),
}
NO_OPTIONS = {key: value for key, value in LOGIC_LLM.items() if key != "options"}
EXPECTED = (
    "expected a record with question, query, chain_of_thought and answer, "
    "or with context, question, answer and explanation (Logic-LLM)."
)


def without(record, key):
    return {name: value for name, value in record.items() if name != key}


def test_the_prompt_is_the_originals():
    assert EXAMPLE.text == (
        "Q: Each wumpus is not hot. Rompuses are hot. Max is a rompus. True or false: Max is hot.\n"
        "A: Max is a rompus. Rompuses are hot. Max is hot. True"
    )
    assert EXAMPLE.text.startswith(EXAMPLE.prompt + " ")


@pytest.mark.parametrize(
    ("name", "content", "n"),
    [
        ("nested.json", {"example1": {"in_context_example0": FLAT, "test_example": FLAT}}, 2),
        ("list.json", [FLAT, LOGIC_LLM], 2),
        ("lines.jsonl", [FLAT, LOGIC_LLM, NO_OPTIONS], 3),
        ("turned.json", [{**LOGIC_LLM, "options": ["A) False", "B) True"], "answer": "B"}], 1),
        ("joined.json", [{**FLAT, "chain_of_thought": " ".join(EXAMPLE.chain_of_thought), "answer": True}], 1),
        ("renamed.json", [{**without(LOGIC_LLM, "explanation"), "chain_of_thought": FLAT["chain_of_thought"]}], 1),
    ],
)
def test_each_format_gives_the_same_example(tmp_path, name, content, n):
    lines = "\n".join(map(json.dumps, content)) if name.endswith("l") else json.dumps(content)
    (tmp_path / name).write_text(lines)
    assert read_prontoqa(tmp_path / name) == [EXAMPLE] * n
    (tmp_path / "notes.md").write_text("not read")
    (tmp_path / "z.jsonl").write_text(json.dumps({**FLAT, "answer": "False"}) + "\n\n")
    assert [e.answer for e in read_prontoqa(str(tmp_path))] == ["True"] * n + ["False"]


BROKEN = {
    "prove.json": (
        json.dumps({"example2": {"test_example": without(FLAT, "answer")}}),
        "entry example2/test_example: there is no 'answer', only question, query, chain_of_thought; " + EXPECTED,
    ),
    "even.json": (
        json.dumps([FLAT, {**FLAT, "chain_of_thought": [*FLAT["chain_of_thought"], "Max is hot."]}]),
        "entry 2: 'chain_of_thought' is 4 sentences; expected an odd number from 3: the premise, then a rule and its "
        "conclusion for each hop.",
    ),
    "answer.jsonl": (
        json.dumps({**FLAT, "answer": "C"}),
        "line 1: the answer is 'C'; expected True or False, or A or B with their options.",
    ),
    "blank.jsonl": (json.dumps({**FLAT, "question": " "}), "'question' is ' '; expected a text that is not empty."),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damage_is_named_with_its_place(tmp_path, name):
    content, message = BROKEN[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(TextError) as caught:
        read_prontoqa(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert message in str(caught.value)
