"""The post-norm model is hooked as HookedTransformer is, and normalises after each addition."""

from importlib.metadata import version

import pytest
import torch
from torch.nn.functional import layer_norm as torch_layer_norm

from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.tasks.anchor import AnchorTask

pytestmark = pytest.mark.lens

TASK = AnchorTask()
CONFIG = ModelConfig(norm="post", n_heads=2)


@pytest.fixture(scope="module")
def model():
    return build_model(TASK, gamma=0.5, config=CONFIG, dtype=torch.float64)


@pytest.fixture(scope="module")
def tokens():
    return torch.tensor(TASK.dataset(seed=0).tokens[:16]).long()


def test_hooks_have_hooked_transformers_names_and_shapes(model, tokens):
    untrained = build_model(TASK, gamma=0.5, config=CONFIG, norm="pre", dtype=torch.float64)
    ours = {name: tensor.shape for name, tensor in model.run_with_cache(tokens)[1].items()}
    theirs = {name: tensor.shape for name, tensor in untrained.run_with_cache(tokens)[1].items()}
    theirs = {name: shape for name, shape in theirs.items() if not name.startswith("ln_final.")}
    if version("transformer-lens") < "4":
        assert ours == theirs
    assert ours == {name: theirs[name] for name in ours}
    assert set(ours) == set(model.hook_dict)


def test_residual_stream_is_the_normalised_sum(model, tokens):
    logits, cache = model.run_with_cache(tokens)
    for i, block in enumerate(model.blocks):
        for norm, before, out, after in (
            (block.ln1, "resid_pre", "attn_out", "resid_mid"),
            (block.ln2, "resid_mid", "mlp_out", "resid_post"),
        ):
            expected = torch_layer_norm(
                cache[before, i] + cache[out, i], (64,), norm.w, norm.b, 1e-5
            )
            torch.testing.assert_close(cache[after, i], expected, rtol=1e-10, atol=1e-10)
        assert cache["pattern", i].triu(1).eq(0).all()
        torch.testing.assert_close(cache["pattern", i], cache["attn_scores", i].softmax(-1))
    torch.testing.assert_close(logits, cache["resid_post", 1] @ model.W_U + model.b_U)
    torch.testing.assert_close(model.OV.AB[1, 1], model.W_V[1, 1] @ model.W_O[1, 1])
    torch.testing.assert_close(model.QK.AB[1, 0], model.W_Q[1, 0] @ model.W_K[1, 0].T)
