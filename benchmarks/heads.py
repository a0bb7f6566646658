"""Seconds to read every head of a model of GPT-2 small's shape: rb_interp against plain hooks and
numpy of one's own.

    python benchmarks/heads.py [--layers 12] [--vocabulary 50257] [--rounds 3]

The model has random weights; 24 rows of 16 tokens are read, and two groups of 8 tokens. The
patterns are captured once, then each probe of heads scans all heads from the cache, with 200 draws
of each null. The peer is what one would write: ``run_with_cache``, then for each head in numpy its
distance from uniform, its attention to the key with 200 permutations of roles, and the SVD of its
W_V: a fifth of what the probes read. CPU seconds of one thread, and the largest difference of the
numbers that both give. Needs transformer-lens 3.9.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import rb_interp as rb
from rb_interp import probes

ROWS, LENGTH, N_NULL = 24, 16, 200
SCANNED = (
    probes.uniformity,
    probes.attention_by_role,
    probes.attention_to_key,
    probes.attention,
    probes.value_alignment,
)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def gpt2_small(n_layers: int, d_vocab: int) -> Any:
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    warnings.simplefilter("ignore", DeprecationWarning)
    return HookedTransformer(
        HookedTransformerConfig(
            n_layers=n_layers,
            n_heads=12,
            d_model=768,
            d_head=64,
            d_mlp=3072,
            n_ctx=1024,
            d_vocab=d_vocab,
            act_fn="gelu_new",
            normalization_type="LN",
            device="cpu",
            seed=0,
        )
    )


def own_hooks(model: Any, inputs: rb.Inputs) -> np.ndarray:
    """Attention to the key of every head ``[layer, head]``, and the rest that the peer makes, by
    hand."""
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.from_numpy(inputs.tokens))
    W_V = model.W_V.detach().double().numpy()
    key, rows, found = inputs.roles.position("key")[:, 0], np.arange(ROWS), []
    orders = np.random.default_rng(0).permuted(np.tile(rows, (N_NULL, 1)), axis=1)
    for layer in range(model.cfg.n_layers):
        pattern = cache["pattern", layer].numpy()
        for head in range(model.cfg.n_heads):
            last = pattern[:, head, -1]
            found.append(last[rows, key].mean())
            [last[rows, key[order]].mean() for order in orders]
            even = np.tril(np.ones((LENGTH, LENGTH))) / np.arange(1, LENGTH + 1)[:, None]
            (np.abs(pattern[:, head] - even).sum(-1) / 2).mean()
            np.linalg.svd(W_V[layer, head], full_matrices=False)
    return np.array(found).reshape(model.cfg.n_layers, -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocabulary", type=int, default=50257)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, rng = gpt2_small(options.layers, options.vocabulary), np.random.default_rng(0)
    at = rng.integers(0, LENGTH - 3, (ROWS, 1))
    groups = {name: rng.integers(0, options.vocabulary, 8) for name in ("name", "place")}
    roles = rb.Roles({"key": at, "anchor": at + np.array([1, 2])}, groups)
    inputs = rb.Inputs(rng.integers(0, options.vocabulary, (ROWS, LENGTH)), roles=roles)
    seconds: dict[str, list[float]] = {}
    ours = peer = np.zeros(0)
    for _ in range(options.rounds):
        cpu, cache = timed(lambda: probes.captured(model, inputs.tokens))
        seconds.setdefault("one pass", []).append(cpu)
        for probe in SCANNED:
            cpu, table = timed(lambda: rb.scan(probe, cache, inputs))  # noqa: B023 (called at once)
            seconds.setdefault(probe.__name__, []).append(cpu)
            if probe is probes.attention_by_role:
                ours = (
                    table[table.quantity == "key"]["value"].to_numpy().reshape(options.layers, -1)
                )
        cpu, peer = timed(lambda: own_hooks(model, inputs))
        seconds.setdefault("plain hooks", []).append(cpu)
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, median in medians.items():
        print(f"{name:20} {median:6.2f} s")
    print(f"{'all of ours':20} {sum(medians.values()) - medians['plain hooks']:6.2f} s")
    print(f"largest difference {np.abs(ours - peer).max():.1e}")


if __name__ == "__main__":
    main()
