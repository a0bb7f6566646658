"""What a model is trained on: tokens, labels, sets, and the role of every position. Needs numpy alone."""

from rb_interp.settings import fingerprint
from rb_interp.tasks import battery, induction
from rb_interp.tasks.anchor import AnchorTask
from rb_interp.tasks.dataset import SETS, AnchorDataset, Dataset
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.protocol import Stage, Task
from rb_interp.tasks.roles import Roles

__all__ = [
    "SETS",
    "AnchorDataset",
    "AnchorTask",
    "Dataset",
    "Inputs",
    "Roles",
    "Stage",
    "Task",
    "battery",
    "fingerprint",
    "induction",
]
