"""Many members trained as one tensor program; curves, checkpoints, resume. Does not import
transformer_lens."""

from typing import TYPE_CHECKING

from rb_interp import lazy_names

if TYPE_CHECKING:
    from rb_interp.training.config import TrainConfig
    from rb_interp.training.members import train_members, train_model

    __all__ = ["TrainConfig", "train_members", "train_model"]
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
