from . import reference
from .build import build_model, initialisation_table, scale_init
from .config import MatrixGammas, ModelConfig
from .protocol import HookedModel

__all__ = [
    "HookedModel",
    "MatrixGammas",
    "ModelConfig",
    "build_model",
    "initialisation_table",
    "reference",
    "scale_init",
]
