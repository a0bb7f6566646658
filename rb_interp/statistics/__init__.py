"""Nulls, intervals over seeds, and statistics of tables and curves. None of them takes a model.

Its submodules ``learning_order`` and ``corpus_loss`` read learning curves, ``disagreement`` compares members.
"""

from typing import TYPE_CHECKING

from rb_interp.lazy import lazy_package

if TYPE_CHECKING:
    from rb_interp.statistics import corpus_loss as corpus_loss
    from rb_interp.statistics import disagreement as disagreement
    from rb_interp.statistics import learning_order as learning_order
    from rb_interp.statistics.intervals import Interval as Interval
    from rb_interp.statistics.intervals import paired_differences as paired_differences
    from rb_interp.statistics.intervals import proportion_interval as proportion_interval
    from rb_interp.statistics.intervals import t_interval as t_interval
    from rb_interp.statistics.nulls import dirichlet_rows as dirichlet_rows
    from rb_interp.statistics.nulls import gaussian_product_singular_values as gaussian_product_singular_values
    from rb_interp.statistics.nulls import gaussian_singular_values as gaussian_singular_values
    from rb_interp.statistics.nulls import permutations as permutations
    from rb_interp.statistics.nulls import random_directions as random_directions
    from rb_interp.statistics.nulls import random_subspaces as random_subspaces
else:
    __getattr__, __dir__, __all__ = lazy_package(
        __name__,
        {
            "intervals": ("Interval", "paired_differences", "proportion_interval", "t_interval"),
            "nulls": (
                "dirichlet_rows",
                "gaussian_product_singular_values",
                "gaussian_singular_values",
                "permutations",
                "random_directions",
                "random_subspaces",
            ),
        },
        modules=("corpus_loss", "disagreement", "learning_order"),
    )
