"""A whole study: configuration, run folder, measurement, and the one call that does everything."""

from rb_interp.lazy import lazy_names
from rb_interp.study.config import StudyConfig

__all__ = ["Run", "StudyConfig", "reproduce"]

__getattr__ = lazy_names(__name__, {"Run": "rb_interp.study.run", "reproduce": "rb_interp.study.study"})
