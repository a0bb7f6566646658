from . import (
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
    theory,
    training,
)
from ._threads import threads
from .claims import judge
from .errors import RbInterpError
from .models import ModelConfig, build_model, initialisation_table, scale_init
from .probes import Reading, from_arrays, scan
from .runs import Run, Study, study
from .runs.shared_member import from_pretrained, zoo
from .runs.sharing import push_to_hub
from .tasks import AnchorTask, Inputs, Roles
from .training import TrainConfig, train_members, train_model

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

__version__: str
