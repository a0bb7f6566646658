"""Captured activations equal the model's own, whatever the batch, and the model is given back as it was."""

import numpy as np
import pytest
import torch
from lens_models import hooks_on, lens_model

from rb_interp.errors import ArgumentError
from rb_interp.probes import capture, captured

pytestmark = pytest.mark.lens
PATTERN = "blocks.1.attn.hook_pattern"
TOKENS = np.random.default_rng(0).integers(0, 30, (7, 9))


@pytest.fixture(scope="module")
def model():
    return lens_model("gpt2")


def test_equals_the_models_own_cache_in_any_batches(model):
    names = [PATTERN, "blocks.3.hook_resid_post"]
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(TOKENS))
    for batch in (None, 1, 3):
        found = capture(model, TOKENS, names, batch=batch)
        assert list(found) == names
        for name in names:
            torch.testing.assert_close(found[name], cache[name], rtol=1e-3, atol=1e-5)
    last = capture(model, torch.from_numpy(TOKENS), [PATTERN], batch=2, keep=lambda a: a[:, 0, -1])[PATTERN]
    torch.testing.assert_close(last, cache[PATTERN][:, 0, -1], rtol=1e-3, atol=1e-5)
    assert not last.requires_grad


def test_model_is_given_back_as_it_was(model):
    """Own hooks stay and act, ours are gone, also after an error; training mode and random state are untouched."""
    model.train()
    model.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    state = torch.random.get_rng_state()

    def zero(activation, hook):
        assert not any(module.training for module in model.modules())
        return torch.zeros_like(activation)

    with model.hooks(fwd_hooks=[(PATTERN, zero)]):
        before = hooks_on(model)
        assert capture(model, TOKENS, [PATTERN])[PATTERN].abs().max() == 0
        assert hooks_on(model) == before
    with pytest.raises(ZeroDivisionError):
        capture(model, TOKENS, [PATTERN], keep=lambda a: a / (1 // 0))
    assert hooks_on(model) == []
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.random.get_rng_state(), state)


def test_wide_vocabularies_run_in_small_passes(model, monkeypatch):
    from importlib import import_module

    monkeypatch.setattr(import_module("rb_interp.probes.capturing"), "MAX_LOGITS", 2 * TOKENS.shape[1] * 30)
    sizes = []
    capture(model, TOKENS, [PATTERN], keep=lambda a: sizes.append(len(a)) or a)
    assert sizes == [2, 2, 2, 1]


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("keep", [len, lambda pattern: None, lambda pattern: pattern.mean()])
def test_what_is_kept_of_an_activation_has_its_rows(model, keep, cached):
    source = captured(model, TOKENS, [PATTERN]) if cached else model
    with pytest.raises(
        ArgumentError, match=r"keep gave .* for an activation of shape \[7, 4, 9, 9\]; expected a tensor"
    ):
        capture(source, TOKENS, [PATTERN], keep=keep)
