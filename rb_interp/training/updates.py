"""What a step does with gradients: clipping, then AdamW or gradient descent.

With g the gradient, t the step from 1, and each member's learning rate, AdamW is

    w <- (1 - lr weight_decay) w
    m <- beta_1 m + (1 - beta_1) g,    v <- beta_2 v + (1 - beta_2) g^2
    w <- w - lr / (1 - beta_1^t)  m / (sqrt(v) / sqrt(1 - beta_2^t) + eps)

`TorchUpdate` is torch's fused optimiser, which a CPU takes. `StackedUpdate` acts on one tensor of
all trained weights, ``[member, number]``, and reads whatever changes from step to step from a
tensor, so that a CUDA graph can record it. It equals torch's AdamW without ``fused`` to the bit; the
fused one differs in the last digits.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp.errors import ConfigError, first_line
from rb_interp.training.config import TrainConfig, learning_rate

MOMENTS = {"adamw": ("exp_avg", "exp_avg_sq"), "momentum": ("momentum_buffer",), "sgd": ()}
"""What an optimiser keeps of earlier steps, as torch names it."""
NUMBERS = ("lr", "shrink", "size", "root")
"""What an update reads of a step, for each member: the learning rate, 1 - lr weight_decay, lr / (1 -
beta_1^t), and sqrt(1 - beta_2^t)."""
RatesAndDecays = Sequence[tuple[float, float]]
"""Learning rate and weight decay of each member."""


class TorchUpdate:
    """torch's fused optimiser on the trained tensors of a group of members.

    Args:
        trained: name -> tensor of all members. settings: of each member. train: what they share.
    """

    def __init__(
        self, trained: Mapping[str, Tensor], settings: RatesAndDecays, train: TrainConfig
    ) -> None:
        self.train = train
        has_one_setting = len(set(settings)) == 1
        self.pieces = {}
        for name, weight in trained.items():
            self.pieces[name] = weight.detach().split(len(weight) if has_one_setting else 1)
        groups = []
        for setting in dict.fromkeys(settings):
            numbers = [number for number, other in enumerate(settings) if other == setting]
            numbers = [0] if has_one_setting else numbers
            trained_together = [part[n] for part in self.pieces.values() for n in numbers]
            rate, decay = setting
            groups.append({"params": trained_together, "rate": rate, "weight_decay": decay})
        self.optimiser = make_optimiser(groups, train)

    def __call__(self, gradients: Sequence[Tensor], step: int) -> None:
        """Take step 0, 1, ... with the gradients of every trained tensor, which are scaled in
        place."""
        if self.train.clip > 0:
            clip_per_member(gradients, self.train.clip)
        for pieces, gradient in zip(self.pieces.values(), gradients, strict=True):
            # The fused optimiser ignores strides.
            parts = gradient.contiguous().split(len(pieces[0]))
            for piece, part in zip(pieces, parts, strict=True):
                piece.grad = part
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(step, self.train, group["rate"])
        self.optimiser.step()

    def moments(self) -> dict[str, Tensor]:
        """The optimiser's MOMENTS, ``exp_avg/name`` and so on, members first."""
        moments = {}
        for name, pieces in self.pieces.items():
            for moment in MOMENTS[self.train.optimiser]:
                values = []
                for piece in pieces:
                    of_piece = self.optimiser.state[piece]
                    values.append(of_piece.get(moment, torch.zeros_like(piece)))
                moments[f"{moment}/{name}"] = torch.cat(values)
        return moments

    def load_moments(self, state: Mapping[str, Tensor], step: int) -> None:
        """Continue from what ``moments`` returned at a step."""
        for name, pieces in self.pieces.items():
            for piece in pieces:
                self.optimiser.state[piece] = {
                    "step": torch.tensor(float(step), device=piece.device)
                }
            for moment in MOMENTS[self.train.optimiser]:
                values = state[f"{moment}/{name}"].to(pieces[0].device, pieces[0].dtype)
                for piece, part in zip(pieces, values.split(len(pieces[0])), strict=True):
                    self.optimiser.state[piece][moment] = part.clone()


class StackedUpdate:
    """The same on one tensor of all trained weights, which must not be moved afterwards.

    Arguments are those of `TorchUpdate`.

    Attributes:
        trained: name -> each trained tensor, a view of ``weights``.
    """

    def __init__(
        self, trained: Mapping[str, Tensor], settings: RatesAndDecays, train: TrainConfig
    ) -> None:
        self.train = train
        self.rates, self.decays = map(np.array, zip(*settings, strict=True))
        self.shapes = {name: weight.shape for name, weight in trained.items()}
        self.weights = flat(trained.values())
        self.trained = self.views(self.weights)
        self.flat_moments = {}
        for moment in MOMENTS[train.optimiser]:
            self.flat_moments[moment] = torch.zeros_like(self.weights)
        self.l2 = torch.from_numpy(self.decays[:, None]).to(self.weights)
        if train.compile:
            self._change = compiled(self._change)

    def views(self, values: Float[Tensor, "member number"]) -> dict[str, Tensor]:
        """The tensors that stand one behind another in ``values``, by name."""
        sizes = [shape[1:].numel() for shape in self.shapes.values()]
        parts = zip(self.shapes.items(), values.split(sizes, 1), strict=True)
        return {name: part.view(shape) for (name, shape), part in parts}

    def numbers(self, step: int) -> Float[np.ndarray, "number member"]:
        """What the update of step 0, 1, ... reads, see NUMBERS; computed as torch does."""
        lr = np.array([learning_rate(step, self.train, rate) for rate in self.rates.tolist()])
        beta_1, beta_2 = self.train.betas
        if self.train.optimiser != "adamw":
            beta_1 = beta_2 = 0.0
        size = lr / (1 - beta_1 ** (step + 1))
        root = np.full_like(lr, (1 - beta_2 ** (step + 1)) ** 0.5)
        return np.stack([lr, 1 - lr * self.decays, size, root])

    @torch.no_grad()
    def __call__(
        self, gradients: Sequence[Tensor], numbers: Float[Tensor, "number member"]
    ) -> None:
        """Take a step with the gradients of every trained tensor and the ``numbers`` of the step."""
        self._change(flat(gradients), numbers[1:, :, None])

    def _change(self, gradients: Tensor, numbers: Tensor) -> None:
        if self.train.clip > 0:
            norm = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
            gradients.mul_((self.train.clip / (norm + 1e-6)).clamp(max=1.0))
        eps, betas = self.train.eps, self.train.betas
        if self.train.optimiser == "adamw":
            exp_avg, exp_avg_sq = self.flat_moments.values()
            adamw(self.weights, gradients, exp_avg, exp_avg_sq, numbers, eps, betas)
            return
        gradients.add_(self.weights * self.l2)
        for change in self.flat_moments.values():
            gradients = change.mul_(betas[0]).add_(gradients)
        self.weights.sub_(gradients * numbers[1])

    def moments(self) -> dict[str, Tensor]:
        """The optimiser's MOMENTS, ``exp_avg/name`` and so on, members first."""
        moments = {}
        for moment, values in self.flat_moments.items():
            for name, view in self.views(values).items():
                moments[f"{moment}/{name}"] = view.clone()
        return moments

    def load_moments(self, state: Mapping[str, Tensor], step: int) -> None:
        """Continue from what ``moments`` returned; the step stands in ``numbers``."""
        for moment, values in self.flat_moments.items():
            for name, view in self.views(values).items():
                view.copy_(state[f"{moment}/{name}"])


def adamw(
    weights: Tensor,
    gradients: Tensor,
    exp_avg: Tensor,
    exp_avg_sq: Tensor,
    numbers: Tensor,
    eps: float,
    betas: tuple[float, float],
) -> None:
    """A step of AdamW in place, on tensors ``[member, number]``.

    A rate of 0 changes nothing and a tiny one overflows nowhere, since nothing is divided by it.

    Args:
        numbers: shrink, size and root of NUMBERS, ``[3, member, 1]``.
    """
    shrink, size, root = numbers
    beta_1, beta_2 = betas
    weights.mul_(shrink)
    exp_avg.lerp_(gradients, 1 - beta_1)
    exp_avg_sq.mul_(beta_2).addcmul_(gradients, gradients, value=1 - beta_2)
    weights.addcdiv_(exp_avg * -size, (exp_avg_sq.sqrt() / root).add_(eps))


def flat(tensors: Iterable[Tensor]) -> Float[Tensor, "member number"]:
    """Tensors of members one behind another, copied."""
    return torch.cat([tensor.detach().flatten(1) for tensor in tensors], 1)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that torch compiles at its first call; ConfigError if it cannot here."""
    made = torch.compile(function)

    def called(*args: Tensor) -> Any:
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


def make_optimiser(parameters: Iterable[Any], train: TrainConfig) -> torch.optim.Optimizer:
    """AdamW or gradient descent, as configured, for tensors or groups of them."""
    if train.optimiser != "adamw":
        momentum = train.betas[0] if train.optimiser == "momentum" else 0.0
        shared = {"lr": train.lr, "weight_decay": train.weight_decay, "fused": True}
        return torch.optim.SGD(parameters, momentum=momentum, **shared)
    return torch.optim.AdamW(
        parameters,
        lr=train.lr,
        betas=train.betas,
        eps=train.eps,
        weight_decay=train.weight_decay,
        fused=True,
    )


def clip_per_member(gradients: Sequence[Tensor], largest: float) -> None:
    """Scale each member's gradients, in place, to a norm of at most ``largest`` (as torch's
    clip_grad_norm_)."""
    squares = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0)
    scale = (largest / (squares.sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        shape = [-1] + [1] * (gradient.ndim - 1)
        gradient.mul_(scale.view(shape))
