"""What stored readings show that a study reads: its golden run, and its kept runs of larger presets.

``python tests/quantities.py`` adds this to each study's file of quantities. A name whose numbers
alone differ from those of another one is left out, as in ``Study.check_claims``.
"""

import json
import re
import textwrap
from pathlib import Path

import pandas as pd

from rb_interp.runs.studies import Study, study

ROOT = Path(__file__).parents[1]
KEPT = {
    "addition-and-scan": ["addition_and_scan_quick"],
    "anchor": ["anchor_paper_200k"],
    "composite": ["composite_quick"],
    "composite-map": ["composite_map_quick"],
    "emb-mlp": [],
    "labels": [],
    "language": ["language_quick"],
}
"""Study -> its kept runs."""
SPACE = "\0"
"""A space inside a name, at which no line is broken."""
WRAPPING: dict = {"subsequent_indent": "    ", "break_on_hyphens": False, "break_long_words": False}


def read_quantities(name: str) -> dict[str, list[str]]:
    """Probe -> quantities in the stored readings of a study."""
    tables = [ROOT / f"tests/golden/smoke_{name}.parquet"]
    tables += [ROOT / "results" / run / "readings.parquet" for run in KEPT[name]]
    readings = pd.concat([pd.read_parquet(table) for table in tables])
    groups = readings.groupby("probe")["quantity"]
    return {str(probe): sorted(set(quantities)) for probe, quantities in groups}


def joined(declared: dict[str, list[str]], read: dict[str, list[str]]) -> dict[str, list[str]]:
    """What is declared, with what was read and differs from it in more than numbers."""
    result = {}
    for probe in sorted({*declared, *read}):
        by_form: dict[str, str] = {}
        for quantity in (*declared.get(probe, []), *read.get(probe, [])):
            by_form.setdefault(re.sub(r"\d+", "0", quantity), quantity)
        result[probe] = sorted(by_form.values())
    return result


def write(asked: Study) -> None:
    """Add what was read to a study's file of quantities."""
    assert isinstance(asked.quantities, Path)
    declared = asked.known_quantities() if asked.quantities.is_file() else {}
    lines = [
        "# Probe = quantities that the study reads of it; tests/quantities.py adds new ones.\n"
    ]
    for probe, quantities in joined(declared, read_quantities(asked.name)).items():
        names = [json.dumps(quantity).replace(" ", SPACE) for quantity in quantities]
        text = textwrap.fill(f"{probe} = [{', '.join(names)}]", 100, **WRAPPING)
        lines.append(text.replace(SPACE, " "))
    asked.quantities.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    for name in KEPT:
        write(study(name))
