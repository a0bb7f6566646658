"""Transformers written by hand, never trained, whose circuit is known: what a probe says of them can be checked."""

from rb_interp.lazy import lazy_names
from rb_interp.models.reference.mechanisms import MECHANISMS

__all__ = [
    "MECHANISMS",
    "REFERENCES",
    "Reference",
    "add_noise",
    "permute_heads_and_units",
    "perturbed",
    "reference",
    "rescale_residual",
    "rescale_units",
    "rotate_residual",
]

_HERE = "rb_interp.models.reference."
__getattr__ = lazy_names(
    __name__,
    {
        "Reference": _HERE + "record",
        "REFERENCES": _HERE + "catalogue",
        "reference": _HERE + "catalogue",
        "perturbed": _HERE + "perturb",
        "add_noise": _HERE + "perturb",
        "permute_heads_and_units": _HERE + "symmetry",
        "rescale_residual": _HERE + "symmetry",
        "rescale_units": _HERE + "symmetry",
        "rotate_residual": _HERE + "symmetry",
    },
)
