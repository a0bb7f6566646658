"""What TransformerLens's demos do beside the ten everyday tasks, with TransformerLens alone and with
rb_interp.

    python benchmarks/demo_tasks.py [--rounds 7]

Every head, position and part is read in one go, as in its main demo, its exploratory analysis and
its demo of path patching. `everyday_tasks.py` has the model and rows, and prints the table.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from everyday_tasks import World, main
from transformer_lens import patching

import rb_interp as rb
from rb_interp import interventions as iv
from rb_interp.models.protocol import HookedModel
from rb_interp.probes import head_circuits, logit_lens


def heads_of(model: HookedModel) -> list[tuple[int, int]]:
    return [*product(range(model.cfg.n_layers), range(model.cfg.n_heads))]


def written_by_heads_alone(w: World) -> np.ndarray:
    """What does each head write into the answer's logit, above that of the mean answer?"""
    with torch.no_grad():
        _, cache = w.model.run_with_cache(w.tokens)
        W_U = w.model.W_U[:, w.clean.labels]  # [d_model, row]
        directions = (W_U - W_U.mean(1, keepdim=True)).T * w.model.ln_final.w
        heads = cache.stack_head_results(pos_slice=-1)
        heads = heads - heads.mean(-1, keepdim=True)
        scale = cache["ln_final.hook_scale"][:, -1]
        return ((heads / scale) * directions).sum(-1).mean(-1).numpy()


def written_by_heads_here(w: World) -> np.ndarray:
    matrix = iv.direct_effect(w.model, w.clean, by="head")
    return matrix.to_frame().set_index("site").effect.filter(like="z.").to_numpy()


def read_from_streams_alone(w: World) -> np.ndarray:
    """How likely is the answer if the stream after each sublayer were the last?"""
    labels = torch.from_numpy(w.clean.labels)[:, None]
    with torch.no_grad():
        _, cache = w.model.run_with_cache(w.tokens)
        streams = cache.accumulated_resid(incl_mid=True, pos_slice=-1)
        found = []
        for stream in streams:
            logits = w.model.unembed(w.model.ln_final(stream[:, None]))[:, 0]
            found.append(logits.softmax(-1).gather(1, labels).mean())
    return torch.stack(found).numpy()


def read_from_streams_here(w: World) -> np.ndarray:
    table = logit_lens(w.model, w.clean, untrained=w.untrained).to_frame()
    return table[table.quantity.str.endswith("probability")].value.to_numpy()


def _recovered(w: World, patch: Callable) -> np.ndarray:
    answers = torch.from_numpy(np.stack([w.clean.labels, w.corrupted.labels], 1))

    def metric(logits):
        found = logits[:, -1].gather(1, answers)
        return (found[:, 0] - found[:, 1]).mean()

    with torch.no_grad():
        clean, cache = w.model.run_with_cache(w.tokens)
        low, high = metric(w.model(w.others)), metric(clean)
        return ((patch(w.model, w.others, cache, metric) - low) / (high - low)).numpy()


def every_position_alone(w: World) -> np.ndarray:
    """Where does the stream carry the answer: layers by positions?"""
    return _recovered(w, patching.get_act_patch_resid_pre).flatten()


def every_position_here(w: World) -> np.ndarray:
    matrix = iv.patching_matrix(
        w.model, w.clean, w.corrupted, components="resid_pre", roles="positions"
    )
    return matrix.values.flatten()


def every_head_alone(w: World) -> np.ndarray:
    """Which heads carry the answer: layers by heads?"""
    return _recovered(w, patching.get_act_patch_attn_head_out_all_pos).flatten()


def every_head_here(w: World) -> np.ndarray:
    return iv.patching_matrix(w.model, w.clean, w.corrupted, head="all").values.flatten()


def without_each_head_alone(w: World) -> np.ndarray:
    """Which loss is added without each head in turn?"""
    labels = torch.from_numpy(w.clean.labels)

    def mean(z, hook, head):
        z[:, :, head] = z[:, :, head].mean(0)
        return z

    def loss(logits):
        return torch.nn.functional.cross_entropy(logits[:, -1], labels)

    with torch.no_grad():
        before, found = loss(w.model(w.tokens)), []
        for layer, head in heads_of(w.model):
            hook = (f"blocks.{layer}.attn.hook_z", lambda z, hook, head=head: mean(z, hook, head))
            found.append(loss(w.model.run_with_hooks(w.tokens, fwd_hooks=[hook])) - before)
    return torch.stack(found).numpy()


def without_each_head_here(w: World) -> np.ndarray:
    table = iv.ablations(w.model, w.clean, head="all", methods=["mean"], metric="loss")
    return table.loss_increase.to_numpy()


def groups_of_heads_alone(w: World) -> np.ndarray:
    """How much goes from the heads of L0 into all that the heads of L1 read, and no further?"""
    answers = torch.from_numpy(np.stack([w.clean.labels, w.corrupted.labels], 1))

    def metric(logits):
        found = logits[:, -1].gather(1, answers)
        return (found[:, 0] - found[:, 1]).mean()

    def take(z, hook):
        return source[hook.name]

    def hold(mlp_out, hook):
        return base[hook.name]

    def put(value, hook):
        return reached[hook.name]

    with torch.no_grad():
        clean, source = w.model.run_with_cache(w.tokens)
        other, base = w.model.run_with_cache(w.others)
        hooks = [("blocks.0.attn.hook_z", take), ("blocks.0.hook_mlp_out", hold)]
        with w.model.hooks(fwd_hooks=hooks):
            _, reached = w.model.run_with_cache(w.others)
        sites = [(f"blocks.1.attn.hook_{part}", put) for part in "qkv"]
        patched = w.model.run_with_hooks(w.others, fwd_hooks=sites)
        low, high = metric(other), metric(clean)
        return np.array([(metric(patched) - low) / (high - low)])


def groups_of_heads_here(w: World) -> np.ndarray:
    heads = range(w.model.cfg.n_heads)
    senders = [f"z.0.{head}" for head in heads]
    receivers = [f"{part}.1.{head}" for part in "qkv" for head in heads]
    matrix = iv.path_matrix(w.model, w.corrupted, w.clean, senders, receivers, together=True)
    return matrix.values.flatten()


def copied_alone(w: World) -> np.ndarray:
    """Which heads copy the token that they look at, by weights alone?"""
    W_E = w.model.W_E - w.model.W_E.mean(0)
    found = []
    with torch.no_grad():
        for layer, head in heads_of(w.model):
            read = (W_E - W_E.mean(1, keepdim=True)) * w.model.blocks[layer].ln1.w
            written = w.model.W_V[layer, head] @ w.model.W_O[layer, head]
            written = (written - written.mean(1, keepdim=True)) * w.model.ln_final.w
            values = torch.linalg.eigvals((read @ written @ w.model.W_U).double())
            found.append(values.real.sum() / values.abs().sum())
    return torch.stack(found).numpy()


def copied_here(w: World) -> np.ndarray:
    table = rb.scan(head_circuits, w.model, untrained=w.untrained)
    return table[table.quantity == "copying"].value.to_numpy()


TASKS = (
    (written_by_heads_alone, written_by_heads_here),
    (read_from_streams_alone, read_from_streams_here),
    (every_position_alone, every_position_here),
    (every_head_alone, every_head_here),
    (without_each_head_alone, without_each_head_here),
    (groups_of_heads_alone, groups_of_heads_here),
    (copied_alone, copied_here),
)
SHARED = {every_position_alone: _recovered, every_head_alone: _recovered}
"""Functions whose work another one does for both."""


if __name__ == "__main__":
    main(TASKS, SHARED)
