"""One machine for any study: configuration, run folder, measurement, verdicts, report."""

from rb_interp.lazy import lazy_names

_WHERE = {
    **{"Measured": "measured", "over_seeds": "measured", "readings_table": "measured", "summary_table": "measured"},
    **{"Run": "run", "Study": "protocol", "StudyConfig": "config", "Sweep": "sweep", "SweepConfig": "config"},
    **{"MemberModels": "members", "reproduce": "reproduce", "study": "registry"},
}

__all__ = sorted(_WHERE)

__getattr__ = lazy_names(__name__, {name: f"rb_interp.machine.{module}" for name, module in _WHERE.items()})
