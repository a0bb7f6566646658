"""Losses of both corpora at three steps, small enough to be worked through by hand."""

import numpy as np

LOSSES = {
    "prontoqa_train": np.array([8.0, 4.0, 2.0]),
    "stories_train": np.array([8.0, 8.0, 5.0]),  # Delta L = 0, 1, 1.5
    "prontoqa_test": np.array([8.0, 5.0, 4.0]),
    "stories_test": np.array([8.0, 7.5, 6.0]),  # 0, .5, .5
}
STEPS, ENTROPIES = np.array([0, 50, 100]), (4.0, 5.0)
