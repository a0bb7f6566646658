"""A whole study: configuration, run folder, measurement, and the one call that does everything."""

from rb_interp.lazy import lazy_names
from rb_interp.study.config import StudyConfig

__all__ = ["LanguageConfig", "LanguageRun", "Run", "Series", "StudyConfig", "probe_members", "reproduce"]

__getattr__ = lazy_names(
    __name__,
    {
        "LanguageConfig": "rb_interp.study.language_config",
        "LanguageRun": "rb_interp.study.language_run",
        "Run": "rb_interp.study.run",
        "Series": "rb_interp.study.series",
        "probe_members": "rb_interp.study.measure",
        "reproduce": "rb_interp.study.study",
    },
)
