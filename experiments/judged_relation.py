"""Does a small initialisation with a large weight decay judge relations better (paper 2, Fig. 7)?

    python experiments/judged_relation.py small [SEED ...]      a CPU
    python experiments/judged_relation.py paper [SEED ...]      GPT-2 small blocks; a GPU

Trains on PrOntoQA without its chain of thought: rules, a premise, "True or false: Max is not hot."
and the answer. Training predicts every token. What is read is the answer alone, in held-out trees
whose names are drawn afresh; a guess is right in half of them. There are two numbers of rows, gammas
.5 and .7, and weight decays .01 and .1, which paper 2 changes together. Its text, sizes, rates and
steps are not known; these are our own.

The members that P3 compares are trained first. ``results/judged_relation_PRESET.csv`` grows by those
of one cell at a time, and what stands there is not trained again. ``judged_relation_PRESET_verdicts.csv``
judges P3, whose criterion was written down before any run.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
import pandas as pd
from pydantic import Field

from rb_interp.claims import Claim, Condition, Term, judge
from rb_interp.runs import readings_table
from rb_interp.statistics.reading import Reading
from rb_interp.studies.language.config import MODELS
from rb_interp.studies.language.config import TRAINING as LANGUAGE
from rb_interp.tasks import Dataset
from rb_interp.tasks.dataset import TaskSettings
from rb_interp.text import word_tokenizer
from rb_interp.text.documents import Documents
from rb_interp.text.settings import TextSettings
from rb_interp.text.tokens import padded, stream
from rb_interp.training.members import train_members

RESULTS = Path(__file__).parents[1] / "results"
CELLS = ((0.7, 0.1), (0.5, 0.01))
"""Gamma and weight decay of the two members that P3 compares."""
SETS = ("train", "seen", "test")


class JudgedRelation(TaskSettings):
    """PrOntoQA's prompts with their answers.

    Rows of ``train`` predict every token. Those of ``seen``, which are rows of it, and of ``test``
    predict the answer alone. The rows of a smaller ``n_sequences`` are among those of a larger one.

    >>> data = JudgedRelation(n_sequences=40, n_test=20).dataset(seed=0)
    >>> {name: len(data.rows(name)) for name in data.sets}
    {'train': 40, 'seen': 20, 'test': 20}
    """

    predicts: ClassVar = "next"
    stages: ClassVar[dict] = {}
    sets: ClassVar = SETS
    train_sets: ClassVar = SETS[:1]
    d_vocab: ClassVar = 100

    n_sequences: Annotated[int, Field(ge=1, le=1_000_000)] = 4000
    n_test: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """Rows of ``test``, and of ``seen`` at most."""
    hops: tuple[int, ...] = (1, 2, 3)
    """Numbers of rules that a proof may use."""
    length: int = 128
    """Tokens that a model sees of a row."""

    def dataset(self, seed: int) -> Dataset:
        """The rows of a seed."""
        documents = Documents(TextSettings(hops=self.hops), "prontoqa", seed)
        examples = documents.take(0, self.n_test + self.n_sequences)
        texts = [f"{example.prompt} {example.answer}" for example in examples]
        tokenizer = word_tokenizer(texts, self.d_vocab)
        rows = padded(stream(texts, tokenizer), self.length, 0, len(texts), tokenizer.end)
        labels = np.where(rows.targets, rows.tokens[:, 1:], -1)
        answer = np.arange(self.length) == rows.lengths[:, None] - 3  # then the document ends
        number = np.arange(len(texts))
        seen = number[self.n_test :][: self.n_test]
        order = np.concatenate([number[self.n_test :], seen, number[: self.n_test]])
        sizes = (self.n_sequences, len(seen), self.n_test)
        set = np.repeat(np.arange(len(SETS)), sizes)
        labels = np.where((set == 0)[:, None] | answer[order], labels[order], -1)
        tokens = rows.tokens[order, :-1].astype(np.int64)
        return Dataset(seed, tokens, labels.astype(np.int64), set, SETS, SETS[:1])


TASKS = {
    "smoke": JudgedRelation(n_sequences=40, n_test=20, hops=(1,)),
    "small": JudgedRelation(hops=(1,)),
    "paper": JudgedRelation(),
}
MODEL = {name: MODELS[name] for name in ("smoke", "paper")}
MODEL["small"] = replace(MODELS["quick"], n_layers=3)
_SMALL = replace(
    LANGUAGE["quick"],
    **{"batch_size": 32, "lr_final": 1e-4, "warmup": 100, "eval_rows": 1000},
    **{"n_checkpoints": 0, "keep_at": (), "stages": ()},
)
TRAINING = {
    "smoke": replace(_SMALL, steps=4, batch_size=8, warmup=1, eval_every=2),
    "small": _SMALL,
    "paper": replace(_SMALL, lr=2e-4, lr_final=1e-5, warmup=200, dtype="bfloat16"),
}


def sizes(preset: str) -> tuple[int, int]:
    """The two numbers of rows."""
    n = TASKS[preset].n_sequences
    return n, 4 * n


def claim(preset: str) -> Claim:
    """P3 at the two numbers of rows of a preset."""

    def right(n: int, gamma: float, weight_decay: float) -> Term:
        label = f"answers right after {n:,} rows, weight decay {weight_decay:g}"
        return Term("judged", f"{n}:{weight_decay:g}", gamma, "final", "test", label=label)

    better, worse = CELLS
    conditions = [Condition(right(n, *better), ">", 0.0, right(n, *worse)) for n in sizes(preset)]
    statement = (
        "With small initialisation and large weight decay, relations are judged better than with "
        "large initialisation and small weight decay, at each of two numbers of rows."
    )
    return Claim("P3", statement, "paper 2, Fig. 7", tuple(conditions))


def train_cell(preset: str, n: int, cell: tuple[float, float], seeds: list[int]) -> pd.DataFrame:
    """The members of some seeds, a row each: loss on all tokens, and shares of right answers."""
    gamma, weight_decay = cell
    train = replace(TRAINING[preset], weight_decay=weight_decay)
    task = replace(TASKS[preset], n_sequences=n)
    trained = train_members(task, [gamma], seeds, config=MODEL[preset], train=train)
    curves = trained.curves.to_frame().query("step == @train.steps").set_index(["seed", "set"])
    curves = curves[["loss", "accuracy"]].unstack("set")
    place = {"n_sequences": n, "weight_decay": weight_decay, "gamma": gamma, "seed": curves.index}
    found = {
        "loss": curves["loss", "train"].to_numpy(),
        "seen": curves["accuracy", "seen"].to_numpy(),
        "test": curves["accuracy", "test"].to_numpy(),
    }
    return pd.DataFrame({**place, **found}).round(4)


def verdict(preset: str, members: pd.DataFrame) -> pd.DataFrame:
    """P3, judged on all members."""
    rows = []
    for n, decay, gamma, seed, _, _, right in members.itertuples(index=False):
        reading = Reading("judged", {f"{n}:{decay:g}": right})
        rows += reading.rows(gamma=gamma, seed=seed, stage="final", step=-1, set="test")
    lost = members[members["loss"].isna()].set_index(["gamma", "weight_decay", "seed"]).index
    diverged = [("", gamma, seed) for gamma, decay, seed in lost if (gamma, decay) in CELLS]
    return judge(readings_table(rows), (claim(preset),), diverged=diverged).to_frame()


def main(preset: str, *words: str) -> None:
    seeds = [int(word) for word in words] or list(range(8))
    path = RESULTS / f"judged_relation_{preset}.csv"
    members = pd.read_csv(path) if path.is_file() else pd.DataFrame()
    (small, high), (large, low) = CELLS
    for cell, n in product((*CELLS, (small, low), (large, high)), sizes(preset)):
        known: list[int] = []
        if len(members):
            cells = members.set_index(["gamma", "weight_decay", "n_sequences"])["seed"]
            known = cells[cells.index == (*cell, n)].to_list()
        missing = [seed for seed in seeds if seed not in known]
        if missing:
            members = pd.concat([members, train_cell(preset, n, cell, missing)])
            members.to_csv(path, index=False)
    verdict(preset, members).to_csv(path.with_stem(f"{path.stem}_verdicts"), index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
