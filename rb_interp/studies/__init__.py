"""The studies that come with the package, one folder each; the library below imports none of them."""

from pkgutil import iter_modules

from rb_interp.lazy import lazy_package

__getattr__, __dir__, __all__ = lazy_package(__name__, {}, [found.name for found in iter_modules(__path__)])
