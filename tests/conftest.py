"""Shapes are checked while testing; nothing here is needed to use the package."""

from jaxtyping import install_import_hook

install_import_hook("rb_interp", "beartype.beartype")
