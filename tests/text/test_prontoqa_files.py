"""Reading PrOntoQA: all formats give the same example, and every damage is named with its place."""

import json
import sys
from types import SimpleNamespace

import pytest

from rb_interp.errors import TextError
from rb_interp.text.example import Example
from rb_interp.text.prontoqa_files import load_prontoqa_hub, read_prontoqa

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
    "cut.jsonl": (
        json.dumps(FLAT) + "\n" + json.dumps(FLAT)[:30],
        "line 2: not JSON (Unterminated string starting at at character 14). If the file was cut short, "
        "fetch it anew or delete what is left of its last example.",
    ),
    "cut.json": ('{"example1":\n {"test_example":\n  {"question"', "line 3: not JSON (Expecting ':' delimiter at"),
    "bytes.json": (b'[\n"\xff"]', "line 2: not UTF-8 text (invalid start byte). Fetch or save the file anew."),
    "word.json": ("3", "holds neither a list of records nor examples of the original's form"),
    "record.json": (json.dumps(FLAT), "holds neither a list of records nor examples"),
    "empty.jsonl": ("\n", "holds no example; " + EXPECTED),
    "numbers.json": ("[3]", "entry 1: '3'; " + EXPECTED),
    "prove.json": (
        json.dumps({"example2": {"test_example": without(FLAT, "answer")}}),
        "entry example2/test_example: there is no 'answer', only question, query, chain_of_thought; " + EXPECTED,
    ),
    "no_chain.jsonl": (
        json.dumps(without(LOGIC_LLM, "explanation")),
        "line 1: there is no 'chain_of_thought', only id, context, question, options, answer; " + EXPECTED,
    ),
    "even.json": (
        json.dumps([FLAT, {**FLAT, "chain_of_thought": [*FLAT["chain_of_thought"], "Max is hot."]}]),
        "entry 2: 'chain_of_thought' is 4 sentences; expected an odd number from 3: the premise, then a rule and its "
        "conclusion for each hop.",
    ),
    "one.json": (json.dumps([{**FLAT, "chain_of_thought": ["Max is hot."]}]), "'chain_of_thought' is 1 sentences"),
    "chain.json": (json.dumps([{**FLAT, "chain_of_thought": 5}]), "entry 1: 'chain_of_thought' is 0 sentences"),
    "parts.json": (json.dumps([{**FLAT, "chain_of_thought": ["Max.", 2, "Max."]}]), "is 2 sentences"),
    "answer.jsonl": (
        json.dumps({**FLAT, "answer": "C"}),
        "line 1: the answer is 'C'; expected True or False, or A or B with their options.",
    ),
    "blank.jsonl": (json.dumps({**FLAT, "question": " "}), "'question' is ' '; expected a text that is not empty."),
    "table.csv": ("", "ends in '.csv'; PrOntoQA is read from .json and .jsonl files."),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damage_is_named_with_its_place(tmp_path, name):
    content, message = BROKEN[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TextError) as caught:
        read_prontoqa(tmp_path / name)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert message in str(caught.value)


def test_a_place_without_files_says_what_is_read(tmp_path):
    with pytest.raises(TextError, match=r"holds no \.json and no \.jsonl file; PrOntoQA is read from these\."):
        read_prontoqa(tmp_path)
    with pytest.raises(TextError, match=r"is not there; expected a \.json or \.jsonl file of PrOntoQA, or a folder"):
        read_prontoqa(tmp_path / "missing")


@pytest.fixture
def hub(monkeypatch):
    """A hub in place of the real one: ``hub(rows)`` is what it holds, or the error that it raises."""

    def holds(rows=(), error=None, asked=None):
        def load_dataset(name, split):
            if error:
                raise error
            return list(rows)

        def dataset_info(self, name, timeout):
            if asked:
                raise asked

        constants = SimpleNamespace(HF_HUB_OFFLINE=False, ENDPOINT="https://hub.test")
        api = type("HfApi", (), {"dataset_info": dataset_info})
        monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
        monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=api, constants=constants))

    return holds


INSTEAD = "or generate the examples (generate, or prontoqa = 'generate'), or give the path of a file or folder."


def test_the_hub_gives_examples_or_a_reason(hub):
    hub([LOGIC_LLM, FLAT])
    assert load_prontoqa_hub("some/name", split="test") == [EXAMPLE, EXAMPLE]
    for settings, message in (
        (
            {"asked": ConnectionError("no route\nto host")},
            "https://hub.test does not give some/name (ConnectionError: no route). Check the name and the connection, "
            "set HF_HUB_OFFLINE=1 to use a copy fetched earlier, " + INSTEAD,
        ),
        (
            {"error": ValueError("Unknown split")},
            "split 'train' of some/name could not be loaded from the hub (ValueError: Unknown split). "
            "Check name and split, " + INSTEAD,
        ),
        ({"rows": []}, "split 'train' of some/name is empty; choose another split, " + INSTEAD),
        (
            {"rows": [FLAT, {"text": "Once"}]},
            "split 'train' of some/name, row 2: there is no 'question', only text; " + EXPECTED,
        ),
    ):
        hub(**settings)
        with pytest.raises(TextError) as caught:
            load_prontoqa_hub("some/name")
        assert str(caught.value) == message
