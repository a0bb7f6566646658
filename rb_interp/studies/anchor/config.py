"""The anchor study as a configuration: one sweep over gamma on an anchor task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

from rb_interp.errors import ConfigError
from rb_interp.runs.config import StudyConfig, SweepConfig, sizes
from rb_interp.settings import SMALL, Draws, ReadRows, Size
from rb_interp.tasks import AnchorTask
from rb_interp.tasks.anchor import RATES, check_both_kinds
from rb_interp.training.config import TrainConfig

if TYPE_CHECKING:
    from rb_interp.claims.claim import Claim

FIXED = "fixed_average"
"""The sweep of claim M10b."""
STOPPED_EARLY = "paper-200k"
"""The preset of the paper's sizes with a tenth of its steps; it has no members with L0 fixed."""
FASTER = "paper-lr1e-4"
"""The preset of the paper's sizes with ten times its learning rate."""


class AnchorConfig(SweepConfig, StudyConfig):
    """A sweep over gamma on an anchor task.

    Raises ConfigError for sizes that the study cannot read.

    >>> AnchorConfig.from_preset("smoke", seeds=(0,)).train.steps
    300
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {**sizes(AnchorTask, "smoke"), "seeds": (0, 1)},
        "quick": {**sizes(AnchorTask, "quick"), "rates": RATES["quick"]},
        "paper": sizes(AnchorTask, "paper"),
        STOPPED_EARLY: {
            **sizes(AnchorTask, "paper"),
            "train": {
                **TrainConfig.PRESETS["paper"],
                "steps": 200_000,
                "eval_every": 250,
                "stages": ("half", "leaving"),
            },
        },
        FASTER: {
            **sizes(AnchorTask, "paper"),
            "seeds": tuple(range(18, 26)),
            "train": {
                **TrainConfig.PRESETS["paper"],
                "steps": 80_000,
                "lr": 1e-4,
                "eval_every": 50,
                "stages": ("half", "leaving", "informed"),
            },
        },
    }
    LATER: ClassVar[tuple] = ("l0_fixed",)
    sibling_stages: ClassVar[Mapping[str, tuple[str, float]]] = {"matched": ("half", SMALL)}

    task: AnchorTask = field(default_factory=AnchorTask)
    train: TrainConfig = field(default_factory=lambda: TrainConfig(stages=("half",)))
    probe_rows: ReadRows = 1000
    """Inputs of each set that probes see, at most."""
    n_null: Draws = 200
    """Draws of each null distribution."""
    n_init: Size = 200
    """Fresh initialisations for Lemma 1."""
    l0_fixed: bool = True
    """Whether members of small initialisation train with L0 fixed at 1/i, too; at ``paper-200k``
    never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_both_kinds(self.task)
        if self.model.architecture != "transformer":
            raise ConfigError(
                f"architecture='{self.model.architecture}'; the anchor study reads attention in "
                f"two layers. Use the study 'emb-mlp' for the simplified models; train_members "
                f"trains them alone too."
            )
        if self.model.n_layers < 2:
            raise ConfigError(
                f"n_layers={self.model.n_layers}; a study asks what L1 does, so give 2 or more. "
                f"train_members trains models of one layer too."
            )
        if "half" not in self.train.stages:
            raise ConfigError(
                f"train.stages={self.train.stages} lacks 'half', which study 'anchor' measures; "
                f"add it."
            )

    def adapt_claim(self, claim: Claim) -> Claim:
        """The claim as it is judged in this preset."""
        return stopped_early(claim) if self.preset in (STOPPED_EARLY, FASTER) else claim

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """The main sweep, and members of small initialisation whose L0 attends 1/i throughout."""
        alone = 0 in self.model.uniform_layers or not self.l0_fixed
        if alone or SMALL not in self.gammas or self.preset == STOPPED_EARLY:
            return {"": self}
        model = replace(self.model, uniform_layers=(0,))
        stop_at = self.train.stop_at
        train = replace(self.train, stages=(stop_at,) if stop_at else (), n_checkpoints=0)
        return {
            "": self,
            FIXED: SweepConfig((SMALL,), self.task, model, train, self.rates, self.data_seed),
        }


def stopped_early(claim: Claim) -> Claim:
    """The claim for training that ends long before the paper's.

    What it says of the end is judged at the last step that there is. At least half of the seeds
    must have learned the reasoning mapping, at the gamma that the claim reads at the end first.
    Areas and the bias index are over the steps that there are, and equal loss comes before the end.
    """
    from rb_interp.claims.claim import reasoning_learned  # loads scipy, and --help does not

    final = [term for term in claim.terms if term.stage == "final" and term.probe != "equal_loss"]
    final = [term for term in final if not term.quantity.startswith(("area", "bias", "abs_bias"))]
    if not final:
        return claim
    learned = claim.learned or reasoning_learned(final[0].gamma or SMALL)
    return replace(claim, learned=learned, stopped_early=True)
