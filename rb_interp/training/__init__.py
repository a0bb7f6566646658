"""Many members trained as one tensor program; curves, checkpoints, resume. Does not import
transformer_lens."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
