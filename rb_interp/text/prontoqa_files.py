"""Reading PrOntoQA examples that were made elsewhere: from files, or from the hub.

    .json      the original's {"example1": {"in_context_example0": {...}, ..., "test_example": {...}}, ...}, all of
               whose examples are taken in their order; or a list of records
    .jsonl     one record a line

A record has question, query, chain_of_thought (a list of sentences) and answer ("True" or "False"), as in the
original, or context, question, options, answer ("A" or "B") and explanation (or chain_of_thought), as in Logic-LLM
(Pan et al. 2023). Nothing is checked against the rules of PrOntoQA here: ``verify`` does that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rb_interp.errors import TextError
from rb_interp.text.example import Example
from rb_interp.text.prontoqa_verify import QUERY, split_sentences

ASKED = ("Is the following statement true or false? ", QUERY)
LABELS = ("True", "False")
SUFFIXES = (".json", ".jsonl")
SECONDS = 10.0  # how long the hub may take to answer that it is there

_FORMATS = (
    "a record with question, query, chain_of_thought and answer, "
    "or with context, question, answer and explanation (Logic-LLM)"
)
_INSTEAD = "or generate the examples (generate, or prontoqa = 'generate'), or give the path of a file or folder"


def read_prontoqa(path: str | Path) -> list[Example]:
    """All examples of a file, or of every .json and .jsonl file of a folder, by name and in their order.

    Raises TextError, with file and line (or entry), where something is missing, cut short or of another format.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "1hop.jsonl"
    >>> record = {"question": "Wumpuses are hot. Max is a wumpus.", "query": "True or false: Max is hot.",
    ...           "chain_of_thought": ["Max is a wumpus.", "Wumpuses are hot.", "Max is hot."], "answer": "True"}
    >>> _ = place.write_text(json.dumps(record))
    >>> [(example.hops, example.answer) for example in read_prontoqa(place)]
    [(1, 'True')]
    """
    path = Path(path)
    examples = [_example(record, where) for file in _files(path) for record, where in _records(file)]
    if not examples:
        raise TextError(f"{path} holds no example; expected {_FORMATS}.")
    return examples


def load_prontoqa_hub(name: str = "smoorsmith/prontoqa", split: str = "train") -> list[Example]:
    """All examples of a split of a dataset on the Hugging Face hub, with the columns of ``read_prontoqa``.

    With HF_HUB_OFFLINE=1 only a copy that was fetched before is used. Raises TextError without a connection (within
    seconds), for a name or a split that is not there, and for other columns (a dataset without chains of thought).
    """
    _ask_hub(name)
    from datasets import load_dataset

    try:
        rows = load_dataset(name, split=split)
    except Exception as error:  # the hub's client has changed its exceptions from one release to the next
        raise TextError(
            f"split '{split}' of {name} could not be loaded from the hub ({_said(error)}). "
            f"Check name and split, {_INSTEAD}."
        ) from None
    where = f"split '{split}' of {name}"
    examples = [_example(row, f"{where}, row {number}") for number, row in enumerate(rows, start=1)]
    if not examples:
        raise TextError(f"{where} is empty; choose another split, {_INSTEAD}.")
    return examples


def _files(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix.lower() not in SUFFIXES:
            raise TextError(f"{path} ends in '{path.suffix}'; PrOntoQA is read from .json and .jsonl files.")
        return [path]
    if not path.is_dir():
        raise TextError(f"{path} is not there; expected a .json or .jsonl file of PrOntoQA, or a folder of them.")
    files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise TextError(f"folder {path} holds no .json and no .jsonl file; PrOntoQA is read from these.")
    return files


def _records(file: Path) -> Iterator[tuple[object, str]]:
    """Each record of a file and where it stands."""
    text = _text(file)
    if file.suffix.lower() == ".jsonl":
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield _parsed(line, file, number), f"{file}, line {number}"
        return
    entries = _parsed(text, file, 1)
    if isinstance(entries, list):
        for number, entry in enumerate(entries, start=1):
            yield entry, f"{file}, entry {number}"
    elif isinstance(entries, dict) and all(isinstance(entry, dict) for entry in entries.values()):
        for name, group in entries.items():
            for role, entry in group.items():
                yield entry, f"{file}, entry {name}/{role}"
    else:
        raise TextError(
            f"{file} holds neither a list of records nor examples of the original's form "
            f'{{"example1": {{"test_example": {{...}}}}}}; expected one of them.'
        )


def _text(file: Path) -> str:
    content = file.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise TextError(f"{file}, line {line}: not UTF-8 text ({error.reason}). Fetch or save the file anew.") from None


def _parsed(text: str, file: Path, line: int) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise TextError(
            f"{file}, line {line + error.lineno - 1}: not JSON ({error.msg} at character {error.colno}). "
            f"If the file was cut short, fetch it anew or delete what is left of its last example."
        ) from None


def _example(record: object, where: str) -> Example:
    if not isinstance(record, Mapping):
        raise TextError(f"{where}: {str(record)[:40]!r}; expected {_FORMATS}.")
    if "context" in record:
        question, query = _string(record, "context", where), _query(_string(record, "question", where))
        chain = "explanation" if "explanation" in record else "chain_of_thought"
    else:
        question, query, chain = _string(record, "question", where), _string(record, "query", where), "chain_of_thought"
    thoughts = _sentences(record, chain, where)
    return Example(question.strip(), query.strip(), thoughts, _answer(record, where), (len(thoughts) - 1) // 2)


def _value(record: Mapping, key: str, where: str) -> Any:
    if record.get(key) is None:
        raise TextError(f"{where}: there is no '{key}', only {', '.join(map(str, record))}; expected {_FORMATS}.")
    return record[key]


def _string(record: Mapping, key: str, where: str) -> str:
    value = _value(record, key, where)
    if not isinstance(value, str) or not value.strip():
        raise TextError(f"{where}: '{key}' is {str(value)[:40]!r}; expected a text that is not empty.")
    return value


def _query(question: str) -> str:
    start = next((words for words in ASKED if question.startswith(words)), "")
    return QUERY + question.removeprefix(start).strip()


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


def _ask_hub(name: str) -> None:
    """Ask once whether the dataset is there: ``datasets`` tries again for half a minute where there is no network."""
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        return
    try:
        HfApi().dataset_info(name, timeout=SECONDS)
    except Exception as error:  # as above
        raise TextError(
            f"{constants.ENDPOINT} does not give {name} ({_said(error)}). Check the name and the connection, "
            f"set HF_HUB_OFFLINE=1 to use a copy fetched earlier, {_INSTEAD}."
        ) from None


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or ['no reason given'])[0]}"
