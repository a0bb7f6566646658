"""The report as files: report.html (self-contained), report.json with the same content, and figures/."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.figures.evidence import Evidence
from rb_interp.figures.numbers import interval_text, number, share_text
from rb_interp.figures.save import save_figures
from rb_interp.report.content import report_content
from rb_interp.runs.store import write_file

if TYPE_CHECKING:
    from rb_interp.runs.protocol import Study

HERE = Path(__file__).parent


def write_report(study: Study, evidence: Evidence, folder: str | Path) -> Path:
    """Draw all figures into ``folder/figures`` and write ``report.html`` and ``report.json``; returns the page.

    Args:
        study: what the report is of. evidence: what was measured. folder: where it goes.

    Raises RunError where the folder cannot be written; each file is there whole or as it was before.
    """
    if not study.load("narrative"):
        from rb_interp.report.page import write_report as write_page

        return write_page(study, evidence, folder)
    folder = Path(folder)
    content = report_content(study, evidence)
    images = save_figures(study.load("figures"), evidence, folder / "figures")
    write_file(folder / "report.json", (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    write_file(folder / "report.html", render_html(content, images).encode())
    return folder / "report.html"


def render_html(content: dict[str, Any], images: dict[str, bytes]) -> str:
    """The content of a report as one HTML page; ``images`` are SVG files by figure id."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    page = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    page.filters |= {"number": number, "interval": _interval, "share": _share, "typeset": typeset}
    sources = {name: "data:image/svg+xml;base64," + b64encode(image).decode() for name, image in images.items()}
    css = (HERE / "report.css").read_text(encoding="utf-8")
    return page.get_template("report.html.jinja").render(**content, images=sources, css=css)


def _interval(row: dict[str, Any]) -> str:
    values = [float("nan") if row.get(name) is None else float(row[name]) for name in ("effect", "low", "high")]
    return interval_text(*values)


def _share(row: dict[str, Any]) -> str:
    return share_text(row["n_meeting"] / row["n_seeds"], row["share_low"], row["share_high"])


def typeset(text: str) -> str:
    """Plain text with the signs of print, and no line break inside ``γ = 0.8``.

    >>> typeset("B >= -0.1 in 2-3 layers")
    'B ≥ −0.1 in 2-3 layers'
    """
    text = (
        text.replace(">=", "≥").replace("<=", "≤").replace("γ = ", "γ\u00a0=\u00a0").replace("(f = ", "(f\u00a0=\u00a0")
    )
    return re.sub(r"(?<![\w)-])-(?=[.\d])", "−", text)
