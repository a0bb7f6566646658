"""What initialisation does to the circuit a transformer learns: train members, probe them, judge
the claims.

>>> import rb_interp as rb
>>> task = rb.AnchorTask.preset("smoke")
>>> task.dataset(seed=0).tokens.shape
(3200, 6)

Probes are in ``rb.probes``, interventions in ``rb.interventions``; every other package inside is
there in the same way.
"""

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names are found at first
    use (PEP 562).

    They stand once, as the imports that it makes ``if TYPE_CHECKING``. So ``import rb_interp``
    loads no torch, and training loads no TransformerLens.
    """
    module = sys.modules[package]
    block = next(
        node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If)
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    where = {alias.name: node.module for node in imports for alias in node.names}

    def find(name: str) -> Any:
        if name not in where:
            raise AttributeError(
                f"module '{package}' has no attribute '{name}'", name=name, obj=module
            )
        inside = where[name] == package
        value = (
            import_module(f"{package}.{name}")
            if inside
            else getattr(import_module(str(where[name])), name)
        )
        setattr(module, name, value)  # so it is looked for once
        return value

    names = sorted(where)
    return find, lambda: [*names, *(name for name in vars(module) if name.startswith("__"))], names


if TYPE_CHECKING:
    from rb_interp import (
        claims,
        interventions,
        models,
        plots,
        probes,
        runs,
        statistics,
        studies,
        tasks,
        text,
    )

    # isort: split
    from rb_interp import theory, training
    from rb_interp._threads import threads
    from rb_interp.claims import judge
    from rb_interp.errors import RbInterpError
    from rb_interp.models import ModelConfig, build_model, initialisation_table, scale_init
    from rb_interp.probes import Reading, from_arrays, scan
    from rb_interp.runs import Run, Study, study
    from rb_interp.runs.shared_member import from_pretrained, push_to_hub, zoo
    from rb_interp.tasks import AnchorTask, Inputs, Roles
    from rb_interp.training import TrainConfig, train_members, train_model

    __all__ = [
        "AnchorTask",
        "Inputs",
        "ModelConfig",
        "RbInterpError",
        "Reading",
        "Roles",
        "Run",
        "Study",
        "TrainConfig",
        "build_model",
        "claims",
        "from_arrays",
        "from_pretrained",
        "initialisation_table",
        "interventions",
        "judge",
        "models",
        "plots",
        "probes",
        "push_to_hub",
        "runs",
        "scale_init",
        "scan",
        "statistics",
        "studies",
        "study",
        "tasks",
        "text",
        "theory",
        "threads",
        "train_members",
        "train_model",
        "training",
        "zoo",
    ]
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
