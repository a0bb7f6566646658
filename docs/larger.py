"""A study in one file: does the last position look at the first of two numbers, where the larger is the answer?"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from rb_interp.claims import Claim, Condition, Term
from rb_interp.probes import attention
from rb_interp.runs import StudyConfig, SweepConfig
from rb_interp.runs.members import measure_members
from rb_interp.runs.protocol import Study
from rb_interp.tasks import Dataset, fingerprint
from rb_interp.training import TrainConfig


@dataclass(frozen=True)
class Larger:
    """Rows are ``a b =``, every pair once; the answer is the larger number."""

    p: int = 10
    sets, train_sets, predicts, length, stages = ("seen", "unseen"), ("seen",), "last", 3, {}
    d_vocab, fingerprint = property(lambda self: self.p + 1), fingerprint

    def dataset(self, seed: int) -> Dataset:
        a, b = np.divmod(np.arange(self.p**2), self.p)
        kind = (np.random.default_rng(seed).permutation(self.p**2) < 20).astype(int)  # of a row: index into sets
        roles = {role: np.full((len(a), 1), at) for at, role in enumerate(("first", "second"))}
        tokens = np.stack([a, b, np.full_like(a, self.p)], 1)
        return Dataset(seed, tokens, np.maximum(a, b), kind, self.sets, self.train_sets, roles, {})


class Config(SweepConfig, StudyConfig):
    PRESETS: ClassVar = {"quick": {}, "smoke": {"seeds": (0, 1), "train": {"steps": 60}}}
    task: Larger = field(default_factory=Larger)
    train: TrainConfig = TrainConfig(steps=500, lr=1e-2)


def plan(models, member):
    models.load(member, "final")
    data = models.sweep.dataset(member.seed)
    rows = data.inputs(data.rows("unseen"))
    yield (
        "final",
        "unseen",
        attention(models.model, rows, query="last", to=["first", "second"], untrained=models.untrained),
    )


def measure(run, progress=True):
    return measure_members(run, plan, progress=progress)


LOOKS = Condition(Term("attention", "last_to_first", 0.8, "final", "unseen"), ">=", 0.3)
CLAIMS = (Claim("C1", "With small weights the last position looks at the first number.", "this page", (LOOKS,)),)
STUDY = Study(
    name="larger",
    title="The larger of two numbers",
    question="Does the last position look at the first number?",
    cost={"quick": "a minute"},
    config=f"{__name__}:Config",
    measure=f"{__name__}:measure",
    claims=f"{__name__}:CLAIMS",
)
