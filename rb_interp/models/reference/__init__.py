"""Transformers written by hand, never trained, whose circuit is known: what a probe says of them can be checked."""

from typing import TYPE_CHECKING

from rb_interp.lazy import lazy_package

if TYPE_CHECKING:
    from rb_interp.models.reference.catalogue import REFERENCES as REFERENCES
    from rb_interp.models.reference.catalogue import reference as reference
    from rb_interp.models.reference.mechanisms import MECHANISMS as MECHANISMS
    from rb_interp.models.reference.record import Reference as Reference
else:
    __getattr__, __dir__, __all__ = lazy_package(
        __name__,
        {
            "catalogue": ("REFERENCES", "reference"),
            "mechanisms": ("MECHANISMS",),
            "record": ("Reference",),
        },
    )
