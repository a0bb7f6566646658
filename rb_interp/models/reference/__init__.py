"""Transformers written by hand, never trained, whose circuit is known: what a probe says of them can be checked."""

from typing import TYPE_CHECKING

from rb_interp.lazy import lazy_package

if TYPE_CHECKING:
    from rb_interp.models.reference.catalogue import REFERENCES as REFERENCES
    from rb_interp.models.reference.catalogue import reference as reference
    from rb_interp.models.reference.mechanisms import MECHANISMS as MECHANISMS
    from rb_interp.models.reference.perturb import add_noise as add_noise
    from rb_interp.models.reference.perturb import perturbed as perturbed
    from rb_interp.models.reference.record import Reference as Reference
    from rb_interp.models.reference.symmetry import permute_heads_and_units as permute_heads_and_units
    from rb_interp.models.reference.symmetry import rescale_residual as rescale_residual
    from rb_interp.models.reference.symmetry import rescale_units as rescale_units
    from rb_interp.models.reference.symmetry import rotate_residual as rotate_residual
else:
    __getattr__, __dir__, __all__ = lazy_package(
        __name__,
        {
            "catalogue": ("REFERENCES", "reference"),
            "mechanisms": ("MECHANISMS",),
            "perturb": ("add_noise", "perturbed"),
            "record": ("Reference",),
            "symmetry": ("permute_heads_and_units", "rescale_residual", "rescale_units", "rotate_residual"),
        },
    )
