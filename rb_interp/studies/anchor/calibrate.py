"""Measure the error rates again: every detector on models whose mechanism is known, and on two kinds where it is not.

The thresholds are the claims'; nothing here chooses one. Everything follows from seeds; the label-shuffled models are
trained, so their last digits depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from rb_interp.files import write_whole
from rb_interp.models.reference import REFERENCES
from rb_interp.report.terminal import console_of
from rb_interp.studies.anchor import known_models
from rb_interp.studies.anchor.error_rates import COPIES, RATES, rates, read_table
from rb_interp.studies.anchor.known_models import GAMMAS, N_COPIES, N_SHUFFLED, N_UNTRAINED, Subject
from rb_interp.torch_threads import threads

PARTIAL = "calibration_partial"


def calibrate(folder: Path | str, progress: bool = True) -> pd.DataFrame:
    """Measure, write both tables into a folder, print the rates and return them; about ten minutes on two cores.

    The same call continues after an interruption. Begin with an empty folder after a change of probes, models or
    claims. The package reads the tables in ``rb_interp/studies/anchor/tables``.
    """
    with threads(1):
        copies = measure_copies(folder, progress)
    table = write_tables(copies, folder)
    print_rates(table)
    return table


def measure_copies(
    folder: Path | str,
    progress: bool = True,
    *,
    n_copies: int = N_COPIES,
    n_untrained: int = N_UNTRAINED,
    n_shuffled: int = N_SHUFFLED,
) -> pd.DataFrame:
    """Each detector's answer about each model, as `error_rates.copies` describes it.

    Args:
        folder: keeps what is finished; `write_tables` removes it.
        n_copies: perturbed copies of each hand-written model. n_untrained, n_shuffled: models at each gamma.
    """
    parts: dict[str, tuple[int, Callable[[], Iterator[Subject]]]] = {
        f"reference_{name}": (n_copies, lambda name=name: known_models.reference_copies(name, n_copies))
        for name in REFERENCES
    }
    parts["untrained"] = (n_untrained * len(GAMMAS), lambda: known_models.fresh(n_untrained))
    parts["label_shuffled"] = (n_shuffled * len(GAMMAS), lambda: known_models.label_shuffled(n_shuffled, progress))
    tables = []
    with tqdm(total=sum(n for n, _ in parts.values()), disable=not progress, unit="model", desc="calibrating") as bar:
        for name, (n, subjects) in parts.items():
            path = Path(folder) / PARTIAL / f"{name}-{n}.csv"
            if not path.exists():
                found = _answers(subjects(), bar)
                write_whole(path, lambda to, found=found: found.to_csv(to, index=False))
            else:
                bar.update(n)
            tables.append(read_table(path))
    return pd.concat(tables, ignore_index=True)


def _answers(subjects: Iterator[Subject], bar: tqdm) -> pd.DataFrame:
    """Rows of models that share a shape: one is built, and written anew for each."""
    model, rows = None, []
    for subject in subjects:
        model = known_models.load(subject, model)
        rows += known_models.rows_of(subject, known_models.examine(model, subject.data))
        bar.update()
    return pd.DataFrame(rows)


def write_tables(copies: pd.DataFrame, folder: Path | str) -> pd.DataFrame:
    """Write both tables as CSV into a folder, whole or not at all; remove partial results; return the rates."""
    folder = Path(folder)
    write_whole(folder / COPIES, lambda path: copies.to_csv(path, index=False))
    table = rates(read_table(folder / COPIES))
    write_whole(folder / RATES, lambda path: table.to_csv(path, index=False, na_rep="nan"))
    for path in (folder / PARTIAL).glob("*.csv"):
        path.unlink()
    if (folder / PARTIAL).exists():
        (folder / PARTIAL).rmdir()
    return table


def print_rates(table: pd.DataFrame, console: Console | None = None) -> None:
    """Print the rates of one or more families, 100 columns at most."""
    console = console_of(console)
    for of_family, rows in table.groupby("family", sort=False):
        shown = Table(box=None, pad_edge=False, header_style="bold", title=str(of_family), title_justify="left")
        for heading in ("detector", "true positive", "false positive", "AUC", "untrained", "shuffled", "calibrated"):
            shown.add_column(heading, no_wrap=True)
        for row in rows.to_dict("records"):
            shown.add_row(
                str(row["detector"]),
                _interval(row, "true_positive"),
                _interval(row, "false_positive"),
                f"{row['auc']:.3f}",
                f"{row['untrained_rate']:.2f}",
                f"{row['label_shuffled_rate']:.2f}",
                "yes" if row["calibrated"] else "no",
            )
        console.print(shown)


def _interval(row: Mapping[str, Any], name: str) -> str:
    rate, low, high = (row[f"{name}_{part}"] for part in ("rate", "low", "high"))
    return "no model" if math.isnan(rate) else f"{rate:.2f} [{low:.2f}, {high:.2f}]"
