"""Model-steps per second of language models: the stacked trainer against a loop over transformers'
GPT-2 and one over a HookedTransformer, side by side in one run.

    python benchmarks/language_vs_plain.py [--rounds 5] [--members 6] [--threads 2]

All take the same rows and targets with fused AdamW and clipping, weighted where the case weights
targets. The order alternates from round to round; medians and ratios to each peer are printed.
Needs transformer-lens 3.9 for the peer.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from stacked_vs_plain import hooked_peer, ratio_text, stacked, timed

from rb_interp.models.config import ModelConfig
from rb_interp.studies.language.config import MODELS, TRAINING
from rb_interp.text.task import TextTask
from rb_interp.training.config import TrainConfig

CASES = {
    "stories": (TextTask(), MODELS["stories"], TRAINING["stories"]),
    "quick": (TextTask.preset("quick"), MODELS["quick"], TRAINING["quick"]),
}


def peers(model: ModelConfig, n_ctx: int, d_vocab: int) -> dict[str, tuple[Any, Any]]:
    """Name -> a model of the same shape, and what gives its logits."""
    from transformers import GPT2Config, GPT2LMHeadModel

    gpt2 = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=d_vocab,
            n_positions=n_ctx,
            n_embd=model.d_model,
            n_layer=model.n_layers,
            n_head=model.n_heads,
            n_inner=model.d_mlp,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    hooked = hooked_peer(model, n_ctx, d_vocab)
    return {
        "transformers": (gpt2, lambda tokens: gpt2(tokens, use_cache=False).logits),
        "HookedTransformer": (hooked, hooked),
    }


def plain_loop(
    model: Any, logits_of: Any, task: TextTask, train: TrainConfig, threads: int
) -> Callable[[int], float]:
    """A loop as one would write it by hand; returns a function that times n steps."""
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=train.lr, weight_decay=train.weight_decay, fused=True
    )
    data = task.dataset(0)
    sets = [torch.from_numpy(data.rows(name)) for name in data.batch_sets]
    half = train.batch_size // 2
    tokens, labels = torch.from_numpy(data.tokens), torch.from_numpy(data.labels)
    weights = None if data.weights is None else torch.from_numpy(data.weights)

    def run(steps: int) -> float:
        torch.set_num_threads(threads)
        started = time.perf_counter()
        for step in range(steps):
            rows = torch.cat([part[step * half : (step + 1) * half] for part in sets])
            answers = labels[rows]
            length = int((answers >= 0).any(0).nonzero().max()) + 1
            answers = answers[:, :length].flatten()
            logits = logits_of(tokens[rows, :length]).flatten(0, 1)
            losses = F.cross_entropy(logits, answers, reduction="none", ignore_index=-1)
            counts = (answers >= 0).float()
            if weights is not None:
                counts = counts * weights[rows, :length].flatten()
            loss = (losses * counts).sum() / counts.sum()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), train.clip)
            optimiser.step()
        return (time.perf_counter() - started) / steps

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    for name, (task, model, train) in CASES.items():
        d_vocab = task.dataset(0).d_vocab
        loops = {}
        for peer, (peer_model, logits_of) in peers(model, task.n_ctx, d_vocab).items():
            loops[peer] = plain_loop(peer_model, logits_of, task, train, options.threads)
        ours = stacked(task, model, train, options.members, options.threads)
        loops["stacked"] = lambda steps, ours=ours, train=train: timed(ours, steps, train)
        for run in loops.values():
            run(2)
        rounds = []
        for number in range(options.rounds):
            names = list(loops)[:: (-1) ** number]
            rounds.append({loop: loops[loop](options.steps) for loop in names})
        for peer in loops:
            speed = 1 / statistics.median(times[peer] for times in rounds)
            ratios = [times[peer] / times["stacked"] for times in rounds]
            print(f"{name}: {peer} {speed:.1f} model-steps/s, stacked is {ratio_text(ratios)} x")


if __name__ == "__main__":
    main()
