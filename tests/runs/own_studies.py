"""A study that no package brings: its task, measurement, claim and figure are a few lines each."""

from contextlib import suppress
from dataclasses import field
from pathlib import Path
from subprocess import TimeoutExpired
from typing import ClassVar

import numpy as np

from rb_interp.claims import Claim, Condition, Term
from rb_interp.models.config import ModelConfig
from rb_interp.runs import (
    MemberModels,
    Run,
    Study,
    StudyConfig,
    StudyResult,
    SweepConfig,
    readings_table,
)
from rb_interp.runs.results import KEYS
from rb_interp.settings import Gammas, Seeds
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig

TASK = AnchorTask(
    length=5,
    keys=(21, 24),
    memory_anchors=(1, 2),
    reasoning_anchors=(11, 13),
    d_vocab=64,
    n_sequences=720,
)
TRAIN = TrainConfig(
    steps=20, batch_size=16, eval_every=10, eval_rows=20, lr=2e-2, n_checkpoints=1, stages=("half",)
)
MODEL = ModelConfig(n_layers=2, n_heads=1, d_model=16, d_head=8, d_mlp=16)


class One(SweepConfig, StudyConfig):
    PRESETS: ClassVar[dict] = {"smoke": {}, "quick": {}}
    sibling_stages: ClassVar[dict] = {"matched": ("half", 0.8)}

    preset: str = "smoke"
    seeds: Seeds = (0, 1, 2, 3, 4, 5, 6, 7)
    gammas: Gammas = (0.5, 0.8)
    task: AnchorTask = TASK
    model: ModelConfig = MODEL
    train: TrainConfig = TRAIN
    n_null: int = 3


class Half(SweepConfig):
    gammas: Gammas = (0.8,)
    task: AnchorTask = TASK
    model: ModelConfig = MODEL
    train: TrainConfig = TRAIN


class Two(StudyConfig):
    PRESETS: ClassVar[dict] = {"smoke": {}, "quick": {}}

    first: Half = field(default_factory=Half)
    second: Half = field(default_factory=Half)


def measure(run, progress):
    """One number a member: the size of its embedding, beside that of the untrained model."""
    rows, arrays = [], {}
    for name, sweep in run.sweeps.items():
        models = MemberModels(sweep)
        for member in sweep.sound_members:
            checkpoint = models.load(member, "final")
            sizes = [float(model.W_E.detach().norm()) for model in (models.model, models.untrained)]
            place = {
                "sweep": name,
                "gamma": member.gamma,
                "seed": member.seed,
                "stage": "final",
                "set": "",
            }
            row = {
                "probe": "size",
                "quantity": "norm",
                "value": sizes[0],
                "untrained": sizes[1],
                "null": None,
            }
            empty = dict.fromkeys(("layer", "head", "null_mean", "null_sd", "p_value"), np.nan)
            rows.append({**place, "step": checkpoint.step, **row, **empty, "n": 0})
            prefix = f"{name}/" if name else ""
            where = f"{prefix}{member.gamma}/{member.seed}/final//size"
            arrays[f"{where}/norms"] = models.model.W_E.detach().norm(dim=1).numpy()
            arrays[f"{where}/turned"] = (
                models.model.W_E.detach().numpy().copy().T
            )  # not in the order of memory
    return StudyResult(
        readings_table(rows),
        {"doubled": readings_table(rows).assign(value=lambda t: 2 * t.value)},
        arrays,
    )


def claims(sweep=""):
    term = Term("size", "norm", 0.8, "final", label="norm of W_E", sweep=sweep)
    return (
        Claim(
            "S1", "Embeddings are not zero.", "here", (Condition(term, ">", 0.0),), context=(term,)
        ),
    )


def draw(evidence):
    from rb_interp.figures.kit import new_figure

    figure = new_figure(1.5)
    sweep = next(iter(evidence.config.sweeps))
    figure.subplots().plot(evidence.values(Term("size", "norm", 0.8, "final", sweep=sweep)))
    return figure


def lacking(evidence):
    evidence.table("nowhere")


FIGURES = {"sizes": draw, "nowhere": lacking}


def make(name, config, sweep=""):
    return Study(
        name,
        f"Study {name}",
        "How large are embeddings?",
        {},
        config,
        measure,
        {"doubled": KEYS["readings"]},
        claims(sweep),
        FIGURES,
        glossary={"norm": "Length of a vector."},
    )


ONE, TWO = make("one", One), make("two", Two, "first")
SMALL = One(seeds=(0,))


def start(folder, config=SMALL, study=ONE):
    return Run.start(folder, study, config)


def only_store(run):
    (store,) = run.sweep().stores.values()
    return store


def last_weights(run):
    """Bytes of every tensor of every member at the last step."""
    sweep = run.sweep()
    return {
        (member, name): weight.numpy().tobytes()
        for member in sweep.members
        for name, weight in sweep.weights(member.gamma, member.seed).items()
    }


def wait_until(condition, process):
    """Wait until a condition is met while a process runs."""
    while not condition():
        with suppress(TimeoutExpired):
            process.wait(0.1)
        assert process.poll() is None


def plugin(folder: Path, name: str, value: str, study: str = "") -> None:
    """A distribution that is installed in a folder, with one study, by default called after it."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[rb_interp.studies]\n{study or f'{name}-study'} = {value}\n"
    )
