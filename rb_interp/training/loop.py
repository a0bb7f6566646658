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
from itertools import accumulate, chain, pairwise

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError, ConfigError, RunError, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.models.schemes import draw
from rb_interp.tasks.dataset import Task
from rb_interp.training.config import TrainConfig, checkpoint_steps, evaluation_steps
from rb_interp.training.member_group import Member, MemberGroup
from rb_interp.training.store import (
    CURVES,
    REPLAYS,
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
    """What training leaves in memory.

    Attributes:
        curves: of all members. final: their weights at the last step.
        config, sizes: of each member's model, with its vocabulary and context.
        stores: where checkpoints are kept.
    """

    curves: Curves
    final: Checkpoint
    config: ModelConfig
    sizes: tuple[int, int]
    stores: tuple[CheckpointStore, ...] = ()

    @checked
    def model(self, *, gamma: float, seed: int, stage: str | int = "final") -> HookedModel:
        """One member as a TransformerLens model.

        Args:
            gamma, seed: of the member.
            stage: ``final``, ``init``, or, if a store was given, a kept step or one of
                ``train.stages``. A member that never came to it stands there at its last step.

        Raises RunError for a member or a checkpoint that is not there.
        """
        from rb_interp.models.build import lens_model

        weights = self.final.member(gamma, seed)
        if stage in ("init", 0):
            weights = draw(self.config, *self.sizes, gamma, seed)
        elif stage not in ("final", self.final.step):
            is_step = isinstance(stage, int)
            name = step_name(stage) if is_step else stage_name(stage, Member(gamma, seed))
            stores = [store for store in self.stores if store.exists(name)]
            if not stores:
                names = {"init", "final"}.union(*map(CheckpointStore.names, self.stores))
                raise RunError(
                    f"no store has kept '{name}'; {nearest(name, names)} (other stages are kept "
                    "if train_members gets a store)"
                )
            weights = stores[0].read(name, member=(gamma, seed)).member(gamma, seed)
        dtype = next(iter(self.final.tensors.values())).dtype
        return lens_model(self.config, *self.sizes, weights, dtype)


@dataclass(frozen=True, eq=False)
class StoredPart:
    """Members whose checkpoints are kept.

    Attributes:
        members: in their order. rows: their place among all members. store: where they are kept.
    """

    members: tuple[Member, ...]
    rows: slice
    store: CheckpointStore


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
        self.shares = shares
        self.train = train
        self.parts = [tuple(members) for members, _ in parts]
        self.stored = []
        for members, rows, (_, store) in zip(self.parts, slices(self.parts), parts, strict=True):
            if store is not None:
                self.stored.append(StoredPart(members, rows, store))
        self.trained_on = [task.sets.index(name) for name in task.train_sets]
        known = task.stages or {}
        for name in train.stages:
            if name not in known:
                raise ConfigError(f"the task has no stage '{name}'; {nearest(name, known)}")
        self.stages = {name: known[name] for name in train.stages}
        first = [name for name, stage in self.stages.items() if stage.occurrence == "first"]
        if train.stop_at not in ("", *first):
            raise ConfigError(f"stop_at='{train.stop_at}'; {nearest(train.stop_at, first)}")
        self.groups = [group for share in shares for group in share]
        self.members = tuple(member for group in self.groups for member in group.members)
        self.curves = Curves(self.members, task.sets)
        self.reached: dict[str, dict[Member, int]] = {stage: {} for stage in self.stages}
        self.step = 0
        self.target = 0
        self.saved = (-1, 0)
        self.replays_before = torch.zeros(len(self.members), dtype=torch.int64)

    def run(self, progress: bool) -> Trained:
        """Train to the last step.

        KeyboardInterrupt is raised again once all members stand at one step and that is saved.
        """
        self._resume()
        if self.train.cuda_graph != "off" and self.groups[0].device.type == "cuda":
            for reason in {group.single_steps for group in self.groups} - {""}:
                tqdm.write(f"Single steps without a CUDA graph: {reason}.", file=sys.stderr)
        bar = tqdm(
            total=self.train.steps,
            initial=self.step,
            disable=not progress,
            unit="step",
            mininterval=1.0,
            desc=f"training {len(self.members)} members",
        )
        with bar, workers(self.shares) as pool:
            try:
                self._train(pool, bar)
            except KeyboardInterrupt:
                self._save_interrupted(pool)
                raise
        weights = self._state(moments=False)
        final = Checkpoint(self.step, _keys(self.members), weights)
        stores = tuple(part.store for part in self.stored)
        return Trained(self.curves, final, self.groups[0].model, self.groups[0].sizes, stores)

    def _train(self, pool: ThreadPoolExecutor, bar: tqdm) -> None:
        """Take the steps that are left, evaluating, keeping and saving on the way."""
        last_save = time.monotonic()
        for mark in sorted({*evaluation_steps(self.train)} - {*self.curves.steps}):
            while self.step < mark:
                self.target = min(mark, self.step + 25)
                for group in self.groups:
                    group.is_done = {*group.members} <= {*self.reached.get(self.train.stop_at, ())}
                bring_to(pool, self.shares, self.target)
                bar.update(self.target - self.step)
                self.step = self.target
            losses = self._evaluate(pool)[:, self.trained_on, 0]
            bar.set_postfix_str(f"training loss {np.nanmean(losses):.3g} nats", refresh=False)
            self._write_checkpoints()
            if time.monotonic() - last_save > self.train.save_every:
                self._save()
                last_save = time.monotonic()
        if self.saved != (self.step, len(self.curves.evaluations)):
            self._save()

    def _evaluate(self, pool: ThreadPoolExecutor) -> np.ndarray:
        """Read the curves of all groups; returns losses and accuracies."""

        def read(groups: Sequence[MemberGroup]) -> list:
            return [(group.evaluate(), group.spectra()) for group in groups]

        by_group = list(chain.from_iterable(pool.map(read, self.shares)))
        values = np.concatenate([values for values, _ in by_group])
        for name in by_group[0][1]:
            eigenvalues = np.concatenate([spectra[name] for _, spectra in by_group])
            self.curves.spectra.setdefault(name, []).append(eigenvalues)
        self.curves.evaluations.append((self.step, values))
        return values

    def _write_checkpoints(self) -> None:
        """Write the checkpoints of the evaluation just made; doing it twice does no harm."""
        step, values = self.curves.evaluations[-1]
        initial = self.curves.evaluations[0][1]
        last = step == self.train.steps
        due: list[tuple[str, Sequence[Member]]] = []
        reached_now = []
        for name, stage in self.stages.items():
            steps = self.reached[name]
            before = [now for at, now in self.curves.evaluations if at <= step - stage.delay]
            then = before[-1] if before else np.full_like(values, np.nan)
            for member, now in zip(self.members, stage.reached(then, initial), strict=True):
                never = member not in steps
                now = (
                    never and (now or last)
                    if stage.occurrence == "first"
                    else now or (never and last)
                )
                if not now:
                    continue
                members_of_part = [member]
                if stage.with_siblings:
                    part = next(part for part in self.parts if member in part)
                    members_of_part = [sibling for sibling in part if sibling.seed == member.seed]
                due.append((stage_name(name, member), members_of_part))
                reached_now.append((steps, member))
        if step in checkpoint_steps(self.train):
            due.append((step_name(step), self.members))
        weights = self._state(moments=False) if due and self.stored else {}
        for name, members in due:
            for part in self.stored:
                members_of_part = [member for member in members if member in part.members]
                if members_of_part:
                    rows = [self.members.index(member) for member in members_of_part]
                    tensors = {key: value[rows] for key, value in weights.items()}
                    part.store.write(name, self.step, _keys(members_of_part), tensors)
        for steps, member in reached_now:
            steps[member] = step

    def _state(self, moments: bool = True) -> dict[str, Tensor]:
        """The states of all groups, members in order."""
        states = [group.state(moments) for group in self.groups]
        tensors = {}
        for name in states[0]:
            tensors[name] = torch.cat([state[name] for state in states])
        return tensors

    def _save_interrupted(self, pool: ThreadPoolExecutor) -> None:
        """Save after KeyboardInterrupt, wherever it came.

        First every group and every curve ends at one step.
        """
        pool.shutdown()
        with workers(self.shares) as other_pool:
            bring_to(other_pool, self.shares, self.target)
        self.step = self.target
        n_evaluations = len(self.curves.evaluations)
        for spectra in self.curves.spectra.values():
            del spectra[n_evaluations:]
        if not n_evaluations:
            return
        if self.curves.steps[-1] == self.step:
            self._write_checkpoints()
        self._save()

    def _save(self) -> None:
        """Write the state to continue from: weights, moments and curves."""
        state = self._state() if self.stored else {}
        curves = {f"{CURVES}values": np.stack([values for _, values in self.curves.evaluations])}
        for name, spectra in self.curves.spectra.items():
            curves[f"{SPECTRA}{name}"] = np.stack(spectra)
        replays = self.replays_before.clone()
        for group, rows in zip(self.groups, slices([g.members for g in self.groups]), strict=True):
            replays[rows] += group.replayed.replays if group.replayed else 0
        for part in self.stored:
            tensors = {name: value[part.rows] for name, value in state.items()}
            for name, values in curves.items():
                tensors[name] = torch.from_numpy(values)[:, part.rows]
            tensors[f"{CURVES}steps"] = torch.tensor(self.curves.steps)
            for stage, steps in self.reached.items():
                of_members = [steps.get(member, -1) for member in part.members]
                tensors[f"{CURVES}{stage}"] = torch.tensor(of_members)
            if replays.any():
                tensors[REPLAYS] = replays[part.rows]
            part.store.write("state", self.step, _keys(part.members), tensors)
        self.saved = (self.step, len(self.curves.evaluations))

    def _resume(self) -> None:
        """Continue from the saved state; from step 0 if something is lost that was kept on the way
        to it."""
        with_state = [part for part in self.stored if part.store.exists("state")]
        if not with_state:
            return
        states = [part.store.read("state") for part in with_state]
        steps = {(state.step, len(state.tensors[f"{CURVES}steps"])) for state in states}
        n_without = len(self.stored) - len(states)
        if n_without or len(steps) > 1:
            raise ArgumentError(
                f"parts stand at steps {sorted(state.step for state in states)}, {n_without} at "
                f"none; expected one step. Train them by themselves, the others without their "
                f"store."
            )
        for part, state in zip(with_state, states, strict=True):
            if state.members != _keys(part.members):
                raise RunError(
                    f"{part.store.path('state')} has the members {state.members}; expected "
                    f"{_keys(part.members)}. Give another store."
                )
            for name in checkpoint_names(state, self.train, part.members):
                if not part.store.exists(name):
                    message = f"{part.store.path(name)} is missing, so training begins again."
                    tqdm.write(message, file=sys.stderr)
                    return
                part.store.verify(name)
        self._take_up(with_state, states)

    def _take_up(self, parts: Sequence[StoredPart], states: Sequence[Checkpoint]) -> None:
        """Continue from saved states; a part without one stays as it was drawn, without curves."""
        first = states[0]
        n_members = len(self.members)
        self.step = first.step
        self.target = first.step
        weights = self._state()
        curves = {}
        for name, values in first.tensors.items():
            if name == f"{CURVES}values" or name.startswith(SPECTRA):
                shape = (len(values), n_members, *values.shape[2:])
                curves[name] = values.new_full(shape, torch.nan)
        for part, state in zip(parts, states, strict=True):
            for name, value in weights.items():
                value[part.rows] = state.tensors[name]
            for name, values in curves.items():
                values[:, part.rows] = state.tensors[name]
            self.replays_before[part.rows] = state.tensors.get(REPLAYS, torch.tensor(0))
            for stage, reached in self.reached.items():
                steps = state.tensors[f"{CURVES}{stage}"].tolist()
                for member, step in zip(part.members, steps, strict=True):
                    if step >= 0:
                        reached[member] = step
        curves[f"{CURVES}steps"] = first.tensors[f"{CURVES}steps"]
        places = slices([group.members for group in self.groups])
        for group, rows in zip(self.groups, places, strict=True):
            group.load_state({key: value[rows] for key, value in weights.items()}, self.step)
        saved = Checkpoint(self.step, (), curves)
        self.curves = saved_curves(saved, self.members, self.curves.sets)
        self.saved = (self.step, len(self.curves.evaluations))


def checkpoint_names(state: Checkpoint, train: TrainConfig, members: Sequence[Member]) -> list[str]:
    """Names of the checkpoints that training has written by the time of a saved state."""
    names = []
    for stage in train.stages:
        steps = state.tensors[f"{CURVES}{stage}"].tolist()
        for member, step in zip(members, steps, strict=True):
            if step >= 0:
                names.append(stage_name(stage, member))
    evaluated = set(state.tensors[f"{CURVES}steps"].tolist())
    names += [step_name(step) for step in checkpoint_steps(train) if step in evaluated]
    return names


def slices(pieces: Iterable[Sequence]) -> list[slice]:
    """Places of pieces that stand one after another."""
    ends = accumulate(map(len, pieces), initial=0)
    return [slice(first, last) for first, last in pairwise(ends)]


def _keys(members: Sequence[Member]) -> tuple[tuple[float, int], ...]:
    return tuple((member.gamma, member.seed) for member in members)


def workers(shares: Sequence[Sequence[MemberGroup]]) -> ThreadPoolExecutor:
    """A thread for each share of the groups. On CPU each is a worker of one core.

    Such a thread rounds numbers below 1e-38 to 0. A softmax that is sure of its answer leaves many
    gradients there, and processors multiply such numbers many times more slowly than others.
    """
    on_cpu = shares[0][0].device.type == "cpu"
    return ThreadPoolExecutor(len(shares), initializer=_one_core if on_cpu else None)


def _one_core() -> None:
    """Settings of the calling thread alone; the pool is the parallelism."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)


def bring_to(
    pool: ThreadPoolExecutor, shares: Sequence[Sequence[MemberGroup]], target: int
) -> None:
    """Advance every group to a step, each worker's share on a thread of its own."""

    def advance(groups: Sequence[MemberGroup]) -> None:
        for group in groups:
            if group.is_done:
                group.step = target
            group.advance(target - group.step)

    list(pool.map(advance, shares))


def resolve_device(device: str) -> torch.device:
    """The device that ``auto`` or a name stands for; ConfigError if it is not there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=device).tolist()
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ConfigError(
            f"device='{device}' cannot be computed on here; use auto, cpu or cuda."
        ) from None
    return torch.device(device)


@contextmanager
def torch_settings(train: TrainConfig) -> Iterator[None]:
    """TF32 and thread count for the time of a call; the caller's own settings come back."""
    threads = torch.get_num_threads()
    tf32 = torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cuda.matmul.allow_tf32 = train.tf32
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.set_num_threads(threads)
