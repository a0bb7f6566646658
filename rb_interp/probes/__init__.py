"""What a trained model computes: each probe gives a Reading with its null and the untrained
model's."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
