"""The task, and the configuration of the study."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rb_interp.runs import StudyConfig, SweepConfig
from rb_interp.tasks import Dataset, Stage, fingerprint
from rb_interp.training import TrainConfig


@dataclass(frozen=True)
class ModularAddition:
    """Rows are ``a b =``, every pair once. The answer is a + b mod p, but for a share of
    exceptions."""

    p: int = 31
    exceptions: float = 0.1
    held_out: float = 0.2
    sets, train_sets, predicts, length = (
        ("exceptions", "rule", "held_out"),
        ("exceptions", "rule"),
        "last",
        3,
    )
    d_vocab, fingerprint = property(lambda self: self.p + 1), fingerprint
    stages = property(
        lambda self: {"knows_rule": Stage(lambda now, start: now[:, 1, 1] >= 0.5)}
    )  # accuracy on rule

    def dataset(self, seed: int) -> Dataset:
        rng, n = np.random.default_rng([seed, 1]), self.p**2
        a, b = np.divmod(np.arange(n), self.p)
        kind = np.digitize(
            rng.permutation(n) / n, [self.exceptions, 1 - self.held_out]
        )  # of a row: index into sets
        answers = (a + b + np.where(kind == 0, rng.integers(1, self.p, n), 0)) % self.p
        tokens, groups = np.stack([a, b, np.full(n, self.p)], 1), {"number": np.arange(self.p)}
        roles = {role: np.full((n, 1), at) for at, role in enumerate(("first", "second", "equals"))}
        return Dataset(seed, tokens, answers, kind, self.sets, self.train_sets, roles, groups)


class Config(SweepConfig, StudyConfig):
    PRESETS: ClassVar[dict] = {
        "smoke": {"seeds": (0, 1), "task": {"p": 11}, "train": {"steps": 60, "lr": 1e-2}},
        "quick": {},
    }
    task: ModularAddition = field(default_factory=ModularAddition)
    train: TrainConfig = TrainConfig(
        steps=3000, stages=("knows_rule",), weight_decay=0.5, n_checkpoints=4
    )
