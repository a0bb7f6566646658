"""Many members trained as one tensor program; curves, checkpoints, resume. Does not import transformer_lens."""

from rb_interp.lazy import lazy_names
from rb_interp.training.config import TrainConfig

__all__ = ["TrainConfig", "train_members", "train_model"]

__getattr__ = lazy_names(
    __name__,
    {"train_members": "rb_interp.training.members", "train_model": "rb_interp.training.plain"},
)
