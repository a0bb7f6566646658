"""What the pages have from the package and from kept runs: `python docs/made_pages.py` writes it
anew.

api.md is made whole, from the public names. In other pages what stands between `<!-- made: NAME ...
-->` and `<!-- end -->` is what the function NAME of this file gives for the words behind it. A test
compares what stands in the pages with what would be made.
"""

import ast
import inspect
import json
import re
import runpy
import sys
from collections.abc import Hashable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from textwrap import dedent

import pandas as pd

import rb_interp as rb
from rb_interp import studies
from rb_interp.statistics.intervals import proportion_interval, t_interval

DOCS = Path(__file__).parent
ROOT = DOCS.parent
BLOCK = re.compile(r"(<!-- made: (\w+)((?: [\w/.,:=-]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)
BAR = "\\|"
STUDIES = (
    "anchor",
    "emb-mlp",
    "labels",
    "language",
    "composite",
    "composite-map",
    "addition-and-scan",
)


def made(name: str, page: str) -> str:
    """The text of a page with all that is made in it."""
    if name == "api.md":
        return page[: page.index("## rb_interp\n")] + "\n".join(sections())
    return BLOCK.sub(
        lambda found: found[1] + globals()[found[2]](*found[3].split()) + found[4], page
    )


def sections() -> list[str]:
    """A section for each package and module with an `__all__`: functions and classes that no
    section above has."""
    names = sorted(
        module.name
        for module in walk_packages(rb.__path__, "rb_interp.")
        if "._" not in module.name
    )
    modules = {name: import_module(name) for name in names if ".studies" not in name}
    public = {
        name: {
            one: id(value)
            for one in sorted(module.__all__)
            if callable(value := getattr(module, one))
        }
        for name, module in modules.items()
        if "__all__" in vars(module)
    }
    below = {value for named in public.values() for value in named.values()}
    of_top = {one: id(value) for one in sorted(rb.__all__) if callable(value := getattr(rb, one))}
    listed = {"rb_interp": [one for one, value in of_top.items() if value not in below]}
    for name, named in public.items():
        above = public.get(name.rpartition(".")[0], {}).values()
        listed[name] = [one for one, value in named.items() if value not in above]
    return [line for name, found in listed.items() if found for line in section(name, found)]


def section(name: str, listed: list[str]) -> list[str]:
    directive = [
        f".. currentmodule:: {name}",
        ".. autosummary::",
        "   :toctree: _api",
        "   :nosignatures:",
        "",
    ]
    return [
        f"## {name}",
        "",
        "```{eval-rst}",
        *directive,
        *(f"   {one}" for one in listed),
        "```",
        "",
    ]


def docstring(*modules: str) -> str:
    """What modules say of themselves: formula, source, and how the number can mislead."""
    texts = (inspect.getdoc(import_module(f"rb_interp.{module}")) or "" for module in modules)
    return "\n\n".join(text.strip() for text in texts) + "\n"


def layout() -> str:
    """A row for each package, study and module but the command line: the first line of its
    docstring."""
    found = [
        *iter_modules(rb.__path__, "rb_interp."),
        *iter_modules(studies.__path__, "rb_interp.studies."),
    ]
    names = [module.name for module in found if not module.name.endswith(("__", ".cli"))]
    return table(
        "name, what it is",
        [(f"`{name[10:]}`", docstring(name[10:]).splitlines()[0]) for name in names],
    )


def everyday(tasks: str) -> str:
    """The questions of a benchmark of tasks, each with the code of rb_interp that answers it."""
    source = (ROOT / f"benchmarks/{tasks}.py").read_text("utf-8")
    known = {one.name: one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)}
    code = ""
    for name in (name for name in known if name.endswith("_alone")):
        body = known[name.replace("_alone", "_here")].body
        lines = source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno]
        code += f"# {ast.get_docstring(known[name])}\n" + dedent("\n".join(lines)) + "\n\n"
    return f"```py\n{code.rstrip()}\n```\n"


def claims(*names: str) -> str:
    """A row for each of the claims named."""
    known = every_claim()
    found = [known[one] for one in names]
    return table(
        "id, claim, source, criterion",
        [(one.id, one.statement, one.source, one.criterion) for one in found],
    )


@cache
def every_claim() -> dict:
    """The claims of all studies by id, and those of the census."""
    sys.path.append(str(ROOT / "examples/census"))
    claims = list(import_module("census.claims").CLAIMS)
    for study in STUDIES:
        claims += rb.study(study).load("claims")
    return {claim.id: claim for claim in claims}


def checks() -> str:
    """A row for each causal check of the anchor study."""
    rows = [
        (c.of, c.done, c.control_done, c.check.criterion) for c in rb.study("anchor").load("checks")
    ]
    return table("of, what is done, control, criterion", rows)


def columns() -> str:
    """A row for each table of every study, then of each: the columns that tell its rows apart, and
    the others."""
    known = runpy.run_path(str(ROOT / "tests/table_columns.py"))
    every, rows = known["EVERY_STUDY"], []
    for study, texts in [("every", every), *known["COLUMNS"].items()]:
        texts = {
            name: text for name, text in texts.items() if study == "every" or name not in every
        }
        rows += [
            (study, f"`{name}`", *(ticked(part) for part in text.split("|")))
            for name, text in texts.items()
        ]
    return table("study, table, a row for each, numbers of a row", rows)


def ticked(words: str) -> str:
    return " ".join(f"`{word.partition(':')[0]}`" for word in words.split())


def verdicts(path: str, *beside: str) -> str:
    """A row for each claim of a kept run's folder, or of a table of verdicts; beside it the preset
    `quick`."""
    found, known = read_verdicts(path), every_claim()
    quick = {
        row["id"]: row
        for row in read_verdicts("results/quick_verdicts.csv")
        if row["seeds"] == "0-19"
    }
    rows = []
    for row in found:
        cells = [
            f"{row['id']}: {known[row['id']].statement.removesuffix('.')}",
            ", ".join([row["outcome"], *marks(row)]),
            met(row) if row["n_seeds"] else "no seed counts" if was_read(row) else "no readings",
            interval((row["effect"], row["low"], row["high"])),
            number(row["untrained"]),
        ]
        if beside:
            other = quick.get(row["id"])
            cells += [
                f"{other['outcome']}, {count(other)}, {number(other['effect'])}" if other else ""
            ]
        rows.append(tuple("" if "nan" in cell else cell for cell in cells))
    heads = "claim, verdict, seeds that meet it, median and range, untrained"
    return table(heads + (", `quick` (seeds 0 to 19)" if beside else ""), rows)


def read_verdicts(path: str) -> list[dict]:
    if path.endswith(".csv"):
        frame = pd.read_csv(ROOT / path)
        return frame.astype(object).where(frame.notna(), None).to_dict("records")
    return json.loads((ROOT / path / "verdicts.json").read_text("utf-8"))


def marks(row: dict) -> list[str]:
    """What is to be known beside an outcome."""
    found = [why(row)] if row["outcome"] == "NOT JUDGED" and was_read(row) else []
    found += ["met at initialisation"] if row["met_at_initialisation"] in (True, "True") else []
    uncalibrated = row.get("calibrated") in (False, "False") and row["outcome"] != "NOT JUDGED"
    return found + (["not calibrated"] if uncalibrated else [])


def why(row: dict) -> str:
    return re.split("[:;]", row["reason"] or "")[0]


def was_read(row: dict) -> bool:
    return bool(row["n_seeds"]) or why(row) == "not learned"


def met(row: dict) -> str:
    """How many seeds meet a claim, with the interval of their share."""
    _, low, high = proportion_interval(row["n_meeting"], row["n_seeds"])
    return f"{count(row)} [{number(low)}, {number(high)}]"


def count(row: dict) -> str:
    return f"{row['n_meeting']} of {row['n_seeds']}"


def quick() -> str:
    """The claims of the anchor study at `quick`: seeds 0 to 7, 0 to 19, and within each circuit."""
    groups = pd.read_csv(ROOT / "results/quick_verdicts_within.csv").query("seeds == '0-19'")
    sizes = groups.groupby("circuit", sort=False)["n_seeds"].max()
    known, first = every_claim(), {}
    rows = []
    for row in read_verdicts("results/quick_verdicts.csv"):
        if row["seeds"] == "0-7":
            first[row["id"]] = row
            continue
        within = groups[groups.id == row["id"]].set_index("circuit")
        shares = [
            f"{within.n_meeting[c]} of {within.n_seeds[c]}" if c in within.index else ""
            for c in sizes.index
        ]
        earlier = first[row["id"]]
        decided = "" if row["decided_after"] is None else f"{row['decided_after']:.0f}"
        outcome = ", ".join([row["outcome"], count(row), *marks(row)])
        before = f"{earlier['outcome']}, {count(earlier)}"
        name = f"{row['id']}: {known[row['id']].statement.removesuffix('.')}"
        rows.append(
            (
                name,
                before,
                outcome,
                interval((row["effect"], row["low"], row["high"])),
                decided,
                *shares,
            )
        )
    heads = ", ".join(f"{name} ({n})" for name, n in sizes.items())
    return table(
        f"claim, seeds 0 to 7, seeds 0 to 19, median and range, decided after, {heads}", rows
    )


def counts(path: str, by: str, across: str, *options: str) -> str:
    """How many rows of a table have each value of a column; `share:VALUE` adds that share with its
    interval."""
    frame, values = filtered(path, options), by.split(",")
    found = frame.groupby([*values, across], sort=False).size().unstack(fill_value=0).sort_index()
    heads, rows = [*values, *map(str, found)], []
    shares = [option.partition(":")[2] for option in options if ":" in option]
    for key, row in found.iterrows():
        cells = [*named(key), *map(str, row)]
        for value in shares:
            cells.append(interval(proportion_interval(int(row[value]), int(row.sum()))))
        rows.append(tuple(cells))
    return table(", ".join([*heads, *(f"share {value}" for value in shares)]), rows)


def spread(path: str, by: str, across: str, value: str, *options: str) -> str:
    """Median and range of a column, or its one number, by some columns and across another."""
    frame, values = filtered(path, options), by.split(",")
    groups = frame.groupby([*values, across], sort=False)[value]
    of = {key: summed(group) for key, group in groups}
    heads = list(dict.fromkeys(frame[across]))
    keys = dict.fromkeys(key[:-1] for key in of)
    rows = [(*named(key), *(of.get((*key, head), "") for head in heads)) for key in keys]
    return table(", ".join([*values, *map(str, heads)]), rows)


def summed(group: pd.Series) -> str:
    if len(group) == 1:
        return f"{group.iloc[0]:.2g}"
    return interval((group.median(), group.min(), group.max()))


def rows(path: str, names: str, *options: str) -> str:
    """Some columns of a table as they are."""
    frame = filtered(path, options)[names.split(",")]
    return table(
        names.replace(",", ", "), [tuple(map(shown, row)) for row in frame.itertuples(index=False)]
    )


def parts() -> str:
    """What each part of GPT-2's block changes: within a seed, over the combinations of the other
    parts."""
    members, found = pd.read_csv(ROOT / "results/composite_map_changes.csv"), []
    for part in ("norm", "heads", "act", "biases"):
        changed = members["changed"].str.contains(part)
        means = members.groupby(["seed", changed])[["I", "S"]].mean().unstack()
        moved = (
            interval(t_interval((means[one][True] - means[one][False]).to_numpy())) for one in "IS"
        )
        phases = members.groupby(["phase", changed]).size().unstack(fill_value=0)
        told = (
            f"{phases[True][name]} and {phases[False][name]}"
            for name in ("inferential", "symmetric")
        )
        found.append((part, *moved, *told))
    return table(
        "part, change of I, change of S, inferential with and without, symmetric with and without",
        found,
    )


def sizes() -> str:
    """The members between the reduced sizes and the paper's, by the experiment that trained
    them."""
    module = runpy.run_path(str(ROOT / "experiments/composite_sizes.py"))
    return module["page_table"](pd.read_csv(module["TABLE"]))


def filtered(path: str, options: tuple[str, ...]) -> pd.DataFrame:
    """A kept table; `column=value` takes rows alone."""
    frame = pd.read_csv(ROOT / path) if path.endswith(".csv") else pd.read_parquet(ROOT / path)
    for column, value in (option.split("=") for option in options if "=" in option):
        frame = frame[frame[column].astype(str).isin(value.split(","))]
    return frame


def named(key: Hashable) -> list[str]:
    return [shown(part) for part in (key if isinstance(key, tuple) else (key,))]


def shown(value) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def interval(of) -> str:
    middle, low, high = of
    return f"{number(middle)} [{number(low)}, {number(high)}]"


def table(heads: str, rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; the heads are parted by commas."""
    lines = [
        f"| {' | '.join(cell.replace('|', BAR) for cell in row)} |"
        for row in (tuple(heads.split(", ")), *rows)
    ]
    return "\n".join([lines[0], "|---" * (heads.count(", ") + 1) + "|", *lines[1:], ""])


def number(value: float | None) -> str:
    """Two decimals, without the zero before the point."""
    if value is None or value != value:
        return "nan"
    return re.sub(r"^(-?)0(?=\.)", r"\1", f"{value + 0:.2f}").replace("-.00", ".00")


if __name__ == "__main__":
    for path in DOCS.glob("*.md"):
        if (new := made(path.name, old := path.read_text("utf-8"))) != old:
            path.write_text(new, "utf-8")
            print(path.name)
