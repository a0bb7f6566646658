r"""Which tokens belong to which of two corpora, and which tokens of one are as frequent as those of the other?

The paper compares "PrOntoQA tokens" with "TinyStories tokens" (paper 1, Fig. 7B) and does not say which those are.
Here, with c_A(s) the count of token s among the training targets of corpus A, N_A their total, V = d_vocab and f_A(s) =
(c_A(s) + 1) / (N_A + V), a token is typical of A where

    c_A(s) >= 20    and    f_A(s) / f_B(s) >= 10

With c(s) the count in both corpora together (r_s of Prop. 1 is c / N), frequencies are matched in both directions:

    control        for each PrOntoQA token another typical token of the stories, one to one, such that the sum of
                   |ln c(s) - ln c(s')| is smallest
    counterpart    for each typical token of the stories in range, the PrOntoQA token of smallest |ln c(s) - ln c(s')|,
                   which may serve several times; in range: min c <= c(s) <= max c over PrOntoQA's typical tokens

How it can mislead. The lists come from text alone, so a trained, an untrained and a random model get the same ones. The
limit of 20 is there because a ratio of 10 between smaller counts arises by chance. PrOntoQA repeats a few dozen words,
so its typical tokens are more frequent than most of the stories': an embedding moves with its token's frequency (Eq.
5), and without the control a comparison of corpora is one of frequencies. The control is only as good as ``mismatch``,
the mean |ln| that is left: at .1 matched pairs differ by 10 %, at .7 by a factor of two, which is no control any more.
The two directions ask about different tokens. Most typical tokens of the stories are rarer than every one of
PrOntoQA's: nothing matches them, and neither direction says anything of them. In the second one, few PrOntoQA tokens
carry most of the weight. Tokens of both corpora ("is", ".") are in neither list.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from rb_interp.errors import TextError, shown
from rb_interp.text.task import CORPORA
from rb_interp.typed import as_array, typed

MIN_COUNT = 20
"""A typical token occurs at least as often as this in its own corpus."""
MIN_RATIO = 10.0
"""A typical token is at least this many times as frequent in its own corpus as in the other, smoothed."""
Counts = np.ndarray
"""Integers ``[2, d_vocab]``, PrOntoQA first. The annotation leaves the shape to ``check_counts``, which explains it."""
NamedCounts = Counts | Mapping[str, Any]
"""The same, or two corpora by the caller's names, each with its ``[d_vocab]`` counts, that of the rules first."""
NO_TOKEN = np.array([], dtype=np.int64)
RESERVED = ("control", "all", "in_range", "counterpart")


@dataclass(frozen=True, eq=False)
class Typical:
    """Typical tokens of both corpora, each list by descending count in its own corpus.

    Attributes:
        prontoqa, stories: token ids.
        control: of the stories' ids, the one matched to each of ``prontoqa``, in its order; empty where the stories
            have fewer typical tokens than PrOntoQA, since then no one-to-one match exists.
        mismatch: mean |ln ratio| of the counts of matched tokens, 0 or more; nan without a control.
        in_range: of the stories' ids, those as frequent as PrOntoQA's (none rarer or more frequent than all of these).
        counterpart: of ``prontoqa``'s ids, the nearest in frequency to each of ``in_range``, in its order; ids repeat.
        counterpart_mismatch: ``mismatch`` of this second direction; nan where no token is in range.
    """

    prontoqa: Int[np.ndarray, " prontoqa"]
    stories: Int[np.ndarray, " stories"]
    control: Int[np.ndarray, " control"]
    mismatch: float
    in_range: Int[np.ndarray, " in_range"] = field(default_factory=lambda: NO_TOKEN)
    counterpart: Int[np.ndarray, " in_range"] = field(default_factory=lambda: NO_TOKEN)
    counterpart_mismatch: float = math.nan


@typed
def typical_tokens(counts: Counts, min_count: int = MIN_COUNT, min_ratio: float = MIN_RATIO) -> Typical:
    """Typical tokens of two corpora, matched in frequency in both directions, from their token counts.

    Args:
        counts: how often each token is a training target, ``[2, d_vocab]``, PrOntoQA first.
        min_count: least count in the token's own corpus.
        min_ratio: least ratio of its smoothed frequencies, in its own corpus over the other, 0 or more.

    Returns the lists; a mismatch is NaN where no token has a match.

    Raises:
        TextError: for counts of another shape, and for a corpus without tokens.

    >>> counts = np.array([[90, 50, 0, 0, 0, 60], [0, 0, 80, 20, 52, 60]])
    >>> typical = typical_tokens(counts)
    >>> typical.prontoqa.tolist(), typical.stories.tolist(), typical.control.tolist()
    ([0, 1], [2, 4, 3], [2, 4])
    >>> typical.in_range.tolist(), typical.counterpart.tolist()  # token 3 is rarer than both of PrOntoQA's
    ([2, 4], [0, 1])
    """
    check_counts(counts)
    if not min_ratio > 0:
        raise TextError(f"min_ratio={min_ratio:g}; expected a ratio above 0.")
    ratio = frequency_ratio(counts)
    lists = []
    for own, typical in zip(counts, (ratio >= min_ratio, ratio <= 1 / min_ratio), strict=True):
        ids = np.flatnonzero(typical & (own >= min_count))
        lists.append(ids[np.argsort(-own[ids].astype(np.int64), kind="stable")])
    (prontoqa, stories), totals = lists, counts.sum(0)
    return Typical(prontoqa, stories, *matched(totals, prontoqa, stories), *nearest(totals, prontoqa, stories))


def frequency_ratio(counts: Counts) -> Float[np.ndarray, " d_vocab"]:
    """Smoothed frequency in PrOntoQA over that in the stories, above 0; 1 for a token that neither has."""
    smoothed = (counts + 1) / (counts.sum(1, keepdims=True) + counts.shape[1])
    return smoothed[0] / smoothed[1]


@typed
def token_table(counts: Counts, texts: Sequence[str]) -> list[dict]:
    """One row for each typical token: token, text, corpus, count_prontoqa, count_stories, ratio, control, counterpart.

    ``ratio`` is the smoothed frequency in its own corpus over that in the other, at least MIN_RATIO; ``control`` says
    whether the token is matched to a PrOntoQA token, ``counterpart`` to how many tokens of the stories a PrOntoQA token
    is matched; ``texts[id]`` is how a token is shown.

    Raises:
        TextError: as `typical_tokens` does.
    """
    check_counts(counts)
    if len(texts) != counts.shape[1]:
        raise TextError(f"got {len(texts)} texts for counts of {counts.shape[1]} tokens; give one for each token.")
    typical, ratio = typical_tokens(counts), frequency_ratio(counts)
    control, counterpart = set(typical.control.tolist()), Counter(typical.counterpart.tolist())
    return [
        {
            "token": token,
            "text": texts[token],
            "corpus": corpus,
            "count_prontoqa": int(counts[0, token]),
            "count_stories": int(counts[1, token]),
            "ratio": float(ratio[token] if corpus == CORPORA[0] else 1 / ratio[token]),
            "control": token in control,
            "counterpart": counterpart[token],
        }
        for corpus in CORPORA
        for token in getattr(typical, corpus).tolist()
    ]


def checked_counts(counts: NamedCounts, d_vocab: int) -> tuple[Counts, dict[str, str]]:
    """Counts ``[2, d_vocab]``, and what stands in place of the names of the package's two corpora.

    Raises TextError where they are not those of two corpora, and where a model knows other tokens.
    """
    names, words = tuple(CORPORA), {}
    if isinstance(counts, Mapping):
        names = tuple(counts)
        if len(names) != 2 or not all(isinstance(name, str) and name and name not in RESERVED for name in names):
            raise TextError(
                f"got counts of {', '.join(map(shown, names)) or 'no corpus'}; expected those of two corpora by name, "
                f"none of them called {', '.join(RESERVED)}."
            )
        first, second = (as_array(one) for one in counts.values())
        if first.ndim != 1 or first.shape != second.shape:
            raise TextError(
                f"got counts of shapes {list(first.shape)} for '{names[0]}' and {list(second.shape)} for '{names[1]}'; "
                f"expected [d_vocab] for both."
            )
        counts = np.stack([first, second])
        words = {"prontoqa": names[0], "stories": names[1], "PrOntoQA": names[0], "the stories": names[1]}
    check_counts(counts, names)
    if d_vocab != counts.shape[1]:
        raise TextError(
            f"got counts of {counts.shape[1]} tokens; the model knows {d_vocab}. Give those of its own text."
        )
    return counts, words if names != CORPORA else {}


def check_counts(counts: Counts, names: tuple[str, ...] = CORPORA) -> None:
    """Raise TextError where counts are not integers [2, d_vocab], or a corpus has none."""
    if counts.ndim != 2 or len(counts) != 2 or not np.issubdtype(counts.dtype, np.integer):
        raise TextError(
            f"got token counts of shape {list(counts.shape)} and type {counts.dtype}; expected integers [2, d_vocab], "
            f"PrOntoQA first, such as the counts of text_data(), or two corpora by name, each with integers [d_vocab]."
        )
    if counts.size and counts.min() < 0:
        raise TextError(f"got a token count of {counts.min()}; expected 0 or more.")
    for corpus, total in zip(names, counts.sum(1).tolist(), strict=True):
        if total == 0:
            raise TextError(f"the counts hold no token of '{corpus}'; typical tokens need text of both corpora.")


def matched(
    totals: Int[np.ndarray, " d_vocab"], wanted: Int[np.ndarray, " wanted"], offered: Int[np.ndarray, " offered"]
) -> tuple[Int[np.ndarray, " control"], float]:
    """An offered token for each wanted one, none twice, with the smallest sum of |ln ratio| of counts, and its mean.

    No token and nan where fewer are offered than wanted, or nothing is wanted.
    """
    from scipy.optimize import linear_sum_assignment

    if not 0 < len(wanted) <= len(offered):
        return NO_TOKEN, math.nan
    cost = np.abs(np.log(totals[wanted])[:, None] - np.log(totals[offered]))
    rows, columns = linear_sum_assignment(cost)
    return offered[columns], float(cost[rows, columns].mean())


def nearest(
    totals: Int[np.ndarray, " d_vocab"], offered: Int[np.ndarray, " offered"], wanted: Int[np.ndarray, " wanted"]
) -> tuple[Int[np.ndarray, " in_range"], Int[np.ndarray, " in_range"], float]:
    """Wanted tokens within the range of the offered ones' counts, the nearest offered one of each, mean |ln ratio|.

    An offered token can be taken several times; of two that are equally near the first one is. No tokens and nan where
    none is in range.
    """
    counts = totals[offered]
    if not len(counts):
        return NO_TOKEN, NO_TOKEN, math.nan
    within = wanted[(totals[wanted] >= counts.min()) & (totals[wanted] <= counts.max())]
    if not len(within):
        return NO_TOKEN, NO_TOKEN, math.nan
    cost = np.abs(np.log(totals[within])[:, None] - np.log(counts))
    return within, offered[cost.argmin(1)], float(cost.min(1).mean())
