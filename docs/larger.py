"""A study in one file: does the last position look at the first of two numbers, where the larger is
the answer?"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rb_interp.claims import Claim, Condition, Term
from rb_interp.figures import kit
from rb_interp.probes import attention
from rb_interp.runs import Study, StudyConfig, StudyResult, SweepConfig
from rb_interp.tasks import Dataset, fingerprint
from rb_interp.training import TrainConfig


@dataclass(frozen=True)
class Larger:
    """Rows are ``a b =``, every pair of 0 to 9 once; the answer is the larger number."""

    d_vocab: ClassVar = 11
    length: ClassVar = 3
    sets: ClassVar = ("seen", "unseen")
    train_sets: ClassVar = ("seen",)
    predicts: ClassVar = "last"  # the answer is read at the last position
    stages: ClassVar = {}
    fingerprint = fingerprint  # how a run knows that its task is still the same

    def dataset(self, seed):
        a, b = np.divmod(np.arange(100), 10)
        unseen = np.random.default_rng(seed).permutation(100) < 20
        roles = {"first": np.zeros(100, int), "second": np.ones(100, int)}
        tokens = np.stack([a, b, np.full(100, 10)], 1)
        number_of_set = unseen.astype(int)
        labels = np.maximum(a, b)
        return Dataset(seed, tokens, labels, number_of_set, self.sets, self.train_sets, roles)


class Config(SweepConfig, StudyConfig):
    PRESETS: ClassVar = {"quick": {}, "smoke": {"seeds": (0, 1), "train": {"steps": 60}}}
    task: Larger = field(default_factory=Larger)
    train: TrainConfig = TrainConfig(steps=500, lr=1e-2)


def measure(run, progress):
    return StudyResult(
        run.probe_members(attention, set="unseen", query="last", to=["first", "second"])
    )


def draw(evidence):
    figure, [[axes]] = kit.panels(1, 1, 2.6)
    kit.rates(axes, evidence, kit.Series(TO_FIRST), untrained=True)
    axes.set_ylabel("attention of the last position to the first")
    return figure


TO_FIRST = Term("attention", "last_to_first", 0.8, "final", "unseen")
LOOKS = Condition(TO_FIRST, ">=", 0.4)  # evenly it is 1/3
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
    figures={"first": draw},
    quantities={"attention": "last_to_first last_to_second"},
)
