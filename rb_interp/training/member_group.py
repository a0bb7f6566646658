"""A group of members on one device: weights, optimiser, steps, state. Loss and evaluation are left
to the kind.

`LastGroup` reads the answer at the last position. `NextGroup` predicts every next token:

    L = sum over targets of -w ln p(next token) / sum over targets of w

A label of -1 is no target: what fills up a short row plays no part. A weight w is 1 unless the
dataset has others; evaluations have none.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any
from weakref import proxy

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw, parameters
from rb_interp.tasks.dataset import Dataset, Task, vocabulary
from rb_interp.training.captured import Replayed, StaticStep
from rb_interp.training.config import TrainConfig, learning_rate
from rb_interp.training.stacked import stacked_logits
from rb_interp.training.tracking import Batches, Drift, leading_eigenvalues
from rb_interp.training.updates import StackedUpdate, TorchUpdate, compiled

DRIFT = "drift/"
"""What the names of the sums of ``training.tracking`` begin with in checkpoints."""
TRIM = 64
MemberTokens = Int[Tensor, "member row pos"]


@dataclass(frozen=True)
class Member:
    """One model of a study: its initialisation rate and its seed.

    The seed fixes the normal draws. It fixes data, labels and batch order too, unless these have a
    seed of their own.

    Attributes:
        lr, weight_decay: its own; None for those of its group.
    """

    gamma: float
    seed: int
    lr: float | None = None
    weight_decay: float | None = None


class MemberGroup:
    """Members that take every step together; their losses, gradients and clipping stay apart.

    Args:
        members: who is in the group. model, task, train: the shared configuration.
        device: where the tensors live.
        data: the rows that the members of each seed learn, where they are drawn already; seeds may
            share them.
        static: take steps on tensors that stay where they are, as on a GPU in any case.

    Attributes:
        is_done: whether it takes no more steps. single_steps: why a CUDA graph cannot record the
            steps, "" if it can. replayed: what counts the steps that a graph takes; None without
            one.
    """

    def __init__(
        self,
        members: Sequence[Member],
        model: ModelConfig,
        task: Task,
        train: TrainConfig,
        device: torch.device | str = "cpu",
        data: Mapping[int, Dataset] | None = None,
        static: bool = False,
    ) -> None:
        self.members = tuple(members)
        self.model = model
        self.train = train
        self.device = torch.device(device)
        self.dtype = torch.float64 if train.dtype == "float64" else torch.float32
        self.step = 0
        self.is_done = False
        seeds = sorted({member.seed for member in members})
        data = {seed: task.dataset(seed) for seed in seeds} if data is None else data
        datasets = list({id(data[seed]): data[seed] for seed in seeds}.values())
        numbers = {id(dataset): number for number, dataset in enumerate(datasets)}
        numbers_of_members = [numbers[id(data[member.seed])] for member in members]
        self.which_seed = torch.tensor(numbers_of_members, device=self.device)
        self.sizes = (vocabulary(task, datasets[0]), task.length)
        draws = [draw(model, *self.sizes, member.gamma, member.seed) for member in members]
        self.weights = {}
        for name in draws[0]:
            stacked = np.stack([weights[name] for weights in draws])
            self.weights[name] = torch.from_numpy(stacked).to(self.device, self.dtype)
        trained = {
            parameter.name for parameter in parameters(model, *self.sizes) if parameter.trained
        }
        self.trained = {}
        for name, weight in self.weights.items():
            if name in trained:
                self.trained[name] = weight.requires_grad_()
        settings = []
        for member in members:
            rate = train.lr if member.lr is None else member.lr
            decay = train.weight_decay if member.weight_decay is None else member.weight_decay
            settings.append((rate, decay))
        self.rates = [rate for rate, _ in settings]
        self.batches = Batches(task, datasets, train, self.device)
        self.watched = {}
        for name, ids in getattr(task, "spectra", {}).items():
            self.watched[name] = torch.tensor(ids, device=self.device)
        self.prepare()
        self._prepare_steps(settings, static)

    def _prepare_steps(self, settings: Sequence[tuple[float, float]], static: bool) -> None:
        """Choose how steps are taken; ConfigError for a CUDA graph that cannot be."""
        self.single_steps = self.why_single_steps()
        setting = self.train.cuda_graph
        if setting == "on" and self.single_steps:
            raise ConfigError(f"cuda_graph='on': {self.single_steps}; set 'auto'.")
        self.static = None
        self.replayed = None
        if not static and self.device.type != "cuda":
            self.update: Any = TorchUpdate(self.trained, settings, self.train)
            return
        self.update = StackedUpdate(self.trained, settings, self.train)
        for name, view in self.update.trained.items():
            self.trained[name] = self.weights[name] = view.requires_grad_()
        # A step that referred to its group would keep a GPU's memory from being freed with it.
        group = proxy(self)
        self.static = StaticStep(
            self.batches,
            lambda *batch: group.gradients_of(*batch),
            self.update,
            lambda lr: group.before_step(lr),
        )
        if setting != "off" and not self.single_steps:
            self.replayed = Replayed(self.static, self.device, setting == "on")

    def prepare(self) -> None:
        """Make what a kind of group needs beside weights and batches; nothing by default."""

    def why_single_steps(self) -> str:
        """Why a CUDA graph cannot record the steps, "" if it can."""
        kind = self.device.type
        return "" if kind == "cuda" else f"a CUDA graph needs a GPU, and this is a {kind}"

    def gradients(self) -> tuple[Tensor, ...]:
        """Gradients of the current step's batch, see `gradients_of`."""
        return self.gradients_of(*self.batches.of_step(self.step))

    def gradients_of(self, tokens: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Gradients of a batch of each seed, in the order of ``trained``; each member's are its
        own."""
        raise NotImplementedError

    def evaluate(self) -> Float[np.ndarray, "member set 2"]:
        """Loss (nats) and accuracy of each member on the fixed rows of each set; NaN for an empty
        set."""
        raise NotImplementedError

    def spectra(self) -> dict[str, Float[np.ndarray, "member rank"]]:
        """Leading eigenvalues of the embeddings of each group of tokens that the task names, see
        `tracking`."""
        table = self.weights["embed.W_E"].detach()
        return {name: leading_eigenvalues(table[:, ids]) for name, ids in self.watched.items()}

    def before_step(self, lr: Float[Tensor, " member"]) -> None:
        """What a kind of group does with the weights that a step begins with; nothing by
        default."""

    def advance(self, steps: int) -> None:
        """Take optimiser steps."""
        if self.static is not None:
            self.step = self.static.advance(self.step, steps, self.replayed or self.static)
            return
        for _ in range(steps):
            lr = [learning_rate(self.step, self.train, rate) for rate in self.rates]
            self.before_step(torch.tensor(lr, dtype=self.dtype, device=self.device))
            self.update(self.gradients(), self.step)
            self.step += 1

    def state(self, moments: bool = True) -> dict[str, Tensor]:
        """Weights (``name``) and moments (``exp_avg/name`` and so on), members first, copied to CPU."""
        state = {name: weight.detach().cpu().clone() for name, weight in self.weights.items()}
        for name, value in self.update.moments().items() if moments else ():
            state[name] = value.cpu()
        return state

    def load_state(self, state: dict[str, Tensor], step: int) -> None:
        """Continue from what ``state`` returned at a step."""
        self.step = step
        for name, weight in self.weights.items():
            weight.data.copy_(state[name])
        if step:
            self.update.load_moments(state, step)

    def autocast(self) -> AbstractContextManager:
        """bfloat16 products if the configuration asks for them; the weights stay float32."""
        if self.train.dtype == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()


class LastGroup(MemberGroup):
    """Members whose loss is read at the last position. Arguments are those of ``MemberGroup``."""

    def prepare(self) -> None:
        """Begin the sums of what theory predicts, if they are asked for."""
        self.drift = None
        if self.train.track_drift:
            rows = (self.batches.tokens, self.batches.labels, self.which_seed)
            self.drift = Drift(self.model, self.weights, *rows)
        if self.train.compile:
            self._loss = compiled(self._loss)

    def gradients_of(self, tokens: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Gradients of a batch of each seed, in the order of ``trained``; each member's are its
        own."""
        loss = self._loss(tokens[self.which_seed], labels[self.which_seed])
        return torch.autograd.grad(loss, list(self.trained.values()), materialize_grads=True)

    def _loss(self, tokens: MemberTokens, labels: Int[Tensor, "member row"]) -> Float[Tensor, ""]:
        """Each member's mean loss, summed over members."""
        with self.autocast():
            logits = stacked_logits(self.weights, tokens, self.model)
        return cross_entropy(logits, labels).mean(1).sum()

    def before_step(self, lr: Float[Tensor, " member"]) -> None:
        """Add up what theory predicts of the step."""
        if self.drift is not None:
            self.drift.add(self.weights, lr)

    @torch.inference_mode()
    def evaluate(self) -> Float[np.ndarray, "member set 2"]:
        """Loss (nats) and accuracy of each member on the fixed rows of each set; NaN for an empty
        set."""
        result = np.full((len(self.members), len(self.batches.fixed), 2), np.nan)
        tokens = torch.cat([tokens for tokens, _ in self.batches.fixed], 1)[self.which_seed]
        labels = torch.cat([labels for _, labels in self.batches.fixed], 1)[self.which_seed]
        with self.autocast():
            logits = stacked_logits(self.weights, tokens, self.model)
        losses = cross_entropy(logits, labels)
        right = (logits.argmax(-1) == labels).double()  # in float32 16 of 80 would be more than .20
        first = 0
        for index, (rows, _) in enumerate(self.batches.fixed):
            last = first + rows.shape[1]
            if last > first:
                loss = losses[:, first:last].mean(1).double()
                accuracy = right[:, first:last].mean(1)
                result[:, index] = torch.stack([loss, accuracy], 1).cpu().numpy()
            first = last
        return result

    def state(self, moments: bool = True) -> dict[str, Tensor]:
        """Weights, moments, and the sums of predictions (``drift/name``), members first, copied to
        CPU."""
        state = super().state(moments)
        if self.drift is not None:
            for name, value in self.drift.sums.items():
                state[f"{DRIFT}{name}"] = value.cpu().clone()
        return state

    def load_state(self, state: dict[str, Tensor], step: int) -> None:
        """Continue from what ``state`` returned at a step."""
        super().load_state(state, step)
        if self.drift is not None:
            for name, value in self.drift.sums.items():
                value.copy_(state[f"{DRIFT}{name}"])


class NextGroup(MemberGroup):
    """Members whose loss is read at every position. Arguments are those of ``MemberGroup``."""

    def prepare(self) -> None:
        """Compile the loss, if that is asked for; ConfigError if the drift is asked for."""
        if self.train.track_drift:
            raise ConfigError(
                "track_drift=True; no theory predicts the drift where every next token is an "
                "answer."
            )
        if self.train.compile:
            self._loss = compiled(self._loss)
        lengths = trimmed_lengths(self.batches.labels).unique()
        self.length = int(lengths) if len(lengths) == 1 else None

    def why_single_steps(self) -> str:
        """Rows of several lengths are no steps of one shape, either."""
        differ = "" if self.length else "the lengths of its rows differ from batch to batch"
        return super().why_single_steps() or differ

    def gradients_of(
        self, tokens: MemberTokens, labels: MemberTokens, weights: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Gradients of a batch of each seed, in the order of ``trained``, in pieces of
        ``micro_batch`` rows; labels may have weights."""
        tokens, labels = trimmed(tokens[self.which_seed], labels[self.which_seed], self.length)
        counts = labels >= 0
        if weights is not None:
            counts = counts * weights[self.which_seed, :, : labels.shape[-1]].to(self.dtype)
        total = counts.sum((1, 2))
        sums: tuple[Tensor, ...] = ()
        size = self.train.micro_batch or tokens.shape[1]
        parts = (part.split(size, 1) for part in (tokens, labels, counts))
        for rows, following, counted in zip(*parts, strict=True):
            loss = self._loss(rows, following, total, None if weights is None else counted)
            gradients = torch.autograd.grad(loss, list(self.trained.values()))
            sums = tuple(map(torch.add, sums, gradients)) if sums else gradients
        return sums

    def _loss(
        self,
        tokens: MemberTokens,
        labels: MemberTokens,
        total: Shaped[Tensor, " member"],
        weights: Float[Tensor, "member row pos"] | None = None,
    ) -> Float[Tensor, ""]:
        """The rows' share of each member's mean loss, summed over members."""
        losses, _ = self._read(tokens, labels)
        if weights is not None:
            losses = losses * weights
        return (losses.sum((1, 2)) / total).sum()

    def _read(
        self, tokens: MemberTokens, labels: MemberTokens
    ) -> tuple[Float[Tensor, "member row pos"], Float[Tensor, "member row pos d_vocab"]]:
        """Cross entropy (nats) at every position, 0 without a target, and the logits."""
        with self.autocast():
            logits = stacked_logits(self.weights, tokens, self.model, every_position=True)
        return cross_entropy(logits, labels, ignore_index=-1), logits

    @torch.inference_mode()
    def evaluate(self) -> Float[np.ndarray, "member set 2"]:
        """Mean loss (nats a token) and accuracy of the next token on fixed rows of each set; NaN
        for an empty set."""
        result = np.full((len(self.members), len(self.batches.fixed), 2), np.nan)
        size = self.train.micro_batch or self.train.batch_size
        for index, rows_of_set in enumerate(self.batches.fixed):
            tokens, labels = (part[self.which_seed] for part in rows_of_set)
            if not tokens.shape[1]:
                continue
            sums = torch.zeros(2, len(self.members), dtype=torch.float64, device=self.device)
            for rows, following in map(trimmed, tokens.split(size, 1), labels.split(size, 1)):
                losses, logits = self._read(rows, following)
                right = logits.argmax(-1) == following
                sums += torch.stack([losses.double().sum((1, 2)), right.double().sum((1, 2))])
            result[:, index] = (sums / (labels >= 0).sum((1, 2))).T.cpu()
        return result


def trimmed(
    tokens: MemberTokens, labels: MemberTokens, length: int | None = None
) -> tuple[Int[Tensor, "member row _"], Int[Tensor, "member row _"]]:
    """Rows without the last columns in which none has a target, or cut to a length."""
    length = length or int(trimmed_lengths(labels).max())
    return tokens[:, :, :length], labels[:, :, :length]


def trimmed_lengths(labels: MemberTokens) -> Int[Tensor, "member row"]:
    """The length of each row up to its last target, in multiples of TRIM so that few occur."""
    lengths = torch.arange(1, labels.shape[-1] + 1, device=labels.device)
    longest = ((labels >= 0) * lengths).amax(-1).clamp(min=1)
    return (-(-longest // TRIM) * TRIM).clamp(max=labels.shape[-1])


def cross_entropy(
    logits: Float[Tensor, "*target d_vocab"],
    labels: Int[Tensor, "*target"],
    ignore_index: int = -100,
) -> Float[Tensor, "*target"]:
    """Cross entropy of every target, in nats, and 0 of those that are ``ignore_index``."""
    flat = logits.flatten(0, -2)
    flat = flat.float() if flat.dtype == torch.bfloat16 else flat
    losses = F.cross_entropy(flat, labels.flatten(), ignore_index=ignore_index, reduction="none")
    return losses.view_as(labels)
