"""Learning order: is the rule or the table learned first (paper 1, Fig. 3)?

From learning curves alone. With L_X(t) the mean cross entropy in nats on set X at evaluation t:

    f_X(t) = min(L_X(t) / ln d_vocab, 1)              share of a uniform guess's loss that is left, (0, 1]
    A_X    = mean of f_X over the evaluations         area under the curve, (0, 1]: small = learned early
    B      = (A_mem - A_rsn_train) / (A_mem + A_rsn_train)       bias index, (-1, 1): positive = the rule first
    B_test = the same with rsn_test
    half   = first evaluation with f_rsn_train <= 1/2, the last one if that never happens

Margins are entropies of a set's labels less the final loss, in nats: positive where more than the
labels' frequencies was learned, at most the entropy. A set without curves gives nan.

How it can mislead. A network that learns the rule first reads B of .4 to .75 at the task's quick
sizes, one that learns both at about the same rate .1 or less, and an untrained one exactly
0, because f is capped at 1: B near 0 says nothing without the margins. B weighs all of
training; a network that overtakes late may read 0. Memory labels have an entropy of their own and
mappings differ in their number of entries, so B compares the two halves of one task, never two
tasks. A loss on rsn_test that rises with overfitting moves B_test down, though nothing is learned
earlier.

Delta L says whether the reasoning corpus is learned before the stories (paper 1, Figs. 1 and 7A).
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
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from rb_interp.errors import RunError
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.anchor import SETS
from rb_interp.tasks.dataset import HALF, Dataset, label_entropy
from rb_interp.text.settings import EARLY, TEXT_SETS, TRAIN

__all__ = [
    "bias_index",
    "corpus_loss",
    "delta_loss",
    "early_index",
    "fraction_left",
    "half_index",
    "label_entropy",
    "learning_order",
    "learning_order_of",
    "learning_order_table",
]

Curve = Float[np.ndarray, " evaluation"]


def learning_order(
    losses: Mapping[str, Curve],
    accuracies: Mapping[str, Curve],
    steps: Int[np.ndarray, " evaluation"],
    d_vocab: int,
    label_entropies: Mapping[str, float],
) -> Reading:
    """Read one member's learning order from its curves (set -> one number per evaluation).

    The untrained model stays as it was at step 0: the same quantities of curves that never move.
    ``acc_gap`` is that of training less test, at the end. ``n`` is the number of evaluations.
    """
    fractions = {name: fraction_left(losses[name], d_vocab) for name in SETS if name in losses}
    values = _values(fractions, losses, accuracies, label_entropies)
    start = _values(_first(fractions), _first(losses), _first(accuracies), label_entropies)
    half_step = math.nan
    if "rsn_train" in losses:
        half_step = float(steps[half_index(losses["rsn_train"], d_vocab)])
    arrays = {"steps": np.asarray(steps)}
    for name, fraction in fractions.items():
        arrays[f"fraction_{name}"] = fraction
    return Reading(
        "learning_order",
        values | {"half_step": half_step},
        untrained=start,
        arrays=arrays,
        n=len(steps),
    )


def _first(curves: Mapping[str, Curve]) -> dict[str, Curve]:
    """Each curve at step 0 alone."""
    return {name: curve[:1] for name, curve in curves.items()}


def _values(
    fractions: Mapping[str, Curve],
    losses: Mapping[str, Curve],
    accuracies: Mapping[str, Curve],
    label_entropies: Mapping[str, float],
) -> dict[str, float]:
    """The quantities but ``half_step``; NaN for a set without curves."""
    no_curve = np.full(1, math.nan)
    area = {name: float(fractions.get(name, no_curve).mean()) for name in SETS}
    accuracy = {name: float(accuracies.get(name, no_curve)[-1]) for name in SETS}
    bias = bias_index(area["mem"], area["rsn_train"])
    values = {
        "bias": bias,
        "bias_test": bias_index(area["mem"], area["rsn_test"]),
        "abs_bias": abs(bias),
    }
    for name in SETS:
        values[f"acc_{name}"] = accuracy[name]
    values["acc_gap"] = accuracy["rsn_train"] - accuracy["rsn_test"]
    for name in SETS[:2]:
        loss = float(losses.get(name, no_curve)[-1])
        values[f"margin_{name}"] = label_entropies.get(name, math.nan) - loss
    values["half_step"] = math.nan  # keeps its place among the rows
    for name in SETS:
        values[f"area_{name}"] = area[name]
    return values


def fraction_left(losses: Curve, d_vocab: int) -> Curve:
    """f(t) = min(L(t) / ln d_vocab, 1), in (0, 1]; nan stays nan.

    >>> fraction_left(np.array([9.0, math.log(4), math.log(2)]), d_vocab=4).tolist()
    [1.0, 1.0, 0.5]
    """
    return np.minimum(np.asarray(losses, dtype=np.float64) / math.log(d_vocab), 1.0)


def bias_index(area_memory: float, area_reasoning: float) -> float:
    """B = (A_mem - A_rsn) / (A_mem + A_rsn), in [-1, 1]; positive where reasoning is learned first;
    nan for 0 / 0.

    >>> bias_index(0.75, 0.25)
    0.5
    """
    total = area_memory + area_reasoning
    return (area_memory - area_reasoning) / total if total > 0 else math.nan


def half_index(losses: Curve, d_vocab: int) -> int:
    """Number of the first evaluation with f <= 1/2, of the last one if that never happens.

    >>> half_index(np.array([1.4, 0.9, 0.5, 0.8]), d_vocab=4), half_index(np.array([1.4, 1.3]), d_vocab=4)
    (2, 1)
    """
    return first_or_last(fraction_left(losses, d_vocab) <= HALF)


def first_or_last(reached: Bool[np.ndarray, " evaluation"]) -> int:
    return int(reached.argmax()) if reached.any() else len(reached) - 1


def learning_order_of(
    curves: pd.DataFrame, d_vocab: int, data: Mapping[int, Dataset]
) -> pd.DataFrame:
    """`learning_order_table` of curves, with the entropies of the labels that each seed drew."""
    entropies = {}
    for seed, dataset in data.items():
        for name in SETS:
            entropies[seed, name] = label_entropy(dataset.labels[dataset.rows(name)])
    return learning_order_table(curves, d_vocab, entropies)


def learning_order_table(
    curves: pd.DataFrame, d_vocab: int, label_entropy: Mapping[tuple[int, str], float]
) -> pd.DataFrame:
    """Readings table of every member in a curves table, see `readings_of_curves`; entropies by
    (seed, set)."""

    def read(member: pd.DataFrame, seed: int) -> Reading:
        sets = by_set(member)
        losses, accuracies = losses_and_accuracies(sets)
        evaluations = member.drop_duplicates("step").sort_values("step")
        steps = sets.get("rsn_train", evaluations)["step"].to_numpy()
        entropies = {name: label_entropy.get((seed, name), math.nan) for name in SETS}
        return learning_order(losses, accuracies, steps, d_vocab, entropies)

    return readings_of_curves(curves, read)


def readings_of_curves(
    curves: pd.DataFrame, read: Callable[[pd.DataFrame, int], Reading]
) -> pd.DataFrame:
    """Readings table (stage ``final``, set ``""``) of every member in a curves table.

    Args:
        curves: gamma, seed, step, set, loss, accuracy; one row per evaluation of a set.
        read: takes the rows of one member, and its seed.

    Raises RunError where a member has an evaluation twice.
    """
    blocks = []
    for _, member in curves.groupby(["gamma", "seed"], sort=True):
        gamma, seed = member["gamma"].iloc[0], int(member["seed"].iloc[0])
        if member.duplicated(["step", "set"]).any():
            raise RunError(
                f"member gamma={gamma}, seed={seed} has an evaluation twice; drop duplicated "
                f"(step, set) rows."
            )
        block = pd.DataFrame(read(member, seed).rows())
        step = int(member["step"].to_numpy().max())
        columns = {"gamma": gamma, "seed": seed, "stage": "final", "step": step, "set": ""}
        blocks.append(block.assign(**columns)[[*columns, *block.columns]])
    return pd.concat(blocks, ignore_index=True)


def by_set(member: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """A member's evaluations of each set, by step."""
    return {str(name): rows.sort_values("step") for name, rows in member.groupby("set")}


def losses_and_accuracies(
    sets: Mapping[str, pd.DataFrame],
) -> tuple[dict[str, Curve], dict[str, Curve]]:
    """The two curves of each set, from `by_set`."""

    def curves(column: str) -> dict[str, Curve]:
        return {name: rows[column].to_numpy(np.float64) for name, rows in sets.items()}

    return curves("loss"), curves("accuracy")


def delta_loss(stories: Curve, prontoqa: Curve) -> Curve:
    """Delta L = (L_stories - L_prontoqa) / L_prontoqa, above -1, nan where PrOntoQA's loss is 0
    (paper 1, Metric).

    >>> delta_loss(np.array([7.0, 3.0]), np.array([7.0, 2.0])).tolist()
    [0.0, 0.5]
    """
    return (stories - prontoqa) / np.where(prontoqa > 0, prontoqa, np.nan)


def early_index(stories: Curve, prontoqa: Curve) -> int:
    """Number of the first evaluation whose pooled loss is at most EARLY of the first's; the last one
    if never.

    >>> early_index(np.array([5.0, 4.5, 4.0]), np.array([5.0, 3.5, 1.0])), early_index(np.ones(4), np.ones(4))
    (1, 3)
    """
    pooled = (stories + prontoqa) / 2
    return first_or_last(pooled <= EARLY * pooled[0])


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
    curves = {name: losses.get(name, no_curve) for name in TEXT_SETS}
    start = {name: curve[:1] for name, curve in curves.items()}
    early_step = math.nan
    if all(name in losses for name in TRAIN):
        early_step = float(steps[early_index(curves[TRAIN[1]], curves[TRAIN[0]])])
    return Reading(
        "corpus_loss",
        _corpus_values(curves, entropies) | {"early_step": early_step},
        untrained=_corpus_values(start, entropies),
        arrays={
            "steps": np.asarray(steps),
            "delta_loss": _delta(curves, TRAIN),
            "delta_loss_test": _delta(curves, TEXT_SETS[2:]),
        },
        n=len(steps),
    )


def _corpus_values(curves: Mapping[str, Curve], entropies: tuple[float, float]) -> dict[str, float]:
    """The quantities but ``early_step``; NaN for a set without a curve."""
    values = {
        "delta_loss": float(_delta(curves, TRAIN).mean()),
        "delta_loss_test": float(_delta(curves, TEXT_SETS[2:]).mean()),
        "delta_loss_per_entropy": float(_delta(curves, TRAIN, entropies).mean()),
        "delta_loss_per_entropy_test": float(_delta(curves, TEXT_SETS[2:], entropies).mean()),
        "delta_final": float(_delta(curves, TRAIN)[-1]),
        "early_step": math.nan,  # keeps its place among the rows
    }
    for name, curve in curves.items():
        values[f"loss_{name}"] = float(curve[-1])
    return values


def _delta(
    curves: Mapping[str, Curve],
    sets: Sequence[str],
    entropies: tuple[float, float] = (1.0, 1.0),
) -> Curve:
    """Delta L of two sets (PrOntoQA, stories), each loss over its entropy."""
    prontoqa = curves[sets[0]] / entropies[0]
    stories = curves[sets[1]] / entropies[1]
    return delta_loss(stories, prontoqa)
