"""Lines of rb_interp by package, as a table in Markdown: code, docstrings, comments and blank lines.

A line is a docstring's where it lies within a statement that is text alone; else it is code where a token of code lies
on it; else a comment or blank.
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "rb_interp"
LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}
COLUMNS = ("lines", "code", "docstrings", "comments", "blank")


def count(path: Path) -> Counter:
    text = path.read_text()
    lines = text.splitlines()
    texts = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
    documented = {line for n in texts if isinstance(n.value.value, str) for line in range(n.lineno, n.end_lineno + 1)}
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in LAYOUT]
    code = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)} - documented
    commented = {n for n, line in enumerate(lines, 1) if line.strip().startswith("#")} - documented - code
    found = {"lines": len(lines), "code": len(code), "docstrings": len(documented), "comments": len(commented)}
    return Counter(found | {"blank": len(lines) - len(code | documented | commented)})


def total(paths) -> Counter:
    return sum(map(count, paths), Counter())


def main() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    rows = {"single modules": total(path for path in modules if path.parent == PACKAGE)}
    for folder in sorted({path.relative_to(PACKAGE).parts[0] for path in modules if path.parent != PACKAGE}):
        if folder != "studies":
            rows[f"`{folder}/`"] = total((PACKAGE / folder).rglob("*.py"))
    rows["**without studies**"] = sum(rows.values(), Counter())
    for folder in sorted(path.parent.name for path in (PACKAGE / "studies").glob("*/__init__.py")):
        rows[f"`studies/{folder}/`"] = total((PACKAGE / "studies" / folder).rglob("*.py"))
    rows["**all studies**"] = total((PACKAGE / "studies").rglob("*.py"))
    rows["**rb_interp**"] = total(modules)
    print("| package |", " | ".join(COLUMNS), "|\n|---|" + "---:|" * len(COLUMNS))
    for name, row in rows.items():
        print(f"| {name} |", " | ".join(f"{row[column]:,}" for column in COLUMNS), "|")


main()
