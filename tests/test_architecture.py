"""Who imports whom: the library knows no study, no study knows another, and imports point downwards."""

import ast
import re
from pathlib import Path

import pytest

from rb_interp.runs import registry

PACKAGE = Path(__file__).parents[1] / "rb_interp"
FLOORS = (
    *("errors", "lazy", "__init__", "store", "typed record", "settings", "torch_threads"),
    *("tasks", "text", "statistics plots", "models", "theory", "training", "probes", "interventions"),
    *("claims", "figures", "report", "runs", "studies", "cli", "__main__"),
)
"""Modules and packages from below; two that stand together may import each other. ``store`` is ``runs.store``."""
FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names.split()}
LIBRARY = ("tasks", "text", "statistics", "models", "theory", "training", "probes", "interventions")
ROLES_AND_WORDS = {"anchor", "labels", "language", "emb_mlp", "emb-mlp"}
"""Names of studies that the library uses for something else, such as a role or an architecture."""
FILES = sorted(PACKAGE.rglob("*.py"))
SHOWN = [
    path for path in FILES if {"figures", "report"} & {*path.parts} or re.match("figure|report|answer$", path.stem)
]
"""Figures, and what is written of a run."""


def imports(path: Path) -> set[str]:
    """Modules of this package that a file imports at run time, wherever the import stands."""
    tree, found = ast.parse(path.read_text()), set()
    checked = {id(inner) for node in ast.walk(tree) if _is_typing(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in checked:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.startswith("rb_interp.")}


def _is_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def floor(module: str) -> str:
    return "store" if module.startswith("rb_interp.runs.store") else module.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards_and_no_study_imports_another(path):
    own = path.relative_to(PACKAGE).parts
    mine = floor(".".join(("rb_interp", *own)).removesuffix(".py"))
    for module in imports(path):
        theirs = floor(module)
        if mine == "studies":
            study = own[1] if len(own) > 2 else ""
            other = module.split(".")[2] if theirs == "studies" and module.count(".") > 1 else study
            assert other in (study, ""), f"{path} imports {module}"
        else:
            assert theirs != "studies", f"{path} imports {module}"
        # A name behind the package that is no module is one of its lazy names.
        assert FLOOR.get(theirs, -1) <= FLOOR[mine], f"{path} imports {module}"


def test_every_module_has_its_floor():
    own = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES}
    assert own == set(FLOOR) - {"store"}


STATISTICS = (
    *("mean", "median", "std", "var", "quantile", "percentile", "average", "agg", "aggregate", "describe", "corr"),
    *("corrcoef", "cov", "spearmanr", "pearsonr", "linregress", "t_interval", "proportion_interval", "bootstrap"),
)


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_figures_and_reports_compute_no_statistic(path):
    tree = ast.parse(path.read_text())
    called = {ast.unparse(node.func).split(".")[-1] for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not {name.removeprefix("nan") for name in called} & {*STATISTICS}


def test_the_library_names_no_study():
    """A new study must not have to be written into general code.

    A folder may hold two studies, as that of composite does: the map asks about the same members on a grid. The
    registry names the study that is meant where none is named. The anchor of ``intervene`` is a role.
    """
    own = {path.parent.name for path in (PACKAGE / "studies").glob("*/__init__.py")}
    assert {"anchor", "emb_mlp", "labels", "language"} <= own
    every = own | {name.replace("_", "-") for name in own} | set(registry.names())
    found = []
    for path in FILES:
        if "studies" in path.parts:
            continue
        names = every - ROLES_AND_WORDS if path.relative_to(PACKAGE).parts[0] in LIBRARY else every
        nodes = list(ast.walk(ast.parse(path.read_text())))
        words = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        named = [word for word in words if word in names or re.search(rf"studies\.({'|'.join(own)})\b", word)]
        found += [(str(path.relative_to(PACKAGE)), word) for word in named]
        families = [
            node.args[0].value
            for node in nodes
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".startswith")
            if isinstance(node.args[0], ast.Constant) and re.fullmatch(r"[A-Z]{1,2}\d*[a-z]?", node.args[0].value)
        ]
        assert path.relative_to(PACKAGE).parts[0] in LIBRARY or not families, f"{path}: ids of claims are a study's"
        assert not [name for name in names if not name.isalpha() and name in path.read_text()], path
    assert found == [("runs/intervene.py", "anchor"), ("runs/registry.py", "anchor")]
