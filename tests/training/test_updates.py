"""Clipping and AdamW on stacked members are torch's own."""

import pytest
import torch

from rb_interp.training.updates import adamw, clip_per_member

pytestmark = pytest.mark.trains


def test_clipping_is_per_member_and_torchs_own():
    gradients = [torch.tensor([[3.0, 4.0], [0.3, 0.4]]), torch.tensor([[12.0], [0.0]])]
    parameters = [torch.nn.Parameter(torch.zeros_like(g[0])) for g in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient[0].clone()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    clip_per_member(gradients, 1.0)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        torch.testing.assert_close(gradient[0], parameter.grad)
    torch.testing.assert_close(gradients[0][1], torch.tensor([0.3, 0.4]))


@pytest.mark.parametrize("rate", [1e-12, 0.0])
def test_a_tiny_rate_and_none_are_torch_adamw(rate):
    generator = torch.Generator().manual_seed(0)
    ours = torch.randn(1, 300, generator=generator)
    start, theirs = ours.clone(), ours.clone()
    optimiser = torch.optim.AdamW([theirs], lr=rate, foreach=False)
    moments = torch.zeros(1, 300), torch.zeros(1, 300)
    for step in range(1, 201):
        gradients = torch.randn(1, 300, generator=generator) * 10.0 ** (step % 40 - 20)
        gradients[:, :100] = 0.0
        theirs.grad = gradients.clone()
        optimiser.step()
        bias = [1 - beta**step for beta in (0.9, 0.999)]
        numbers = torch.tensor([1 - rate * 0.01, rate / bias[0], bias[1] ** 0.5]).view(3, 1, 1)
        adamw(ours, gradients, *moments, numbers, 1e-8, (0.9, 0.999))
    assert torch.equal(ours, theirs)
    assert torch.equal(ours, start) if rate == 0 else ours.isfinite().all()
