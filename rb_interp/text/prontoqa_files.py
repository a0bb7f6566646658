"""Reading PrOntoQA examples that were made elsewhere: from files, or from the hub.

    .json      the original's {"example1": {"in_context_example0": {...}, ..., "test_example": {...}}, ...}, all of
               whose examples are taken in their order; or a list of records
    .jsonl     one record a line

A record has question, query, chain_of_thought (a list of sentences) and answer ("True" or "False"), as in the
original, or context, question, options, answer ("A" or "B") and explanation (or chain_of_thought), as in Logic-LLM
(Pan et al. 2023). Nothing is checked against the rules of PrOntoQA here: ``verify`` does that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rb_interp.errors import TextError
from rb_interp.text.example import Example
from rb_interp.text.prontoqa_verify import QUERY, split_sentences
from rb_interp.text.records import Kind, hub_records, read_records
from rb_interp.typed import typed

ASKED = ("Is the following statement true or false? ", QUERY)
LABELS = ("True", "False")
PRONTOQA = Kind(
    "PrOntoQA examples",
    (".json", ".jsonl"),
    groups='{"example1": {"test_example": {...}}}',
    instead="or generate the examples (prontoqa = 'generate')",
)

_EXPECTED = (
    "expected a record with question, query, chain_of_thought and answer, "
    "or with context, question, answer and explanation (Logic-LLM)"
)


@typed
def read_prontoqa(path: str | Path) -> list[Example]:
    """All examples of a file, or of every .json and .jsonl file of a folder, by name and in their order.

    Raises TextError, with file and line (or entry), if something is missing, cut short or of another format.

    >>> import json, tempfile
    >>> place = Path(tempfile.mkdtemp()) / "1hop.jsonl"
    >>> record = {"question": "Wumpuses are hot. Max is a wumpus.", "query": "True or false: Max is hot.",
    ...           "chain_of_thought": ["Max is a wumpus.", "Wumpuses are hot.", "Max is hot."], "answer": "True"}
    >>> _ = place.write_text(json.dumps(record))
    >>> [(example.hops, example.answer) for example in read_prontoqa(place)]
    [(1, 'True')]
    """
    return _examples(read_records(Path(path), PRONTOQA), str(path))


@typed
def load_prontoqa_hub(name: str = "smoorsmith/prontoqa", split: str = "train") -> list[Example]:
    """All examples of a split of a dataset on the Hugging Face hub, with the columns of ``read_prontoqa``.

    With HF_HUB_OFFLINE=1 only a copy that was fetched before is used. Raises TextError without a connection (within
    seconds), if the name or the split is not there, or if the columns are others (a dataset without chains).
    """
    return _examples(hub_records(name, split, PRONTOQA), f"split '{split}' of {name}")


def _examples(records: Iterable[tuple[object, str]], place: str) -> list[Example]:
    examples = [_example(record, where) for record, where in records]
    if not examples:
        raise TextError(f"{place} holds no example; {_EXPECTED}.")
    return examples


def _example(record: object, where: str) -> Example:
    if not isinstance(record, Mapping):
        raise TextError(f"{where}: {str(record)[:40]!r}; {_EXPECTED}.")
    logic_llm = "context" in record
    question, query = ("context", "question") if logic_llm else ("question", "query")
    question, query = _string(record, question, where), _string(record, query, where)
    if logic_llm:
        asked = next((words for words in ASKED if query.startswith(words)), "")
        query = QUERY + query.removeprefix(asked).strip()
    chain = "explanation" if logic_llm and "explanation" in record else "chain_of_thought"
    thoughts = _sentences(record, chain, where)
    return Example(question.strip(), query.strip(), thoughts, _answer(record, where), (len(thoughts) - 1) // 2)


def _value(record: Mapping, key: str, where: str) -> Any:
    if record.get(key) is None:
        raise TextError(f"{where}: there is no '{key}', only {', '.join(map(str, record))}; {_EXPECTED}.")
    return record[key]


def _string(record: Mapping, key: str, where: str) -> str:
    value = _value(record, key, where)
    if not isinstance(value, str) or not value.strip():
        raise TextError(f"{where}: '{key}' is {str(value)[:40]!r}; expected a text that is not empty.")
    return value


def _sentences(record: Mapping, key: str, where: str) -> tuple[str, ...]:
    value = _value(record, key, where)
    found: Iterable[object] = split_sentences(value.strip()) if isinstance(value, str) else value
    sentences = [sentence for sentence in found if isinstance(sentence, str)] if isinstance(found, Sequence) else []
    if len(sentences) < 3 or len(sentences) % 2 == 0:
        raise TextError(
            f"{where}: '{key}' is {len(sentences)} sentences; expected an odd number from 3: "
            f"the premise, then a rule and its conclusion for each hop."
        )
    return tuple(sentence.strip() for sentence in sentences)


def _answer(record: Mapping, where: str) -> str:
    answer = str(_value(record, "answer", where)).strip()
    options = record.get("options")
    if answer in ("A", "B"):
        known = options if isinstance(options, Sequence) and not isinstance(options, str) else ("A) True", "B) False")
        chosen = next((str(option) for option in known if str(option).startswith(answer)), answer)
        answer = chosen[1:].strip(") .:")
    if answer not in LABELS:
        raise TextError(f"{where}: the answer is '{answer}'; expected True or False, or A or B with their options.")
    return answer
