"""What initialisation does to the circuit a transformer learns: train members, probe them, judge the claims.

>>> import rb_interp as rb
>>> task = rb.AnchorTask.preset("smoke")
>>> task.dataset(seed=0).tokens.shape
(3200, 6)

Probes are in ``rb.probes``, interventions in ``rb.interventions``; every other package inside is there in the same way.
"""

import ast
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose names are found at first use (PEP 562).

    They stand once, as the imports that it makes ``if TYPE_CHECKING``. So ``import rb_interp`` loads no torch, and
    training loads no TransformerLens.
    """
    module = sys.modules[package]
    block = next(node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If))
    where = {node.names[0].name: node.module for node in block.body if isinstance(node, ast.ImportFrom)}

    def find(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module '{package}' has no attribute '{name}'", name=name, obj=module)
        inside = where[name] == package
        return import_module(f"{package}.{name}") if inside else getattr(import_module(str(where[name])), name)

    names = sorted(where)
    return find, lambda: [*names, *(name for name in vars(module) if name.startswith("__"))], names


if TYPE_CHECKING:
    from rb_interp import claims as claims
    from rb_interp import interventions as interventions
    from rb_interp import models as models
    from rb_interp import plots as plots
    from rb_interp import probes as probes
    from rb_interp import runs as runs
    from rb_interp import statistics as statistics
    from rb_interp import studies as studies
    from rb_interp import tasks as tasks
    from rb_interp import text as text
    from rb_interp import theory as theory
    from rb_interp import training as training
    from rb_interp.claims import judge as judge
    from rb_interp.errors import RbInterpError as RbInterpError
    from rb_interp.models import ModelConfig as ModelConfig
    from rb_interp.models import build_model as build_model
    from rb_interp.models import initialisation_table as initialisation_table
    from rb_interp.models import scale_init as scale_init
    from rb_interp.probes import Reading as Reading
    from rb_interp.probes import from_arrays as from_arrays
    from rb_interp.probes import scan as scan
    from rb_interp.runs import Run as Run
    from rb_interp.runs import Study as Study
    from rb_interp.runs import study as study
    from rb_interp.runs.shared_member import from_pretrained as from_pretrained
    from rb_interp.runs.shared_member import push_to_hub as push_to_hub
    from rb_interp.runs.shared_member import zoo as zoo
    from rb_interp.tasks import AnchorTask as AnchorTask
    from rb_interp.tasks import Inputs as Inputs
    from rb_interp.tasks import Roles as Roles
    from rb_interp.torch_threads import threads as threads
    from rb_interp.training import TrainConfig as TrainConfig
    from rb_interp.training import train_members as train_members
    from rb_interp.training import train_model as train_model
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
