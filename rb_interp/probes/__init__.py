"""What a trained model computes: each probe gives a Reading, with nulls and an untrained model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
