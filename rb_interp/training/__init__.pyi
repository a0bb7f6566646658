from .config import TrainConfig
from .members import train_members, train_model

__all__ = [
    "TrainConfig",
    "train_members",
    "train_model",
]
