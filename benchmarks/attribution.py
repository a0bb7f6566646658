"""Attribution patching against the exact patching matrix: seconds, and Spearman's correlation over
cells.

    python benchmarks/attribution.py [--pairs 64] [--steps 6000] [--case NAME] [--threads 1]

Cases are members of the anchor study's task, trained here at its quick sizes, the same at step 0,
the model that has learned induction, and a model of GPT-2 small's shape with random weights on
random tokens. Correlations are over all cells (component, layer, role), and over those of sublayers
and heads alone, without the residual stream.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from rb_interp import AnchorTask, from_pretrained
from rb_interp.interventions import attribution_matrix, patching_matrix
from rb_interp.interventions.effect import Matrix
from rb_interp.models.build import build_model, lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles
from rb_interp.training import TrainConfig, train_members

STREAM = ("resid_pre", "resid_mid", "resid_post")
Case = tuple[str, Any, Inputs, Inputs]


def members(options: argparse.Namespace) -> Iterator[Case]:
    """Trained members and their starts, where key or anchors of reasoning rows were changed."""
    for norm, gamma in (("none", 0.8), ("none", 0.3), ("pre", 0.5)):
        if options.case not in f"quick {norm} {gamma}":
            continue
        task, config = AnchorTask(), ModelConfig(norm=norm)
        train = TrainConfig(steps=options.steps, device="cpu", workers=1, eval_every=options.steps)
        trained = train_members(task, [gamma], [0], config=config, train=train, progress=False)
        data, made = (
            task.dataset(0),
            lens_model(config, task.d_vocab, task.length, trained.final.member(gamma, 0)),
        )
        accuracy = trained.curves.to_frame().query("set == 'rsn_train'").accuracy.iloc[-1]
        rows = data.sample("rsn_train", options.pairs)
        for change in ("key", "anchors"):
            pair = data.inputs(rows), task.counterfactual(data, rows, change)
            yield (
                f"norm {norm}, gamma {gamma}, trained (accuracy {accuracy:.2f}), {change}",
                made,
                *pair,
            )
        start = build_model(task, gamma=gamma, config=config)
        yield (
            f"norm {norm}, gamma {gamma}, untrained, key",
            start,
            data.inputs(rows),
            task.counterfactual(data, rows, "key"),
        )


def induction(options: argparse.Namespace) -> Iterator[Case]:
    """The induction model, where the answer and another token of the block trade names."""
    if options.case not in "induction":
        return
    known = from_pretrained("zoo", member="induction")
    rows = known.task.inputs(options.pairs, seed=7)
    at, places = np.arange(len(rows)), rows.roles.positions
    one, other = (rows.tokens[at, places[role][:, 0]] for role in ("second", "other"))
    traded = np.where(rows.tokens == one[:, None], other[:, None], rows.tokens)
    traded = np.where(rows.tokens == other[:, None], one[:, None], traded)
    traded[:, -1] = rows.tokens[:, -1]
    for name, model in (("trained", known.model), ("untrained", known.untrained)):
        yield f"induction, {name}", model, rows, Inputs(traded, other, rows.roles)


def gpt2_shape(options: argparse.Namespace) -> Iterator[Case]:
    """GPT-2 small's shape with random weights: 12 layers of 12 heads, width 768; 8 pairs of 16
    tokens."""
    if options.case not in "gpt2 shape":
        return
    config = ModelConfig(
        n_layers=12,
        n_heads=12,
        d_model=768,
        d_head=64,
        d_mlp=3072,
        act="gelu_new",
        norm="pre",
        train_biases=True,
    )
    model, rng = build_model(AnchorTask(), gamma=0.5, config=config), np.random.default_rng(0)
    tokens, at = rng.integers(0, 200, (8, 9)), np.full((8, 1), 2)
    other = tokens.copy()
    other[:, 2] = rng.integers(0, 200, 8)
    roles = Roles({"changed": at})
    yield (
        "GPT-2's shape, untrained",
        model,
        Inputs(tokens, tokens[:, 0], roles),
        Inputs(other, other[:, 1], roles),
    )


def timed(call: Callable[[], Matrix]) -> tuple[float, Matrix]:
    started = time.process_time()
    found = call()
    return time.process_time() - started, found


def rank_correlation(first: Matrix, second: Matrix) -> float:
    """Spearman's correlation over the cells that change a row in one of the two."""
    moved = np.logical_or(*((one.patched != one.corrupted).any(-1) for one in (first, second)))
    pair = pd.DataFrame({"first": first.values[moved], "second": second.values[moved]})
    return float(pair.dropna().corr("spearman").iloc[0, 1])


def without_stream(matrix: Matrix) -> Matrix:
    """The same without the cells of the residual stream, which are set to nan."""
    patched = matrix.patched.copy()
    patched[[name in STREAM for name in matrix.axes["component"]]] = np.nan
    return replace(matrix, patched=patched)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--case", default="", help="only cases whose name holds this")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"torch {torch.__version__}, {options.threads} threads; seconds of CPU")
    for source in (induction, members, gpt2_shape):
        for name, model, clean, corrupted in source(options):
            for metric in ("logit_diff", "probability"):
                exact_s, exact = timed(
                    partial(patching_matrix, model, clean, corrupted, metric=metric)
                )
                line = f"{name}; {metric}: exact {exact_s:.2f} s"
                seconds, found = timed(
                    partial(attribution_matrix, model, clean, corrupted, metric=metric)
                )
                pair = (
                    rank_correlation(found, exact),
                    rank_correlation(*map(without_stream, (found, exact))),
                )
                line += f"; attribution {seconds:.2f} s, {pair[0]:.2f} ({pair[1]:.2f} without the stream)"
                print(line, flush=True)


if __name__ == "__main__":
    main()
