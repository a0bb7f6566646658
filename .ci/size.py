"""The size of the package in tokens of Python, beside the limit of docs/design.md; exits 1 above it.

Tokens are those of `tokenize`, without comments, docstrings and line breaks. So a docstring or a
line that is broken costs nothing, and a dense line saves nothing. What git tracks is counted.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def tracked(folder: str) -> list[Path]:
    command = ["git", "ls-files", "--", f"{folder}/*.py"]
    listed = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    return [Path(path) for path in listed if (ROOT / path).is_file()]


def counts(source: str) -> tuple[int, int]:
    """Tokens of code and statements of a file; a docstring is a statement without tokens."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    expressions = [node.value for node in statements if isinstance(node, ast.Expr)]
    docstrings = {
        (value.lineno, value.col_offset)
        for value in expressions
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }
    tokens = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        tokens += token.type not in LAYOUT and token.start not in docstrings
    return tokens, len(statements)


def package(path: Path) -> str:
    """Row of the table for a file of rb_interp."""
    parts = path.parts[1:-1]
    return "/".join(parts[:2] if parts[:1] == ("studies",) else parts[:1]) or "top level"


def limit() -> int:
    page = (ROOT / "docs/design.md").read_text("utf-8")
    stated = re.search(r"at most ([\d,]+) tokens", page)
    assert stated, "docs/design.md states no limit"
    return int(stated[1].replace(",", ""))


def main() -> int:
    rows = defaultdict(lambda: [0, 0, 0])
    for path in tracked("rb_interp"):
        numbers = counts((ROOT / path).read_text("utf-8"))
        for name in (package(path), "rb_interp"):
            for column, number in enumerate((*numbers, 1)):
                rows[name][column] += number
    print(f"{'package':28} {'tokens':>8} {'a statement':>12} {'files':>6}")
    for name, (tokens, statements, files) in sorted(rows.items()):
        print(f"{name:28} {tokens:8,} {tokens / statements:12.1f} {files:6}")
    tokens = rows["rb_interp"][0]
    print(f"limit {limit():,}: {'met' if tokens <= limit() else 'missed'}")
    return int(tokens > limit())


if __name__ == "__main__":
    sys.exit(main())
