"""The entropy of a label whose range is known, worked out by hand."""

import numpy as np
import pytest

from rb_interp.studies.labels.measure import range_entropy
from rb_interp.tasks import AnchorTask


def test_range_entropy_by_hand():
    task = AnchorTask(length=3, balanced_keys=True, n_sequences=2000, memory_labels="near_sum")
    sums = np.add.outer(
        np.arange(1, 6), np.arange(1, 6)
    )  # every ordered pair of memory anchors, equally often
    assert range_entropy(task.dataset(seed=0)) == pytest.approx(np.log(2 * sums + 1).mean())
