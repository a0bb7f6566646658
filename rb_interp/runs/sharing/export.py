"""A member of a run as a shared one: weights, task, untrained weights, circuit and readings; see `Run.export`."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.runs.measured import Measured
from rb_interp.runs.sharing.circuit import Circuit
from rb_interp.runs.sharing.member import SharedMember
from rb_interp.runs.sharing.save import save_member
from rb_interp.runs.store import PROBE
from rb_interp.training.config import TrainConfig

if TYPE_CHECKING:
    from rb_interp.runs.run import Run
    from rb_interp.runs.sweep import Sweep


LOOKS = ("eval_every", "eval_rows", "n_checkpoints", "keep_at", "stages", "track_drift")
"""Settings of a training that say what is looked at and kept, and change no step."""


def export(
    run: Run, path: Path, *, gamma: float, seed: int, stage: str | int, sweep: str, **facts: Any
) -> SharedMember:
    """Write one member of a run into a folder; ``facts`` are name, description and licence."""
    run.check_checkpoints()
    own = run.sweep(sweep)
    checkpoint = own.checkpoint(stage, gamma, seed)
    measured = run.store.is_current(PROBE)
    return save_member(
        path,
        model=own.config.model,
        weights=checkpoint.member(gamma, seed),
        initial=own.weights(gamma, seed, "init"),
        task=own.config.task,
        data=own.dataset(seed),
        data_seed=own.config.data_seed_of(seed),
        gamma=gamma,
        seed=seed,
        study=run.study.name,
        stage=str(stage),
        step=checkpoint.step,
        training=training_of(own.config.train, lr=dict(own.config.rates).get(gamma, own.config.train.lr)),
        circuit=_circuit(run, own, gamma, seed, stage) if measured else None,
        readings=_readings(run, own, gamma, seed, stage) if measured else (),
        **facts,
    )


def training_of(train: TrainConfig, **changes: Any) -> dict[str, Any]:
    """Settings of a training as a card tells them, with changes of single ones: what decides the weights.

    >>> training_of(TrainConfig(), lr=4e-3)["lr"], "workers" in training_of(TrainConfig())
    (0.004, False)
    """
    told = {
        f.name: getattr(train, f.name) for f in fields(train) if f.name not in (*train.host_fields, *LOOKS)
    } | changes
    return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}


def _readings(run: Run, sweep: Sweep, gamma: float, seed: int, stage: str | int) -> list[dict[str, Any]]:
    """Rows of the run's readings that are of the member at the stage."""
    table = run.readings
    own = (table["sweep"] == sweep.name) & (table["gamma"] == gamma) & (table["seed"] == seed)
    own &= table["stage"] == str(stage)
    rows: Any = table[own].drop(columns=["sweep", "gamma", "seed"])
    return rows.to_dict("records")


def _circuit(run: Run, sweep: Sweep, gamma: float, seed: int, stage: str | int) -> Circuit | None:
    """The member's circuit, where the study names circuits; these are of the last step and of the main sweep."""
    find = run.study.load("circuits")
    if find is None or stage != "final" or sweep.name:
        return None
    evidence = run.evidence
    return find(Measured(evidence.readings, evidence.tables)).get((gamma, seed))
