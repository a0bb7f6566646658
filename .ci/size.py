"""Lines and files of each package beside the limits of docs/design.md; exits 1 where a package has more lines.

What git tracks is counted: an installation leaves files beside the sources. Pages count without what is made in them.
The page's table has rows `| name | limit | target |`; a commit that lowers a number lowers the limit there.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNTED = {".py", ".pyi", ".jinja", ".toml", ".css", ".txt"}
PAGES = {".md", ".py", ".css"}


def files(folder: str, suffixes: set[str] = COUNTED, deep: bool = True) -> list[Path]:
    listed = subprocess.check_output(["git", "ls-files", "--", folder], cwd=ROOT, text=True).splitlines()
    found = [ROOT / path for path in listed if deep or Path(path).parent == Path(folder)]
    return [path for path in found if path.suffix in suffixes and path.is_file()]


def packages() -> dict[str, list[Path]]:
    """Row of the table -> its files."""
    found = {"top level": files("rb_interp", deep=False)}
    inner = [p for p in (ROOT / "rb_interp").iterdir() if p.is_dir() and p.name != "__pycache__"]
    for folder in sorted(p.name for p in inner if p.name != "studies"):
        found[f"`{folder}/`"] = files(f"rb_interp/{folder}")
    found["`studies/__init__`"] = files("rb_interp/studies", deep=False)
    for folder in sorted(path.parent.name for path in (ROOT / "rb_interp/studies").glob("*/__init__.py")):
        found[f"`studies/{folder}/`"] = files(f"rb_interp/studies/{folder}")
    found["**rb_interp**"] = files("rb_interp")
    found["`experiments/` and `examples/`"] = files("experiments") + files("examples")
    found["`tests/`"] = files("tests")
    found["`docs/`"] = files("docs", PAGES)
    return found


def counted(path: Path) -> int:
    """Lines of a file, without what docs/made_pages.py makes in a page."""
    text = path.read_text("utf-8")
    if path.name == "api.md":
        text = text.partition("\n## rb_interp\n")[0]
    return len(re.sub(r"(<!-- made: .*? -->\n).*?(<!-- end -->)", r"\1\2", text, flags=re.DOTALL).splitlines())


def limits() -> dict[str, tuple[int, str]]:
    """Row of the table -> its limit today, and its target."""
    rows = (line.split("|")[1:-1] for line in (ROOT / "docs/design.md").read_text("utf-8").splitlines() if "|" in line)
    cells = ([cell.strip() for cell in row] for row in rows if len(row) == 3)
    return {row[0]: (int(row[1].replace(",", "")), row[2]) for row in cells if row[1].replace(",", "").isdigit()}


def main() -> int:
    stated, over = limits(), []
    print(f"{'package':32} {'lines':>7} {'limit':>7} {'target':>7} {'files':>5}")
    for name, paths in packages().items():
        lines = sum(map(counted, paths))
        limit, target = stated.get(name, (0, ""))
        over += [f"{name}: {lines:,} lines, {limit:,} allowed"] if lines > limit else []
        print(f"{name:32} {lines:7,} {limit:7,} {target:>7} {len(paths):5}")
    if over:
        print("more lines than docs/design.md allows:", *over, sep="\n  ")
    return bool(over)


if __name__ == "__main__":
    sys.exit(main())
