r"""Does a model know a group's range of labels before it knows a single memory label?  (paper 1, Fig. 8 right)

Memory anchors stand in groups g, each with a range R_g of labels from which its labels were drawn. With p(X) the
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
from jaxtyping import Float, Int

from rb_interp.errors import TaskError
from rb_interp.probes.capturing import Tokens, logits_of
from rb_interp.probes.check import NOT_FINITE, check_labels, check_rows, undefined
from rb_interp.probes.source import Source
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

Ranges = Sequence[tuple[int, int]]
"""Lowest and highest label of each group, both inclusive."""


def inside_ranges(
    probabilities: Float[np.ndarray, "row d_vocab"], groups: Int[np.ndarray, " row"], ranges: Ranges
) -> Float[np.ndarray, " group"]:
    """Mean probability that inputs of each group give to their group's labels, in [0, 1] (Fig. 8 right).

    Raises TaskError for a range outside the vocabulary, and for a group without an input or without a range.

    >>> inside_ranges(np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5]]), np.array([0, 1]), [(0, 0), (0, 1)]).tolist()
    [0.7, 0.5]
    """
    outputs = mean_outputs(probabilities, groups, ranges)
    return np.array([output[low : high + 1].sum() for output, (low, high) in zip(outputs, ranges, strict=True)])


def mean_outputs(
    probabilities: Float[np.ndarray, "row d_vocab"], groups: Int[np.ndarray, " row"], ranges: Ranges
) -> Float[np.ndarray, "group d_vocab"]:
    """Mean output distribution over the inputs of each group; raises as `inside_ranges` does."""
    d_vocab = probabilities.shape[1]
    if not all(0 <= low <= high < d_vocab for low, high in ranges):
        raise TaskError(f"label ranges {list(ranges)}; expected low <= high within 0..{d_vocab - 1}, both inclusive.")
    found = np.unique(groups)
    if not np.array_equal(found, np.arange(len(ranges))):
        raise TaskError(
            f"inputs of the groups {found.tolist()} with {len(ranges)} label ranges; give inputs of every group, "
            f"numbered 0 to {len(ranges) - 1}."
        )
    return np.stack([probabilities[groups == group].mean(0) for group in found])


def pooled_inside(ranges: Ranges) -> Float[np.ndarray, " group"]:
    """Probability of each group's labels, in (0, 1], under the labels of all groups together.

    Every group weighs the same and its labels are uniform on its range.

    >>> pooled_inside([(30, 49), (30, 69), (30, 89), (30, 109)]).round(3).tolist()
    [0.521, 0.792, 0.938, 1.0]
    """
    low, high = np.array(ranges).T
    shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low) + 1
    return (shared.clip(0) / (high - low + 1)).mean(1)


def output_probabilities(model: Source, tokens: Tokens) -> Float[np.ndarray, "row d_vocab"]:
    """Output distribution at the last position, in float64; ModelError for tokens that the model does not know."""
    return logits_of(model, tokens, keep=lambda logits: logits[:, -1]).double().softmax(-1).numpy()


@typed
@few_threads
def label_range(
    model: Source,
    inputs: Inputs,
    *,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
    groups: Int[np.ndarray, " row"],
    ranges: Ranges,
) -> Reading:
    """How much of its output a model gives to the labels that an input's group can have.

    Values, all in [0, 1]: ``lowest_inside``; ``inside_1`` and so on, one for each group; ``pooled``, which is a
    property of the ranges; ``accuracy`` on these inputs. Arrays: ``outputs`` ``[group, d_vocab]`` (mean output
    distribution), ``inside`` and ``pooled`` ``[group]``, ``ranges`` ``[group, 2]``. Source: paper 1, Fig. 8 right.

    Args:
        inputs: memory inputs, with the labels that they were trained on.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: change nothing, since no quantity has a null.
        groups: which group each input belongs to, counted from 0.
        ranges: the label range of each group.

    Raises:
        ModelError: for tokens that the model does not know.
        TaskError: for groups and ranges that do not fit each other.
    """
    ranges = [(int(low), int(high)) for low, high in ranges]
    check_rows(inputs, "label_range")
    outputs, values = _read(model, inputs, groups, ranges)
    arrays = {
        "outputs": outputs,
        "inside": np.array([values[f"inside_{group + 1}"] for group in range(len(ranges))]),
        "pooled": pooled_inside(ranges),
        "ranges": np.array(ranges),
    }
    before = {} if untrained is None else _read(untrained, inputs, groups, ranges)[1]
    notes = undefined(values, model, NOT_FINITE, before, untrained)
    return Reading("label_range", values, untrained=before, arrays=arrays, n=len(inputs), notes=notes)


def _read(model: Source, inputs: Inputs, groups: np.ndarray, ranges: Ranges) -> tuple[np.ndarray, dict[str, float]]:
    labels = check_labels(inputs, "label_range")
    if len(groups) != len(inputs):
        raise TaskError(
            f"label_range got {len(inputs)} rows of tokens and {len(groups)} groups; give one group for each row."
        )
    probabilities = output_probabilities(model, inputs.tokens)
    inside = inside_ranges(probabilities, groups, ranges)
    return mean_outputs(probabilities, groups, ranges), {
        "lowest_inside": float(inside.min()),
        **{f"inside_{group}": float(value) for group, value in enumerate(inside, start=1)},
        "pooled": float(pooled_inside(ranges).min()),
        "accuracy": float((probabilities.argmax(1) == labels).mean()),
    }
