"""A group of members on one device: weights, optimiser, steps, state. Loss and evaluation are left
to the kind.

`LastGroup` reads the answer at the last position. `NextGroup` predicts every next token:

    L = sum over targets of -ln p(next token) / number of targets

A label of -1 is no target: what fills up a short row plays no part.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ConfigError, first_line
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw, parameters
from rb_interp.tasks.dataset import Dataset, Task, vocabulary
from rb_interp.training.config import TrainConfig, learning_rate
from rb_interp.training.stacked import stacked_logits
from rb_interp.training.tracking import Batches, Drift, leading_eigenvalues

MOMENTS = ("exp_avg", "exp_avg_sq")
DRIFT = "drift/"
"""What the names of the sums of ``training.tracking`` begin with in checkpoints."""
TRIM = 64
Tokens = Int[Tensor, "member row pos"]


@dataclass(frozen=True, order=True)
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
    """

    def __init__(
        self,
        members: Sequence[Member],
        model: ModelConfig,
        task: Task,
        train: TrainConfig,
        device: torch.device | str = "cpu",
        data: Mapping[int, Dataset] | None = None,
    ) -> None:
        self.members = tuple(members)
        self.model = model
        self.train = train
        self.device = torch.device(device)
        self.dtype = torch.float64 if train.dtype == "float64" else torch.float32
        self.step = 0
        seeds = sorted({member.seed for member in members})
        data = {seed: task.dataset(seed) for seed in seeds} if data is None else data
        datasets = list({id(data[seed]): data[seed] for seed in seeds}.values())
        numbers = {id(dataset): number for number, dataset in enumerate(datasets)}
        numbers_of_members = [numbers[id(data[member.seed])] for member in members]
        self.which_seed = torch.tensor(numbers_of_members, device=self.device)
        sizes = (vocabulary(task, datasets[0]), task.length)
        drawn = [draw(model, *sizes, member.gamma, member.seed) for member in members]
        self.weights = {}
        for name in drawn[0]:
            stacked = np.stack([weights[name] for weights in drawn])
            self.weights[name] = torch.from_numpy(stacked).to(self.device, self.dtype)
        trained = {parameter.name for parameter in parameters(model, *sizes) if parameter.trained}
        self.trained = {}
        for name, weight in self.weights.items():
            if name in trained:
                self.trained[name] = weight.requires_grad_()
        self.rates = []
        settings = []
        for member in members:
            rate = train.lr if member.lr is None else member.lr
            decay = train.weight_decay if member.weight_decay is None else member.weight_decay
            self.rates.append(rate)
            settings.append((rate, decay))
        alike = len(set(settings)) == 1
        self.pieces = {}
        for name, weight in self.trained.items():
            self.pieces[name] = weight.detach().split(len(weight) if alike else 1)
        self.optimiser = make_optimiser(groups_by_setting(self.pieces, settings), train)
        self.batches = Batches(task, datasets, train, self.device)
        self.watched = {}
        for name, ids in getattr(task, "spectra", {}).items():
            self.watched[name] = torch.tensor(ids, device=self.device)
        self.prepare()

    def prepare(self) -> None:
        """Make what a kind of group needs beside weights and batches; nothing by default."""

    def gradients(self) -> tuple[Tensor, ...]:
        """Gradients of the current step's batch, in the order of ``trained``; each member's are its
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
        for _ in range(steps):
            lr = {rate: learning_rate(self.step, self.train, rate) for rate in self.rates}
            rates = [lr[rate] for rate in self.rates]
            self.before_step(torch.tensor(rates, dtype=self.dtype, device=self.device))
            gradients = self.gradients()
            if self.train.clip > 0:
                clip_per_member(gradients, self.train.clip)
            for pieces, gradient in zip(self.pieces.values(), gradients, strict=True):
                # The fused optimiser ignores strides.
                parts = gradient.contiguous().split(len(pieces[0]))
                for piece, part in zip(pieces, parts, strict=True):
                    piece.grad = part
            for group in self.optimiser.param_groups:
                group["lr"] = lr[group["rate"]]
            self.optimiser.step()
            self.step += 1

    def state(self, moments: bool = True) -> dict[str, Tensor]:
        """Weights (``name``) and moments (``exp_avg/name``, ``exp_avg_sq/name``), members first,
        copied to CPU."""
        state = {name: weight.detach().cpu().clone() for name, weight in self.weights.items()}
        if not moments or self.train.optimiser != "adamw":
            return state
        for name, pieces in self.pieces.items():
            for moment in MOMENTS:
                values = []
                for piece in pieces:
                    of_piece = self.optimiser.state[piece]
                    values.append(of_piece.get(moment, torch.zeros_like(piece)))
                state[f"{moment}/{name}"] = torch.cat(values).cpu()
        return state

    def load_state(self, state: dict[str, Tensor], step: int) -> None:
        """Continue from what ``state`` returned at a step."""
        self.step = step
        for name, weight in self.weights.items():
            weight.data.copy_(state[name])
        if not step or self.train.optimiser != "adamw":
            return
        for name, pieces in self.pieces.items():
            for piece in pieces:
                self.optimiser.state[piece] = {
                    "step": torch.tensor(float(step), device=self.device)
                }
            for moment in MOMENTS:
                values = state[f"{moment}/{name}"].to(self.device, self.dtype)
                for piece, part in zip(pieces, values.split(len(pieces[0])), strict=True):
                    self.optimiser.state[piece][moment] = part.clone()

    def autocast(self):
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

    def gradients(self) -> tuple[Tensor, ...]:
        """Gradients of the current step's batch, in the order of ``trained``; each member's are its
        own."""
        tokens, labels = (part[self.which_seed] for part in self.batches.of_step(self.step))
        with self.autocast():
            logits = stacked_logits(self.weights, tokens, self.model)
        loss = cross_entropy(logits, labels).mean(1).sum()
        return torch.autograd.grad(loss, list(self.trained.values()), materialize_grads=True)

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
        self.loss = _compiled(self._loss) if self.train.compile else self._loss

    def gradients(self) -> tuple[Tensor, ...]:
        """Gradients of the current step's batch, in the order of ``trained``, in pieces of
        ``micro_batch`` rows."""
        tokens, labels = self.batches.of_step(self.step)
        tokens, labels = trimmed(tokens[self.which_seed], labels[self.which_seed])
        total = (labels >= 0).sum((1, 2))
        sums: tuple[Tensor, ...] = ()
        size = self.train.micro_batch or tokens.shape[1]
        for rows, following in zip(tokens.split(size, 1), labels.split(size, 1), strict=True):
            loss = self.loss(rows, following, total)
            gradients = torch.autograd.grad(loss, list(self.trained.values()))
            sums = tuple(map(torch.add, sums, gradients)) if sums else gradients
        return sums

    def _loss(
        self, tokens: Tokens, labels: Tokens, total: Int[Tensor, " member"]
    ) -> Float[Tensor, ""]:
        """The rows' share of each member's mean loss, summed over members."""
        losses, _ = self._read(tokens, labels)
        return (losses.sum((1, 2)) / total).sum()

    def _read(
        self, tokens: Tokens, labels: Tokens
    ) -> tuple[Float[Tensor, "member row pos"], Float[Tensor, "member row pos d_vocab"]]:
        """Cross entropy (nats) at every position, 0 without a target, and the logits."""
        with self.autocast():
            logits = stacked_logits(self.weights, tokens, self.model, every_position=True)
        flat = logits.flatten(0, 2)
        flat = flat.float() if flat.dtype == torch.bfloat16 else flat
        losses = F.cross_entropy(flat, labels.flatten(), reduction="none", ignore_index=-1)
        return losses.view(labels.shape), logits

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
    tokens: Tokens, labels: Tokens
) -> tuple[Int[Tensor, "member row _"], Int[Tensor, "member row _"]]:
    """Rows without the last columns in which none has a target, in multiples of TRIM so that few
    lengths occur."""
    used = (labels >= 0).any(0).any(0).nonzero()
    longest = int(used.max()) + 1 if len(used) else 1
    length = min(labels.shape[-1], -(-longest // TRIM) * TRIM)
    return tokens[:, :, :length], labels[:, :, :length]


def _compiled(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that torch compiles at its first call; ConfigError if it cannot here."""
    made = torch.compile(loss)

    def called(*args: Tensor) -> Tensor:
        try:
            return made(*args)
        except Exception as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise
            raise ConfigError(
                f"compile=True: torch.compile failed here ({first_line(error)}); set "
                f"compile=False, or install what it needs, such as a C++ compiler."
            ) from None

    return called


def groups_by_setting(
    pieces: Mapping[str, Sequence[Tensor]], settings: Sequence[tuple[float, float]]
) -> list[dict[str, Any]]:
    """A parameter group of the optimiser for each learning rate, which stands in it as ``rate``,
    and weight decay.

    Args:
        pieces: name -> one tensor of all members, where they share a setting, or one of each.
        settings: learning rate and weight decay of each member.
    """
    groups = []
    for setting in dict.fromkeys(settings):
        numbers = [number for number, other in enumerate(settings) if other == setting]
        if len(numbers) == len(settings):
            numbers = [0]
        trained = []
        for tensors in pieces.values():
            trained += [tensors[number] for number in numbers]
        rate, decay = setting
        groups.append({"params": trained, "rate": rate, "weight_decay": decay})
    return groups


def make_optimiser(parameters: Iterable[Any], train: TrainConfig) -> torch.optim.Optimizer:
    """AdamW or plain gradient descent, as configured, for tensors or groups of them."""
    if train.optimiser == "sgd":
        return torch.optim.SGD(parameters, lr=train.lr, weight_decay=train.weight_decay, fused=True)
    return torch.optim.AdamW(
        parameters,
        lr=train.lr,
        betas=train.betas,
        eps=train.eps,
        weight_decay=train.weight_decay,
        fused=True,
    )


def cross_entropy(
    logits: Float[Tensor, "member batch d_vocab"], labels: Int[Tensor, "member batch"]
) -> Float[Tensor, "member batch"]:
    """Cross entropy of every row, in nats."""
    flat = logits.flatten(0, 1)
    flat = flat.float() if flat.dtype == torch.bfloat16 else flat
    return F.cross_entropy(flat, labels.flatten(), reduction="none").view_as(labels)


def clip_per_member(gradients: Sequence[Tensor], largest: float) -> None:
    """Scale each member's gradients, in place, to a norm of at most ``largest`` (as torch's
    clip_grad_norm_)."""
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)
    scale = (largest / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        shape = [-1] + [1] * (gradient.ndim - 1)
        gradient.mul_(scale.view(shape))
