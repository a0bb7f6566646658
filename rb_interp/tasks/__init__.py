"""What a model is trained on: tokens, labels, sets, and the role of every position. Needs numpy
alone."""

from rb_interp.settings import fingerprint
from rb_interp.tasks.anchor import SETS, AnchorDataset, AnchorTask
from rb_interp.tasks.battery import Battery, batteries
from rb_interp.tasks.dataset import Dataset, Stage, Task
from rb_interp.tasks.induction import InductionTask
from rb_interp.tasks.inputs import Inputs, Roles

__all__ = [
    "SETS",
    "AnchorDataset",
    "AnchorTask",
    "Battery",
    "Dataset",
    "InductionTask",
    "Inputs",
    "Roles",
    "Stage",
    "Task",
    "batteries",
    "fingerprint",
]
