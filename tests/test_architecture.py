"""What import-linter cannot say of the sources: figures compute no statistic, and general code names no study."""

import ast
import re
from pathlib import Path

from rb_interp.runs import protocol

PACKAGE = Path(__file__).parents[1] / "rb_interp"
FILES = sorted(PACKAGE.rglob("*.py"))
ROLES_AND_WORDS = {"anchor", "labels", "language", "emb_mlp", "emb-mlp"}
"""Names of studies that the library uses for something else, such as a role or an architecture."""
STATISTICS = (
    *("mean", "median", "std", "var", "quantile", "percentile", "average", "agg", "aggregate", "describe", "corr"),
    *("corrcoef", "cov", "spearmanr", "pearsonr", "linregress", "t_interval", "proportion_interval", "bootstrap"),
)


def test_figures_and_reports_compute_no_statistic():
    shown = [
        path for path in FILES if {"figures", "report"} & {*path.parts} or re.match("figure|report|answer$", path.stem)
    ]
    assert shown
    for path in shown:
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        called = {ast.unparse(call.func).split(".")[-1].removeprefix("nan") for call in calls}
        assert not called & {*STATISTICS}, path


def test_general_code_names_no_study():
    """``runs.protocol`` names the study that is meant where none is named."""
    own = {path.parent.name for path in (PACKAGE / "studies").glob("*/__init__.py")}
    every = own | {name.replace("_", "-") for name in own} | set(protocol.names())
    found = []
    for path in FILES:
        place = path.relative_to(PACKAGE)
        if place.parts[0] == "studies":
            continue
        machine = place.parts[0] in ("claims", "figures", "report", "runs") or len(place.parts) == 1
        nodes = ast.walk(ast.parse(path.read_text()))
        words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        assert not any(re.search(rf"studies\.({'|'.join(own)})\b", word) for word in words), place
        found += [(str(place), word) for word in words & (every if machine else every - ROLES_AND_WORDS)]
    assert found == [("runs/protocol.py", "anchor")]
