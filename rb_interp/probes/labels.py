r"""Rows with one label: are their vectors parallel, and is the output in the label's range?

`cosines_by_target` (paper 2, Fig. 4): are vectors parallel where they stand for the same thing, and
only there? Row r has a vector v_r, one activation at one position, and a target t_r, such as its
right answer. Over the pairs of rows (r, s) that are compared:

    equal        mean cos(v_r, v_s) where t_r = t_s                              [-1, 1]
    different    the same where t_r differs from t_s                             [-1, 1]
    difference   equal - different                                               [-2, 2]

``centred_equal``, ``centred_different`` and ``centred_difference`` are the same of v_r less the
mean over the rows that are centred together, all of them by default.

How it can mislead. Where the vector is a function of the target alone, with unrelated directions
for its values, equal reads 1 and different 0. Both are near 1 in an untrained model whose rows end
in the same token: read difference or the centred values. Where vectors lie on a line by the
target's value, near targets are parallel too, so different depends on which targets are compared. A
loud direction that has nothing to do with the target hides all others. Cosines of values
(``hook_v``) depend on the basis in which W_V and W_O are written.

`label_range` (paper 1, Fig. 8 right): does a model know a group's range of labels before it knows a
single memory label? Memory anchors stand in groups g, each with a range R_g of labels from which
its labels were drawn. With p(X) the output distribution at the last position:

    inside_g = mean over inputs X of group g of  sum_{i in R_g} p_i(X)            lowest_inside = min_g inside_g
    pooled   = min_g  1/G sum_h |R_g and R_h| / |R_h|      inside_g of a model that knows only the labels of all groups

How it can mislead. A model that knows each group's range reads 1, one that knows only the pooled
labels .52 with the paper's four nested ranges (narrowest first .52, .79, .94, 1: that is why the
lowest counts), and an *untrained* one the width of the narrowest range over d_vocab, .10. A model
that has memorised every label reads 1 as well: the number speaks only together with an ``accuracy``
that is still low. Ranges that share labels can all be met by putting everything on the labels that
they share, so look at the mean outputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError, TaskError
from rb_interp.models.arrays import ActivationSource
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes.activations import (
    capture,
    check_labels,
    check_rows,
    float64,
    logits_of,
    occupied,
)
from rb_interp.probes.embeddings import cosines
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs, selected

UNDEFINED = "no pair of rows has equal targets, or none has different ones, or a vector is zero."
Ranges = Int[np.ndarray, "group 2"] | Sequence[tuple[int, int]] | Sequence[Sequence[int]]
"""Lowest and highest label of each group, both inclusive."""
RowVectors = Float[np.ndarray, "row d"]
RowLabels = Int[np.ndarray, " row"]


@checked
@single_threaded
def cosines_by_target(
    model: ActivationSource,
    inputs: Inputs,
    *,
    hook: str,
    role: str | None = None,
    targets: RowLabels | None = None,
    pairs: Int[np.ndarray, "pair 2"] | None = None,
    within: RowLabels | None = None,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Mean cosine of activations of rows with equal and with different targets, in [-1, 1].

    Values as in the module's table; NaN if no pair is of its kind. Null of ``difference``: targets
    permuted over rows. Arrays: cosines and centred_cosines ``[pair]``. n is the number of rows.

    Args:
        model: a model, its activations on these rows (``captured``), or arrays (``from_arrays``).
        inputs: rows, with the role that is asked for.
        hook: full name of a hook whose activation is ``[row, pos, ...]``; all axes behind these two
            are one vector.
        role: whose position is read, the first one if it has several; by default the role ``last``.
        targets: what each row stands for; None for the rows' labels.
        pairs: numbers of the rows that are compared, two a pair; None for every pair of distinct
            rows.
        within: a number for each row; rows with the same number are centred together. None: all
            rows.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of the null, 0 for none, and their seed.

    Raises ModelError for a hook without positions, and for targets or ``within`` that are missing
    or of other rows.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.sample("rsn_train", 50))
    >>> reading = cosines_by_target(model, rows, hook="blocks.1.hook_resid_mid", n_null=0)
    >>> reading.values["difference"] == reading.values["equal"] - reading.values["different"]
    True
    """
    check_rows(inputs, "cosines_by_target")
    n = len(inputs)
    labels = check_labels(inputs, "cosines_by_target") if targets is None else targets
    centre = np.zeros(n, dtype=int) if within is None else within
    for name, numbers in (("targets", labels), ("numbers in within", centre)):
        if len(numbers) != n:
            raise ModelError(
                f"cosines_by_target got {n} rows and {len(numbers)} {name}; give one for each row."
            )
    pair_numbers = np.stack(np.triu_indices(n, 1), 1) if pairs is None else pairs
    first, second = selected(pair_numbers.reshape(-1), n).reshape(-1, 2).T

    def measure(source: ActivationSource) -> Measurement:
        vectors = position_vectors(source, inputs, hook, role)
        return compare_targets(vectors, labels, centre, (first, second))

    return read_model(
        "cosines_by_target", model, measure, untrained, n_null, seed, reasons=UNDEFINED
    )


def compare_targets(
    vectors: RowVectors,
    labels: RowLabels,
    centre: RowLabels,
    row_pairs: tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]],
) -> Measurement:
    """The values of `cosines_by_target`, read from one vector a row.

    Args:
        centre: a number for each row; rows with the same number are centred together.
    """
    first, second = row_pairs
    _, group = np.unique(centre, return_inverse=True)
    sums = np.zeros((group.max() + 1, vectors.shape[1]))
    np.add.at(sums, group, vectors)
    means = sums / np.bincount(group)[:, None]
    raw = cosines(vectors)[first, second]
    centred = cosines(vectors - means[group])[first, second]
    equal = labels[first] == labels[second]
    values = means_by_target(raw, equal)
    for name, value in means_by_target(centred, equal).items():
        values[f"centred_{name}"] = value

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        draws = []
        for order in permutations(n_null, len(labels), np.random.default_rng(seed)):
            permuted = labels[order]
            means = means_by_target(raw, permuted[first] == permuted[second])
            draws.append(means["difference"])
        return {"difference": Null("targets permuted over rows", np.array(draws))}

    arrays = {"cosines": raw, "centred_cosines": centred}
    return Measurement(values, draw_nulls, arrays, len(vectors))


def means_by_target(
    cosines: Float[np.ndarray, " pair"], equal: Bool[np.ndarray, " pair"]
) -> dict[str, float]:
    """Mean cosine of pairs with equal and with different targets, and the difference.

    NaN without such a pair.
    """
    same = float(cosines[equal].mean()) if equal.any() else math.nan
    other = float(cosines[~equal].mean()) if not equal.all() else math.nan
    return {"equal": same, "different": other, "difference": same - other}


def position_vectors(
    model: ActivationSource, inputs: Inputs, hook: str, role: str | None = None
) -> RowVectors:
    """An activation at one position of each row in float64, as one vector a row.

    Raises ModelError for an activation without positions.
    """
    n, length = inputs.tokens.shape
    positions = positions_of(inputs, role, "cosines_by_target")
    activation = capture(model, inputs.tokens, [hook])[hook]
    of_pairs = hook.endswith(("pattern", "scores"))
    if of_pairs or activation.ndim < 3 or activation.shape[1] != length:
        raise ModelError(
            f"cosines_by_target got the hook '{hook}', whose activation has the shape "
            f"{list(activation.shape)}; expected [row, pos, ...] with {length} positions."
        )
    return float64(activation[np.arange(n), positions].flatten(1))


def positions_of(inputs: Inputs, role: str | None, caller: str) -> RowLabels:
    """The position of each row that is read: a role's first one, by default that of ``last``."""
    return occupied(inputs, role or "last", caller)[:, 0]


@checked
@single_threaded
def label_range(
    model: ActivationSource,
    inputs: Inputs,
    *,
    groups: RowLabels,
    ranges: Ranges,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """How much of its output a model gives to the labels that an input's group can have.

    Values, all in [0, 1]: those of the module's table, ``inside_1`` and so on; ``accuracy`` on
    these inputs. Arrays: ``outputs`` ``[group, d_vocab]`` (mean output distribution), ``inside``
    and ``pooled`` ``[group]``, ``ranges`` ``[group, 2]``. No quantity has a null, so ``n_null`` and
    ``seed`` do nothing.

    Args:
        model: a model, or arrays (``from_arrays``).
        inputs: memory inputs, with the labels that they were trained on.
        groups: which group each input belongs to, counted from 0.
        ranges: the label range of each group.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises TaskError for groups and ranges that do not fit each other.

    >>> from rb_interp import AnchorTask, Inputs, build_model
    >>> rows = Inputs(np.arange(8).reshape(2, 4), np.array([7, 9]))
    >>> model = build_model(AnchorTask(), gamma=0.8)
    >>> reading = label_range(model, rows, groups=[0, 1], ranges=[(0, 19), (0, 199)])
    >>> round(reading.values["inside_1"], 1), round(reading.values["inside_2"], 1)
    (0.1, 1.0)
    """
    check_rows(inputs, "label_range")
    labels = check_labels(inputs, "label_range")
    bounds = [(int(low), int(high)) for low, high in ranges]

    def measure(source: ActivationSource) -> Measurement:
        if "last" in inputs.roles.positions:
            logits = logits_of(source, inputs.tokens)
            logits = logits[np.arange(len(inputs)), positions_of(inputs, None, "label_range")]
        else:  # a model of the summed embeddings has one position alone
            logits = logits_of(source, inputs.tokens, select=lambda logits: logits[:, -1])
        probabilities = float64(logits.double().softmax(-1))
        numbers = np.unique(groups)
        n_rows, d_vocab = probabilities.shape
        is_range = [0 <= low <= high < d_vocab for low, high in bounds]
        numbered = np.array_equal(numbers, np.arange(len(bounds)))
        if len(groups) != n_rows or not numbered or not all(is_range):
            raise TaskError(
                f"label_range got the groups {numbers.tolist()} and ranges {bounds}; expected a "
                f"group for each row, and for each group from 0 a range, with low <= high within "
                f"0..{d_vocab - 1}, both inclusive."
            )
        return outputs_in_range(probabilities, labels, groups, bounds)

    return read_model("label_range", model, measure, untrained, n_null, seed)


def outputs_in_range(
    probabilities: Float[np.ndarray, "row d_vocab"],
    labels: RowLabels,
    groups: RowLabels,
    ranges: Sequence[tuple[int, int]],
) -> Measurement:
    """The values of `label_range`, read from the output distribution of each row."""
    pooled = pooled_inside(ranges)
    outputs = []
    inside = []
    for group, (low, high) in enumerate(ranges):
        output = probabilities[groups == group].mean(0)
        outputs.append(output)
        inside.append(float(output[low : high + 1].sum()))
    values = {"lowest_inside": min(inside)}
    values |= {f"inside_{number}": share for number, share in enumerate(inside, start=1)}
    values["pooled"] = float(pooled.min())
    values["accuracy"] = float((probabilities.argmax(1) == labels).mean())
    arrays = {
        "outputs": np.stack(outputs),
        "inside": np.array(inside),
        "pooled": pooled,
        "ranges": np.array(ranges),
    }
    return Measurement(values, arrays=arrays, n=len(labels))


def pooled_inside(ranges: Ranges) -> Float[np.ndarray, " group"]:
    """Probability of each group's labels under those of all groups, in (0, 1].

    The labels of each group are uniform.
    """
    low, high = np.array(ranges).T
    shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low) + 1
    return (shared.clip(0) / (high - low + 1)).mean(1)
