"""Valid arguments of what is asked of a run, its sweeps and its tables, and of hand-written models; whose methods."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

Valid = Callable[[SimpleNamespace], dict[str, Any]]


RUNS: dict[str, Valid] = {
    "Run.open": lambda p: {"folder": p.run.folder, "config": p.run.config, "study": p.run.study},
    "Run.sweep": lambda p: {"name": "adamw"},
    "Run.model": lambda p: {"gamma": 0.8, "seed": 1, "stage": "final", "sweep": "adamw"},
    "Run.figure": lambda p: {"name": "cosines"},
    "Run.table": lambda p: {"name": "readings"},
    "Run.probe_members": lambda p: {
        "probe": p.rb.probes.geometry, "stage": "final", "set": "rsn_train", "sweep": "one_layer", "rows": 5,
        "n_null": 2,
    },
    "Run.add_seeds": lambda p: {"n": 1},
    "Sweep.dataset": lambda p: {"seed": 0},
    "Sweep.checkpoint": lambda p: {"stage": "final", "gamma": 0.8, "seed": 1},
    "Sweep.weights": lambda p: {"gamma": 0.8, "seed": 1, "stage": "init"},
    "Sweep.model": lambda p: {"gamma": 0.8, "seed": 1, "stage": 0},
    "Sweep.stage_steps": lambda p: {"stage": "half"},
    "Sweep.reached": lambda p: {"stage": "half"},
    "Sweep.whole_checkpoint": lambda p: {"step": 0},
    "Run.timed": lambda p: {"steps": {}, "seconds": {"before": 1.0}},
    "over_seeds": lambda p: {"table": p.readings, "by": ["gamma", "stage"], "columns": ["value"]},
    "summary_table": lambda p: {"readings": p.run.readings},
}  # fmt: skip


def _weights(**more: Any) -> Valid:
    return lambda p: {"weights": dict(p.reference.weights), **more}


REFERENCE: dict[str, Valid] = {
    "reference": lambda p: {"name": "averager", "task": p.rb.AnchorTask(), "seed": 0, "label_seed": 1},
    "Reference.model": lambda p: {"dtype": torch.float32},
    "perturbed": lambda p: {"reference": p.reference, "seed": 0, "noise": 0.01},
    "add_noise": lambda p: {**_weights(level=0.01)(p), "rng": p.rng},
    "permute_heads_and_units": lambda p: {**_weights()(p), "rng": p.rng},
    "rescale_units": lambda p: {**_weights(most=2.0)(p), "rng": p.rng},
    "rescale_residual": _weights(factor=2.0, norm="none"),
    "rotate_residual": lambda p: {
        **_weights()(p), "Q": torch.from_numpy(np.linalg.qr(p.rng.standard_normal([p.reference.config.d_model] * 2))[0])
    },
}  # fmt: skip


def owner(p: SimpleNamespace, name: str) -> Any:
    """The object whose method is called; the run that is to get seeds is a copy."""
    if name == "Run.add_seeds":
        shutil.copytree(p.run.folder, p.files / "copy", dirs_exist_ok=True)
        return p.rb.Run.open(p.files / "copy")
    name = name.split(".")[0]
    return {
        "Null": p.rb.probes.Null("nothing", np.arange(5.0)), "Reading": p.reading, "Verdicts": p.verdicts,
        "Effect": p.effect, "Site": p.rb.interventions.Site("z", 0),
        "Condition": p.claim.conditions[0], "AnchorTask": p.task, "AnchorDataset": p.data, "Inputs": p.inputs,
        "Roles": p.inputs.roles, "Rows": p.text.train, "TextData": p.text, "TextTask": p.text_task,
        "Tokenizer": p.text.tokenizer, "Study": p.run.study, "Run": p.run, "Sweep": p.run.sweep("adamw"),
        "ModelConfig": p.config, "TextConfig": p.text.config, "TrainConfig": p.train, "Reference": p.reference,
    }[name]  # fmt: skip
