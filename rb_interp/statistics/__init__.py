"""Nulls, intervals over seeds, and statistics of tables and curves. None of them takes a model.

Its submodules ``learning_order`` and ``corpus_loss`` read learning curves, ``groups`` compares groups of members.
"""

from rb_interp.statistics import corpus_loss, groups, learning_order
from rb_interp.statistics.intervals import Interval, paired_differences, proportion_interval, t_interval
from rb_interp.statistics.nulls import (
    dirichlet_rows,
    gaussian_product_singular_values,
    gaussian_singular_values,
    permutations,
    random_directions,
    random_subspaces,
)

__all__ = [
    "Interval",
    "corpus_loss",
    "dirichlet_rows",
    "gaussian_product_singular_values",
    "gaussian_singular_values",
    "groups",
    "learning_order",
    "paired_differences",
    "permutations",
    "proportion_interval",
    "random_directions",
    "random_subspaces",
    "t_interval",
]
