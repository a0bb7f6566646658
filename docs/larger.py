"""A study in one file: does the last position look at the first of two numbers, where the larger is
the answer?"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rb_interp.claims import Claim, Condition, Term
from rb_interp.probes import attention
from rb_interp.runs import Study, StudyConfig, StudyResult, SweepConfig
from rb_interp.tasks import Dataset, fingerprint
from rb_interp.training import TrainConfig


@dataclass(frozen=True)
class Larger:
    """Rows are ``a b =``, every pair of 0 to 9 once; the answer is the larger number."""

    d_vocab, length, sets, train_sets, predicts, stages = (
        11,
        3,
        ("seen", "unseen"),
        ("seen",),
        "last",
        {},
    )
    fingerprint = fingerprint

    def dataset(self, seed):
        a, b = np.divmod(np.arange(100), 10)
        unseen = (
            np.random.default_rng(seed).permutation(100) < 20
        )  # of a row: the number of its set
        roles = {"first": np.zeros(100, int), "second": np.ones(100, int)}
        tokens = np.stack([a, b, np.full(100, 10)], 1)
        return Dataset(
            seed, tokens, np.maximum(a, b), unseen.astype(int), self.sets, self.train_sets, roles
        )


class Config(SweepConfig, StudyConfig):
    PRESETS: ClassVar = {"quick": {}, "smoke": {"seeds": (0, 1), "train": {"steps": 60}}}
    task: Larger = field(default_factory=Larger)
    train: TrainConfig = TrainConfig(steps=500, lr=1e-2)


def measure(run, progress):
    return StudyResult(
        run.probe_members(attention, set="unseen", query="last", to=["first", "second"])
    )


LOOKS = Condition(
    Term("attention", "last_to_first", 0.8, "final", "unseen"), ">=", 0.4
)  # evenly it is 1/3
CLAIMS = (
    Claim(
        "C1",
        "With small weights the last position looks at the first number.",
        "this page",
        (LOOKS,),
    ),
)
STUDY = Study(
    "larger",
    "The larger of two numbers",
    "Does it look at the first?",
    {"quick": "a minute"},
    Config,
    measure,
    claims=CLAIMS,
    quantities={"attention": "last_to_first last_to_second"},
)
