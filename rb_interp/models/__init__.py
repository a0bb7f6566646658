"""Architectures, initialisation schemes, and the bridge to TransformerLens."""

from rb_interp.lazy import lazy_names
from rb_interp.models.config import MatrixGammas, ModelConfig

__all__ = ["MatrixGammas", "ModelConfig", "build_model", "initialisation_table", "scale_init"]

__getattr__ = lazy_names(
    __name__,
    {
        "build_model": "rb_interp.models.build",
        "initialisation_table": "rb_interp.models.table",
        "scale_init": "rb_interp.models.initialise",
    },
)
