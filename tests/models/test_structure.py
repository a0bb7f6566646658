"""What stands at a hook's name: a module in a hook point's place, as SAELens puts it, and compiled
parts, in which hooks do not fire."""

import warnings
from contextlib import suppress
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from lens_models import KINDS, SIZES, Wrapped, bridged, hooks_on, lens_model, transformers_model
from probe_cases import INPUTS
from torch import nn
from transformer_lens.hook_points import HookPoint

from rb_interp import interventions as do
from rb_interp import probes
from rb_interp.errors import ModelError
from rb_interp.interventions.ablating import ablations
from rb_interp.interventions.edits import values_at, with_edits
from rb_interp.models.structure import attached, caller_hooks, hook_points
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

try:
    from transformer_lens import HookedTransformer, HookedTransformerConfig
except ImportError:  # 4.x; SAELens needs an older one
    HookedTransformer = torch.nn.Module

RNG = np.random.default_rng(0)
TOKENS = RNG.integers(2, 30, (12, 8))
ROLES = Roles({"key": np.full((12, 1), 3), "noise": np.tile([1, 2], (12, 1))}, {"low": range(6)})
CLEAN = Inputs(TOKENS, RNG.integers(2, 30, 12), ROLES)
OTHER = Inputs(RNG.integers(2, 30, (12, 8)), (CLEAN.labels + 5) % 30, ROLES)
SPECIAL = 5
"""A token at which a stand-in may be left out."""


class Autoencoder(nn.Module):
    """In a hook point's place, as SAELens's wrapper: with hook points of its own, with or without
    the error of its reconstruction, left out where a mask says so."""

    def __init__(self, width, error_term):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.encoder = nn.Parameter(0.3 * torch.randn(width, 6, generator=generator))
        self.decoder = nn.Parameter(0.3 * torch.randn(6, width, generator=generator))
        self.hook_sae_acts_post = HookPoint()
        self.hook_sae_output = HookPoint()
        self.error_term = error_term
        self.mask = None

    def forward(self, x):
        out = self.hook_sae_acts_post(torch.relu(x @ self.encoder)) @ self.decoder
        if self.error_term:
            with torch.no_grad():
                error = x - torch.relu(x @ self.encoder) @ self.decoder
            out = out + error
        if self.mask is not None:
            out = torch.where(self.mask[(...,) + (None,) * (x.ndim - 2)], x, out)
        return self.hook_sae_output(out)


class Through(HookPoint):
    """A hook point that TransformerLens knows as one, with a module before its hooks: the oracle."""

    def __init__(self, module):
        super().__init__()
        self.module = [module]

    def forward(self, x):
        return self.module[0](x)


class MaskedTransformer(HookedTransformer):
    """Leaves its stand-in out at SPECIAL, as SAELens's HookedSAETransformer does."""

    def forward(self, input, **options):
        self.stand_in[0].mask = input == SPECIAL if input.ndim == 2 else None
        try:
            return super().forward(input, **options)
        finally:
            self.stand_in[0].mask = None


def model_with(place, kind, layer=0, oracle=False):
    """A model with an autoencoder at ``blocks.<layer>.<place>``, or with it in a hook point."""
    if HookedTransformer is nn.Module:
        pytest.skip("SAELens needs TransformerLens below 4")
    cls = MaskedTransformer if kind == "masked" else HookedTransformer
    sizes = {**SIZES, **KINDS["gpt2"], "n_layers": 2, "seed": 0, "device": "cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model = cls(HookedTransformerConfig(**sizes))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    owner = model if place == "hook_embed" else model.blocks[layer]
    *path, last = place.split(".")
    for part in path:
        owner = getattr(owner, part)
    width = model.cfg.d_head if last == "hook_z" else model.cfg.d_model
    stand_in = Autoencoder(width, error_term=kind == "error term")
    model.stand_in = [stand_in]
    setattr(owner, last, Through(stand_in) if oracle else stand_in)
    model.setup()
    return model


CASES = [("hook_mlp_out", "plain", 0)]
MORE = [("hook_resid_post", "masked", 1), ("attn.hook_z", "error term", 1)]
MORE += [("hook_embed", "plain", 0), ("hook_resid_pre", "plain", 0), ("hook_attn_out", "masked", 0)]
MORE += [("hook_resid_pre", "error term", 1), ("hook_resid_post", "plain", 0)]
CASES += [pytest.param(*case, marks=pytest.mark.wide) for case in MORE]

HEAD = {"layer": 1, "head": 1, "n_null": 3}
PROBES = {
    "attention": {**HEAD, "query": "last", "to": "key"},
    "uniformity": HEAD,
    "value_alignment": HEAD,
    "variance_explained": {**HEAD, "groupings": {"first token": TOKENS[:, 0] % 2}},
    "cosines_by_target": {"hook": "blocks.0.hook_mlp_out", "role": "key", "n_null": 3},
    "geometry": HEAD,
    "label_range": {"groups": np.arange(12) % 2, "ranges": [(0, 9), (0, 19)], "n_null": 3},
    "logit_lens": {"n_null": 3},
}
INTERVENTIONS = {
    "patching_effect": lambda model: do.patching_effect(model, CLEAN, OTHER, "z.0@key"),
    "patching_matrix": lambda model: do.patching_matrix(model, CLEAN, OTHER),
    "attribution_matrix": lambda model: do.attribution_matrix(
        model, CLEAN, OTHER, components=("embed", "resid_pre", "z", "mlp_out", "resid_post")
    ),
    "path_matrix, frozen": lambda model: do.path_matrix(
        model,
        CLEAN,
        OTHER,
        ["z.0.1@key", "mlp_out.0@key"],
        ["v.1.0@key", "q.1@last", "resid_post.1@last"],
        mlps="frozen",
    ),
    "path_patch": lambda model: do.path_patch(model, CLEAN, OTHER, "z.0.1@key", "v.1.0@key"),
    "ablations": lambda model: ablations(model, CLEAN, ["mlp_out.0@key", "attn_out.0", "z.0.1"]),
    "interchange": lambda model: do.interchange(
        model,
        CLEAN,
        OTHER,
        "resid_post.0@last",
        OTHER.labels,
        control=CLEAN.take(np.arange(12)[::-1]),
    ),
    "forced_average": lambda model: do.forced_average(model, CLEAN, layer=1),
    "blocked_attention": lambda model: do.blocked_attention(model, CLEAN, layer=1, n_draws=2),
    "subspace_effect": lambda model: do.subspace_effect(
        model, CLEAN, np.eye(model.cfg.d_model)[:, :2], layer=1, n_draws=2
    ),
}


def table(result):
    return result if isinstance(result, pd.DataFrame) else result.to_frame()


@pytest.mark.parametrize(("place", "kind", "layer"), CASES)
def test_a_module_in_a_hook_point_s_place_is_read_and_edited_as_the_hook_point(place, kind, layer):
    """Every probe and intervention gives the numbers of a model whose hook point itself computes
    what stands in its place."""
    model, oracle = (model_with(place, kind, layer, oracle=which) for which in (False, True))
    calls = {name: partial(getattr(probes, name), inputs=CLEAN, **PROBES[name]) for name in PROBES}
    for name, call in {**calls, **INTERVENTIONS}.items():
        expected, result = table(call(oracle)), table(call(model))
        pd.testing.assert_frame_equal(result, expected, rtol=1e-4, atol=1e-5, obj=name)


def test_patching_and_a_frozen_path_are_those_of_plain_hooks():
    """By hand, with run_with_hooks at the autoencoder's own hook points."""
    model = model_with("hook_mlp_out", "plain")
    tokens, corrupted, rows = torch.tensor(TOKENS), torch.tensor(OTHER.tokens), torch.arange(12)
    right, wrong = torch.tensor(CLEAN.labels), torch.tensor(OTHER.labels)

    def difference(logits):
        return (logits[rows, -1, right] - logits[rows, -1, wrong]).double().mean().item()

    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        _, base = model.run_with_cache(corrupted)
        low, high = difference(model(corrupted)), difference(model(tokens))

    def put(source, head, x, hook):
        x = x.clone()
        x[:, 3, head] = source[hook.name][:, 3, head]
        return x

    def run(*hooks):
        with torch.no_grad():
            return model.run_with_hooks(corrupted, fwd_hooks=list(hooks))

    logits = run(("blocks.0.attn.hook_z", partial(put, cache, slice(None))))
    share = (difference(logits) - low) / (high - low)
    effect = do.patching_effect(model, CLEAN, OTHER, "z.0@key")
    assert effect.values.mean() == pytest.approx(share, rel=1e-4)
    values = {}
    run(
        ("blocks.0.attn.hook_z", partial(put, cache, 1)),
        ("blocks.0.hook_mlp_out.hook_sae_output", lambda x, hook: base[hook.name]),
        ("blocks.1.attn.hook_v", lambda x, hook: values.update({hook.name: x.clone()})),
    )
    logits = run(("blocks.1.attn.hook_v", partial(put, values, 0)))
    share = (difference(logits) - low) / (high - low)
    effect = do.path_patch(model, OTHER, CLEAN, "z.0.1@key", "v.1.0@key", mlps="frozen")
    assert effect.values.mean() == pytest.approx(share, rel=1e-4)


def test_hooks_of_a_stand_in_are_gone_after_the_context():
    model = model_with("hook_mlp_out", "plain")
    name = "blocks.0.hook_mlp_out"
    assert hook_points(model, [name, "blocks.0.attn", "blocks.0.hook_none"]) == {
        name: model.blocks[0].hook_mlp_out
    }
    tokens = torch.tensor(TOKENS)
    before, seen = model(tokens), []
    with attached(model, [(name, lambda x, _: seen.append(x))]):
        model(tokens)
    assert torch.equal(model(tokens), before)
    assert len(seen) == 1
    expected = model.run_with_cache(tokens)[1][f"{name}.hook_sae_output"]
    assert torch.equal(seen[0], expected)


@pytest.mark.parametrize(("place", "site"), [("hook_resid_post", "resid_post"), ("hook_z", "z")])
@pytest.mark.parametrize("error_term", [False, True])
def test_an_autoencoder_of_saelens(place, site, error_term):
    """Left out at a special token too: read and patched as its own hook says."""
    sae_lens = pytest.importorskip("sae_lens")  # needs TransformerLens below 4
    sizes = {**SIZES, **KINDS["gpt2"], "n_layers": 2, "seed": 0, "device": "cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sae_lens.HookedSAETransformer(HookedTransformerConfig(**sizes))
        name = f"blocks.0.{'attn.' if site == 'z' else ''}{place}"
        d_in = sizes["d_model"]
        config = sae_lens.StandardSAEConfig(
            d_in=d_in,
            d_sae=6,
            device="cpu",
            reshape_activations="hook_z" if site == "z" else "none",
            metadata=sae_lens.saes.sae.SAEMetadata(hook_name=name),
        )
        sae = sae_lens.StandardSAE(config)
        generator = torch.Generator().manual_seed(2)
        for parameter in sae.parameters():
            parameter.data.copy_(0.3 * torch.randn(parameter.shape, generator=generator))
        model.add_sae(sae, use_error_term=error_term, exclude_special_tokens=[SPECIAL])
    tokens, corrupted = torch.tensor(TOKENS), torch.tensor(OTHER.tokens)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        own = cache[f"{name}.hook_sae_output"]
        assert torch.equal(values_at(model, CLEAN, f"{site}.0")[do.Site(site, 0)], own)

        def put(x, hook):
            x = x.clone()
            x[:, 3] = own[:, 3]
            return x

        logits = model.run_with_hooks(corrupted, fwd_hooks=[(f"{name}.hook_sae_output", put)])
        whole = model(tokens)
        low = model(corrupted)
    effect = do.patching_effect(model, CLEAN, OTHER, f"{site}.0@key")
    rows = torch.arange(12)
    right, wrong = torch.tensor(CLEAN.labels), torch.tensor(OTHER.labels)
    numbers = [(x[rows, -1, right] - x[rows, -1, wrong]).double() for x in (logits, low, whole)]
    share = (numbers[0] - numbers[1]) / (numbers[2] - numbers[1]).mean()
    np.testing.assert_allclose(effect.values, share, rtol=1e-3, atol=1e-4)
    matrix = do.patching_matrix(model, CLEAN, OTHER, components=[site], layers=[0], roles=["key"])
    assert float(matrix.values.ravel()[0]) == pytest.approx(share.mean().item(), rel=1e-3)


def without_stand_ins(bridge):
    """SAELens's class of a bridge: its ``hook_dict`` has hook points alone."""

    class Bridge(bridge):
        @property
        def hook_dict(self):
            points = super().hook_dict.items()
            return {name: point for name, point in points if isinstance(point, HookPoint)}

    return Bridge


@pytest.mark.lens
def test_a_stand_in_on_a_bridge_is_found_under_the_hook_s_other_name():
    """SAELens puts it at the bridge's own hook point and takes that out of ``hook_dict``."""
    model = bridged(transformers_model("GPTNeoX"))
    tokens, corrupted, rows = torch.tensor(TOKENS), torch.tensor(OTHER.tokens), torch.arange(12)
    model(tokens)  # a bridge sets hooks of its own in its first pass
    stand_in = Autoencoder(model.cfg.d_model, error_term=False)
    seen = []
    stand_in.register_forward_hook(lambda module, args, output: seen.append(output))
    model.blocks[0].mlp.hook_out = stand_in
    model._hook_registry["blocks.0.mlp.hook_out"] = stand_in
    model.__class__ = without_stand_ins(type(model))
    with torch.no_grad():
        clean, low = model(tokens), model(corrupted)
        values = values_at(model, CLEAN, "mlp_out.0")[do.Site("mlp_out", 0)]
        torch.testing.assert_close(values, seen[0])
        handle = stand_in.register_forward_hook(lambda module, args, output: seen[0])
        patched = model(corrupted)
        handle.remove()
    right, wrong = torch.tensor(CLEAN.labels), torch.tensor(OTHER.labels)
    numbers = [(x[rows, -1, right] - x[rows, -1, wrong]).double() for x in (patched, low, clean)]
    share = (numbers[0] - numbers[1]) / (numbers[2] - numbers[1]).mean()
    effect = do.patching_effect(model, CLEAN, OTHER, "mlp_out.0")
    np.testing.assert_allclose(effect.values, share, rtol=1e-3, atol=1e-4)


COMPILED = {
    "the whole, wrapped": "model._orig_mod",
    "a block, wrapped": "'blocks.1' of this model is wrapped by torch.compile",
    "the whole, in place": "this model is compiled by torch.compile",
    "its forward": "this model is compiled by torch.compile",
}
"""Part of a model -> what is said where it is compiled."""


def compiled(part):
    model = model_with("hook_mlp_out", "plain", oracle=True)
    if part == "the whole, wrapped":
        return torch.compile(model, backend="eager")
    if part == "a block, wrapped":
        model.blocks[1] = torch.compile(model.blocks[1], backend="eager")
        model.setup()
    elif part == "the whole, in place":
        model.compile(backend="eager")
    else:
        model.forward = torch.compile(model.forward, backend="eager")
    return model


@pytest.mark.parametrize("part", COMPILED)
def test_a_compiled_model_is_refused_by_every_call_that_hooks_it(part):
    """Hooks that are attached after it was compiled do not fire: an edit would change nothing."""
    model = compiled(part)
    calls = {name: partial(getattr(probes, name), inputs=CLEAN, **PROBES[name]) for name in PROBES}
    for name, call in {**calls, **INTERVENTIONS}.items():
        with pytest.raises(ModelError, match=r"torch\.compile") as error:
            call(model)
        assert COMPILED[part] in str(error.value), name
    with pytest.raises(ModelError, match=r"torch\.compile"), with_edits(model, []):
        pass


@pytest.fixture(scope="module")
def model():
    return lens_model("gpt2")


@pytest.mark.lens
def test_hooks_that_the_caller_left_are_named(model):
    """On the model or on the untrained one, for a probe of attention and one of weights; a cache
    was made before."""
    other, cache = lens_model("gpt2", seed=1), probes.captured(model, INPUTS.tokens)
    assert not {"hooks"} & probes.uniformity(model, INPUTS, untrained=other, n_null=0).notes.keys()
    told = "carries hooks of yours, which act in every pass: blocks.1.hook_mlp_out"
    cure = "Take them off by model.reset_hooks("
    for one, name in ((other, "the untrained model"), (model, "the model")):
        with one.hooks(fwd_hooks=[("blocks.1.hook_mlp_out", lambda value, hook: value)]):
            for probe in (probes.uniformity, probes.weight_rank):
                assert (
                    probe(model, INPUTS, untrained=other, n_null=0).notes["hooks"]
                    == f"{name} {told}. {cure})."
                )
            assert "hooks" not in probes.uniformity(cache, INPUTS, n_null=0).notes
    model.hook_dict["blocks.1.hook_mlp_out"].add_perma_hook(lambda value, hook: value)
    handle = model.blocks[0].register_forward_hook(lambda *_: None)
    cure = f"{cure}including_permanent=True) and the handle's remove()."
    assert caller_hooks(model) == {"hooks": f"the model {told}, blocks.0. {cure}"}
    model.reset_hooks(including_permanent=True)
    assert "by the handle's remove()" in caller_hooks(Wrapped(model))["hooks"]
    handle.remove()
    bridge = bridged(transformers_model("GPTNeoX"))
    bridge(torch.from_numpy(INPUTS.tokens))  # a bridge sets hooks of its own in its first pass
    assert caller_hooks(model) == caller_hooks(bridge) == {}


def state_of(model) -> list:
    """What a call may not change: modes, gradients, flags, hooks of every module and of what a
    bridge stands for."""
    modules = [*model.modules(), *getattr(model, "original_model", model).modules()]
    hooks = [(module._forward_hooks.copy(), module._forward_pre_hooks.copy()) for module in modules]
    flags = [
        getattr(model.cfg, f"use_{flag}", None)
        for flag in ("attn_result", "attn_in", "split_qkv_input")
    ]
    weights = [
        (weight.requires_grad, weight.grad, weight.detach().clone().tolist())
        for weight in model.parameters()
    ]
    return [[module.training for module in modules], weights, flags, hooks, hooks_on(model)]


@pytest.mark.lens
@pytest.mark.parametrize("kind", ["plain", "wrapped", "bridged"])
def test_a_model_in_mixed_modes_is_given_back_as_it_was(kind):
    """After a probe, a scan and interventions, and after an error in the middle of a pass of each
    of them."""
    model = bridged(transformers_model("GPTNeoX")) if kind == "bridged" else lens_model("gpt2")
    model = Wrapped(model) if kind == "wrapped" else model
    other = Inputs(np.roll(INPUTS.tokens, 1, 0), np.roll(INPUTS.labels, 1), INPUTS.roles)
    with suppress(NotImplementedError):  # some bridges have no such flag
        model.set_use_attn_result(True)
    model(torch.from_numpy(INPUTS.tokens))  # a bridge sets hooks of its own in its first pass
    for part in (model, getattr(model, "original_model", model)):
        for number, module in enumerate(part.modules()):
            module.training = bool(number % 3)
    for number, weight in enumerate(model.parameters()):
        weight.requires_grad_(bool(number % 2))
    before = state_of(model)
    calls = {
        "probe": lambda: probes.uniformity(model, INPUTS, layer=1),
        "probe of weights": lambda: probes.value_alignment(model, INPUTS, layer=1),
        "scan": lambda: probes.scan(probes.uniformity, model, INPUTS, layers=[1], n_null=2),
        "patching": lambda: do.patching_matrix(model, INPUTS, other, layers=[1], roles=["key"]),
        "gradients": lambda: do.attribution_matrix(model, INPUTS, other, layers=[1], roles=["key"]),
        "edited weights": lambda: do.subspace_effect(model, INPUTS, np.eye(16)[:, :2], n_draws=1),
    }
    for name, call in calls.items():
        if (name, kind) != ("edited weights", "bridged"):  # a bridge derives its W_V
            call()
        assert state_of(model) == before, name
        handle = model.blocks[0].hook_resid_post.register_forward_hook(lambda *_: 1 / 0)
        disturbed = state_of(model)
        with pytest.raises((ZeroDivisionError, ModelError)):
            call()
        assert state_of(model) == disturbed, name
        handle.remove()
