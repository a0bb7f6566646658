"""Architectures, initialisation schemes, and the bridge to TransformerLens."""

from typing import TYPE_CHECKING

from rb_interp import lazy_names

if TYPE_CHECKING:
    from rb_interp.models import reference as reference
    from rb_interp.models.build import build_model as build_model
    from rb_interp.models.config import MatrixGammas as MatrixGammas
    from rb_interp.models.config import ModelConfig as ModelConfig
    from rb_interp.models.initialise import initialisation_table as initialisation_table
    from rb_interp.models.initialise import scale_init as scale_init
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
