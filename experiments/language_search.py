"""At which setting does a small model write chains within minutes, beside facts of the same form?

    python experiments/language_search.py [SETTING ...] [SEED ...]      all, and 200 to 203 by default

Each setting trains one member of each seed (gamma .6, one core) and adds a line to
``results/language_search.csv``, whose other lines are of texts before rules were stated twice: CPU
seconds of training, losses at the end (nats, held out, by kind of target, see
``rb_interp.text.targets``), and shares of held-out examples by number of hops whose whole chain is
right, and of sentences that state a rule. Those losses at each thousandth step are added to
``results/language_search_curves.csv``. Seeds from 200 on and this gamma decide no claim.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from rb_interp import probes
from rb_interp.studies.language.config import LanguageConfig
from rb_interp.text.classes import CLASSES
from rb_interp.training.members import train_members

ROWS = Path(__file__).parents[1] / "results/language_search.csv"
CURVES = ROWS.with_name("language_search_curves.csv")
GAMMA = 0.6
SETTINGS: dict[str, dict[str, Any]] = {
    "class": {},
    "weight_3": {"chain_weight": 3.0},
    "weight_30": {"chain_weight": 30.0},
    "rate_1e-3": {"lr": 1e-3, "lr_final": 5e-4},
    "rate_4e-3": {"lr": 4e-3, "lr_final": 2e-3},
    "steps": {"query": "steps"},
    "property": {  # as in PrOntoQA, whose prompts are longer; an hour
        "query": "property",
        "hops": (1, 2),
        "n_ctx": 104,
        "sequences": 65_536,
        "steps": 30_000,
        "curves": ("template", "form", "rule", "answer", "fact"),
    },
}
SETTINGS["property_3_layers"] = SETTINGS["property"] | {
    "n_layers": 3,
    "d_mlp": 256,
    "steps": 40_000,
}
SETTINGS["property_postorder"] = SETTINGS["property_3_layers"] | {"ordering": "postorder"}
SETTINGS["property_2_steps"] = SETTINGS["property_3_layers"] | {"hops": (2,), "steps": 30_000}
SETTINGS["property_2_steps_short"] = SETTINGS["property_2_steps"] | {"steps": 15_000}
_OBJECT = SETTINGS["property_3_layers"] | {
    "curves": ("template", "form", "rule", "object", "answer", "fact"),
    "steps": 25_000,
}
SETTINGS["property_words"] = _OBJECT | {"tokenizer": "words", "n_ctx": 208}
SETTINGS["property_5_hops"] = _OBJECT | {"hops": (1, 2, 3, 4, 5), "n_ctx": 144}
SETTINGS["property_5_hops_long"] = SETTINGS["property_5_hops"] | {
    "steps": 50_000,
    "n_ctx": 128,
    "sequences": 131_072,
    "lr_final": 2e-4,
}
"""What differs from the preset ``quick``: names of its settings of text, model and training."""


def train_setting(changes: dict[str, Any], seed: int) -> tuple[dict[str, Any], pd.DataFrame]:
    """One row of the table without its name, and its curves."""
    config = LanguageConfig.from_preset("quick")
    parts = [config.task, config.model, config.train]
    for number, part in enumerate(parts):
        own = {name: changes[name] for name in changes if hasattr(part, name)}
        parts[number] = replace(part, **own)
    task, model, train = parts
    train = replace(train, stages=(), n_checkpoints=1, workers=1, eval_every=50, device="cpu")
    text = task.text(seed)
    start = time.process_time()
    trained = train_members(task, [GAMMA], [seed], config=model, train=train)
    row = {"cpu_s": time.process_time() - start, "n_classes": len(CLASSES)}
    row |= {"layers": model.n_layers, "n_heads": model.n_heads, "d_head": model.d_head}
    row |= {"d_model": model.d_model, "d_mlp": model.d_mlp, "steps": train.steps}
    row |= {"batch_size": train.batch_size, "lr": train.lr, "lr_final": train.lr_final}
    row |= {"query": task.query, "chain_weight": task.chain_weight}
    curves = trained.curves.to_frame()
    for loss in curves.loc[curves["step"] == train.steps].to_dict("records"):
        row[f"loss_{loss['set']}"] = loss["loss"]
        if loss["set"] == "object":
            row["accuracy_object"] = loss["accuracy"]
    examples = probes.chain_inputs(text.examples, text.tokenizer)
    member = trained.model(gamma=GAMMA, seed=seed)
    skills = probes.chain_accuracy(member, examples, n_null=0).tables["skills"]
    for skill in skills.query("accuracy_of in ('chain', 'rule', 'answer')").to_dict("records"):
        row[f"{skill['accuracy_of']}_{skill['hops']}"] = skill["accuracy"]
    return row, curves.query("step % 1000 == 0")[["set", "step", "loss"]]


def main(words: list[str]) -> None:
    names = [word for word in words if word in SETTINGS] or [*SETTINGS]
    seeds = [int(word) for word in words if word not in SETTINGS] or [200, 201, 202, 203]
    for seed, name in product(seeds, names):
        row, curves = train_setting(SETTINGS[name], seed)
        for path, table in ((ROWS, pd.DataFrame([row])), (CURVES, curves)):
            table = table.assign(name=name, seed=seed)
            if path.exists():
                known = pd.read_csv(path).query("name != @name or seed != @seed")
                table = pd.concat([known, table])
            table.round(4).to_csv(path, index=False)


if __name__ == "__main__":
    main(sys.argv[1:])
