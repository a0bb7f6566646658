from . import reference
from .build import build_model, initialisation_table, scale_init
from .config import MatrixGammas, ModelConfig

__all__ = [
    "MatrixGammas",
    "ModelConfig",
    "build_model",
    "initialisation_table",
    "reference",
    "scale_init",
]
