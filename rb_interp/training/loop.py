"""The way of members from the first step to the last: progress, evaluation, checkpoints, and continuing after a stop.

It knows groups of members (``training.member_group``), not what they are trained on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from rb_interp.errors import ArgumentError, ConfigError, nearest
from rb_interp.settings import class_name
from rb_interp.tasks.protocol import Stage, Task
from rb_interp.training.config import TrainConfig
from rb_interp.training.curves import SPECTRA, Curves, joined, saved_curves
from rb_interp.training.member_group import Member, MemberGroup
from rb_interp.training.schedule import checkpoint_steps, evaluation_steps
from rb_interp.training.store import Checkpoint, Store


@dataclass(eq=False)
class Trained:
    """What training leaves in memory.

    Attributes:
        curves: losses and accuracies along training.
        final: weights of all members at the last step.
        seconds: wall time of this call, and the share of it spent on steps, evaluation and writing.
    """

    curves: Curves
    final: Checkpoint
    seconds: dict[str, float]


def stage_name(stage: str, member: Member) -> str:
    """Checkpoint at the step where this member reached a stage; it may hold the same-seed siblings too."""
    return f"{stage}_gamma{member.gamma}_seed{member.seed}"


def step_name(step: int) -> str:
    """Checkpoint of all members at a step."""
    return f"step_{step:08d}"


class Training:
    """Groups of members on their way from the first step, or the last saved one, to the last.

    Args:
        shares: the groups of each worker, members in order. task, train: what they learn, and how.
        parts: members in their order, and where the checkpoints of these go. None keeps nothing of them; where training
            goes on from a saved step they take part from there with the weights that they were drawn with.

    Raises ConfigError for a stage that the task does not have, ArgumentError for parts that stand at different steps.
    """

    def __init__(
        self,
        shares: Sequence[Sequence[MemberGroup]],
        task: Task,
        train: TrainConfig,
        parts: Sequence[tuple[Sequence[Member], Store | None]],
    ) -> None:
        self.shares, self.train, self.parts = shares, train, [(tuple(own), store) for own, store in parts]
        self.trained_on = [task.sets.index(name) for name in task.train_sets]
        self.stages = chosen_stages(task, train)
        self.groups = [group for share in self.shares for group in share]
        self.members = tuple(member for group in self.groups for member in group.members)
        self.curves = Curves(self.members, task.sets)
        self.reached: dict[str, dict[Member, int]] = {stage: {} for stage in self.stages}
        self.seconds = {"steps": 0.0, "evaluation": 0.0, "writing": 0.0}
        self.step, self.target, self.saved = 0, 0, (-1, 0)

    def run(self, progress: bool) -> Trained:
        """Train to the last step, with a progress bar if wanted; what is due is kept on the way.

        KeyboardInterrupt ends it where all members stand at one step, and is raised again once that is saved.
        """
        self._resume()
        bar = tqdm(
            total=self.train.steps, initial=self.step, disable=not progress, unit="step", mininterval=1.0,
            desc=f"training {len(self.members)} members",
        )  # fmt: skip
        saved = time.monotonic()
        with bar, workers(self.shares) as pool:
            evaluated = set(self.curves.steps)
            try:
                for mark in evaluation_steps(self.train):
                    if mark in evaluated:
                        continue
                    while self.step < mark:
                        self._advance(pool, min(mark, self.step + 25), bar)
                    self._evaluate(pool, bar)
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
            self.curves, Checkpoint(self.step, self._keys(self.members), self._state(moments=False)), self.seconds
        )

    def _advance(self, pool: ThreadPoolExecutor, target: int, bar: tqdm) -> None:
        started, self.target = time.monotonic(), target
        bring_to(pool, self.shares, target)
        bar.update(target - self.step)
        self.step = target
        self.seconds["steps"] += time.monotonic() - started

    def _evaluate(self, pool: ThreadPoolExecutor, bar: tqdm) -> None:
        started = time.monotonic()
        parts = list(pool.map(lambda share: [(group.evaluate(), group.spectra()) for group in share], self.shares))
        found = [part for share in parts for part in share]
        values = np.concatenate([part for part, _ in found])
        for name in found[0][1]:
            spectra = np.concatenate([part[name] for _, part in found])
            before = [np.full_like(spectra, np.nan)] * len(self.curves.evaluations)  # in a state without them
            self.curves.spectra.setdefault(name, before).append(spectra)
        self.curves.evaluations.append((self.step, values))
        self.seconds["evaluation"] += time.monotonic() - started
        bar.set_postfix_str(f"training loss {np.nanmean(values[:, self.trained_on, 0]):.3g} nats", refresh=False)

    def _keep_what_is_due(self) -> None:
        """Checkpoints of the evaluation just made; doing it twice does no harm."""
        step, values = self.curves.evaluations[-1]
        last, first, due, reached_now = step == self.train.steps, self.curves.evaluations[0][1], [], []
        for name, stage in self.stages.items():
            reached = self.reached[name]
            for member, now in zip(self.members, stage.reached(values, first), strict=True):
                if (member not in reached and (now or last)) if stage.keep == "first" else now:
                    part = next(own for own, _ in self.parts if member in own)
                    siblings = [m for m in part if m.seed == member.seed]
                    due.append((stage_name(name, member), siblings if stage.with_siblings else [member]))
                    reached_now.append((reached, member))
        if step in checkpoint_steps(self.train):
            due.append((step_name(step), self.members))
        self._keep(due)
        for reached, member in reached_now:
            reached[member] = step

    def _keep(self, due: Sequence[tuple[str, Sequence[Member]]]) -> None:
        """Write checkpoints: names and the members that they hold."""
        if not due or not any(store for _, store in self.parts):
            return
        started, weights = time.monotonic(), self._state(moments=False)
        for name, members in due:
            for part, store in self.parts:
                own = [m for m in members if m in part]
                if own and store is not None:
                    index = [self.members.index(m) for m in own]
                    chosen = {key: value[index] for key, value in weights.items()}
                    store.write(name, self.step, self._keys(own), chosen)
        self.seconds["writing"] += time.monotonic() - started

    def _state(self, moments: bool = True) -> dict[str, Tensor]:
        states = [group.state(moments) for group in self.groups]
        return {key: torch.cat([state[key] for state in states]) for key in states[0]}

    def _save_interrupted(self, pool: ThreadPoolExecutor) -> None:
        """Save after KeyboardInterrupt, wherever it came: first every group and every curve ends at one step."""
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
        if not any(store for _, store in self.parts):
            return
        started, state = time.monotonic(), self._state()
        evaluations = np.stack([values for _, values in self.curves.evaluations])
        spectra = {f"{SPECTRA}{name}": np.stack(found) for name, found in self.curves.spectra.items()}
        for (part, store), at in zip(self.parts, self._places(), strict=True):
            if store is None:
                continue
            reached = {stage: [steps.get(m, -1) for m in part] for stage, steps in self.reached.items()}
            curves = {
                "curves/steps": torch.tensor(self.curves.steps),
                "curves/values": torch.from_numpy(evaluations[:, at]),
                **{f"curves/{stage}": torch.tensor(steps) for stage, steps in reached.items()},
                **{name: torch.from_numpy(found[:, at]) for name, found in spectra.items()},
            }
            own = {key: value[at] for key, value in state.items()}
            store.write("state", self.step, self._keys(part), {**own, **curves})
        self.saved = (self.step, len(self.curves.evaluations))
        self.seconds["writing"] += time.monotonic() - started

    def _resume(self) -> None:
        """Continue from the saved state; from step 0 where something is lost that was kept on the way to it."""
        stored = [store for _, store in self.parts if store is not None]
        found = [store.read("state") if store and store.exists("state") else None for _, store in self.parts]
        saved = [state for state in found if state is not None]
        if not saved:
            return
        if len(saved) < len(stored) or len({(s.step, len(s.tensors["curves/steps"])) for s in saved}) > 1:
            raise ArgumentError(
                f"parts stand at steps {sorted(s.step for s in saved)}, {len(stored) - len(saved)} at none; expected "
                f"one step. Train them by themselves, the others without their store."
            )
        again: list[tuple[str, Sequence[Member]]] = []
        for (part, store), state in zip(self.parts, found, strict=True):
            if store is None or state is None:
                continue
            lost = [name for name in kept_by(state, self.train, part) if not store.exists(name)]
            if lost not in ([], [step_name(state.step)]):
                tqdm.write(f"{store.path(lost[0])} is missing, so training begins again.", file=sys.stderr)
                return
            again += [(name, part) for name in lost]
        self._take_up(found, saved[0])
        self._keep(again)

    def _take_up(self, found: Sequence[Checkpoint | None], like: Checkpoint) -> None:
        """Continue from saved states, one of each part; a part without one stays as it was drawn, without curves."""
        self.step, self.target, first, drawn = like.step, like.step, 0, self._state()
        pieces = [
            {name: values[at] for name, values in drawn.items()} if state is None else state.tensors
            for state, at in zip(found, self._places(), strict=True)
        ]
        whole = {name: torch.cat([piece[name] for piece in pieces]) for name in drawn}
        for group in self.groups:
            last = first + len(group.members)
            group.load_state({key: value[first:last] for key, value in whole.items()}, self.step)
            first = last
        known = saved_curves(like, (), self.curves.sets)
        self.curves = joined(
            [
                known.of_nan(own) if state is None else saved_curves(state, own, self.curves.sets)
                for (own, _), state in zip(self.parts, found, strict=True)
            ]
        )
        self.saved = (self.step, len(self.curves.evaluations))
        for (part, _), state in zip(self.parts, found, strict=True):
            if state is None:
                continue
            for stage in self.reached:
                steps = zip(part, state.tensors[f"curves/{stage}"].tolist(), strict=True)
                self.reached[stage] |= {member: step for member, step in steps if step >= 0}

    def _places(self) -> list[slice]:
        """Where the members of each part stand among all."""
        ends = np.cumsum([0, *(len(own) for own, _ in self.parts)]).tolist()
        return [slice(first, last) for first, last in pairwise(ends)]

    @staticmethod
    def _keys(members: Sequence[Member]) -> tuple[tuple[float, int], ...]:
        return tuple((member.gamma, member.seed) for member in members)


def chosen_stages(task: Task, train: TrainConfig) -> Mapping[str, Stage]:
    """The stages that a training keeps; ConfigError for one that the task does not have."""
    for name in train.stages:
        if name not in task.stages:
            known = nearest(name, task.stages) if task.stages else "it has none, so give stages=()."
            raise ConfigError(f"stages={train.stages}: {class_name(task)} has no stage '{name}'; {known}")
    return {name: task.stages[name] for name in train.stages}


def kept_by(state: Checkpoint, train: TrainConfig, members: Sequence[Member]) -> list[str]:
    """Names of the checkpoints that training has written by the time of a saved state."""
    evaluated, names = set(state.tensors["curves/steps"].tolist()), []
    for stage in train.stages:
        reached = zip(members, state.tensors[f"curves/{stage}"].tolist(), strict=True)
        names += [stage_name(stage, member) for member, step in reached if step >= 0]
    return [*names, *(step_name(step) for step in checkpoint_steps(train) if step in evaluated)]


def workers(shares: Sequence[Sequence[MemberGroup]]) -> ThreadPoolExecutor:
    """A thread for each share of the groups. On CPU each is a worker of one core.

    Such a thread rounds numbers below 1e-38 to 0. A softmax that is sure of its answer leaves many gradients there, and
    processors multiply such numbers many times more slowly than others.
    """
    cpu = shares[0][0].device.type == "cpu"
    return ThreadPoolExecutor(len(shares), initializer=_one_core if cpu else None)


def _one_core() -> None:
    """Settings of the calling thread alone; the pool is the parallelism."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def bring_to(pool: ThreadPoolExecutor, shares: Sequence[Sequence[MemberGroup]], target: int) -> None:
    """Advance every group to a step, each worker's share on a thread of its own."""
    list(pool.map(lambda share: [group.advance(target - group.step) for group in share], shares))


def all_members(gammas: Sequence[float], seeds: Sequence[int]) -> tuple[Member, ...]:
    """Every rate with every seed, seeds outermost; ConfigError where there is none, or one twice."""
    members = tuple(Member(gamma, seed) for seed in seeds for gamma in gammas)
    if len(set(members)) < len(members):
        raise ConfigError(f"gammas={list(gammas)} and seeds={list(seeds)} name a member twice; name each once.")
    if not members:
        raise ConfigError(f"gammas={list(gammas)} and seeds={list(seeds)} give no member; name at least one of each.")
    return members


def resolve_device(device: str) -> torch.device:
    """The device that ``auto`` or a name stands for; ConfigError where it is not there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"device='{device}' is not a torch device; use auto, cpu or cuda.") from None
    if found.type == "cuda" and not (found.index or 0) < torch.cuda.device_count():
        raise ConfigError(f"device='{device}', but torch sees no such GPU here; use --device cpu or auto.")
    try:
        torch.zeros(1, device=found).tolist()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ConfigError(f"device='{device}' cannot be computed on here; use auto, cpu or cuda.") from None
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
