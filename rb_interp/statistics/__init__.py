"""Nulls, intervals over seeds, and statistics of tables and curves. None of them takes a model.

``learning_order`` and ``corpus_loss`` read learning curves. They are imported from their submodules.
"""

from rb_interp.lazy import lazy_names

_WHERE = {
    "Interval": "intervals",
    "dirichlet_rows": "nulls",
    "gaussian_product_singular_values": "nulls",
    "gaussian_singular_values": "nulls",
    "paired_differences": "intervals",
    "permutations": "nulls",
    "proportion_interval": "intervals",
    "random_directions": "nulls",
    "random_subspaces": "nulls",
    "t_interval": "intervals",
}

__all__ = [
    "Interval",
    "dirichlet_rows",
    "gaussian_product_singular_values",
    "gaussian_singular_values",
    "paired_differences",
    "permutations",
    "proportion_interval",
    "random_directions",
    "random_subspaces",
    "t_interval",
]

__getattr__ = lazy_names(__name__, {name: f"{__name__}.{module}" for name, module in _WHERE.items()})
