"""Learning curves of members: what every evaluation found, as tables, and as a saved state holds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rb_interp.training.member_group import Member
from rb_interp.training.store import Checkpoint

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SPECTRA = "curves/spectra/"
"""What the names of the spectra of ``training.tracking`` begin with in the state."""


@dataclass(eq=False)
class Curves:
    """What every evaluation found.

    Attributes:
        members, sets: in the order of the arrays, sets as in the task.
        evaluations: pairs of step and array ``[member, set, (loss, accuracy)]``, loss in nats.
        spectra: group of tokens -> an array ``[member, rank]`` for each evaluation, see ``training.tracking``.
    """

    members: tuple[Member, ...]
    sets: tuple[str, ...]
    evaluations: list[tuple[int, np.ndarray]] = field(default_factory=list)
    spectra: dict[str, list[np.ndarray]] = field(default_factory=dict)

    @property
    def steps(self) -> list[int]:
        """Steps that were evaluated, ascending."""
        return [step for step, _ in self.evaluations]

    def to_frame(self) -> pd.DataFrame:
        """Long table: gamma, seed, step, set, loss, accuracy."""
        import pandas as pd

        n_steps, n_members = len(self.evaluations), len(self.members)
        stacked = np.stack([values for _, values in self.evaluations]).reshape(-1, 2)
        per_step = n_members * len(self.sets)
        return pd.DataFrame(
            {
                "gamma": np.tile(np.repeat([m.gamma for m in self.members], len(self.sets)), n_steps),
                "seed": np.tile(np.repeat([m.seed for m in self.members], len(self.sets)), n_steps),
                "step": np.repeat(self.steps, per_step),
                "set": np.tile(self.sets, n_steps * n_members),
                "loss": stacked[:, 0],
                "accuracy": stacked[:, 1],
            }
        )

    def plot(self, ax: Axes | None = None, *, quantity: str = "loss") -> Axes:
        """``loss`` (nats) or ``accuracy`` of each member over steps, with means over seeds; see `learning_curves`."""
        from rb_interp.plots import learning_curves

        return learning_curves(self.to_frame(), quantity, ax)

    def of_nan(self, members: tuple[Member, ...]) -> Curves:
        """Curves of members of whom nothing is known, at the same steps; NaN throughout."""

        def unknown(values: np.ndarray) -> np.ndarray:
            return np.full((len(members), *values.shape[1:]), np.nan)

        evaluations = [(step, unknown(values)) for step, values in self.evaluations]
        spectra = {name: [unknown(values) for values in found] for name, found in self.spectra.items()}
        return Curves(members, self.sets, evaluations, spectra)

    def spectra_table(self) -> pd.DataFrame:
        """Long table: group, step, gamma, seed, rank (1: the largest), eigenvalue."""
        import pandas as pd

        columns = ("group", "step", "gamma", "seed", "rank", "eigenvalue")
        rows = [
            (group, step, member.gamma, member.seed, rank, float(value))
            for group, evaluations in sorted(self.spectra.items())
            for step, values in zip(self.steps, evaluations, strict=True)
            for member, own in zip(self.members, values, strict=True)
            for rank, value in enumerate(own, 1)
        ]
        return pd.DataFrame(rows, columns=list(columns))


def saved_curves(state: Checkpoint, members: tuple[Member, ...], sets: tuple[str, ...]) -> Curves:
    """Learning curves in a saved state."""
    steps, values = state.tensors["curves/steps"].tolist(), state.tensors["curves/values"].numpy()
    kept = {name: state.tensors[name].numpy() for name in state.tensors if name.startswith(SPECTRA)}
    spectra = {name.removeprefix(SPECTRA): list(found) for name, found in kept.items()}
    return Curves(members, sets, list(zip(steps, values, strict=True)), spectra)


def joined(parts: Sequence[Curves]) -> Curves:
    """Curves of members that were evaluated at the same steps, one after another."""
    members = tuple(member for part in parts for member in part.members)
    values = [np.concatenate([part.evaluations[i][1] for part in parts]) for i in range(len(parts[0].steps))]
    spectra = {
        name: [np.concatenate(found) for found in zip(*(part.spectra[name] for part in parts), strict=True)]
        for name in parts[0].spectra
    }
    return Curves(members, parts[0].sets, list(zip(parts[0].steps, values, strict=True)), spectra)
