"""What a model is trained on: tokens, labels, and the role of every position. Needs numpy alone."""

from rb_interp.tasks.anchor import AnchorTask
from rb_interp.tasks.dataset import SETS, AnchorDataset
from rb_interp.tasks.roles import Roles

__all__ = ["SETS", "AnchorDataset", "AnchorTask", "Roles"]
