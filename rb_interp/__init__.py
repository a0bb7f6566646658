"""What initialisation does to the circuit a transformer learns: train members, probe them, judge
the claims.

>>> import rb_interp as rb
>>> task = rb.AnchorTask.preset("smoke")
>>> task.dataset(seed=0).tokens.shape
(3200, 6)

Probes are in ``rb.probes``, interventions in ``rb.interventions``; every other package inside is
there in the same way.
"""

import lazy_loader

__version__ = "0.2.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
