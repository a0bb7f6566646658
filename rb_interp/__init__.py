"""What initialisation does to the circuit a transformer learns: train members, probe them, judge the claims.

>>> import rb_interp as rb
>>> task = rb.AnchorTask.preset("smoke")
>>> task.dataset(seed=0).tokens.shape
(3200, 6)

Probes are in ``rb.probes``, interventions in ``rb.interventions``.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from rb_interp.lazy import lazy_names

__version__ = "0.1.0"

_WHERE = {
    "AnchorTask": "rb_interp.tasks",
    "Inputs": "rb_interp.tasks",
    "ModelConfig": "rb_interp.models",
    "RbInterpError": "rb_interp.errors",
    "Reading": "rb_interp.probes",
    "Roles": "rb_interp.tasks",
    "Run": "rb_interp.machine",
    "Study": "rb_interp.machine",
    "TrainConfig": "rb_interp.training",
    "build_model": "rb_interp.models",
    "from_arrays": "rb_interp.probes",
    "initialisation_table": "rb_interp.models",
    "judge": "rb_interp.claims",
    "scale_init": "rb_interp.models",
    "scan": "rb_interp.probes",
    "study": "rb_interp.machine",
    "threads": "rb_interp.torch_threads",
    "train_members": "rb_interp.training",
    "train_model": "rb_interp.training",
}
_PACKAGES = ("probes", "interventions")

__all__ = sorted((*_WHERE, *_PACKAGES))  # pyright: ignore[reportUnsupportedDunderAll]

_find = lazy_names(__name__, _WHERE)


def __getattr__(name: str) -> _Any:
    return _import_module(f"{__name__}.{name}") if name in _PACKAGES else _find(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
