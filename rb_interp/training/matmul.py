"""Member-by-member matrix products, through oneDNN where that is the faster library.

On CPU torch.bmm calls MKL, which leaves half the speed of an AVX-512 processor that Intel did not make unused; oneDNN,
which torch carries as well, does not (AMD Zen 5, one core: 100 against 200 GFLOP/s). On Intel's own it is the other way
round (Xeon with AVX-512, one core: 110 against 60), so MKL is kept there. torch offers oneDNN for float32 only
through an operator of its compiler that has no documentation. A torch where that operator is missing or gives something
else takes torch.bmm, as do other dtypes, other devices, small products, and ``RB_INTERP_PLAIN_TORCH`` (see
``training.plain_torch``). Both give the same numbers to rounding.
"""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from rb_interp.training.plain_torch import plain

SMALL = 256
"""Rows below which a call per member costs more than it saves."""


def member_matmul(
    x: Float[Tensor, "member row d_in"], matrix: Float[Tensor, "member d_in d_out"]
) -> Float[Tensor, "member row d_out"]:
    """x W for every member.

    >>> member_matmul(torch.ones(2, 3, 4), torch.ones(2, 4, 5)).shape
    torch.Size([2, 3, 5])
    """
    if torch.compiler.is_compiling():  # it cannot follow the operator, and has its own choice of libraries
        return torch.bmm(x, matrix)
    if x.device.type == "cpu" and x.dtype == matrix.dtype == torch.float32 and x.shape[1] >= SMALL and onednn_pays():
        return _OneDNN.apply(x, matrix)  # type: ignore[return-value]
    return torch.bmm(x, matrix)


def has_onednn() -> bool:
    """Whether the oneDNN operator is there, works, and is not switched off."""
    return not plain("matmul") and _operator_works()


def onednn_pays() -> bool:
    """Whether oneDNN is there, and the processor is not Intel's."""
    return has_onednn() and not made_by_intel()


@cache
def made_by_intel() -> bool:
    """Whether Intel made the processor; what is not known counts as not."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:  # not Linux
        return "Intel" in platform.processor()


@cache
def _operator_works() -> bool:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    try:
        return torch.backends.mkldnn.is_available() and torch.equal(_products(x[None], x[None])[0], x @ x.T)
    except (AttributeError, RuntimeError, TypeError):  # another torch, another operator
        return False


def _products(x: Tensor, transposed: Tensor) -> Tensor:
    """x[m] @ transposed[m].T for every member."""
    linear = torch.ops.mkldnn._linear_pointwise
    return torch.stack([linear(a, b, None, "none", [], "") for a, b in zip(x, transposed, strict=True)])


class _OneDNN(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(x, matrix)
        return _products(x, matrix.mT)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:  # type: ignore[override]
        x, matrix = ctx.saved_tensors
        to_x = _products(gradient, matrix) if ctx.needs_input_grad[0] else None
        to_matrix = _products(x.mT, gradient.mT) if ctx.needs_input_grad[1] else None
        return to_x, to_matrix
