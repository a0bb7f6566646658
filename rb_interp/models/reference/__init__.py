"""Transformers written by hand, never trained, whose circuit is known: what a probe says of them can be checked."""

from rb_interp.models.reference.catalogue import REFERENCES, reference
from rb_interp.models.reference.record import MECHANISMS, Reference

__all__ = ["MECHANISMS", "REFERENCES", "Reference", "reference"]
