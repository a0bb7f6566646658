"""Nulls, intervals over seeds, and statistics of tables and curves. None of them takes a model.

``learning_order`` reads learning curves; ``nulls`` draws nulls; ``disagreement``
compares groups of members by permuting them.
"""

from rb_interp.statistics import disagreement, learning_order, nulls
from rb_interp.statistics.intervals import (
    Interval,
    paired_differences,
    proportion_interval,
    t_interval,
)

__all__ = [
    "Interval",
    "disagreement",
    "learning_order",
    "nulls",
    "paired_differences",
    "proportion_interval",
    "t_interval",
]
