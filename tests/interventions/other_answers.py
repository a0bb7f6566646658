"""Anchor tasks with other answers: of the reasoning sets, and of memory."""

import numpy as np

from rb_interp.tasks import AnchorTask


class Shifted(AnchorTask):
    """No answer is key + sum."""

    def answers(self, data, rows, tokens):
        return super().answers(data, rows, tokens) + 1


class Added(AnchorTask):
    """Every answer is key + sum, that of memory too."""

    def answers(self, data, rows, tokens):
        roles = np.concatenate([data.positions[role][rows] for role in ("key", "anchor")], 1)
        return np.take_along_axis(tokens, roles, 1).sum(1)
