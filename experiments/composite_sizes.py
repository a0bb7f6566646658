"""What loses the inferential phase between the sizes of paper 2 and those of the preset `quick`?

    python experiments/composite_sizes.py                  every setting, in the order of their cost
    python experiments/composite_sizes.py batch_256 ...    these alone
    python experiments/composite_sizes.py --table          none; writes the page's table from what is kept

Each setting is the preset `paper` of the composite study with the changes that CHANGES names, and
nothing else: the task, its 900,000 rows, the learning rates and decay stay the paper's. Phases are
read at every kept step, so that one sees whether they were settled. Rows are written to
``results/composite_sizes.csv``, in place of earlier ones of the same setting, and so is the table
of the page. Runs are below ``runs/composite_sizes`` (or ``--folder``), and continue where they were
stopped.

The paper's own batch costs 160 GFLOP a step and member, so it stops at 4,500 of 12,000 steps, 800
after the warm-up.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import rb_interp as rb
from rb_interp.runs.measurement import MemberModels
from rb_interp.studies.composite.phase import phase_of, read_phase

SMALL_BATCH, SMALL_MODEL = {"batch_size": 256}, {"d_model": 64, "d_head": 64, "d_mlp": 192}
CHANGES: dict[str, dict[str, Any]] = {
    "all_of_quick": {"train": {"batch_size": 64}, "model": SMALL_MODEL, "seeds": (0, 1, 2, 3)},
    "batch_256_small": {"train": SMALL_BATCH, "model": SMALL_MODEL, "seeds": (0, 1, 2, 3)},
    "batch_256_d_model_64": {"train": SMALL_BATCH, "model": {"d_model": 64}},
    "batch_64": {"train": {"batch_size": 64}},
    "batch_256_d_mlp_192": {"train": SMALL_BATCH, "model": {"d_mlp": 192}},
    "batch_256_d_head_64": {"train": SMALL_BATCH, "model": {"d_head": 64}},
    "batch_256": {"train": SMALL_BATCH},
    "paper": {"train": {"steps": 4500, "keep_at": (0.5, 0.6, 0.7, 0.8, 0.9)}, "gammas": (0.8,)},
}
"""Setting -> what differs from the preset `paper`; gamma .5 and .8, and seed 0, where it says no
others."""
ROOT = Path(__file__).parents[1]
TABLE, PAGE = ROOT / "results/composite_sizes.csv", ROOT / "docs/results_composite.md"
HEAD = ("setting", "gamma", "seed", "phase", "seen_test", "I", "S", "commonest answer")
READ = {"acc_seen_test": "seen_test", "I": "inferential", "S": "symmetric", "O": "other"}
EARLY = {
    f"{short}_early": f"{word}_early" for short, word in (("I", "inferential"), ("S", "symmetric"))
}


def configured(changes: dict[str, Any]):
    """The preset `paper` with changes of its parts, gammas and seeds."""
    config = rb.study("composite").preset("paper", gammas=(0.5, 0.8), seeds=(0,))
    parts = {
        name: replace(getattr(config, name), **changes.get(name, {})) for name in ("model", "train")
    }
    return replace(config, **changes | parts)


def phases(run: rb.Run, setting: str) -> pd.DataFrame:
    """Accuracy, shares of answers and phase of every member at every kept step.

    ``commonest`` is the most frequent answer, counted from the inferential one: 0 is x - 10, 4 the
    mirror's x - 6.
    """
    sweep, rows = run.sweep(), []
    models = MemberModels(sweep)
    for member in sweep.sound_members:
        for step in sweep.checkpoint_steps:
            models.load(member, step)
            reading = read_phase(
                models.model, sweep.dataset(member.seed), untrained=models.untrained
            )
            values, answers = reading.values, reading.tables["answers"]
            first = answers.loc[answers["count"].idxmax()]
            row = {"setting": setting, "gamma": member.gamma, "seed": member.seed, "step": step}
            row |= {name: values[key] for key, name in (READ | EARLY).items()}
            row |= {"phase": phase_of(values["acc_seen_test"], values["I"], values["S"])}
            rows.append(
                row | {"commonest": int(first["difference"]), "commonest_share": first["share"]}
            )
    return pd.DataFrame(rows)


def keep(found: pd.DataFrame) -> None:
    """Write rows in place of earlier ones of the same settings."""
    if TABLE.exists():
        old = pd.read_csv(TABLE)
        found = pd.concat([old.loc[~old["setting"].isin(found["setting"])], found])
    order = pd.Categorical(found["setting"], list(CHANGES))
    found = found.assign(setting=order).sort_values(["setting", "gamma", "seed", "step"])
    found.to_csv(TABLE, index=False, float_format="%.4g")


def two_digits(share: float) -> str:
    """A share without its leading zero, as the page writes it."""
    return f"{share:.2f}".removeprefix("0")


def commonest(difference: float, share: float) -> str:
    """The most frequent answer to (4,3) in words; its inferential answer is x - 10."""
    if pd.isna(difference):
        return "not kept"
    shift = int(difference) - 10
    return f"x {'+' if shift > 0 else '-'} {abs(shift)} in {two_digits(share)}"


def last_steps(kept: pd.DataFrame) -> pd.DataFrame:
    """The rows of every member at its last step."""
    return kept.loc[kept.groupby(["setting", "gamma", "seed"], sort=False)["step"].idxmax()]


def page_table(kept: pd.DataFrame) -> str:
    """The table of the page: one row a member, at its last step."""
    rows = [
        (
            f"`{row['setting']}`",
            f"{row['gamma']:g}".removeprefix("0"),
            row["seed"],
            row["phase"],
            *(two_digits(row[name]) for name in ("seen_test", "inferential", "symmetric")),
            commonest(row["commonest"], row["commonest_share"]),
        )
        for row in last_steps(kept).to_dict("records")
    ]
    return "".join(line(cells) for cells in (HEAD, ["---"] * len(HEAD), *rows))


def line(cells: Iterable[Any]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |\n"


def write_page() -> None:
    """Put the table of what is kept in place of the page's own."""
    own, table = rf"^{re.escape(line(HEAD))}(\|.*\n)*", page_table(pd.read_csv(TABLE))
    PAGE.write_text(re.sub(own, lambda _: table, PAGE.read_text(), flags=re.MULTILINE))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "settings", nargs="*", default=list(CHANGES), metavar="setting", help=", ".join(CHANGES)
    )
    parser.add_argument(
        "--table", action="store_true", help="write the page's table, train nothing"
    )
    parser.add_argument("--folder", type=Path, default=Path("runs/composite_sizes"))
    given = parser.parse_args()
    for name in () if given.table else given.settings:
        run = rb.Run.start(given.folder / name, rb.study("composite"), configured(CHANGES[name]))
        run.sweep().train()
        found = phases(run, name)
        keep(found)
        print(found.to_string(index=False))
    write_page()
