"""Runs of any study: configuration, run folder, measurement, verdicts, report."""

from typing import TYPE_CHECKING

from rb_interp import lazy_names

if TYPE_CHECKING:
    from rb_interp.runs import config
    from rb_interp.runs.config import Study, StudyConfig, SweepConfig, study
    from rb_interp.runs.measured import (
        MemberModels,
        StudyResult,
        over_seeds,
        readings_table,
        summary_table,
    )
    from rb_interp.runs.run import Run
    from rb_interp.runs.shared_member import Circuit, SharedMember, save_member
    from rb_interp.runs.sweep import Sweep

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
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
