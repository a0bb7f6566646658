"""Tiny runs of every study for campaigns: their settings, and what of a run folder must be the same bits.

A run takes a second or two: few members, few steps, and one figure of each study. It is made in the current folder, so
that the command that it keeps is the same everywhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from campaigns.harness import command, forked

RUN = "run"
_TASK = "length=5\nkeys=[21,24]\nmemory_anchors=[1,{most}]\nreasoning_anchors=[11,13]\nd_vocab=64\nn_sequences=720\n"
_MODEL = "n_layers=2\nn_heads=1\nd_model=16\nd_head=8\nd_mlp=16\n"
_TRAIN = "steps={steps}\neval_every={every}\neval_rows=20\nn_checkpoints=2\nworkers=2\nsave_every={save}\n"


def _table(name: str, *settings: str) -> str:
    return f"[{name}]\n" + "".join(settings)


def _labels(sweep: str, more: str) -> str:
    task = _TASK.format(most=4)
    train = _TRAIN + "batch_size=16\nlr=5e-3\n"
    return _table(f"{sweep}.task", task, more) + _table(f"{sweep}.model", _MODEL) + _table(f"{sweep}.train", train)


_ANCHOR = _table("task", _TASK.format(most=2)) + _table("model", _MODEL)
_ANCHOR += _table("train", _TRAIN, "batch_size=16\nlr=2e-2\n")
_SWEEPS = (("adamw", ""), ("descent", "lr=1.0\n"), ("one_layer", ""))
SETTINGS = {
    "anchor": "seeds=[0]\ngammas=[0.8]\nprobe_rows=12\nn_null=2\nn_init=2\n" + _ANCHOR,
    "emb-mlp": "seeds=[0]\nn_null=2\n"
    + "".join(_table(name, "gammas=[0.3,0.8]\n") + _table(f"{name}.train", _TRAIN, more) for name, more in _SWEEPS)
    + "[scaling]\nd_models=[80,120]\ngammas=[0.3,0.8]\nlemma_d_models=[16,64]\nlemma_gammas=[0.3,0.8]\nn_init=2\n",
    "labels": "seeds=[0]\nprobe_rows=40\n"
    + _labels("keys", "")
    + _labels("near_sum", "")
    + _labels("ranges", "label_ranges=[[24,27],[24,31]]\n"),
    "language": "seeds=[0]\ngammas=[0.3,0.8]\nprobe_rows=2\nn_null=2\n"
    + _table("task", "sequences=12\nheld_out=4\nanswers=2\nhops=[1]\nd_vocab=300\nn_ctx=160\n")
    + _table("model", "d_model=16\nd_head=8\nd_mlp=32\n")
    + _table("train", _TRAIN, "batch_size=4\nlr=1e-2\n"),
    "crossed-seeds": "probe_rows=12\n" + _ANCHOR,
    "composite": "seeds=[0]\ngammas=[0.5,0.8]\n"
    + _table("task", "n_sequences=480\nevaluation_rows=40\n")
    + _table("model", _MODEL)
    + _table("train", _TRAIN, "batch_size=16\nlr=2e-2\n"),
    "composite-map": "seeds=[0]\ngammas=[0.5,0.8]\ncoarse_gammas=[0.5]\nblock_gammas=[0.5]\ndepths=[2]\nfactors=[1.0]\n"
    + "unseen_factors=[1.0]\ndecays=[0.1]\nheads=2\n"
    + _table("task", "n_sequences=480\nevaluation_rows=40\n")
    + _table("model", _MODEL)
    + _table("train", _TRAIN, "batch_size=16\nlr=2e-2\n"),
    "addition-and-scan": "seeds=[0]\nprobe_rows=20\n"
    + "".join(
        _table(f"{task}_{decay}.model", _MODEL) + _table(f"{task}_{decay}.train", _TRAIN, "batch_size=16\nlr=2e-2\n")
        for task in ("addition", "scan_small", "scan_middle", "scan_large")
        for decay in ("low", "high")
    ),
}
STEPS = {
    "anchor": (40, 5),
    "emb-mlp": (20, 5),
    "labels": (20, 5),
    "language": (8, 2),
    "crossed-seeds": (40, 5),
    "composite": (20, 5),
    "composite-map": (8, 4),
    "addition-and-scan": (8, 4),
}
"""Steps, and steps between evaluations."""
ALL_FIGURES = ("addition-and-scan", "composite", "composite-map")
"""Studies whose report shows figures in sections of its own."""
FEW = {"ROWS": 12, "PAIRS": 4, "DRAWS": 2, "MATCHED_DRAWS": 2}
STUDIES = tuple(SETTINGS)
Work = Callable[[], int]


def settings(study: str, save_every: float = 0.0, changed: str = "") -> str:
    """A study's tiny settings as TOML, saved at every evaluation by default. ``changed`` comes first."""
    steps, every = STEPS[study]
    text = SETTINGS[study].replace("{steps}", str(steps)).replace("{every}", str(every))
    return f'study="{study}"\npreset="smoke"\n{changed}' + text.replace("{save}", str(save_every))


def make_small() -> None:
    """Fewer interventions and one figure a study, in this process and those that it forks."""
    import scipy.stats  # noqa: F401 (a second that each child would need)

    import rb_interp.models.hooked  # noqa: F401 (three seconds)
    from rb_interp.studies.anchor import causes

    for name, few in FEW.items():
        setattr(causes, name, few)
    for study in entry_points(group="rb_interp.studies"):
        if study.name in STUDIES:
            module, value = import_module(study.module), study.load()
            few = None if study.name in ALL_FIGURES else 1
            setattr(module, study.attr, replace(value, figures=value.load("figures")[:few]))


def at(folder: Path, *works: Work) -> Work:
    """Works one after the other, with ``folder`` as the current one; the first that fails ends it."""

    def work() -> int:
        os.chdir(folder)
        return next((status for each in works if (status := each())), 0)

    return work


def making(study: str, toml: Path, word: str = "train") -> Work:
    """The command that makes a run, ``train`` or ``reproduce``, in the current folder."""
    return command(word, study, "--config", toml, "--out", RUN)


def add_seeds() -> int:
    """Add a seed to the run in the current folder, where it has none added, and train it."""
    from rb_interp.runs.run import Run

    try:
        run = Run.open(RUN)
        if len(run.batches) < 2:
            run.add_seeds(1)
        run.train()
    except KeyboardInterrupt as stopped:
        return 128 + getattr(stopped, "signal", signal.SIGINT)
    return 0


def contents(run: Path, without: str = "") -> dict[str, str]:
    """Every file of a run folder but one: its name, and what must be the same in every run of the same settings."""
    names = {str(path.relative_to(run)): path for path in sorted(run.rglob("*")) if path.is_file()}
    return {name: _content(path) for name, path in names.items() if name != without}


def _content(path: Path) -> str:
    """A digest; of files that say when and where they were made, that they are there."""
    data = path.read_bytes()
    if path.suffix == ".safetensors":
        length = 8 + int.from_bytes(data[:8], "little")
        header = json.dumps(json.loads(data[8:length]), sort_keys=True)  # its keys are in no fixed order
        data = header.encode() + data[length:]
    elif path.name == "report.json":
        data = json.dumps({**json.loads(data), "repeat": ""}).encode()
    elif path.name == "run.json":
        held = json.loads(data)
        data = json.dumps({name: held[name] for name in ("study", "fingerprint", "added_seeds")}).encode()
    elif path.name == "config.toml":
        data = re.sub(rb"save_every = .*", b"", data)
    elif path.suffix not in (".parquet", ".svg") and path.name not in JUDGED:
        return "there"
    return hashlib.sha256(data).hexdigest()


JUDGED = ("verdicts.json", "verdicts_within.json", "checks.json", "data.json")
UNDECIDED = (".lock", "timing.json")
"""Names of files that a run may have or not: a lock that nobody holds, and the times of a whole ``reproduce``."""


def difference(run: Path, reference: dict[str, str]) -> tuple[str, str]:
    """How a run folder differs from the reference: an end (``lost``, ``silent``, or nothing), and where."""
    found = contents(run)
    left, wanted = ({n: held[n] for n in held if Path(n).name not in UNDECIDED} for held in (found, reference))
    missing, more = sorted(wanted.keys() - left), sorted(left.keys() - wanted)
    changed = sorted(name for name in wanted.keys() & left.keys() if wanted[name] != left[name])
    if missing:
        return "lost", f"missing: {', '.join(missing[:4])}"
    if changed:
        return "silent", f"differs: {', '.join(changed[:4])}"
    return ("lost", f"left behind: {', '.join(more[:4])}") if more else ("", "")


def compared(folder: Path, reference: dict[str, str]) -> tuple[str, str]:
    """How the run in a folder differs from the reference, or from what its own manifest says."""
    end, detail = difference(folder / RUN, reference)
    if end:
        return end, detail
    told = forked(at(folder, _problems))
    return (told.failure or "silent", told.out[-300:] + told.err[-300:]) if told.out or told.status else ("", "")


def _problems() -> int:
    from rb_interp.runs.run import Run

    print(*Run.open(RUN).manifest.problems().values(), sep="\n", end="")
    return 0
