"""Is the reasoning corpus learned before the stories?  (paper 1, Figs. 1 and 7A, Delta L)

With L_c(t) the mean next-token loss in nats on corpus c at evaluation t, and H_c the unigram
entropy of its tokens:

    Delta L(t) = (L_stories(t) - L_prontoqa(t)) / L_prontoqa(t)                              > -1; 1 = twice the loss
    delta_loss                = mean of Delta L over the evaluations, on training text;  delta_loss_test: held-out text
    delta_loss_per_entropy    = the same of L_c / H_c, each loss as a share of what the token frequencies alone leave
    delta_final               = Delta L at the last evaluation, on training text
    early_step                = first evaluation whose pooled training loss (mean of the two) is <= 80 % of its start

How Delta L can mislead. A model that learns PrOntoQA first reads delta_loss above 0 (1 or more is
usual once PrOntoQA's loss is small); one that learns both at one rate, or nothing, reads 0; an
*untrained* one reads 0 too, for at small initialisation it loses ln d_vocab on every token, and its
delta_loss_per_entropy is H_prontoqa / H_stories - 1, below 0 where stories have the larger entropy.
But PrOntoQA is templated: a model of token frequencies alone, or of pairs of neighbours, has the
lower loss on it as well, so a positive delta_loss shows no preference for *reasoning*. Per entropy
the frequencies are taken out, the templates of several words are not. Delta L is a ratio: as
L_prontoqa nears 0 it explodes, though nothing is learned any faster. It depends on how long one
trains and on when one evaluates (every evaluation weighs the same): compare equal steps only.
Gammas compared at equal steps have come to different losses, so a rise with gamma may be one of
speed. On training text memorised stories push Delta L down late: look at delta_loss_test.
"""

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Int

from rb_interp.statistics.learning_order import Curve, first_or_last
from rb_interp.statistics.reading import Reading
from rb_interp.text.settings import EARLY

__all__ = ["corpus_loss", "delta_loss", "early_index"]

TRAIN = ("prontoqa_train", "stories_train")
TEST = ("prontoqa_test", "stories_test")


def delta_loss(stories: Curve, prontoqa: Curve) -> Curve:
    """Delta L = (L_stories - L_prontoqa) / L_prontoqa, above -1, nan where PrOntoQA's loss is 0
    (paper 1, Metric).

    >>> delta_loss(np.array([7.0, 3.0]), np.array([7.0, 2.0])).tolist()
    [0.0, 0.5]
    """
    return (stories - prontoqa) / np.where(prontoqa > 0, prontoqa, np.nan)


def early_index(stories: Curve, prontoqa: Curve, share: float = EARLY) -> int:
    """Number of the first evaluation whose pooled loss is at most ``share`` of the first's; the
    last one if never.

    >>> early_index(np.array([5.0, 4.5, 4.0]), np.array([5.0, 3.5, 1.0])), early_index(np.ones(4), np.ones(4))
    (1, 3)
    """
    pooled = (stories + prontoqa) / 2
    return first_or_last(pooled <= share * pooled[0])


def corpus_loss(
    losses: Mapping[str, Curve],
    steps: Int[np.ndarray, " evaluation"],
    entropies: tuple[float, float],
) -> Reading:
    """Read one member's curves (set -> one loss per evaluation); ``entropies`` of PrOntoQA and
    stories in nats.

    Sets without curves and unknown entropies (nan) give nan. The untrained model stays as it was at
    step 0: the same quantities of curves that never move. ``n`` is the number of evaluations.
    """
    no_curve = np.full(len(next(iter(losses.values()))), math.nan)
    curves = {name: losses.get(name, no_curve) for name in (*TRAIN, *TEST)}
    start = {name: curve[:1] for name, curve in curves.items()}
    early_step = math.nan
    if all(name in losses for name in TRAIN):
        early_step = float(steps[early_index(curves[TRAIN[1]], curves[TRAIN[0]])])
    return Reading(
        "corpus_loss",
        _values(curves, entropies) | {"early_step": early_step},
        untrained=_values(start, entropies) | {"early_step": math.nan},
        arrays={
            "steps": np.asarray(steps),
            "delta_loss": _delta(curves, TRAIN),
            "delta_loss_test": _delta(curves, TEST),
        },
        n=len(steps),
    )


def _values(curves: Mapping[str, Curve], entropies: tuple[float, float]) -> dict[str, float]:
    """The quantities but ``early_step``; NaN for a set without a curve."""
    values = {
        "delta_loss": float(_delta(curves, TRAIN).mean()),
        "delta_loss_test": float(_delta(curves, TEST).mean()),
        "delta_loss_per_entropy": float(_delta(curves, TRAIN, entropies).mean()),
        "delta_loss_per_entropy_test": float(_delta(curves, TEST, entropies).mean()),
        "delta_final": float(_delta(curves, TRAIN)[-1]),
        "early_step": math.nan,  # keeps its place among the rows
    }
    for name, curve in curves.items():
        values[f"loss_{name}"] = float(curve[-1])
    return values


def _delta(
    curves: Mapping[str, Curve],
    sets: tuple[str, str],
    entropies: tuple[float, float] = (1.0, 1.0),
) -> Curve:
    """Delta L of two sets (PrOntoQA, stories), each loss over its entropy."""
    prontoqa = curves[sets[0]] / entropies[0]
    stories = curves[sets[1]] / entropies[1]
    return delta_loss(stories, prontoqa)
