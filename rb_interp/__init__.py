"""What initialisation does to the circuit a transformer learns: train members, probe them, judge the claims.

>>> import rb_interp as rb
>>> task = rb.AnchorTask.preset("smoke")
>>> task.dataset(seed=0).tokens.shape
(3200, 6)
"""

from rb_interp.lazy import lazy_names

__version__ = "0.1.0"

_WHERE = {
    "AnchorTask": "rb_interp.tasks",
    "Roles": "rb_interp.tasks",
    "ModelConfig": "rb_interp.models",
    "build_model": "rb_interp.models",
    "TrainConfig": "rb_interp.training",
    "train_members": "rb_interp.training",
    "train_model": "rb_interp.training",
    "Reading": "rb_interp.probes",
    "uniformity": "rb_interp.probes",
    "value_alignment": "rb_interp.probes",
    "routing": "rb_interp.probes",
    "composition": "rb_interp.probes",
    "geometry": "rb_interp.probes",
    "learning_order": "rb_interp.probes",
    "label_range": "rb_interp.probes",
    "scan": "rb_interp.probes",
    "judge": "rb_interp.claims",
    "StudyConfig": "rb_interp.study",
    "LanguageConfig": "rb_interp.study",
    "LanguageRun": "rb_interp.study",
    "Run": "rb_interp.study",
    "Series": "rb_interp.study",
    "probe_members": "rb_interp.study",
    "reproduce": "rb_interp.study",
    "RbInterpError": "rb_interp.errors",
}

__all__ = sorted(_WHERE)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__ = lazy_names(__name__, _WHERE)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
