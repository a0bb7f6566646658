r"""Which tokens are typical of which of two corpora, and which of them are of like frequency?

The paper compares "PrOntoQA tokens" with "TinyStories tokens" (paper 1, Fig. 7B) and does not say
which those are. Here, with c_A(s) the count of token s among the training targets of corpus A, N_A
their total, V = d_vocab and f_A(s) = (c_A(s) + 1) / (N_A + V), a token is typical of A where

    c_A(s) >= 20    and    f_A(s) / f_B(s) >= 10

With c(s) the count in both corpora together (r_s of Prop. 1 is c / N), frequencies are matched in
both directions:

    control        for each PrOntoQA token another typical token of the stories, one to one, such that the sum of
                   |ln c(s) - ln c(s')| is smallest
    counterpart    for each typical token of the stories in range, the PrOntoQA token of smallest |ln c(s) - ln c(s')|,
                   which may serve several times; in range: min c <= c(s) <= max c over PrOntoQA's
                   typical tokens

How it can mislead. The limit of 20 is there because a ratio of 10 between smaller counts arises by
chance. PrOntoQA repeats a few dozen words, so its typical tokens are more frequent than most of the
stories': an embedding moves with its token's frequency (Eq. 5), and without the control a
comparison of corpora is one of frequencies. The control is only as good as ``mismatch``, the mean
|ln| that is left: at .1 matched pairs differ by 10 %, at .7 by a factor of two, which is no control
any more. Most typical tokens of the stories are rarer than every one of PrOntoQA's: neither direction
says anything of them. In the second one, few PrOntoQA tokens carry most of the weight.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from rb_interp.arguments import as_array, checked
from rb_interp.errors import TextError, describe
from rb_interp.statistics.reading import Null, Reading
from rb_interp.text.settings import CORPORA

MIN_COUNT = 20
"""A typical token occurs at least as often as this in its own corpus."""
MIN_RATIO = 10.0
"""A typical token is at least this many times as frequent in its own corpus as in the other,
smoothed."""
Counts = np.ndarray
"""Integers ``[2, d_vocab]``, PrOntoQA first; ``checked_counts`` explains it."""
NamedCounts = Counts | Mapping[str, Any]
"""The same, or two corpora by the caller's names, each with its ``[d_vocab]`` counts, that of the
rules first."""
NO_TOKEN = np.array([], dtype=np.int64)
RESERVED = ("control", "all", "in_range", "counterpart")
"""Names of lists, which no corpus may have."""


class TypicalTokens(NamedTuple):
    """Token ids typical of both corpora, by descending count in their own, and their matches.

    Attributes:
        control: of the stories' ids, the one matched to each of ``prontoqa``; empty if the stories
            have fewer.
        mismatch, counterpart_mismatch: mean |ln ratio| of the counts of matched tokens, 0 or more;
            nan without any.
        in_range: of the stories' ids, those as frequent as PrOntoQA's (none rarer or more frequent
            than all of these).
        counterpart: of ``prontoqa``'s ids, the nearest in frequency to each of ``in_range``, in its
            order; ids repeat.
    """

    prontoqa: Int[np.ndarray, " prontoqa"]
    stories: Int[np.ndarray, " stories"]
    control: Int[np.ndarray, " control"] = NO_TOKEN
    mismatch: float = math.nan
    in_range: Int[np.ndarray, " in_range"] = NO_TOKEN
    counterpart: Int[np.ndarray, " in_range"] = NO_TOKEN
    counterpart_mismatch: float = math.nan


@checked
def typical_tokens(counts: Counts) -> TypicalTokens:
    """Typical tokens of two corpora, matched in frequency in both directions, from their counts.

    Args:
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first.

    Raises TextError for counts of another shape, and for a corpus without tokens.

    >>> counts = np.array([[90, 50, 0, 0, 0, 60], [0, 0, 80, 20, 52, 60]])
    >>> typical = typical_tokens(counts)
    >>> typical.prontoqa.tolist(), typical.stories.tolist(), typical.control.tolist()
    ([0, 1], [2, 4, 3], [2, 4])
    >>> typical.in_range.tolist(), typical.counterpart.tolist()  # 3 is rarer than PrOntoQA's
    ([2, 4], [0, 1])
    """
    counts = checked_counts(counts)
    ratio = frequency_ratio(counts)
    first = _most_frequent(counts[0], ratio >= MIN_RATIO)
    second = _most_frequent(counts[1], ratio <= 1 / MIN_RATIO)
    totals = counts.sum(0)
    control, mismatch = matched(totals, first, second)
    in_range, counterpart, counterpart_mismatch = nearest_tokens(totals, first, second)
    return TypicalTokens(
        first, second, control, mismatch, in_range, counterpart, counterpart_mismatch
    )


def _most_frequent(counts: np.ndarray, mask: np.ndarray) -> Int[np.ndarray, " token"]:
    """The typical tokens with MIN_COUNT occurrences, by descending count."""
    ids = np.flatnonzero(mask & (counts >= MIN_COUNT))
    return by_count(ids, counts)


def by_count(ids: Int[np.ndarray, " token"], counts: np.ndarray) -> Int[np.ndarray, " token"]:
    """Token ids by descending count."""
    return ids[np.argsort(-counts[ids].astype(np.int64), kind="stable")]


def frequency_ratio(counts: Counts) -> Float[np.ndarray, " d_vocab"]:
    """Smoothed frequency in PrOntoQA over that in the stories, above 0.

    1 for a token that neither has.
    """
    smoothed = (counts + 1) / (counts.sum(1, keepdims=True) + counts.shape[1])
    return smoothed[0] / smoothed[1]


@checked
def token_table(counts: Counts, texts: Sequence[str]) -> list[dict]:
    """One row for each typical token, with its counts, and what it is matched to.

    The columns are token, text, corpus, count_prontoqa, count_stories, ratio, control and
    counterpart. ``ratio`` is the smoothed frequency in its own corpus over that in the other, at
    least MIN_RATIO; ``control`` says whether the token is matched to a PrOntoQA token,
    ``counterpart`` to how many tokens of the stories a PrOntoQA token is matched; ``texts[id]`` is
    how a token is shown.

    Raises TextError as `typical_tokens` does.
    """
    token_lists = typical_tokens(counts)
    ratio = frequency_ratio(counts)
    control = set(token_lists.control.tolist())
    matches = Counter(token_lists.counterpart.tolist())
    rows = []
    for corpus, ids in zip(CORPORA, (token_lists.prontoqa, token_lists.stories), strict=True):
        for token in ids.tolist():
            in_corpus = ratio[token] if corpus == CORPORA[0] else 1 / ratio[token]
            row = {
                "token": token,
                "text": texts[token],
                "corpus": corpus,
                "count_prontoqa": int(counts[0, token]),
                "count_stories": int(counts[1, token]),
                "ratio": float(in_corpus),
                "control": token in control,
                "counterpart": matches[token],
            }
            rows.append(row)
    return rows


def checked_counts(counts: NamedCounts, d_vocab: int | None = None) -> Counts:
    """Counts ``[2, d_vocab]``; TextError for anything else, and for a corpus without tokens."""
    names = corpus_names(counts)
    if isinstance(counts, Mapping):
        first, second = (as_array(numbers) for numbers in counts.values())
        counts = np.stack([first, second]) if first.shape == second.shape else np.zeros(0)
    if counts.ndim != 2 or len(counts) != 2 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise TextError(
            f"got token counts of shape {list(counts.shape)} and type {counts.dtype}; expected "
            f"integers [2, d_vocab], 0 or more, PrOntoQA first, such as text_data().counts, or two "
            f"corpora by name, each with [d_vocab]."
        )
    for corpus, total in zip(names, counts.sum(1).tolist(), strict=True):
        if total == 0:
            raise TextError(
                f"the counts hold no token of '{corpus}'; typical tokens need text of both corpora."
            )
    if d_vocab not in (None, counts.shape[1]):
        raise TextError(
            f"got counts of {counts.shape[1]} tokens; the model knows {d_vocab}. Give those of its "
            f"own text."
        )
    return counts


def corpus_names(counts: NamedCounts) -> tuple[str, ...]:
    """The names of the two corpora, the package's or the caller's; TextError for other names."""
    if not isinstance(counts, Mapping):
        return tuple(CORPORA)
    names = tuple(counts)
    usable = [isinstance(name, str) and name and name not in RESERVED for name in names]
    if len(names) != 2 or not all(usable):
        raise TextError(
            f"got counts of {', '.join(map(describe, names)) or 'no corpus'}; expected those of "
            f"two corpora by name, none of them called {', '.join(RESERVED)}."
        )
    return names


def with_corpus_names(reading: Reading, counts: NamedCounts) -> Reading:
    """The same reading with the caller's names of the corpora everywhere.

    They stand in quantities, nulls, arrays, tables and notes.
    """
    first, second = corpus_names(counts)
    if (first, second) == tuple(CORPORA):
        return reading
    names = {"prontoqa": first, "stories": second, "PrOntoQA": first, "the stories": second}
    search = re.compile("|".join(names))

    def renamed(text: str) -> str:
        return search.sub(lambda match: names[match[0]], text)

    def with_keys(mapping: Mapping[str, Any]) -> dict[str, Any]:
        return {renamed(name): value for name, value in mapping.items()}

    nulls = {}
    for name, null in reading.nulls.items():
        nulls[renamed(name)] = Null(renamed(null.name), null.draws, null.side)
    tables: dict[str, pd.DataFrame] = {}
    for name, table in reading.tables.items():
        tables[renamed(name)] = table.replace(names, regex=True)
    return replace(
        reading,
        values=with_keys(reading.values),
        untrained=with_keys(reading.untrained),
        nulls=nulls,
        arrays=with_keys(reading.arrays),
        tables=tables,
        notes={renamed(name): renamed(note) for name, note in reading.notes.items()},
    )


def matched(
    totals: Int[np.ndarray, " d_vocab"],
    targets: Int[np.ndarray, " target"],
    offered: Int[np.ndarray, " offered"],
) -> tuple[Int[np.ndarray, " control"], float]:
    """An offered token for each wanted one, none twice, and the mean |ln ratio| of counts.

    No token and nan if fewer are offered than wanted.
    """
    from scipy.optimize import linear_sum_assignment

    if not 0 < len(targets) <= len(offered):
        return NO_TOKEN, math.nan
    cost = np.abs(np.log(totals[targets])[:, None] - np.log(totals[offered]))
    rows, columns = linear_sum_assignment(cost)
    return offered[columns], float(cost[rows, columns].mean())


def nearest_tokens(
    totals: Int[np.ndarray, " d_vocab"],
    offered: Int[np.ndarray, " offered"],
    targets: Int[np.ndarray, " target"],
) -> tuple[Int[np.ndarray, " in_range"], Int[np.ndarray, " in_range"], float]:
    """Wanted tokens in the range of the offered ones' counts, and the nearest of these to each.

    The last value is the mean |ln ratio| of counts.
    """
    if not len(offered):
        return NO_TOKEN, NO_TOKEN, math.nan
    counts = totals[offered]
    target_counts = totals[targets]
    in_range = targets[(target_counts >= counts.min()) & (target_counts <= counts.max())]
    if not len(in_range):
        return NO_TOKEN, NO_TOKEN, math.nan
    cost = np.abs(np.log(totals[in_range])[:, None] - np.log(counts))
    return in_range, offered[cost.argmin(1)], float(cost.min(1).mean())
