"""CPU seconds for a patching matrix: rb_interp against TransformerLens's generic_activation_patch,
in one run.

    python benchmarks/patching_matrix.py [--rounds 15] [--pairs 64] [--threads 1]

Both patch the same cells, every component of every layer at every role, on the same pairs of rows
with the same metric. The peer takes one call a component, with the layers and roles as its index.
Each round times one after the other, so that a noisy machine disturbs both alike; medians, the
median of the rounds' ratios and the largest difference between the numbers are printed. Needs
transformer-lens 3.9.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from transformer_lens import patching

from rb_interp import AnchorTask, build_model
from rb_interp.interventions.attribution import COMPONENTS, ROLES
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.sites import positions
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import Inputs

PAPER = AnchorTask.preset("paper"), ModelConfig.preset("paper")
CASES = {
    "quick, norm none": (AnchorTask(), ModelConfig()),
    "quick, norm pre": (AnchorTask(), ModelConfig(norm="pre")),
    "quick, norm pre, 4 heads, 4 layers": (
        AnchorTask(),
        ModelConfig(norm="pre", n_heads=4, n_layers=4),
    ),
    "paper sizes, norm post": PAPER,
}


def peer(model: Any, clean: Inputs, corrupted: Inputs) -> np.ndarray:
    """Mean metric of each cell by generic_activation_patch, ``[component, layer, role]``."""
    tokens, others = (torch.from_numpy(rows.tokens).long() for rows in (clean, corrupted))
    answers = torch.from_numpy(np.stack([clean.labels, corrupted.labels], 1)).long()
    at = [torch.from_numpy(positions(clean, role)) for role in ROLES]
    row = torch.arange(len(tokens))[:, None]

    def metric(logits: torch.Tensor) -> torch.Tensor:
        found = logits[:, -1].gather(1, answers)
        return (found[:, 0] - found[:, 1]).mean()

    def setter(
        activation: torch.Tensor, index: list, source: torch.Tensor, axis: int
    ) -> torch.Tensor:
        here = at[int(index[1])]
        activation.movedim(axis, 1)[row, here] = source.movedim(axis, 1)[row, here]
        return activation

    n_layers, generic = (
        model.cfg.n_layers,
        cast(Any, patching.generic_activation_patch),
    )  # its annotations are stale
    cells = pd.DataFrame([(layer, role) for layer in range(n_layers) for role in range(len(ROLES))])
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        found = [
            generic(
                model,
                others,
                cache,
                metric,
                partial(setter, axis=2 if name == "pattern" else 1),
                name,
                index_df=cells,
            )
            for name in COMPONENTS
        ]
    return torch.stack(found).reshape(len(COMPONENTS), n_layers, len(ROLES)).numpy()


def timed(function: Any, *given: Any) -> tuple[float, Any]:
    started = time.process_time()
    found = function(*given)
    return time.process_time() - started, found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    patching.tqdm = lambda items: items  # its bar is no part of the work
    print(
        f"torch {torch.__version__}, {options.threads} threads, {options.pairs} pairs, "
        f"{options.rounds} rounds"
    )
    for (name, (task, config)), change in (
        (case, change) for case in CASES.items() for change in ("key", "anchors", "both")
    ):
        if options.case not in name:
            continue
        data, model = task.dataset(seed=0), build_model(task, gamma=0.5, config=config)
        rows = data.sample("rsn_train", options.pairs)
        pairs = data.inputs(rows), data.task.counterfactual(data, rows, change)
        difference = np.abs(
            patching_matrix(model, *pairs).patched.mean(-1) - peer(model, *pairs)
        ).max()
        times = [
            (timed(peer, model, *pairs)[0], timed(patching_matrix, model, *pairs)[0])
            for _ in range(options.rounds)
        ]
        slow, fast = (statistics.median(column) for column in zip(*times, strict=True))
        ratios = sorted(a / b for a, b in times)
        print(
            f"{name}, {change} changed: generic {slow:.3f} s, ours {fast:.3f} s; ratio "
            f"{statistics.median(ratios):.2f} "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f}); largest difference {difference:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
