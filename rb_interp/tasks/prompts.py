"""Prompts as rows of tokens, as a model's own tokenizer cuts them, with roles named by words.

`Inputs.from_text` makes rows of them. The model has ``to_tokens`` and a ``tokenizer`` of
transformers that knows the characters of each token (a fast one), as TransformerLens's models have.

How it can mislead. A word that is cut into several tokens has its meaning at the last one, or at
none of them: look at ``inputs.show(row)``. Rows that are padded behind end at unlike positions, so
their answers are read at the role ``last``, the last token of each prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from rb_interp.errors import RolesError, TextError, nearest

Words = str | int | tuple[int, int]
"""A string of a prompt, a position among its tokens, or the characters where a string begins and
ends."""
RoleWords = str | int | Sequence[Words] | Int[np.ndarray, " row"] | Callable[[str], Words]
"""The same words for all prompts, words for each, or what gives them for a prompt."""


class Prompt(NamedTuple):
    """A prompt's tokens: all that the model reads, and the part of them that is its text.

    The text's tokens begin at ``first``; ``ends`` are the characters where each begins and ends.
    """

    text: str
    tokens: list[int]
    ids: list[int]
    ends: list[tuple[int, int]]
    first: int

    def positions(self, words: Words) -> range:
        """Positions among all its tokens; ValueError says what is wrong with the words."""
        if isinstance(words, int):
            n = len(self.tokens)
            if not -n <= words < n:
                raise ValueError(f"has no position {words} among its {n} tokens")
            words %= n
            return range(words, words + 1)
        if isinstance(words, str):
            count = self.text.count(words) if words else 0
            if count != 1:
                raise ValueError(
                    f"holds {words!r} {count} times, expected once; give a position, or begin and "
                    f"end of its characters, such as re.search(...).span()"
                )
            begin = self.text.index(words)
            words = (begin, begin + len(words))
        if not isinstance(words, tuple):
            raise ValueError(
                f"has {words!r}, expected a string, a position, or begin and end of characters"
            )
        text = self.text[slice(*words)]
        low = words[1] - len(text.lstrip())
        high = words[0] + len(text.rstrip())
        hits = [i for i, (start, end) in enumerate(self.ends) if start < high and low < end]
        covered = self.text[self.ends[hits[0]][0] : self.ends[hits[-1]][1]] if hits else ""
        if not hits or covered.strip() != text.strip():
            raise ValueError(f"holds {text!r} as a part of {covered!r}")
        return range(self.first + hits[0], self.first + hits[-1] + 1)


class PromptRows(NamedTuple):
    """Rows of prompts: tokens ``[row, pos]``, answers ``[row]`` or None, positions of roles
    ``[row, n]``, and the text of each token that occurs."""

    tokens: Int[np.ndarray, "row pos"]
    labels: Int[np.ndarray, " row"] | None
    positions: dict[str, Int[np.ndarray, "row n"]]
    vocabulary: dict[int, str]


def prompt_rows(
    model: Any,
    prompts: Sequence[str],
    answers: Sequence[str] | None,
    roles: Mapping[str, RoleWords],
    spans: Collection[str],
) -> PromptRows:
    """The rows of `Inputs.from_text`, which says what its arguments are."""
    tokenizer: Any = getattr(model, "tokenizer", None)
    if not getattr(tokenizer, "is_fast", False) or not hasattr(model, "to_tokens"):
        raise TextError(
            "from_text got a model without a fast tokenizer of transformers; give it one with "
            "model.set_tokenizer, or make rows of tokens and roles yourself."
        )
    if not prompts or isinstance(prompts, str) or isinstance(answers, str):
        raise TextError(
            "from_text got no prompts, or prompts or answers as one string; give a list, one text a "
            "row."
        )
    cut = [_cut(model, tokenizer, text) for text in prompts]
    tokens, padding = _padded(tokenizer, [prompt.tokens for prompt in cut])
    if padding.any() and hasattr(model, "original_model"):
        raise TextError(
            "a bridge of TransformerLens 4 takes rows without their mask, so it reads padding in "
            "front as text; set model.tokenizer.padding_side = 'right'."
        )
    n_ctx = getattr(model.cfg, "n_ctx", tokens.shape[1])
    if tokens.shape[1] > n_ctx:
        raise TextError(f"a prompt has {tokens.shape[1]} tokens; this model reads {n_ctx}.")
    names = {"last": -1, **roles}
    spans = {spans} if isinstance(spans, str) else {*spans}
    for role in spans - names.keys():
        raise RolesError(f"from_text got spans of '{role}'; {nearest(role, names)}")
    positions = {}
    for role, words in names.items():
        rows = _positions(tokenizer, cut, role, words)
        if role not in spans:
            rows = [row[-1:] for row in rows]
        for row, span in enumerate(rows):
            if len(span) != len(rows[0]):
                pieces = _pieces(tokenizer, [cut[row].tokens[position] for position in span])
                raise RolesError(
                    f"the role '{role}' has {len(rows[0])} tokens in row 0 and {len(span)} in row "
                    f"{row} ('{pieces}'); a span has as many in every row. Leave it out of spans "
                    f"for its last token."
                )
        positions[role] = np.array(rows) + padding[:, None]
    labels = None if answers is None else _answers(tokenizer, cut, answers)
    ids = np.unique(tokens if labels is None else np.append(tokens, labels)).tolist()
    return PromptRows(tokens, labels, positions, {id: tokenizer.decode([id]) for id in ids})


def _cut(model: Any, tokenizer: Any, text: str) -> Prompt:
    tokens = model.to_tokens(text, truncate=False)[0].tolist()
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = encoding["input_ids"]
    for first in range(len(tokens) - len(ids) + 1):
        if ids and tokens[first : first + len(ids)] == ids:
            return Prompt(text, tokens, ids, encoding["offset_mapping"], first)
    raise TextError(
        f"the model's tokens of {text!r} are not those of its tokenizer "
        f"({_pieces(tokenizer, tokens)} and {_pieces(tokenizer, ids)}); make rows of tokens yourself."
    )


def _padded(
    tokenizer: Any, rows: Sequence[list[int]]
) -> tuple[Int[np.ndarray, "row pos"], Int[np.ndarray, " row"]]:
    """Rows of one length, padded where the tokenizer pads, and how much stands in front of each."""
    length = max(map(len, rows))
    padding = np.array([length - len(row) for row in rows])
    tokens = np.full((len(rows), length), tokenizer.pad_token_id or 0)
    if tokenizer.padding_side != "left":
        padding[:] = 0
    for row, n_before, values in zip(tokens, padding, rows, strict=True):
        row[n_before : n_before + len(values)] = values
    return tokens, padding


def _positions(
    tokenizer: Any, prompts: Sequence[Prompt], role: str, words: RoleWords
) -> list[range]:
    """Positions of a role in each prompt; RolesError for words that are not there once."""
    if callable(words):
        of_rows = [words(prompt.text) for prompt in prompts]
    elif isinstance(words, str | int):
        of_rows = [words] * len(prompts)
    else:
        of_rows = words.tolist() if isinstance(words, np.ndarray) else words
    if len(of_rows) != len(prompts):
        raise RolesError(
            f"the role '{role}' has {len(of_rows)} rows; there are {len(prompts)} prompts."
        )
    positions = []
    for row, (prompt, of_row) in enumerate(zip(prompts, of_rows, strict=True)):
        try:
            positions.append(prompt.positions(of_row))
        except ValueError as error:
            raise RolesError(
                f"the role '{role}': row {row} {error}. Its tokens: "
                f"{_pieces(tokenizer, prompt.tokens)}"
            ) from None
    return positions


def _answers(
    tokenizer: Any, prompts: Sequence[Prompt], answers: Sequence[str]
) -> Int[np.ndarray, " row"]:
    """The token of each answer; TextError for one that is not one more token of its prompt."""
    if len(answers) != len(prompts):
        raise TextError(
            f"got {len(answers)} answers for {len(prompts)} prompts; give one for each."
        )
    labels = []
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        ids = tokenizer(prompt.text + answer, add_special_tokens=False)["input_ids"]
        if ids[:-1] != prompt.ids or ids[-1] == tokenizer.unk_token_id:
            raise TextError(
                f"the answer {str(answer)!r} of row {row} is not one token behind its prompt, or "
                f"none that is known: {_pieces(tokenizer, ids)}. Many answers begin with a space."
            )
        labels.append(ids[-1])
    return np.array(labels)


def _pieces(tokenizer: Any, ids: Sequence[int]) -> str:
    """Tokens as text, with a bar between."""
    return "|".join(tokenizer.decode([id]) for id in ids)
