r"""What rows stand for: are their vectors parallel where it is the same, and does the output lie in its range?

`cosines_by_target` (paper 2, Fig. 4): are vectors parallel where they stand for the same thing, and only there? Row r
has a vector v_r, one activation at one position, and a target t_r, such as its right answer. Over the pairs of rows
(r, s) that are compared:

    equal        mean cos(v_r, v_s) where t_r = t_s                              [-1, 1]
    different    the same where t_r differs from t_s                             [-1, 1]
    difference   equal - different                                               [-2, 2]

``centred_equal``, ``centred_different`` and ``centred_difference`` are the same of v_r less the mean over the rows that
are centred together, all of them by default.

How it can mislead. Where the vector is a function of the target alone, with unrelated directions for its values, equal
reads 1 and different 0. Where every row has a direction of its own, both read the same. Both are near 1 in an untrained
model whose rows end in the same token, since the residual stream is that token's embedding there: equal alone says
nothing, and difference or the centred values tell the two cases apart. Where vectors lie on a line by the target's
value, near targets are parallel too, so different depends on which targets are compared. A loud direction that has
nothing to do with the target hides all others. In a post-norm model ``hook_resid_mid`` is the residual stream after the
attention and its LayerNorm; in a pre-norm model LayerNorm follows only behind it, and a cosine does not see its scale.
Cosines of values (``hook_v``) depend on the basis in which W_V and W_O are written, which no logit does.

`label_range` (paper 1, Fig. 8 right): does a model know a group's range of labels before it knows a single memory
label? Memory anchors stand in groups g, each with a range R_g of labels from which its labels were drawn. With p(X) the
output distribution at the last position:

    inside_g = mean over inputs X of group g of  sum_{i in R_g} p_i(X)            lowest_inside = min_g inside_g
    pooled   = min_g  1/G sum_h |R_g and R_h| / |R_h|      inside_g of a model that knows only the labels of all groups

How it can mislead. A model that knows each group's range reads 1, one that knows only the pooled labels .52 with the
paper's four nested ranges (narrowest first .52, .79, .94, 1: that is why the lowest counts), and an *untrained* one the
width of the narrowest range over d_vocab, .10. A model that has memorised every label reads 1 as well, without knowing
any range: the number speaks only together with an ``accuracy`` that is still low. Ranges that share labels can all be
met by putting everything on the labels that they share, so look at the mean outputs, which should fill each range and
not only lie in it. Being inside says nothing about *which* label: one that is certain and wrong reads 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from rb_interp.errors import ModelError, TaskError
from rb_interp.probes._probe import Found, check_labels, occupied, probe, source
from rb_interp.probes.capturing import Source, capture, float64, logits_of
from rb_interp.probes.vectors import cosines
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null
from rb_interp.tasks.inputs import Inputs, selected

Ranges = Sequence[tuple[int, int]] | Sequence[Sequence[int]] | Int[np.ndarray, "group 2"]
"""Lowest and highest label of each group, both inclusive."""


@probe(source, "no pair of rows has equal targets, or none has different ones, or a vector is zero.", place={})
def cosines_by_target(
    model: Source, inputs: Inputs, *, hook: str, role: str | None = None,
    targets: Int[np.ndarray, " row"] | None = None, pairs: Int[np.ndarray, "pair 2"] | None = None,
    within: Int[np.ndarray, " row"] | None = None,
) -> Found:  # fmt: skip
    """Mean cosine of activations of rows with equal targets and of rows with different ones, in [-1, 1].

    Values as in the module's table; NaN where no pair is of its kind. Null of ``difference``: targets permuted over
    rows. Arrays: cosines and centred_cosines ``[pair]``. n is the number of rows. Source: paper 2, Fig. 4.

    Args:
        inputs: rows, with the role that is asked for.
        hook: full name of a hook whose activation is ``[row, pos, ...]``; all axes behind these two are one vector.
        role: whose position is read, the first one where it has several; None for the last position.
        targets: what each row stands for; the rows' labels where None.
        pairs: numbers of the rows that are compared, two a pair; None for every pair of distinct rows. The cosines of
            all rows are made at once, 8 bytes for each pair of rows.
        within: a number for each row; rows with the same number are centred together. None: all rows.

    Raises:
        ModelError: for a hook that is not there or whose activation has no positions, for missing targets, and for
            targets or ``within`` of other rows.
        RolesError: for a role that is not there, and for pairs of rows that are not there.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.sample("rsn_train", 50))
    >>> reading = cosines_by_target(model, rows, hook="blocks.1.hook_resid_mid", n_null=0)
    >>> reading.values["difference"] == reading.values["equal"] - reading.values["different"]
    True
    """
    labels, n = check_labels(inputs, "cosines_by_target") if targets is None else targets, len(inputs)
    _, group = np.unique(np.zeros(n) if within is None else within, return_inverse=True)
    for name, numbers in (("targets", labels), ("numbers in within", group)):
        if len(numbers) != n:
            raise ModelError(f"cosines_by_target got {n} rows and {len(numbers)} {name}; give one for each row.")
    chosen = np.stack(np.triu_indices(n, 1), 1) if pairs is None else pairs
    first, second = selected(chosen.reshape(-1), n).reshape(-1, 2).T
    vectors = position_vectors(model, inputs, hook, role)
    means = np.zeros((group.max() + 1, vectors.shape[1]))
    np.add.at(means, group, vectors)
    centred = vectors - (means / np.bincount(group)[:, None])[group]
    raw, inner = (cosines(each)[first, second] for each in (vectors, centred))
    equal = labels[first] == labels[second]
    values = means_by_target(raw, equal)
    values |= {f"centred_{name}": value for name, value in means_by_target(inner, equal).items()}

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        drawn = (labels[order] for order in permutations(n_null, n, np.random.default_rng(seed)))
        draws = [means_by_target(raw, other[first] == other[second])["difference"] for other in drawn]
        return {"difference": Null("targets permuted over rows", np.array(draws))}

    return Found(values, nulls, {"cosines": raw, "centred_cosines": inner}, n)


def position_vectors(model: Source, inputs: Inputs, hook: str, role: str | None = None) -> Float[np.ndarray, "row d"]:
    """An activation at one position of each row in float64, as one vector a row.

    Args:
        model: a model, or activations of these rows. inputs: rows. hook: whose activation is ``[row, pos, ...]``.
        role: whose position is read, the first one where it has several; None for the last position.

    Raises ModelError for an activation without positions, RolesError for a role that is not there.
    """
    n, length = inputs.tokens.shape
    at = np.full(n, length - 1) if role is None else occupied(inputs, role, "cosines_by_target")[:, 0]
    activation = capture(model, inputs.tokens, [hook])[hook]
    if activation.ndim < 3 or activation.shape[1] != length:
        raise ModelError(
            f"cosines_by_target got the hook '{hook}', whose activation has the shape {list(activation.shape)}; "
            f"expected [row, pos, ...] with {length} positions."
        )
    return float64(activation[np.arange(n), at].flatten(1))


def means_by_target(cosines: Float[np.ndarray, " pair"], equal: Bool[np.ndarray, " pair"]) -> dict[str, float]:
    """Mean cosine of pairs with equal and with different targets, and the difference; NaN without such a pair."""
    same, other = (float(cosines[which].mean()) if which.any() else float("nan") for which in (equal, ~equal))
    return {"equal": same, "different": other, "difference": same - other}


@probe(source, place={})
def label_range(model: Source, inputs: Inputs, *, groups: Int[np.ndarray, " row"], ranges: Ranges) -> Found:
    """How much of its output a model gives to the labels that an input's group can have.

    Values, all in [0, 1]: ``lowest_inside``; ``inside_1`` and so on, one for each group; ``pooled``, which is a
    property of the ranges; ``accuracy`` on these inputs. Arrays: ``outputs`` ``[group, d_vocab]`` (mean output
    distribution), ``inside`` and ``pooled`` ``[group]``, ``ranges`` ``[group, 2]``. No quantity has a null.
    Source: paper 1, Fig. 8 right.

    Args:
        inputs: memory inputs, with the labels that they were trained on.
        groups: which group each input belongs to, counted from 0.
        ranges: the label range of each group.

    Raises:
        ModelError: for tokens that the model does not know.
        TaskError: for groups and ranges that do not fit each other.
    """
    ranges, labels = [(int(low), int(high)) for low, high in ranges], check_labels(inputs, "label_range")
    if len(groups) != len(inputs):
        raise TaskError(
            f"label_range got {len(inputs)} rows of tokens and {len(groups)} groups; give one group for each row."
        )
    probabilities = float64(logits_of(model, inputs.tokens, keep=lambda logits: logits[:, -1]).double().softmax(-1))
    outputs, pooled = mean_outputs(probabilities, groups, ranges), pooled_inside(ranges)
    inside = np.array([output[low : high + 1].sum() for output, (low, high) in zip(outputs, ranges, strict=True)])
    values = {
        "lowest_inside": float(inside.min()),
        **{f"inside_{group}": float(value) for group, value in enumerate(inside, start=1)},
        "pooled": float(pooled.min()),
        "accuracy": float((probabilities.argmax(1) == labels).mean()),
    }
    arrays = {"outputs": outputs, "inside": inside, "pooled": pooled, "ranges": np.array(ranges)}
    return Found(values, None, arrays, len(inputs))


def mean_outputs(
    probabilities: Float[np.ndarray, "row d_vocab"], groups: Int[np.ndarray, " row"], ranges: Ranges
) -> Float[np.ndarray, "group d_vocab"]:
    """Mean output distribution over the inputs of each group.

    Raises TaskError for a range outside the vocabulary, and for a group without an input or without a range.
    """
    d_vocab, numbers = probabilities.shape[1], np.unique(groups)
    if not all(0 <= low <= high < d_vocab for low, high in ranges):
        raise TaskError(f"label ranges {list(ranges)}; expected low <= high within 0..{d_vocab - 1}, both inclusive.")
    if not np.array_equal(numbers, np.arange(len(ranges))):
        raise TaskError(
            f"inputs of the groups {numbers.tolist()} with {len(ranges)} label ranges; give inputs of every group, "
            f"numbered 0 to {len(ranges) - 1}."
        )
    return np.stack([probabilities[groups == group].mean(0) for group in numbers])


def pooled_inside(ranges: Ranges) -> Float[np.ndarray, " group"]:
    """Probability of each group's labels, in (0, 1], under the labels of all groups together.

    Every group weighs the same and its labels are uniform on its range.
    """
    low, high = np.array(ranges).T
    shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low) + 1
    return (shared.clip(0) / (high - low + 1)).mean(1)
