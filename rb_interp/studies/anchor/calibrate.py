"""Measure the error rates again: every detector on models whose mechanism is known, and on two kinds where it is not.

Hand-written models and trained ones have tables of their own, and are never mixed.

The thresholds are the claims'; nothing here chooses one. Everything follows from seeds; the label-shuffled models are
trained, so their last digits depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from rb_interp.files import write_whole
from rb_interp.models.config import ModelConfig
from rb_interp.models.reference import REFERENCES
from rb_interp.report.terminal import console_of
from rb_interp.studies.anchor import known_models
from rb_interp.studies.anchor.blends import blend_means, blend_table
from rb_interp.studies.anchor.detectors import DETECTORS
from rb_interp.studies.anchor.error_rates import (
    BLENDS,
    COPIES,
    RATES,
    TRAINED_COPIES,
    TRAINED_MODELS,
    TRAINED_RATES,
    rates,
    read_table,
    trained_rates,
)
from rb_interp.studies.anchor.figures.blends import save_blends
from rb_interp.studies.anchor.known_models import GAMMAS, N_COPIES, N_SHUFFLED, N_UNTRAINED, Subject
from rb_interp.studies.anchor.routes_by_training import BLENDED
from rb_interp.studies.anchor.starting_members import members_as_trained
from rb_interp.studies.anchor.trained_models import FAMILIES, answers
from rb_interp.torch_threads import threads

PARTIAL, TRAINED = "calibration_partial", "trained"


def calibrate(folder: Path | str, progress: bool = True) -> pd.DataFrame:
    """Measure, write the tables into a folder, print the rates and return those on hand-written models.

    The same call continues after an interruption: what is finished is read from the folder. So begin with an empty
    folder after a change of probes, models or claims. The package reads the tables in
    ``rb_interp/studies/anchor/tables``; docs/calibration.md says what this costs.
    """
    with threads(1):
        table = write_tables(_measured(Path(folder), progress), folder)
    print_rates(table)
    with threads(1):
        trained = calibrate_on_trained_models(folder, progress)
    print_trained_rates(trained)
    return table


def _measured(folder: Path, progress: bool) -> pd.DataFrame:
    """Answers about hand-written models: those in the folder if they have every detector, else measured."""
    if (folder / COPIES).exists():
        copies = read_table(folder / COPIES)
        if {*copies["detector"]} == {*DETECTORS}:
            return copies
    return measure_copies(folder, progress)


def calibrate_on_trained_models(
    folder: Path | str, progress: bool = True, configs: Sequence[ModelConfig] = FAMILIES
) -> pd.DataFrame:
    """Train models with a known route in each family, write the tables and the figure about them, return the rates.

    Weights that are trained already are read from ``folder/trained``, which keeps them. Answers about a family are kept
    too, until all families are read.
    """
    folder = Path(folder)
    parts = [_family(folder, config, progress) for config in configs]
    found, models = (pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))
    _write(models, folder / TRAINED_MODELS)
    _write(found, folder / TRAINED_COPIES)
    for config in configs:
        if config.norm == "none":  # what blends add up is exact without LayerNorm alone
            pairs = [members_as_trained(folder / TRAINED, pair, config) for pair in BLENDED]
            blends = blend_table([(first, second) for first, second in pairs], progress=progress)
            _write(blends, folder / BLENDS)
            save_blends(blend_means(blends), folder / BLENDS.replace(".csv", ".png"))
    table = trained_rates(read_table(folder / TRAINED_COPIES))
    _write(table, folder / TRAINED_RATES)
    _remove_parts(folder)
    return table


def _family(folder: Path, config: ModelConfig, progress: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables of one family, of ``answers``, read where they are there."""
    paths = [folder / PARTIAL / f"{config.norm}-{name}" for name in (TRAINED_COPIES, TRAINED_MODELS)]
    if not all(path.exists() for path in paths):
        for table, path in zip(answers(folder / TRAINED, config, progress), paths, strict=True):
            _write(table, path)
    copies, models = map(read_table, paths)
    return copies, models


def _write(table: pd.DataFrame, path: Path) -> None:
    write_whole(path, lambda to: table.to_csv(to, index=False, na_rep="nan"))


def _remove_parts(folder: Path) -> None:
    for path in (folder / PARTIAL).glob("*.csv"):
        path.unlink()
    if (folder / PARTIAL).exists():
        (folder / PARTIAL).rmdir()


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
    _write(copies, folder / COPIES)
    table = rates(read_table(folder / COPIES))
    _write(table, folder / RATES)
    for path in (folder / PARTIAL).glob("[!0-9]*-[0-9]*.csv"):
        path.unlink()
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


def print_trained_rates(table: pd.DataFrame, console: Console | None = None) -> None:
    """Print the rates on trained models, by family and source."""
    console = console_of(console)
    for _, rows in table.groupby(["family", "source"], sort=False):
        title = f"{rows['source'].iloc[0]}: {rows['family'].iloc[0]}"
        shown = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
        for heading in ("detector", "with", "true positive", "without", "false positive", "calibrated"):
            shown.add_column(heading, no_wrap=True)
        for row in rows.to_dict("records"):
            rates = [_interval(row, name) for name in ("true_positive", "false_positive")]
            numbers = [str(row[name]) for name in ("n_positive", "n_negative")]
            answer = "yes" if row["calibrated"] else "no"
            shown.add_row(str(row["detector"]), numbers[0], rates[0], numbers[1], rates[1], answer)
        console.print(shown)


def _interval(row: Mapping[str, Any], name: str) -> str:
    rate, low, high = (row[f"{name}_{part}"] for part in ("rate", "low", "high"))
    return "no model" if math.isnan(rate) else f"{rate:.2f} [{low:.2f}, {high:.2f}]"
