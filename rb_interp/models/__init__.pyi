from . import reference
from .build import build_model
from .config import MatrixGammas, ModelConfig
from .initialise import initialisation_table, scale_init

__all__ = [
    "MatrixGammas",
    "ModelConfig",
    "build_model",
    "initialisation_table",
    "reference",
    "scale_init",
]
