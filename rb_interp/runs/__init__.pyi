from . import config
from .config import StudyConfig, SweepConfig
from .measurement import MemberModels
from .results import StudyResult, over_seeds, readings_table, summary_table
from .run import Run
from .shared_member import Circuit, SharedMember
from .sharing import save_member
from .studies import Study, study
from .sweep import Sweep

__all__ = [
    "Circuit",
    "MemberModels",
    "Run",
    "SharedMember",
    "Study",
    "StudyConfig",
    "StudyResult",
    "Sweep",
    "SweepConfig",
    "config",
    "over_seeds",
    "readings_table",
    "save_member",
    "study",
    "summary_table",
]
