"""The way of members from the first step to the last: progress, evaluation, checkpoints, and
continuing after a stop.

It knows groups of members (``training.member_group``), not what they are trained on.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from rb_interp.errors import ArgumentError, ConfigError, nearest
from rb_interp.tasks.dataset import Task
from rb_interp.training.config import TrainConfig, checkpoint_steps, evaluation_steps
from rb_interp.training.member_group import Member, MemberGroup
from rb_interp.training.store import (
    CURVES,
    SPECTRA,
    Checkpoint,
    CheckpointStore,
    Curves,
    saved_curves,
    stage_name,
    step_name,
)


@dataclass(eq=False)
class Trained:
    """What training leaves in memory: ``curves``, and ``final``, the weights of all members at the
    last step."""

    curves: Curves
    final: Checkpoint


class Training:
    """Groups of members on their way from the first step, or the last saved one, to the last.

    Args:
        shares: the groups of each worker, members in order. task, train: what they learn, and how.
        parts: members in their order, and where the checkpoints of these go. None keeps nothing of
            them; where training goes on from a saved step they take part from there with the
            weights that they were drawn with.
    """

    def __init__(
        self,
        shares: Sequence[Sequence[MemberGroup]],
        task: Task,
        train: TrainConfig,
        parts: Sequence[tuple[Sequence[Member], CheckpointStore | None]],
    ) -> None:
        self.shares, self.train = shares, train
        sizes = slices(len(own) for own, _ in parts)
        self.parts = [tuple(own) for own, _ in parts]
        places = zip(self.parts, sizes, (store for _, store in parts), strict=True)
        self.stored = [(own, at, store) for own, at, store in places if store is not None]
        self.trained_on = [task.sets.index(name) for name in task.train_sets]
        known = task.stages or {}
        if unknown := [name for name in train.stages if name not in known]:
            raise ConfigError(f"the task has no stage '{unknown[0]}'; {nearest(unknown[0], known)}")
        self.stages = {name: known[name] for name in train.stages}
        self.groups = [group for share in self.shares for group in share]
        self.members = tuple(member for group in self.groups for member in group.members)
        self.curves = Curves(self.members, task.sets)
        self.reached: dict[str, dict[Member, int]] = {stage: {} for stage in self.stages}
        self.step, self.target, self.saved = 0, 0, (-1, 0)

    def run(self, progress: bool) -> Trained:
        """Train to the last step; KeyboardInterrupt is raised again once all stand at one step and
        that is saved."""
        self._resume()
        bar = tqdm(
            total=self.train.steps,
            initial=self.step,
            disable=not progress,
            unit="step",
            mininterval=1.0,
            desc=f"training {len(self.members)} members",
        )
        saved = time.monotonic()
        with bar, workers(self.shares) as pool:
            try:
                for mark in sorted({*evaluation_steps(self.train)} - {*self.curves.steps}):
                    while self.step < mark:
                        self.target = min(mark, self.step + 25)
                        bring_to(pool, self.shares, self.target)
                        bar.update(self.target - self.step)
                        self.step = self.target
                    losses = self._evaluate(pool)[:, self.trained_on, 0]
                    bar.set_postfix_str(
                        f"training loss {np.nanmean(losses):.3g} nats", refresh=False
                    )
                    self._keep_what_is_due()
                    if time.monotonic() - saved > self.train.save_every:
                        self._save()
                        saved = time.monotonic()
                if self.saved != (self.step, len(self.curves.evaluations)):
                    self._save()
            except KeyboardInterrupt:
                self._save_interrupted(pool)
                raise
        return Trained(
            self.curves, Checkpoint(self.step, _keys(self.members), self._state(moments=False))
        )

    def _evaluate(self, pool: ThreadPoolExecutor) -> np.ndarray:
        parts = list(
            pool.map(
                lambda share: [(group.evaluate(), group.spectra()) for group in share], self.shares
            )
        )
        found = [part for share in parts for part in share]
        values = np.concatenate([part for part, _ in found])
        for name in found[0][1]:
            self.curves.spectra.setdefault(name, []).append(
                np.concatenate([part[name] for _, part in found])
            )
        self.curves.evaluations.append((self.step, values))
        return values

    def _keep_what_is_due(self) -> None:
        """Checkpoints of the evaluation just made; doing it twice does no harm."""
        step, values = self.curves.evaluations[-1]
        last, first, due, reached_now = (
            step == self.train.steps,
            self.curves.evaluations[0][1],
            [],
            [],
        )
        for name, stage in self.stages.items():
            reached = self.reached[name]
            for member, now in zip(self.members, stage.reached(values, first), strict=True):
                if (member not in reached and (now or last)) if stage.keep == "first" else now:
                    part = next(own for own in self.parts if member in own)
                    siblings = [m for m in part if m.seed == member.seed]
                    due.append(
                        (stage_name(name, member), siblings if stage.with_siblings else [member])
                    )
                    reached_now.append((reached, member))
        if step in checkpoint_steps(self.train):
            due.append((step_name(step), self.members))
        weights = self._state(moments=False) if due and self.stored else {}
        for name, members in due:
            for part, _, store in self.stored:
                own = [m for m in members if m in part]
                index = [self.members.index(m) for m in own]
                if own:
                    store.write(
                        name,
                        self.step,
                        _keys(own),
                        {key: value[index] for key, value in weights.items()},
                    )
        for reached, member in reached_now:
            reached[member] = step

    def _state(self, moments: bool = True) -> dict[str, Tensor]:
        states = [group.state(moments) for group in self.groups]
        return {key: torch.cat([state[key] for state in states]) for key in states[0]}

    def _save_interrupted(self, pool: ThreadPoolExecutor) -> None:
        """Save after KeyboardInterrupt, wherever it came: first every group and every curve ends at
        one step."""
        pool.shutdown()
        with workers(self.shares) as others:
            bring_to(others, self.shares, self.target)
        self.step, n = self.target, len(self.curves.evaluations)
        for spectra in self.curves.spectra.values():
            del spectra[n:]
        if n and self.curves.steps[-1] == self.step:
            self._keep_what_is_due()
        if n:
            self._save()

    def _save(self) -> None:
        state = self._state() if self.stored else {}
        along = {f"{CURVES}values": [values for _, values in self.curves.evaluations]}
        along |= {f"{SPECTRA}{name}": found for name, found in self.curves.spectra.items()}
        curves = {name: torch.from_numpy(np.stack(found)) for name, found in along.items()}
        for part, at, store in self.stored:
            tensors = {key: value[at] for key, value in state.items()}
            tensors |= {name: values[:, at] for name, values in curves.items()}
            tensors[f"{CURVES}steps"] = torch.tensor(self.curves.steps)
            for stage, steps in self.reached.items():
                tensors[f"{CURVES}{stage}"] = torch.tensor(
                    [steps.get(member, -1) for member in part]
                )
            store.write("state", self.step, _keys(part), tensors)
        self.saved = (self.step, len(self.curves.evaluations))

    def _resume(self) -> None:
        """Continue from the saved state; from step 0 where something is lost that was kept on the
        way to it."""
        found = [
            (part, at, store.read("state"))
            for part, at, store in self.stored
            if store.exists("state")
        ]
        if not found:
            return
        steps = {(state.step, len(state.tensors[f"{CURVES}steps"])) for *_, state in found}
        if len(found) < len(self.stored) or len(steps) > 1:
            raise ArgumentError(
                f"parts stand at steps {sorted(state.step for *_, state in found)}, "
                f"{len(self.stored) - len(found)} at "
                f"none; expected one step. Train them by themselves, the others without their "
                f"store."
            )
        for (part, _, state), (*_, store) in zip(found, self.stored, strict=True):
            for name in kept_by(state, self.train, part):
                if not store.exists(name):
                    message = f"{store.path(name)} is missing, so training begins again."
                    tqdm.write(message, file=sys.stderr)
                    return
                store.verify(name)
        self._take_up(found)

    def _take_up(self, found: Sequence[tuple[Sequence[Member], slice, Checkpoint]]) -> None:
        """Continue from saved states; a part without one stays as it was drawn, without curves."""
        like, n = found[0][2], len(self.members)
        self.step = self.target = like.step
        weights, curves = self._state(), {f"{CURVES}steps": like.tensors[f"{CURVES}steps"]}
        for name, values in like.tensors.items():
            if name == f"{CURVES}values" or name.startswith(SPECTRA):
                curves[name] = values.new_full((len(values), n, *values.shape[2:]), torch.nan)
        for part, at, state in found:
            for name, value in weights.items():
                value[at] = state.tensors[name]
            for name in list(curves)[1:]:
                curves[name][:, at] = state.tensors[name]
            for stage, reached in self.reached.items():
                steps = zip(part, state.tensors[f"{CURVES}{stage}"].tolist(), strict=True)
                reached.update({member: step for member, step in steps if step >= 0})
        for group, at in zip(
            self.groups, slices(len(group.members) for group in self.groups), strict=True
        ):
            group.load_state({key: value[at] for key, value in weights.items()}, self.step)
        self.curves = saved_curves(
            Checkpoint(self.step, (), curves), self.members, self.curves.sets
        )
        self.saved = (self.step, len(self.curves.evaluations))


def kept_by(state: Checkpoint, train: TrainConfig, members: Sequence[Member]) -> list[str]:
    """Names of the checkpoints that training has written by the time of a saved state."""
    evaluated, names = set(state.tensors[f"{CURVES}steps"].tolist()), []
    for stage in train.stages:
        reached = zip(members, state.tensors[f"{CURVES}{stage}"].tolist(), strict=True)
        names += [stage_name(stage, member) for member, step in reached if step >= 0]
    return [*names, *(step_name(step) for step in checkpoint_steps(train) if step in evaluated)]


def slices(sizes: Iterable[int]) -> list[slice]:
    """Places of pieces of these sizes, one after another."""
    return [slice(first, last) for first, last in pairwise(accumulate(sizes, initial=0))]


def _keys(members: Sequence[Member]) -> tuple[tuple[float, int], ...]:
    return tuple((member.gamma, member.seed) for member in members)


def workers(shares: Sequence[Sequence[MemberGroup]]) -> ThreadPoolExecutor:
    """A thread for each share of the groups. On CPU each is a worker of one core.

    Such a thread rounds numbers below 1e-38 to 0. A softmax that is sure of its answer leaves many
    gradients there, and processors multiply such numbers many times more slowly than others.
    """
    cpu = shares[0][0].device.type == "cpu"
    return ThreadPoolExecutor(len(shares), initializer=_one_core if cpu else None)


def _one_core() -> None:
    """Settings of the calling thread alone; the pool is the parallelism."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def bring_to(
    pool: ThreadPoolExecutor, shares: Sequence[Sequence[MemberGroup]], target: int
) -> None:
    """Advance every group to a step, each worker's share on a thread of its own."""
    list(pool.map(lambda share: [group.advance(target - group.step) for group in share], shares))


def resolve_device(device: str) -> torch.device:
    """The device that ``auto`` or a name stands for; ConfigError where it is not there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
        torch.zeros(1, device=found).tolist()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ConfigError(
            f"device='{device}' cannot be computed on here; use auto, cpu or cuda."
        ) from None
    return found


@contextmanager
def torch_settings(train: TrainConfig) -> Iterator[None]:
    """TF32 and thread count for the time of a call; the caller's own settings come back."""
    threads, tf32 = torch.get_num_threads(), torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = train.tf32
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.set_num_threads(threads)
