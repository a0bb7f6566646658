"""What the pages have from the package and from kept runs: `python docs/made_pages.py` writes it anew.

api.md is made whole, from the public names. In other pages a table between `<!-- made: ... -->` and `<!-- end -->` is:
`claims ID ID ...` the claims of the studies, `checks` the causal checks of the anchor study, `verdicts FOLDER` those of
a kept run. A test compares what stands in the pages with what would be made.
"""

import json
import re
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pandas as pd

import rb_interp as rb

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(<!-- made: (\w+)((?: [\w/]+)*) -->\n).*?(<!-- end -->)", re.DOTALL)
BAR = "\\|"
STUDIES = ("anchor", "emb-mlp", "labels", "language", "composite", "composite-map", "addition-and-scan")


def made(name: str, page: str) -> str:
    """The text of a page with all that is made in it."""
    if name == "api.md":
        return page[: page.index("## rb_interp\n")] + "\n".join(sections())
    return BLOCK.sub(lambda found: found[1] + globals()[found[2]](*found[3].split()) + found[4], page)


def sections() -> list[str]:
    """A section for each package and module with an `__all__`: functions and classes that no section above has."""
    names = sorted(module.name for module in walk_packages(rb.__path__, "rb_interp.") if "._" not in module.name)
    modules = {name: import_module(name) for name in names if ".studies" not in name}
    public = {
        name: {one: id(value) for one in sorted(module.__all__) if callable(value := getattr(module, one))}
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
    directive = [f".. currentmodule:: {name}", ".. autosummary::", "   :toctree: _api", "   :nosignatures:", ""]
    return [f"## {name}", "", "```{eval-rst}", *directive, *(f"   {one}" for one in listed), "```", ""]


def claims(*names: str) -> str:
    """A row for each of the claims named."""
    known = {claim.id: claim for study in STUDIES for claim in rb.study(study).load("claims")}
    rows = [(one.id, one.statement, one.source, one.criterion) for one in map(known.__getitem__, names)]
    return table("id, claim, source, criterion", rows)


def checks() -> str:
    """A row for each causal check of the anchor study."""
    rows = [(c.of, c.done, c.control_done, c.check.criterion) for c in rb.study("anchor").load("checks")]
    return table("of, what is done, control, criterion", rows)


def verdicts(folder: str) -> str:
    """A row for each claim of a kept run of the anchor study, beside the preset `quick`."""
    quick = pd.read_csv(DOCS.parent / "results/quick_verdicts.csv").query("seeds == '0-19'").set_index("id")
    rows = []
    for verdict in json.loads((DOCS.parent / folder / "verdicts.json").read_text("utf-8")):
        name, why = verdict["id"], re.split("[:;]", verdict["reason"])[0]
        other = quick.loc[name] if name in quick.index else None
        read = verdict["n_seeds"] or why == "not learned"
        marks = [why] if verdict["outcome"] == "NOT JUDGED" and read else []
        marks += ["met at initialisation"] if verdict["met_at_initialisation"] else []
        marks += ["not calibrated"] if verdict["calibrated"] is False and verdict["outcome"] != "NOT JUDGED" else []
        count = f"{verdict['n_meeting']} of {verdict['n_seeds']}"
        count += f" [{number(verdict['share_low'])}, {number(verdict['share_high'])}]" if verdict["n_seeds"] else ""
        cells = (
            f"{name}: {verdict['statement'].removesuffix('.')}",
            ", ".join([verdict["outcome"], *marks]),
            count if verdict["n_seeds"] else "no seed counts" if read else "no readings",
            f"{number(verdict['effect'])} [{number(verdict['low'])}, {number(verdict['high'])}]",
            number(verdict["untrained"]),
            "" if other is None else f"{other.outcome}, {other.n_meeting} of {other.n_seeds}, {number(other.effect)}",
        )
        rows.append(tuple("" if "nan" in cell else cell for cell in cells))
    return table("claim, verdict, seeds that meet it, median and range, untrained, `quick` (seeds 0 to 19)", rows)


def table(heads: str, rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; the heads are parted by commas."""
    lines = [f"| {' | '.join(cell.replace('|', BAR) for cell in row)} |" for row in (tuple(heads.split(", ")), *rows)]
    return "\n".join([lines[0], "|---" * (heads.count(", ") + 1) + "|", *lines[1:], ""])


def number(value: float | None) -> str:
    """Two decimals, without the zero before the point."""
    return "nan" if value is None else re.sub(r"^(-?)0(?=\.)", r"\1", f"{value + 0:.2f}").replace("-.00", ".00")


if __name__ == "__main__":
    for path in DOCS.glob("*.md"):
        if (new := made(path.name, old := path.read_text("utf-8"))) != old:
            path.write_text(new, "utf-8")
            print(path.name)
