"""Both libraries behind the member products give the same numbers and gradients."""

import subprocess
import sys

import pytest
import torch

from rb_interp.training import matmul
from rb_interp.training.matmul import SMALL, has_onednn, member_matmul

pytestmark = pytest.mark.trains


@pytest.mark.skipif(not has_onednn(), reason="this torch has no oneDNN operator")
@pytest.mark.parametrize("contiguous", [True, False])
def test_onednn_agrees_with_bmm(contiguous, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, SMALL + 5, 7, generator=generator, requires_grad=True)
    matrix = torch.randn(3, 9, 7, generator=generator).mT.detach()
    matrix = (matrix.contiguous() if contiguous else matrix).requires_grad_()
    weight = torch.randn(3, SMALL + 5, 9, generator=generator)

    def product_and_gradients():
        y = member_matmul(x, matrix)
        return y, *torch.autograd.grad((y * weight).sum(), (x, matrix))

    monkeypatch.setattr(matmul, "onednn_pays", lambda: True)
    calls = []
    original = matmul._products
    monkeypatch.setattr(matmul, "_products", lambda *a: calls.append(1) or original(*a))
    fast = product_and_gradients()
    assert len(calls) == 3
    monkeypatch.setattr(matmul, "onednn_pays", lambda: False)
    for a, b in zip(fast, product_and_gradients(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)
    assert len(calls) == 3


def test_float64_never_takes_the_float32_operator(monkeypatch):
    monkeypatch.setattr(matmul, "_products", None)
    x = torch.randn(2, SMALL, 3, dtype=torch.float64)
    torch.testing.assert_close(member_matmul(x, x.mT @ x), torch.bmm(x, x.mT @ x))


COMPILED = """
import torch
from rb_interp.training import matmul
matmul.onednn_pays = lambda: True
x, matrix = torch.randn(2, 300, 7), torch.randn(2, 7, 9, requires_grad=True)
compiled = torch.compile(lambda a, b: matmul.member_matmul(a, b).sin().sum(), backend="aot_eager", fullgraph=True)
compiled(x, matrix).backward()
expected = torch.autograd.grad(torch.bmm(x, matrix).sin().sum(), matrix)[0]
print((matrix.grad - expected).abs().max().item())
"""


@pytest.mark.slow
def test_a_compiler_can_follow_the_product():
    """In a process of its own: the checks of shapes that tests install cannot be compiled."""
    found = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 1e-4
