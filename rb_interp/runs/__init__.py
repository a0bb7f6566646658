"""Runs of any study: configuration, run folder, measurement, verdicts, report."""

from typing import TYPE_CHECKING

from rb_interp import lazy_names

if TYPE_CHECKING:
    from rb_interp.runs import config as config
    from rb_interp.runs.config import StudyConfig as StudyConfig
    from rb_interp.runs.config import SweepConfig as SweepConfig
    from rb_interp.runs.measured import Measured as Measured
    from rb_interp.runs.measured import over_seeds as over_seeds
    from rb_interp.runs.measured import readings_table as readings_table
    from rb_interp.runs.measured import summary_table as summary_table
    from rb_interp.runs.members import MemberModels as MemberModels
    from rb_interp.runs.protocol import Study as Study
    from rb_interp.runs.protocol import study as study
    from rb_interp.runs.run import Run as Run
    from rb_interp.runs.shared_member import Circuit as Circuit
    from rb_interp.runs.shared_member import SharedMember as SharedMember
    from rb_interp.runs.shared_member import save_member as save_member
    from rb_interp.runs.sweep import Sweep as Sweep
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
