"""Who imports whom: the library knows no study, no study knows another, and imports point downwards."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "rb_interp"
FLOORS = (
    *("tasks", "text", "statistics", "models", "theory", "training", "probes", "interventions"),
    *("claims", "figures", "report", "machine", "studies", "cli"),
)
GENERAL = ("claims", "figures", "report", "machine", "cli.py", "flags.py", "lazy.py", "files.py", "__init__.py")
"""Code that serves every study."""
FILES = sorted(PACKAGE.rglob("*.py"))


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
    return module.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards_and_no_study_imports_another(path):
    own = path.relative_to(PACKAGE).parts
    mine = own[0].removesuffix(".py")
    for module in imports(path):
        theirs = floor(module)
        if mine == "studies":
            study = own[1] if len(own) > 2 else ""
            other = module.split(".")[2] if theirs == "studies" and module.count(".") > 1 else study
            assert other in (study, ""), f"{path} imports {module}"
        else:
            assert theirs != "studies", f"{path} imports {module}"
        if mine in FLOORS and theirs in FLOORS:
            assert FLOORS.index(theirs) <= FLOORS.index(mine), f"{path} imports {module}"


@pytest.mark.parametrize("folder", [path for path in PACKAGE.rglob("figures") if path.is_dir()], ids=str)
def test_a_figure_computes_no_statistic(folder):
    words = (
        ".mean(",
        ".median(",
        ".std(",
        ".var(",
        ".quantile(",
        "np.mean",
        "np.median",
        "np.std",
        "percentile",
        "corr",
    )
    words += ("t_interval", "proportion_interval", "spearmanr", "pearsonr")
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text())
        names = {ast.unparse(node.func) + "(" for node in ast.walk(tree) if isinstance(node, ast.Call)}
        found = [name for name in names for word in words if word in name]
        assert not found, f"{path}: {found}"


def test_the_library_names_no_study():
    """A new study must not have to be written into general code.

    The registry names the study that is meant where none is named. The anchor of ``intervene`` is a role.
    """
    own = {path.parent.name for path in (PACKAGE / "studies").glob("*/__init__.py")}
    assert {"anchor", "emb_mlp", "labels", "language"} <= own
    names = own | {name.replace("_", "-") for name in own}
    general = [path for path in FILES if path.relative_to(PACKAGE).parts[0] in GENERAL]
    found = []
    for path in general:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        words = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        named = [word for word in words if word in names or re.search(rf"studies\.({'|'.join(own)})\b", word)]
        found += [(str(path.relative_to(PACKAGE)), word) for word in named]
        assert not [name for name in names if not name.isalpha() and name in path.read_text()], path
    assert found == [("machine/intervene.py", "anchor"), ("machine/registry.py", "anchor")]
