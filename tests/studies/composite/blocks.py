"""Rows of the composite task, read from tokens alone."""

import numpy as np


def blocks(data):
    """Position of the key, key and pair of each row: what stands before and at its only two small
    tokens."""
    anchors = data.tokens <= len(data.task.shifts)
    np.testing.assert_array_equal(anchors.sum(1), 2)
    first = anchors.argmax(1)
    at = np.arange(len(data))
    assert anchors[at, first + 1].all()
    assert first.min() >= 1
    pairs = list(
        zip(data.tokens[at, first].tolist(), data.tokens[at, first + 1].tolist(), strict=True)
    )
    return first - 1, data.tokens[at, first - 1], pairs
