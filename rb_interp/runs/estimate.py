"""What a study will take, from its settings alone: memory, disk, work. Nothing is drawn and nothing is built.

For each sweep, with P parameters a model, b bytes a number and k members:

    memory    4 P b k (weights, gradients, two moments; 2 with sgd) + 6 P b k while a state is written (2 with sgd)
              + activations of a step, of the members that are computed at once + rows of each seed + learning curves
    disk      P b k for each checkpoint, P b for each member of a stage, 3 P b k for the state to continue from
    work      FLOPs = 3 x those of a forward pass, for each row of a batch; 1 x for each row of an evaluation
    seconds   steps x members x (FLOPs / rate + overhead) / cores, and the seconds in which the rows are drawn

Sweeps of one stack train together, stacks one after another: memory is that of the largest stack, disk and seconds add
up. Rates are assumed, see ``CPU`` and ``GPU``; seconds are right within a factor of about three, memory within two.
Probing is not in it: it holds one model at a time, and takes about as long as training in the presets.

An activation is counted once for each number that backward reads, and half as much again for what it makes of them.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from rb_interp.lazy import listed
from rb_interp.models.config import EMB_MLP, ONE_LAYER
from rb_interp.runs.config import StudyConfig, SweepConfig, stacks
from rb_interp.tasks.protocol import DataCost
from rb_interp.training.group_sizes import HIDDEN_ON_GPU, LOGITS_ON_GPU, MEMBERS_A_GROUP, ROOM

__all__ = ["Estimate", "estimate"]
__dir__ = listed(__name__)

GIB = 2**30
HOUR = 3600.0
BASE = GIB // 2
"""Bytes of Python with torch and what else is imported."""
GPUS = ("nvidia", "nvhost", "nvmap", "dxg", "kfd")
"""First letters of the devices that Linux has where there is a GPU for torch: of NVIDIA, of WSL, of AMD."""


@dataclass(frozen=True)
class Rate:
    """How fast a device is taken to be.

    Attributes:
        flops: a second, on a core or on the whole GPU. overhead: seconds of a step beside them.
        memory: bytes of weights, gradients and moments that the optimiser passes over in a second.
    """

    flops: float
    overhead: float
    memory: float


CPU = Rate(2.5e10, 2e-4, 5e9)
"""One core of a server, as measured on the quick presets: 20 to 35 GFLOP/s in float32."""
GPU = {"float32": Rate(2e13, 4e-3, 1e12), "bfloat16": Rate(1e14, 4e-3, 1e12), "float64": Rate(1e12, 4e-3, 1e12)}
"""A GPU of a data centre, at about a third of what its maker says."""


@dataclass(frozen=True)
class Sizes:
    """The numbers of a sweep that its costs follow from. Settings have the names that they have in a configuration."""

    members: int
    n_layers: int
    n_heads: int
    d_model: int
    d_head: int
    d_mlp: int
    d_vocab: int
    length: int
    steps: int
    batch_size: int
    eval_every: int
    eval_rows: int
    n_checkpoints: int
    data: int
    """Rows of one seed."""
    data_bytes: int
    data_seconds: float
    data_seeds: int
    gammas: int
    n_sets: int
    stages: int
    keep_at: int
    threads: int
    micro_batch: int
    architecture: str
    next: bool
    norm: str
    tied: bool
    adamw: bool
    drift: bool
    dtype: str
    gpu: bool

    @property
    def item(self) -> int:
        """Bytes of a number."""
        return 8 if self.dtype == "float64" else 4

    @property
    def n_parameters(self) -> int:
        """Parameters of one model, trained or not; ``models.schemes.parameters`` lists them."""
        d, v, m = self.d_model, self.d_vocab, self.d_mlp
        if self.architecture == EMB_MLP:
            return v * d + d * m + m * v
        all_heads, norm = self.n_heads * self.d_head, 2 * d
        block = 4 * d * all_heads + 3 * all_heads + d + 2 * d * m + m + d + 2 * norm * (self.norm != "none")
        if self.architecture == ONE_LAYER:
            return v * d + block
        ends = 0 if self.tied else d * v + v
        return v * d + self.length * d + self.n_layers * block + norm * (self.norm == "pre") + ends

    @property
    def evaluations(self) -> int:
        """How often the curves are read."""
        return math.ceil(self.steps / self.eval_every) + 1

    @property
    def rows(self) -> int:
        """Rows of a batch."""
        return min(self.batch_size, self.data)

    @property
    def rows_at_once(self) -> int:
        """Rows that go through a model at once."""
        return min(self.micro_batch or self.rows, self.rows) if self.next else self.rows

    @property
    def together(self) -> int:
        """Members whose activations are held at once, of all threads."""
        logits = self.rows_at_once * self.length * self.d_vocab
        if self.gpu:
            hidden = self.batch_size * self.length * self.d_mlp * self.n_layers
            group = max(1, LOGITS_ON_GPU // logits if self.next else HIDDEN_ON_GPU // hidden)
        else:
            fit = 1 if self.next else ROOM // (self.rows * (self.d_mlp + 2 * self.d_vocab))
            group = max(1, min(MEMBERS_A_GROUP, fit)) * self.threads
        return min(group, self.members)


def on_device(s: Sizes) -> float:
    """Bytes at the peak of a training where the members are: of the GPU, or of the machine."""
    weights = s.n_parameters * s.item * s.members * (4 if s.adamw else 2)
    rows = s.rows_at_once if s.next else min(s.eval_rows, s.data) * s.n_sets
    activations = max(_activations(s, s.rows_at_once), _activations(s, rows) / 3)
    drift = s.drift * s.members * s.item * (2 * s.d_vocab**2 + 3 * s.d_model**2)
    groups = math.ceil(s.members / (s.together if s.gpu else max(1, s.together // s.threads)))
    copies = groups * min(s.data_seeds, math.ceil(s.members / groups / s.gammas))
    return weights + s.together * activations + drift + copies * s.data * 8 * s.length * (2 if s.next else 1)


def on_host(s: Sizes) -> float:
    """Bytes at the peak of a training beside the members: a state that is written, drawn rows, learning curves."""
    state = s.n_parameters * s.item * s.members * (6 if s.adamw else 2)
    curves = s.evaluations * (400 + s.members * s.n_sets * 110 + 16 * (s.n_checkpoints + 1))
    return state + s.data_bytes * s.data_seeds + curves


def _activations(s: Sizes, rows: int) -> float:
    """Bytes of one member that a forward and a backward pass hold over rows."""
    item, logits = (2, 10) if s.dtype == "bfloat16" else (s.item, 3 * s.item)
    if s.architecture == EMB_MLP:
        return rows * (1.5 * item * (s.length * s.d_model + 2 * s.d_mlp) + logits * s.d_vocab)
    seen = s.length if s.length < 64 else 1  # fused attention keeps no pattern
    position = 3 * s.d_model + 5 * s.n_heads * s.d_head + 2 * s.n_heads * seen + 2 * s.d_mlp
    position += 3 * s.d_model * (s.norm != "none")
    if s.next:
        return rows * s.length * (1.5 * item * (s.d_model + s.n_layers * position) + logits * s.d_vocab)
    whole = s.length * (3 * s.d_model + (s.n_layers - 1) * position)
    return rows * (1.5 * item * (whole + position) + logits * s.d_vocab)


def disk(s: Sizes) -> float:
    """Bytes of all checkpoints."""
    kept = min(2 + s.n_checkpoints + s.keep_at, s.evaluations) + s.stages * s.gammas
    state = 6 if s.adamw else 2  # the old one stays until the new one is whole
    return s.n_parameters * s.item * s.members * (kept + state) + s.evaluations * s.members * s.n_sets * 32


def forward(s: Sizes) -> float:
    """FLOPs of one member's forward pass over one row."""
    d, h, m = s.d_model, s.n_heads * s.d_head, s.d_mlp
    if s.architecture == EMB_MLP:
        return 2.0 * (d * m + m * s.d_vocab)
    position = 2.0 * (4 * d * h + 2 * d * m + 2 * h * s.length)
    if s.next:
        return s.length * (s.n_layers * position + 2.0 * d * s.d_vocab)
    return s.length * ((s.n_layers - 1) * position + 4.0 * d) + position + 2.0 * d * s.d_vocab


def seconds(s: Sizes) -> float:
    """Seconds of training, with those in which the rows are drawn."""
    rate = GPU[s.dtype] if s.gpu else CPU
    slower = 2 if s.dtype == "float64" and not s.gpu else 1
    drift = s.drift * 2.0 * (s.d_vocab * s.d_mlp * s.d_model + 4 * s.d_model**3 * (s.architecture == ONE_LAYER))
    moved = s.n_parameters * s.item * (8 if s.adamw else 4) / rate.memory
    one = (3 * forward(s) * s.rows + drift) / rate.flops * slower + moved
    read = forward(s) * min(s.eval_rows, s.data) * s.n_sets / rate.flops * slower
    if s.gpu:  # all members of a group share a step
        groups = math.ceil(s.members / s.together)
        trained = s.steps * (one * s.members + rate.overhead * groups) + s.evaluations * read * s.members
    else:
        trained = s.members * (s.steps * (one + rate.overhead) + s.evaluations * read) / s.threads
    return trained + s.data_seconds * s.data_seeds


def sizes(sweep: SweepConfig, seeds: tuple[int, ...], gpu: bool) -> Sizes:
    """The sizes of a sweep. A task that does not tell its cost counts as rows of one batch that take no time."""
    task, model, train = sweep.task, sweep.model, sweep.train
    tell: Callable[[], DataCost] | None = getattr(task, "cost", None)
    cost = tell() if tell is not None else DataCost(train.batch_size, 0, 0.0)
    members = len(sweep.gammas) * len(seeds)
    named = {f.name for f in fields(Sizes)}
    settings = {name: value for part in (model, train) for name, value in vars(part).items() if name in named}
    settings |= {"stages": len(train.stages), "keep_at": len(train.keep_at), "gammas": len(sweep.gammas)}
    own = {"data": cost.rows, "data_bytes": cost.bytes, "data_seconds": cost.seconds}
    return Sizes(
        **settings | own,
        members=members,
        d_vocab=task.d_vocab,
        length=task.length,
        data_seeds=len(seeds) if sweep.data_seed is None else 1,
        n_sets=len(task.sets),
        threads=1 if gpu else min(train.workers or os.cpu_count() or 1, members),
        next=task.predicts == "next",
        adamw=train.optimiser == "adamw",
        drift=train.track_drift,
        gpu=gpu,
    )


@dataclass(frozen=True)
class Estimate:
    """What a study will take.

    Attributes:
        sweeps: the sizes of each sweep by name. base: those of its preset. stacks: those of each stack of sweeps.
        memory: bytes of the machine at the peak. gpu_memory: bytes of the GPU at the peak, 0 without one.
        disk: bytes of checkpoints. seconds: of training. data_seconds: of them, those in which rows are drawn.
        steps: of all members together.
    """

    sweeps: Mapping[str, Sizes]
    base: Mapping[str, Sizes]
    stacks: Sequence[Sizes]

    @property
    def memory(self) -> float:
        return BASE + max(map(of_machine, self.stacks))

    @property
    def gpu_memory(self) -> float:
        return max(s.gpu * on_device(s) for s in self.stacks)

    @property
    def disk(self) -> float:
        return sum(map(disk, self.sweeps.values()))

    @property
    def seconds(self) -> float:
        return sum(map(seconds, self.sweeps.values()))

    @property
    def data_seconds(self) -> float:
        return sum(s.data_seconds * s.data_seeds for s in self.sweeps.values())

    @property
    def steps(self) -> int:
        return sum(s.steps * s.members for s in self.sweeps.values())

    def __str__(self) -> str:
        return (
            f"about {in_gib(self.gpu_memory or self.memory)} of memory, {in_gib(self.disk)} of disk and "
            f"{in_words(self.seconds)} of training ({self.steps:,} steps of a member); probing is not counted"
        )

    def culprit(self, cost: Callable[[Sizes], float]) -> str:
        """The setting above the preset's whose lowering lowers a cost most, such as ``model.d_model=100,000``.

        Where none is above the preset's: the steps or the members.
        """
        name = max(self.sweeps, key=lambda name: cost(self.sweeps[name]))
        s, base = self.sweeps[name], self.base.get(name, next(iter(self.base.values())))
        above = [setting for setting in SETTINGS if getattr(s, setting) > getattr(base, setting)]

        def lowered(setting: str) -> float:
            value = getattr(s, setting)
            return cost(replace(s, **{setting: min(getattr(base, setting), max(1, value // 2))}))

        setting = min(above or ("steps", "members"), key=lowered)
        found = SETTINGS[setting].format(getattr(s, setting))
        return f"{name}.{found}" if name and "=" in found else found


def of_machine(s: Sizes) -> float:
    """Bytes of the machine at the peak of a training."""
    return on_host(s) + (0 if s.gpu else on_device(s))


SETTINGS = {
    **{name: f"model.{name}={{:,}}" for name in ("n_layers", "n_heads", "d_model", "d_head", "d_mlp")},
    **{name: f"task.{name}={{:,}}" for name in ("d_vocab", "length")},
    **{name: f"train.{name}={{:,}}" for name in ("steps", "batch_size", "eval_rows", "n_checkpoints")},
    "data_bytes": "the rows of the task",
    "data_seconds": "the rows of the task",
    "members": "its {:,} members",
}
"""Settings whose change lowers a cost -> how a message names them."""


def estimate(config: StudyConfig, gpu: bool | None = None, seeds: tuple[int, ...] | None = None) -> Estimate:
    """What a configuration will take; milliseconds, whatever its sizes.

    Args:
        gpu: whether it is for a GPU; by default what ``train.device`` stands for here.
        seeds: those to be trained; by default all of the configuration.

    >>> import rb_interp as rb
    >>> found = estimate(rb.study("anchor").preset("quick"), gpu=False)
    >>> found.steps, round(found.disk / 1e6)
    (192000, 159)
    """
    gpu = on_gpu(config) if gpu is None else gpu
    base = type(config).from_preset(config.preset)
    found, of_preset = (
        {name: sizes(sweep, which, gpu) for name, sweep in sweeps.items()}
        for sweeps, which in ((config.sweeps, seeds or config.seeds), (base.sweeps, base.seeds))
    )
    return Estimate(found, of_preset, [_stacked([found[name] for name in names]) for names in stacks(config.sweeps)])


def _stacked(sweeps: Sequence[Sizes]) -> Sizes:
    """The sizes of sweeps that train in one stack; they differ in their members alone."""
    members, gammas = (sum(getattr(s, name) for s in sweeps) for name in ("members", "gammas"))
    return replace(sweeps[0], members=members, gammas=gammas, threads=max(s.threads for s in sweeps))


def on_gpu(config: StudyConfig) -> bool:
    """Whether a configuration is computed on a GPU here; ConfigError for a device that is not there."""
    devices = {sweep.train.device for sweep in config.sweeps.values()}
    if devices == {"cpu"} or (devices <= {"cpu", "auto"} and "torch" not in sys.modules and no_gpu()):
        return False
    from rb_interp.training.loop import resolve_device

    return any(resolve_device(sweep.train.device).type == "cuda" for sweep in config.sweeps.values())


def no_gpu() -> bool:
    """Whether there is surely no GPU here, as told without torch: on Linux, from the devices that there are."""
    return sys.platform == "linux" and not any(name.startswith(GPUS) for name in os.listdir("/dev"))


def in_gib(size: float) -> str:
    """Bytes in words.

    >>> in_gib(41.2 * GIB), in_gib(1.5 * GIB), in_gib(2**20)
    ('41 GiB', '1.5 GiB', '0.001 GiB')
    """
    n = size / GIB
    return f"{n:,.0f} GiB" if n >= 10 else f"{n:.2g} GiB" if n >= 0.001 else "0.001 GiB"


def in_words(seconds: float) -> str:
    """A time in words.

    >>> in_words(5), in_words(600), in_words(9.2 * 24 * HOUR), in_words(1e12)
    ('5 seconds', '10 minutes', '9 days', '31,688 years')
    """
    for unit, size in (("years", 365.25 * 24 * HOUR), ("days", 24 * HOUR), ("hours", HOUR), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
