"""Measure the error rates again: every detector on models whose mechanism is known, and on two
kinds where it is not.

    python -m experiments.calibration FOLDER

Hand-written models and trained ones have tables of their own, and are never mixed. The thresholds
are the claims'; nothing here chooses one. Everything follows from seeds; the last digits about
trained models depend on the machine. What is finished is read from the folder, so the same command
continues after an interruption: begin with an empty folder after a change of probes, models, claims
or recipes. Tables of rates go to ``rb_interp/studies/anchor/tables``, the others to
``experiments/calibration/tables``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd
from tqdm import tqdm

import rb_interp as rb
from experiments.calibration import known_models
from experiments.calibration.blends import blend_means, blend_table, draw_blends
from experiments.calibration.detectors import detect
from experiments.calibration.known_models import GAMMAS, N_COPIES, N_SHUFFLED, N_UNTRAINED, Subject
from experiments.calibration.rates import (
    BLENDS,
    COPIES,
    TRAINED_COPIES,
    TRAINED_MODELS,
    rates,
    trained_rates,
    write_table,
)
from experiments.calibration.routes import BLENDED
from experiments.calibration.starts import members_as_trained
from experiments.calibration.trained_models import FAMILIES, answers
from rb_interp.models.config import ModelConfig
from rb_interp.models.reference import REFERENCES
from rb_interp.studies.anchor.checks import RATES, TRAINED_RATES, read_table

PARTS, TRAINED = "parts", "trained"
SHOWN = [
    "true_positive_rate",
    "true_positive_low",
    "false_positive_rate",
    "false_positive_high",
    "calibrated",
]


def measure_copies(
    folder: Path,
    progress: bool = True,
    *,
    n_copies: int = N_COPIES,
    n_untrained: int = N_UNTRAINED,
    n_shuffled: int = N_SHUFFLED,
) -> pd.DataFrame:
    """Write each detector's answer about each model, and the rates; return the rates.

    Args:
        folder: keeps what is finished.
        n_copies: perturbed copies of each hand-written model. n_untrained, n_shuffled: models at
            each gamma.
    """
    parts: dict[str, tuple[int, Callable[[], Iterator[Subject]]]] = {
        name: (n_copies, lambda name=name: known_models.reference_copies(name, n_copies))
        for name in REFERENCES
    }
    parts["untrained"] = (n_untrained * len(GAMMAS), lambda: known_models.fresh(n_untrained))
    parts["label_shuffled"] = (
        n_shuffled * len(GAMMAS),
        lambda: known_models.label_shuffled(n_shuffled, progress),
    )
    tables = []
    with tqdm(
        total=sum(n for n, _ in parts.values()),
        disable=not progress,
        unit="model",
        desc="calibrating",
    ) as bar:
        for name, (n, subjects) in parts.items():
            path = folder / PARTS / f"{name}-{n}.csv"
            if path.exists():
                bar.update(n)
            else:
                write_table(_answers(subjects(), bar), path)
            tables.append(read_table(path))
    return _written(pd.concat(tables, ignore_index=True), folder / COPIES, rates, folder / RATES)


def _answers(subjects: Iterator[Subject], bar: tqdm) -> pd.DataFrame:
    """Rows of models that share a shape: one is built, and written anew for each."""
    model, rows = None, []
    for subject in subjects:
        model = known_models.load(subject, model)
        rows += known_models.rows_of(subject, detect(known_models.examine(model, subject.data)))
        bar.update()
    return pd.DataFrame(rows)


def measure_trained(
    folder: Path, progress: bool = True, configs: Sequence[ModelConfig] = FAMILIES
) -> pd.DataFrame:
    """Train models with a known route in each family, write the tables and the figure about them,
    return the rates."""
    copies, models = [], []
    for config in configs:
        paths = [
            folder / PARTS / f"{config.norm}-{name}" for name in (TRAINED_COPIES, TRAINED_MODELS)
        ]
        if not all(path.exists() for path in paths):
            for table, path in zip(answers(folder / TRAINED, config, progress), paths, strict=True):
                write_table(table, path)
        copies.append(read_table(paths[0]))
        models.append(read_table(paths[1]))
        if config.norm == "none":  # what blends add up is exact without LayerNorm alone
            pairs = [members_as_trained(folder / TRAINED, pair, config) for pair in BLENDED]
            blends = blend_table([(first, second) for first, second in pairs], progress=progress)
            write_table(blends, folder / BLENDS)
            draw_blends(blend_means(blends)).savefig(folder / "blends.png", dpi=150)
    write_table(pd.concat(models, ignore_index=True), folder / TRAINED_MODELS)
    copied = pd.concat(copies, ignore_index=True)
    return _written(copied, folder / TRAINED_COPIES, trained_rates, folder / TRAINED_RATES)


def _written(
    answers: pd.DataFrame, to: Path, rate: Callable[[pd.DataFrame], pd.DataFrame], path: Path
) -> pd.DataFrame:
    """Write answers and the rates that follow from them; return the rates."""
    write_table(answers, to)
    table = rate(read_table(to))
    write_table(table, path)
    return table


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.calibration FOLDER")
    with rb.threads(1):
        for measure, by in (
            (measure_copies, ["detector"]),
            (measure_trained, ["family", "source", "detector"]),
        ):
            print(measure(Path(sys.argv[1])).set_index(by)[SHOWN].round(2).to_string())
