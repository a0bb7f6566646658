"""The report of a study: one self-contained HTML file, its JSON twin, and a table for the terminal."""

from rb_interp.lazy import lazy_names

__all__ = ["print_run", "print_verdicts", "report_content", "write_report"]

__getattr__ = lazy_names(
    __name__,
    {
        "print_run": "rb_interp.report.terminal",
        "print_verdicts": "rb_interp.report.terminal",
        "report_content": "rb_interp.report.content",
        "write_report": "rb_interp.report.write",
    },
)
