"""Ten everyday tasks, with TransformerLens alone and with rb_interp: lines, seconds, and whether
the numbers agree.

    python benchmarks/everyday_tasks.py [--rounds 7]
    python benchmarks/demo_tasks.py [--rounds 7]

Each task is two functions that give the same numbers. Lines are those of the function's body. Each
round times one after the other, so that a noisy machine disturbs both alike; seconds are CPU
seconds of one thread, medians of the rounds. The model is the small GPT-2 that has learned
induction (the zoo's `induction`). What the calls of rb_interp give besides (nulls, intervals, the
untrained model) is in their time and lines, and is not there on the other side. The Markdown tables
that are printed stand in docs/beside_transformerlens.md. Needs transformer-lens 3.9: hooks have
other names in 4.x.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from transformer_lens import patching

import rb_interp as rb
from rb_interp import interventions as iv
from rb_interp.probes import attention, uniformity, variance_explained
from rb_interp.tasks import Inputs, Roles

N_LAYERS, N_HEADS = 2, 2
patching.tqdm = partial(
    patching.tqdm, disable=True
)  # its bar would stand in the table, and in the time


@dataclass(frozen=True)
class World:
    """The model, the same at step 0, rows, and the same rows with another answer."""

    model: Any
    untrained: Any
    clean: Inputs
    corrupted: Inputs

    @property
    def tokens(self) -> torch.Tensor:
        return torch.from_numpy(self.clean.tokens)

    @property
    def others(self) -> torch.Tensor:
        return torch.from_numpy(self.corrupted.tokens)

    def at(self, role: str) -> torch.Tensor:
        return torch.from_numpy(self.clean.roles.position(role))


def world(n: int = 256) -> World:
    """Rows of induction, and the same with another token in place of the answer wherever it
    stands."""
    member, rng = rb.from_pretrained("zoo", member="induction"), np.random.default_rng(0)
    clean = member.task.inputs(n)
    positions = {
        **clean.roles.positions,
        "noise": clean.roles.position("other"),
    }  # what a control may change
    clean = replace(clean, roles=Roles(positions))
    absent = [np.setdiff1d(np.arange(member.task.d_vocab), row) for row in clean.tokens]
    new = np.array([rng.choice(some) for some in absent])
    tokens = np.where(clean.tokens == clean.labels[:, None], new[:, None], clean.tokens)
    return World(member.model, member.untrained, clean, Inputs(tokens, new, clean.roles))


def larger_world(n: int = 32, length: int = 20, d_vocab: int = 500) -> World:
    """Rows of random tokens, and the same with another one at position 5, for two models of
    random weights: for demo_tasks.py alone."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    sizes = {"n_layers": 4, "n_heads": 8, "d_model": 256, "d_head": 32, "d_mlp": 1024}
    sizes |= {"n_ctx": length, "d_vocab": d_vocab, "act_fn": "gelu_new", "device": "cpu"}
    model, untrained = (
        rb.scale_init(HookedTransformer(HookedTransformerConfig(**sizes)), gamma=0.4, seed=seed)
        for seed in (0, 1)
    )
    rng = np.random.default_rng(0)
    tokens, labels = rng.integers(d_vocab, size=(n, length)), rng.permutation(d_vocab)
    others = tokens.copy()
    others[:, 5] = (others[:, 5] + 1) % d_vocab
    clean, corrupted = Inputs(tokens, labels[:n]), Inputs(others, labels[n : 2 * n])
    return World(model, untrained, clean, corrupted)


def evenness_alone(w: World) -> np.ndarray:
    """How far from even does each head attend?"""
    with torch.no_grad():
        _, cache = w.model.run_with_cache(
            w.tokens, names_filter=lambda name: name.endswith("hook_pattern")
        )
    length = w.tokens.shape[1]
    even = torch.tril(torch.ones(length, length)) / torch.arange(1, length + 1)[:, None]
    found = []
    for layer in range(N_LAYERS):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]
        found.append(((pattern - even).abs().sum(-1) / 2)[:, :, 1:].mean((0, 2)))
    return torch.cat(found).numpy()


def evenness_here(w: World) -> np.ndarray:
    table = rb.scan(uniformity, w.model, w.clean, untrained=w.untrained)
    return table[table.quantity == "tv"].value.to_numpy()


def looks_alone(w: World) -> np.ndarray:
    """Which head looks from the query to the place of the answer?"""
    with torch.no_grad():
        _, cache = w.model.run_with_cache(
            w.tokens, names_filter=lambda name: name.endswith("hook_pattern")
        )
    row, query, key = torch.arange(len(w.tokens)), w.at("query")[:, 0], w.at("second")[:, 0]
    found = []
    for layer in range(N_LAYERS):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]
        found.append(pattern[row, :, query, key].mean(0))
    return torch.cat(found).numpy()


def looks_here(w: World) -> np.ndarray:
    table = rb.scan(attention, w.model, w.clean, query="query", to="second", untrained=w.untrained)
    return table[table.quantity == "query_to_second"].value.to_numpy()


def written_alone(w: World) -> np.ndarray:
    """Which share of what each layer's attention writes does the answer explain?"""
    names = [f"blocks.{layer}.hook_attn_out" for layer in range(N_LAYERS)]
    with torch.no_grad():
        _, cache = w.model.run_with_cache(w.tokens, names_filter=lambda name: name in names)
    labels, groups = np.unique(w.clean.labels, return_inverse=True)
    found = []
    for name in names:
        x = cache[name][:, -1].double().numpy()
        within = sum(
            ((x[groups == g] - x[groups == g].mean(0)) ** 2).sum() for g in range(len(labels))
        )
        total = ((x - x.mean(0)) ** 2).sum()
        mean_square = within / (len(x) - len(labels))
        found.append((total - within - (len(labels) - 1) * mean_square) / (total + mean_square))
    return np.array(found)


def written_here(w: World) -> np.ndarray:
    groupings = {"answer": w.clean.labels}
    found = variance_explained(w.model, w.clean, groupings=groupings, untrained=w.untrained).values
    return np.array([found[f"attn_out.{layer}:answer"] for layer in range(N_LAYERS)])


def patched_alone(w: World) -> np.ndarray:
    """Where does the residual stream carry the answer: layers by roles?"""
    answers = torch.from_numpy(np.stack([w.clean.labels, w.corrupted.labels], 1))
    row, roles = torch.arange(len(w.tokens))[:, None], [w.at(role) for role in ("second", "query")]

    def metric(logits):
        found = logits[:, -1].gather(1, answers)
        return (found[:, 0] - found[:, 1]).mean()

    def setter(corrupted, index, clean):
        corrupted[row, roles[index[1]]] = clean[row, roles[index[1]]]
        return corrupted

    cells = pd.DataFrame(
        [(layer, role) for layer in range(N_LAYERS) for role in range(2)], columns=["layer", "role"]
    )
    with torch.no_grad():
        _, cache = w.model.run_with_cache(w.tokens)
        low, high = metric(w.model(w.others)), metric(w.model(w.tokens))
        found = patching.generic_activation_patch(
            w.model, w.others, cache, metric, setter, "resid_pre", index_df=cells
        )
    return ((found.flatten() - low) / (high - low)).numpy()


def patched_here(w: World) -> np.ndarray:
    matrix = iv.patching_matrix(
        w.model, w.clean, w.corrupted, components=["resid_pre"], roles=["second", "query"]
    )
    return matrix.values.flatten()


def ablated_alone(w: World) -> np.ndarray:
    """Which accuracy is lost without a head?"""
    return _ablated(w, [(1, 0)])


def ablated_here(w: World) -> np.ndarray:
    effect = iv.ablation(w.model, w.clean, "z.1.0", method="mean")
    return np.array([effect.values.mean()])


def together_alone(w: World) -> np.ndarray:
    """Which accuracy is lost without two heads together?"""
    return _ablated(w, [(1, 0), (1, 1)])


def together_here(w: World) -> np.ndarray:
    effect = iv.ablation(w.model, w.clean, ["z.1.0", "z.1.1"], method="mean")
    return np.array([effect.values.mean()])


def _ablated(w: World, heads: list[tuple[int, int]]) -> np.ndarray:
    def mean(z, hook, head):
        z[:, :, head] = z[:, :, head].mean(0)
        return z

    hooks = [
        (f"blocks.{layer}.attn.hook_z", lambda z, hook, head=head: mean(z, hook, head))
        for layer, head in heads
    ]
    labels = torch.from_numpy(w.clean.labels)
    with torch.no_grad():
        before = w.model(w.tokens)[:, -1].argmax(-1) == labels
        after = w.model.run_with_hooks(w.tokens, fwd_hooks=hooks)[:, -1].argmax(-1) == labels
    return np.array([(before.double() - after.double()).mean()])


def path_alone(w: World) -> np.ndarray:
    """How much of the answer goes from L0's attention straight into the values of L1?"""
    answers = torch.from_numpy(np.stack([w.clean.labels, w.corrupted.labels], 1))
    row, at = torch.arange(len(w.tokens))[:, None], w.at("second")

    def metric(logits):
        found = logits[:, -1].gather(1, answers)
        return (found[:, 0] - found[:, 1]).mean()

    def take(out, hook):
        out[row, at] = source[hook.name][row, at]
        return out

    def hold_mlp(out, hook):
        return base[hook.name]

    def take_values(v, hook):
        v[row, at] = reached[row, at]
        return v

    with torch.no_grad():
        _, source = w.model.run_with_cache(w.tokens)
        _, base = w.model.run_with_cache(w.others)
        first = [("blocks.0.hook_attn_out", take), ("blocks.0.hook_mlp_out", hold_mlp)]
        with w.model.hooks(fwd_hooks=first):
            _, cache = w.model.run_with_cache(w.others)
        reached = cache["blocks.1.attn.hook_v"]
        patched = w.model.run_with_hooks(
            w.others, fwd_hooks=[("blocks.1.attn.hook_v", take_values)]
        )
        low, high = metric(w.model(w.others)), metric(w.model(w.tokens))
    return np.array([(metric(patched) - low) / (high - low)])


def path_here(w: World) -> np.ndarray:
    path = iv.path_patch(w.model, w.corrupted, w.clean, "attn_out.0@second", "v.1@second")
    return np.array([path.values.mean()])


def attributed_alone(w: World) -> np.ndarray:
    """The same patching to first order, from one gradient?"""
    answers = torch.from_numpy(np.stack([w.clean.labels, w.corrupted.labels], 1))
    row, names = (
        torch.arange(len(w.tokens))[:, None],
        [f"blocks.{layer}.hook_attn_out" for layer in range(N_LAYERS)],
    )
    held = {}

    def keep(activation, hook):
        held[hook.name] = activation
        activation.retain_grad()

    def metric(logits):
        found = logits[:, -1].gather(1, answers)
        return (found[:, 0] - found[:, 1]).mean()

    with torch.no_grad():
        clean_logits, cache = w.model.run_with_cache(w.tokens)
    low = metric(w.model.run_with_hooks(w.others, fwd_hooks=[(name, keep) for name in names]))
    low.backward()
    w.model.zero_grad()
    found = [
        (held[name].grad * (cache[name] - held[name]))[row, w.at(role)].sum()
        for name in names
        for role in ("second", "query")
    ]
    return (torch.stack(found) / (metric(clean_logits) - low)).detach().numpy()


def attributed_here(w: World) -> np.ndarray:
    matrix = iv.attribution_matrix(
        w.model, w.clean, w.corrupted, components=["attn_out"], roles=["second", "query"]
    )
    return matrix.values.flatten()


def blocked_alone(w: World) -> np.ndarray:
    """Which accuracy is lost when L1 may not look from the query to the place of the answer?"""
    row, query, key = torch.arange(len(w.tokens)), w.at("query")[:, 0], w.at("second")[:, 0]
    labels = torch.from_numpy(w.clean.labels)

    def block(pattern, hook):
        pattern[row, :, query, key] = 0
        return pattern / pattern.sum(-1, keepdim=True)

    with torch.no_grad():
        before = w.model(w.tokens)[:, -1].argmax(-1) == labels
        hooks = [("blocks.1.attn.hook_pattern", block)]
        after = w.model.run_with_hooks(w.tokens, fwd_hooks=hooks)[:, -1].argmax(-1) == labels
    return np.array([(before.double() - after.double()).mean()])


def blocked_here(w: World) -> np.ndarray:
    effect = iv.blocked_attention(
        w.model, w.clean, layer=1, query="query", key="second", metric="accuracy"
    )
    return np.array([effect.values.mean()])


def started_alone(w: World) -> np.ndarray:
    """Give the matrices of a model std = d_in^-.8: which do they have?"""
    found = []
    with torch.no_grad():
        for name, weight in w.untrained.named_parameters():
            kind = name.split(".")[-1]
            if kind.startswith("b") or ".ln" in name or "ln_final" in name:
                continue
            fan_in = weight.shape[0] * weight.shape[1] if kind == "W_O" else weight.shape[-2]
            fan_in = weight.shape[-1] if kind in ("W_E", "W_pos") else fan_in
            weight.normal_(0, fan_in**-0.8, generator=torch.Generator().manual_seed(0))
            found.append(fan_in**-0.8)
    return np.sort(found)


def started_here(w: World) -> np.ndarray:
    table = rb.initialisation_table(rb.scale_init(w.untrained, gamma=0.8), gamma=0.8)
    return np.sort(table[table.d_in > 0].intended_at_init.to_numpy())


Tasks: TypeAlias = tuple[tuple[Callable, Callable], ...]
TASKS: Tasks = (
    (evenness_alone, evenness_here),
    (looks_alone, looks_here),
    (written_alone, written_here),
    (patched_alone, patched_here),
    (ablated_alone, ablated_here),
    (together_alone, together_here),
    (path_alone, path_here),
    (attributed_alone, attributed_here),
    (blocked_alone, blocked_here),
    (started_alone, started_here),
)
SHARED = {ablated_alone: _ablated, together_alone: _ablated}
"""Functions whose work another one does for both."""


def lines(function: Callable, shared: Mapping[Callable, Callable]) -> int:
    """Lines of a function's body, without blank ones, its docstring and its name."""
    text = inspect.getsource(shared.get(function, function))
    body = text.replace(f'    """{inspect.getdoc(function)}"""\n', "") if function.__doc__ else text
    return sum(bool(line.strip()) for line in body.splitlines()) - 1


def seconds(function: Callable, w: World) -> tuple[float, np.ndarray]:
    started = time.process_time()
    found = function(w)
    return time.process_time() - started, found


def main(tasks: Tasks = TASKS, shared: Mapping[Callable, Callable] = SHARED) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--larger", action="store_true", help="4 layers of 8 heads, d_model 256")
    options = parser.parse_args()
    w = larger_world() if options.larger else world()
    print("| task | lines | | seconds | | largest difference |")
    print("|---|---|---|---|---|---|")
    with rb.threads(1):
        for pair in tasks:
            times: list[list[float]] = [[], []]
            found: list[np.ndarray] = [np.array([]), np.array([])]
            for _ in range(options.rounds):
                for side, function in enumerate(pair):
                    spent, found[side] = seconds(function, w)
                    times[side].append(spent)
            medians = [statistics.median(spent) for spent in times]
            apart = float(np.abs(found[0] - found[1]).max())
            question = (inspect.getdoc(pair[0]) or "").strip()
            cells = [
                question,
                *(lines(function, shared) for function in pair),
                *(f"{spent:.3f}" for spent in medians),
                f"{apart:.0e}",
            ]
            print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
