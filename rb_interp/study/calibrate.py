"""Run every detector on models whose mechanism is known, on perturbed copies of them, and on two controls.

    reference       hand-written models with known mechanisms, each with many perturbed copies; a seed draws the label
                    table, the rows and the perturbation
    untrained       fresh initialisations at three gammas: what a detector says where nothing was learned
    label_shuffled  trained like any member, but on labels permuted over the training rows: what it says where training
                    changed the weights and there was no rule to learn

Probes see up to 300 rows of each set, and swaps 100 pairs, without nulls or twins: a detector looks at values alone.
The thresholds are the claims'; nothing here chooses one. Everything follows from seeds; the label-shuffled models are
trained, so their last digits depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from tqdm import tqdm

from rb_interp.claims.calibration import COPIES, RATES, family, rates, read_table
from rb_interp.claims.detectors import Place, detect, truth
from rb_interp.errors import ModelError
from rb_interp.files import write_whole
from rb_interp.interventions.hooking import last_logits
from rb_interp.interventions.interchange import key_and_sum
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.lens import write_weights
from rb_interp.models.reference import REFERENCES, perturbed, reference
from rb_interp.models.schemes import draw
from rb_interp.probes import geometry
from rb_interp.study.measure import MEMORY, REASONING, plan
from rb_interp.tasks import AnchorDataset, AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members

GAMMAS = (0.3, 0.5, 0.8)
N_COPIES, N_UNTRAINED, N_SHUFFLED = 120, 40, 8
ROWS, PAIRS = 300, 100
SHUFFLED_STEPS = 2000
PARTIAL = "calibration_partial"
SIGNIFICANT = 6

Weights = Mapping[str, Any]


class Subject(NamedTuple):
    """One model to look at; ``circuit`` and ``mechanisms`` are None where nobody knows them."""

    source: str
    name: str
    seed: int
    config: ModelConfig
    data: AnchorDataset
    weights: Weights
    circuit: str | None = None
    mechanisms: frozenset[str] | None = None


@dataclass(frozen=True)
class ShuffledTask(AnchorTask):
    """An anchor task whose labels are permuted over the training rows: same tokens, same labels, no rule to learn.

    >>> data, plain = ShuffledTask().dataset(0), AnchorTask().dataset(0)
    >>> bool((data.tokens == plain.tokens).all()), bool((np.sort(data.labels) == np.sort(plain.labels)).all())
    (True, True)
    """

    def dataset(self, seed: int) -> AnchorDataset:
        """The rows that the seed draws anywhere, with permuted labels."""
        data = super().dataset(seed)
        labels, rows = data.labels.copy(), data.rows("train")
        labels[rows] = labels[np.random.default_rng([seed, 6]).permutation(rows)]
        return replace(data, labels=labels)


def calibrate(
    progress: bool = True,
    *,
    folder: Path | str | None = None,
    n_copies: int = N_COPIES,
    n_untrained: int = N_UNTRAINED,
    n_shuffled: int = N_SHUFFLED,
) -> pd.DataFrame:
    """What every detector says of every model, as `claims.calibration.copies` describes; a few minutes on two cores.

    Args:
        folder: keeps what is finished, so that the same call continues after an interruption; `write_tables` removes
            it. Begin with an empty folder after a change of probes, models or claims.
        n_copies: perturbed copies of each hand-written model. n_untrained, n_shuffled: models at each gamma.
    """
    parts: dict[str, tuple[int, Callable[[], Iterator[Subject]]]] = {
        f"reference_{name}": (n_copies, lambda name=name: reference_copies(name, n_copies)) for name in REFERENCES
    }
    parts["untrained"] = (n_untrained * len(GAMMAS), lambda: untrained(n_untrained))
    parts["label_shuffled"] = (n_shuffled * len(GAMMAS), lambda: label_shuffled(n_shuffled, progress))
    bar = tqdm(total=sum(n for n, _ in parts.values()), disable=not progress, unit="model", desc="calibrating")
    tables = []
    with bar:
        for name, (n, subjects) in parts.items():
            path = None if folder is None else Path(folder) / PARTIAL / f"{name}-{n}.csv"
            if path is not None and path.exists():
                tables.append(read_table(path))
                bar.update(n)
                continue
            tables.append(_said(subjects(), bar))
            if path is not None:
                write_whole(path, lambda to, table=tables[-1]: table.to_csv(to, index=False))
    return pd.concat(tables, ignore_index=True)


def write_tables(copies: pd.DataFrame, folder: Path | str) -> pd.DataFrame:
    """Write both tables as CSV into a folder, whole or not at all, and return the rates; partial results are removed.

    The package reads the ones in ``rb_interp/claims/tables``.
    """
    folder = Path(folder)
    write_whole(folder / COPIES, lambda path: copies.to_csv(path, index=False))
    table = rates(read_table(folder / COPIES))
    write_whole(folder / RATES, lambda path: table.to_csv(path, index=False, na_rep="nan"))
    for path in (folder / PARTIAL).glob("*.csv"):
        path.unlink()
    if (folder / PARTIAL).exists():
        (folder / PARTIAL).rmdir()
    return table


def reference_copies(name: str, n_copies: int = N_COPIES, first: int = 0) -> Iterator[Subject]:
    """Perturbed copies of one hand-written model, one for each seed from ``first`` on."""
    for seed in range(first, first + n_copies):
        copy = perturbed(reference(name, seed=seed), seed=seed)
        data = copy.task.dataset(seed)
        yield Subject("reference", name, seed, copy.config, data, copy.weights, copy.circuit, copy.mechanisms)


def untrained(n_each: int = N_UNTRAINED) -> Iterator[Subject]:
    """Fresh initialisations of the quick model at each gamma."""
    task, config = AnchorTask.preset("quick"), ModelConfig.preset("quick")
    for gamma in GAMMAS:
        for seed in range(n_each):
            weights = draw(config, task.d_vocab, task.length, gamma, seed)
            yield Subject("untrained", f"{gamma:g}", seed, config, task.dataset(seed), weights)


def label_shuffled(n_each: int = N_SHUFFLED, progress: bool = True, steps: int = SHUFFLED_STEPS) -> Iterator[Subject]:
    """Quick models trained on permuted labels, at each gamma."""
    task, config = ShuffledTask(), ModelConfig.preset("quick")
    train = replace(TrainConfig.preset("quick"), steps=steps, eval_every=steps, device="cpu")
    final = train_members(task, config, train, GAMMAS, range(n_each), progress=progress).final
    for gamma in GAMMAS:
        for seed in range(n_each):
            yield Subject("label_shuffled", f"{gamma:g}", seed, config, task.dataset(seed), final.member(gamma, seed))


def examine(model: Any, data: AnchorDataset, rows: int = ROWS) -> dict[Place, float]:
    """The readings of one model that detectors look at, by probe, quantity, rows and layer.

    Raises ModelError for a model with several heads: no claim says which of them it means.
    """
    if model.cfg.n_heads != 1:
        raise ModelError(f"a model with {model.cfg.n_heads} heads has no calibration; claims speak of models with one.")
    chosen = {kind: data.sample(kind, rows) for kind in (REASONING, MEMORY)}
    found: dict[Place, float] = {}
    for probe, kind, where in plan(model.cfg.n_layers, model.cfg.n_heads):
        if probe is geometry:  # needs no calibration
            continue
        at = chosen[kind or REASONING]
        reading = probe(model, data.tokens[at], data.roles(at), n_null=0, **where)
        found |= {(reading.probe, name, kind, reading.layer): float(x) for name, x in reading.values.items()}
    at = chosen[REASONING]
    right = last_logits(model, data.tokens[at]).argmax(1).numpy() == data.labels[at]
    return {**found, ("learning_order", "acc_rsn_train", "", None): float(right.mean()), **_swaps(model, data)}


def _swaps(model: Any, data: AnchorDataset) -> dict[Place, float]:
    """Readings of claim M9: what swapping each attention's output does to the answer; nan where nothing is answered."""
    swapped, found = key_and_sum(model, data, n=PAIRS, rows=REASONING), {}
    for probe, effect in (("swap_key", swapped.key), ("swap_sum", swapped.sum)):
        for quantity, values in (("effect", effect.values), ("placebo", effect.placebo)):
            found[probe, quantity, REASONING, None] = float(values.mean()) if values.size else math.nan
    return found


def rows_of(subject: Subject, readings: Mapping[Place, float]) -> list[dict]:
    """One row of the table of copies for each detector."""
    named = {"family": family(subject.config), "source": subject.source, "name": subject.name, "seed": subject.seed}
    rows = []
    for detector, (present, margin) in detect(readings).items():
        told = ""
        if subject.circuit is not None and subject.mechanisms is not None:
            told = "yes" if truth(detector, subject.circuit, subject.mechanisms) else "no"
        shown = float(f"{margin:.{SIGNIFICANT}g}")
        rows.append({**named, "detector": detector, "truth": told, "margin": shown, "present": present})
    return rows


def _said(subjects: Iterator[Subject], bar: tqdm) -> pd.DataFrame:
    """Rows of all subjects of one part, which share a shape: one model is built and written anew for each."""
    model, rows = None, []
    for subject in subjects:
        model = load(subject, model)
        rows += rows_of(subject, examine(model, subject.data))
        bar.update()
    return pd.DataFrame(rows)


def load(subject: Subject, model: Any = None) -> Any:
    """The subject's weights in a model, or in a new one where none is given."""
    if model is None:
        task = subject.data.task
        return lens_model(subject.config, task.d_vocab, task.length, subject.weights)
    write_weights(model, subject.weights)
    return model


def print_rates(table: pd.DataFrame, console: Console | None = None) -> None:
    """Print the rates of one or more families, 100 columns at most."""
    console = console or _console()
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


def _console() -> Console:
    """Standard output; a pipe has no width of its own and gets 100 columns."""
    found = Console()
    return found if found.is_terminal else Console(width=100)
