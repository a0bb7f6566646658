"""Tables of the pages that are made from kept runs: `python docs/made_tables.py` writes them anew.

A table stands between `<!-- verdicts of results/NAME -->` and `<!-- end -->`. A test compares what stands there with
what would be made.
"""

import json
import re
from pathlib import Path

import pandas as pd

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(<!-- verdicts of (results/\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
HEAD = (
    "| claim | verdict | seeds that meet it | median and range over seeds | untrained | at `quick`, seeds 0 to 19 |\n"
)


def made(page: str) -> str:
    """The page's text with each of its tables made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}{verdicts(DOCS.parent / found[2])}{found[3]}", page)


def verdicts(folder: Path) -> str:
    """A row for each claim of a kept run of the anchor study, beside the preset `quick`."""
    quick = pd.read_csv(DOCS.parent / "results/quick_verdicts.csv").query("seeds == '0-19'").set_index("id")
    rows = []
    for verdict in json.loads((folder / "verdicts.json").read_text("utf-8")):
        name, why = verdict["id"], re.split("[:;]", verdict["reason"])[0]
        other = quick.loc[name] if name in quick.index else None
        marks = [why] if verdict["outcome"] == "NOT JUDGED" and verdict["n_seeds"] else []
        marks += ["met at initialisation"] if verdict["met_at_initialisation"] else []
        marks += ["not calibrated"] if verdict["calibrated"] is False and verdict["outcome"] != "NOT JUDGED" else []
        count = f"{verdict['n_meeting']} of {verdict['n_seeds']}"
        count += f" [{number(verdict['share_low'])}, {number(verdict['share_high'])}]" if verdict["n_seeds"] else ""
        cells = (
            f"{name}: {verdict['statement'].removesuffix('.')}",
            ", ".join([verdict["outcome"], *marks]),
            count if verdict["n_seeds"] else "no readings",
            f"{number(verdict['effect'])} [{number(verdict['low'])}, {number(verdict['high'])}]",
            number(verdict["untrained"]),
            "" if other is None else f"{other.outcome}, {other.n_meeting} of {other.n_seeds}, {number(other.effect)}",
        )
        rows.append("| " + " | ".join("" if "nan" in cell else cell.replace("|", "\\|") for cell in cells) + " |\n")
    return HEAD + "|---|---|---|---|---|---|\n" + "".join(rows)


def number(value: float | None) -> str:
    """Two decimals, without the zero before the point."""
    return "nan" if value is None else re.sub(r"^(-?)0(?=\.)", r"\1", f"{value + 0:.2f}").replace("-.00", ".00")


if __name__ == "__main__":
    for path in DOCS.glob("*.md"):
        if (new := made(old := path.read_text("utf-8"))) != old:
            path.write_text(new, "utf-8")
