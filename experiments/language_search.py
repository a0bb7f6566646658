"""At which setting does a small model write chains within minutes, beside facts of the same form?

    python experiments/language_search.py NAME ...      names of SETTINGS; all by default

Each setting trains one member (gamma .6, seed 200, one core) and adds a line to
``results/language_search.csv``: CPU seconds of training, losses at the end (nats, held out, by kind
of target, see ``rb_interp.text.targets``), and shares of held-out examples by number of hops whose
whole chain is right, and of sentences that state a rule. Seeds from 200 on and this gamma decide no
claim.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from rb_interp import probes
from rb_interp.studies.language.config import MODELS
from rb_interp.text.task import TextTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members

ROWS = Path(__file__).parents[1] / "results/language_search.csv"
GAMMA, SEED = 0.6, 200
SETTINGS: dict[str, dict[str, Any]] = {
    "a1": {},
    "a2": {"layers": 2, "steps": 2000, "lr": 5e-3},
}
"""What differs from the arguments of `train_setting`."""


def train_setting(
    layers: int = 3,
    d_model: int = 64,
    n_heads: int = 4,
    steps: int = 1700,
    batch_size: int = 32,
    lr: float = 3e-3,
    lr_final: float = 1e-4,
    chain_weight: float = 10.0,
    query: Any = "class",
    hops: tuple[int, ...] = (1, 2, 3),
) -> dict[str, Any]:
    """One row of the table without its name."""
    setting = dict(locals())
    task = TextTask(
        query=query,
        hops=hops,
        stories="facts",
        facts=80,
        sequences=16_000,
        held_out=128,
        answers=300,
        tokenizer="words",
        n_ctx=116,
        layout="padded",
        chain_weight=chain_weight,
        curves=("template", "form", "rule", "stop", "fact"),
    )
    sizes = {"d_model": d_model, "d_head": d_model // n_heads, "d_mlp": 4 * d_model}
    model = replace(MODELS["quick"], n_layers=layers, n_heads=n_heads, **sizes)
    train = TrainConfig(
        steps=steps,
        batch_size=batch_size,
        lr=lr,
        lr_final=lr_final,
        warmup=50,
        eval_every=50,
        eval_rows=64,
        n_checkpoints=1,
        workers=1,
        device="cpu",
    )
    text = task.text(SEED)
    start = time.process_time()
    trained = train_members(task, [GAMMA], [SEED], config=model, train=train)
    row = {**setting, "hops": " ".join(map(str, hops)), "cpu_s": time.process_time() - start}
    curves = trained.curves.to_frame()
    for loss in curves.loc[curves["step"] == steps].to_dict("records"):
        row[f"loss_{loss['set']}"] = loss["loss"]
    examples = probes.chain_inputs(text.examples, text.tokenizer)
    member = trained.model(gamma=GAMMA, seed=SEED)
    skills = probes.chain_accuracy(member, examples, n_null=0).tables["skills"]
    for skill in skills.query("accuracy_of in ('chain', 'rule')").to_dict("records"):
        row[f"{skill['accuracy_of']}_{skill['hops']}"] = skill["accuracy"]
    return row


def main(names: list[str]) -> None:
    for name in names or SETTINGS:
        row = {"name": name, **train_setting(**SETTINGS[name])}
        known = pd.read_csv(ROWS).query("name != @name") if ROWS.is_file() else pd.DataFrame()
        pd.concat([known, pd.DataFrame([row])]).round(4).to_csv(ROWS, index=False)


if __name__ == "__main__":
    main(sys.argv[1:])
