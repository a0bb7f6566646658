from . import config
from .config import Study, StudyConfig, SweepConfig, study
from .measured import MemberModels, StudyResult, over_seeds, readings_table, summary_table
from .run import Run
from .shared_member import Circuit, SharedMember, save_member
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
