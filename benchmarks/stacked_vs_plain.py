"""Model-steps per second: the stacked trainer against a plain HookedTransformer loop, side by side
in one run.

    python benchmarks/stacked_vs_plain.py [--rounds 5] [--members 15] [--threads 2]

Both take the same batches with the same fused AdamW and clipping. Each round times one after the
other, so that a noisy machine disturbs both alike; medians and the median of the rounds' ratios are
printed. Needs transformer-lens 3.9 for the peer.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.loop import bring_to, torch_settings
from rb_interp.training.member_group import Member
from rb_interp.training.members import share_out

CASES = {
    "quick, norm none": (AnchorTask(), ModelConfig(), TrainConfig(), 40),
    "paper sizes, norm none": (
        AnchorTask.preset("paper"),
        replace(ModelConfig.preset("paper"), norm="none"),
        TrainConfig.preset("paper"),
        10,
    ),
    "paper sizes, norm pre": (
        AnchorTask.preset("paper"),
        replace(ModelConfig.preset("paper"), norm="pre"),
        TrainConfig.preset("paper"),
        10,
    ),
}


def hooked_peer(model: ModelConfig, n_ctx: int, d_vocab: int) -> Any:
    """A HookedTransformer of the same shape."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HookedTransformer(
            HookedTransformerConfig(
                n_layers=model.n_layers,
                d_model=model.d_model,
                n_ctx=n_ctx,
                d_head=model.d_head,
                n_heads=model.n_heads,
                d_mlp=model.d_mlp,
                d_vocab=d_vocab,
                act_fn=model.act,
                device="cpu",
                normalization_type="LN" if model.norm == "pre" else None,
                seed=0,
            )
        )


def plain_loop(
    task: AnchorTask, model: ModelConfig, train: TrainConfig, threads: int
) -> Callable[[int], float]:
    """A HookedTransformer as one would train it by hand; returns a function that times n steps."""
    peer = hooked_peer(model, task.length, task.d_vocab)
    optimiser = torch.optim.AdamW(
        peer.parameters(), lr=train.lr, weight_decay=train.weight_decay, fused=True
    )
    data = task.dataset(0)
    rows = torch.from_numpy(data.rows("train"))
    tokens, labels = torch.from_numpy(data.tokens)[rows], torch.from_numpy(data.labels)[rows]

    def run(steps: int) -> float:
        torch.set_num_threads(threads)
        started = time.perf_counter()
        for step in range(steps):
            at = slice(step * train.batch_size, (step + 1) * train.batch_size)
            loss = F.cross_entropy(peer(tokens[at])[:, -1], labels[at])
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(peer.parameters(), train.clip)
            optimiser.step()
        return (time.perf_counter() - started) / steps

    return run


def stacked(
    task: AnchorTask, model: ModelConfig, train: TrainConfig, members: int, threads: int
) -> Callable[[int], float]:
    """The stacked trainer; returns a function that times n steps of all members, per member and
    step."""
    chosen = [Member(gamma, seed) for seed in range(-(-members // 3)) for gamma in (0.3, 0.5, 0.8)][
        :members
    ]
    shares = share_out(chosen, model, task, train, torch.device("cpu"), threads, {})
    pool = ThreadPoolExecutor(len(shares))

    def run(steps: int) -> float:
        target = shares[0][0].step + steps
        started = time.perf_counter()
        bring_to(pool, shares, target)
        return (time.perf_counter() - started) / steps / members

    return run


def timed(ours: Callable[[int], float], steps: int, train: TrainConfig) -> float:
    """Time our steps under the settings that training uses; the peer keeps its own."""
    with torch_settings(train):
        ours(2)
        return ours(steps)


def ratio_text(ratios: list[float]) -> str:
    """Median, least and largest."""
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--members", type=int, default=15)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    options = parser.parse_args()
    print(
        f"torch {torch.__version__}, {options.threads} cores, {options.members} members, "
        f"{options.rounds} rounds"
    )
    for name, (task, model, train, steps) in CASES.items():
        if options.case not in name:
            continue
        peer = plain_loop(task, model, train, options.threads)
        ours = stacked(task, model, train, options.members, options.threads)
        peer(3), timed(ours, 2, train)
        times = [(peer(2 * steps), timed(ours, steps, train)) for _ in range(options.rounds)]
        slow, fast = (statistics.median(column) for column in zip(*times, strict=True))
        print(
            f"{name}: plain {1 / slow:.0f}, stacked {1 / fast:.0f} model-steps/s; "
            f"ratio {ratio_text([a / b for a, b in times])}"
        )


if __name__ == "__main__":
    main()
