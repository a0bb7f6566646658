"""Activations of a model, of a cache, and of a model in a wrapper."""

import numpy as np
import pytest
import torch
from lens_models import Wrapped, hooks_on, lens_model
from probe_cases import INPUTS
from transformer_lens import ActivationCache

from rb_interp import probes
from rb_interp.errors import ModelError
from rb_interp.tasks import Inputs

PATTERN, TOKENS = "blocks.1.attn.hook_pattern", np.random.default_rng(0).integers(0, 30, (7, 9))


@pytest.fixture(scope="module")
def model():
    return lens_model("gpt2")


@pytest.mark.lens
def test_equals_the_models_own_cache_in_any_batches(model):
    names = [PATTERN, "blocks.3.hook_resid_post"]
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(TOKENS))
    for batch in (None, 1, 3):
        found = probes.capture(model, TOKENS, names, batch=batch)
        assert list(found) == names
        for name in names:
            torch.testing.assert_close(found[name], cache[name], rtol=1e-3, atol=1e-5)
    last = probes.capture(
        model, torch.from_numpy(TOKENS), [PATTERN], batch=2, select=lambda a: a[:, 0, -1]
    )[PATTERN]
    torch.testing.assert_close(last, cache[PATTERN][:, 0, -1], rtol=1e-3, atol=1e-5)
    assert not last.requires_grad


@pytest.mark.lens
def test_model_is_given_back_as_it_was(model):
    """Own hooks stay and act, ours are gone, also after an error; training mode and random state
    are untouched."""
    model.train()
    model.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    state, parts, wrapper = torch.random.get_rng_state(), [*model.modules()], torch.nn.Module()
    for name in ("forward", "run_with_cache", "blocks", "cfg", "hook_dict", "parameters"):
        wrapper.__dict__[name] = getattr(model, name)  # a model that its wrapper does not list

    def zero(activation, hook):
        assert not any(module.training for module in parts)
        return torch.zeros_like(activation)

    with model.hooks(fwd_hooks=[(PATTERN, zero)]):
        before = hooks_on(model)
        for source in (model, wrapper):
            assert probes.capture(source, TOKENS, [PATTERN])[PATTERN].abs().max() == 0
        assert hooks_on(model) == before
        wrapper.run_with_cache, parts[:] = hooks_on, model.blocks.modules()
        probes.capture(wrapper, TOKENS, [PATTERN])
    with pytest.raises(ZeroDivisionError):
        probes.capture(model, TOKENS, [PATTERN], select=lambda a: a / (1 // 0))
    assert hooks_on(model) == []
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("heads", "length"), [(4, 4), (9, 4)])
def test_positions_of_a_cache_are_compared_on_their_own_axis(heads, length):
    """Rows as long as there are heads: their number is among the sizes of a cache of longer
    rows."""
    pattern = np.full((1, 6, heads, 9, 9), 1 / 9)
    with pytest.raises(ModelError, match="the cache holds 'blocks.0.attn.hook_pattern' of shape"):
        probes.uniformity(
            probes.from_arrays(pattern=pattern), Inputs(np.zeros((6, length), int)), n_null=0
        )


@pytest.mark.parametrize("short", ["pattern", "z", "v"])
def test_heads_of_a_cache_are_compared_with_those_of_its_model(short):
    """The model has 4 heads of queries, which may share keys and values: a cache of another model
    has other numbers."""
    model, name = lens_model("gpt2"), f"blocks.0.attn.hook_{short}"
    for heads, fits in ((4, True), (2, short == "v"), (3, False), (8, False)):
        shape = (7, heads, 9, 9) if short == "pattern" else (7, 9, heads, 4)
        cache = ActivationCache({name: torch.ones(shape)}, model)
        if fits:
            assert probes.capture(cache, TOKENS, [name])[name].shape == shape
        else:
            with pytest.raises(
                ModelError, match=f"the cache holds '{name}' of {heads} heads, and its model has 4"
            ):
                probes.capture(cache, TOKENS, [name])


def test_a_wrapper_that_lists_no_weights_is_read():
    model = lens_model("gpt2")
    expected = probes.uniformity(model, INPUTS, layer=1).values
    hidden = Wrapped(model)
    hidden.parameters = lambda: iter(())
    assert probes.uniformity(hidden, INPUTS, layer=1).values == expected
