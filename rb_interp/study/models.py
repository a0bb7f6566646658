"""The members of a run as models, one after another in the same memory."""

from __future__ import annotations

from rb_interp.errors import RunError
from rb_interp.models.build import exported, lens_model
from rb_interp.models.lens import write_weights
from rb_interp.study.run import Run
from rb_interp.training.member_group import Member
from rb_interp.training.store import Checkpoint


class MemberModels:
    """Two models, written anew for each member and stage: building one costs more than probing it.

    Attributes:
        model: the member that was loaded last. twin: the same member at step 0.
    """

    def __init__(self, run: Run) -> None:
        self.run, first = run, run.members[0]
        weights = run.weights(first.gamma, first.seed, "init")
        self.model, self.twin = (lens_model(run.config.model, *run.sizes, weights) for _ in range(2))

    def load(self, member: Member, stage: str | int) -> Checkpoint:
        """Write a member at a stage into ``model``, and its untrained twin into ``twin``."""
        checkpoint = self.run.checkpoint(stage, member.gamma, member.seed)
        weights = checkpoint.member(member.gamma, member.seed)
        if not all(weight.isfinite().all() for weight in weights.values()):
            raise RunError(
                f"the member with gamma={member.gamma:g}, seed={member.seed} diverged: its weights at step "
                f"{checkpoint.step} are not finite. Train it with a lower --lr."
            )
        config = self.run.config.model
        write_weights(self.twin, exported(self.run.weights(member.gamma, member.seed, "init"), config))
        write_weights(self.model, exported(weights, config))
        return checkpoint
