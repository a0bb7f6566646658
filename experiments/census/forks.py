"""Forks: when is a circuit's fate sealed?

    python experiments/census/forks.py results/census/forks.parquet

A member of ``quick`` trains with nine copies of itself, on the same batches. Eight are disturbed
once: at eight steps, evenly from 0 to ``half``, each weight is multiplied by 1 + 1e-6 z, z standard
normal. The ninth (``control``) is not; ``control_differs`` is how far its weights are from the
member's at the end. All are read where the last of them is ``settled``, or at
the last step. A row holds one copy, its circuit, and that of the member (``sibling``).

Writes the table after each member, and begins with those that it lacks.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import rb_interp as rb
from rb_interp.interventions.circuits import anchor_routes, circuit_by_cause
from rb_interp.models.build import lens_model
from rb_interp.store import write_file
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.tasks.dataset import Stage
from rb_interp.training.config import evaluation_steps
from rb_interp.training.member_group import LastGroup, Member

GAMMAS, SEEDS = (0.5, 0.8), range(30, 38)
N_FORKS = 8
SIZE = 1e-6
REASONING = 1
"""The place of rsn_train among the sets of the task."""


def advance(group: LastGroup, rule: Stage, last: int) -> np.ndarray:
    """Advance a group until all its members have come to a stage; returns the last evaluation."""
    start = now = group.evaluate()
    waited = 0
    for step in evaluation_steps(group.train):
        if group.step < step <= last:
            group.advance(step - group.step)
            now = group.evaluate()
            waited += group.train.eval_every * (waited > 0 or bool(rule.reached(now, start).all()))
            if waited > rule.delay:
                break
    return now


def disturb(group: LastGroup, copy: int, seed: int) -> None:
    """Multiply each weight of one copy by 1 + 1e-6 z."""
    generator = torch.Generator().manual_seed(seed)
    for weight in group.trained.values():
        noise = torch.randn(weight[copy].shape, generator=generator)
        weight.data[copy] *= 1 + SIZE * noise


def forks(config: AnchorConfig, gamma: float, seed: int) -> pd.DataFrame:
    task, rates = config.task, dict(config.rates)
    data = {seed: task.dataset(seed)}
    member = Member(gamma, seed, rates.get(gamma, config.train.lr))
    alone = LastGroup([member], config.model, task, config.train, data=data)
    advance(alone, task.stages["half"], config.train.steps)
    every = config.train.eval_every
    steps = np.linspace(0, alone.step, N_FORKS).round().astype(int) // every * every
    group = LastGroup([member] * (N_FORKS + 2), config.model, task, config.train, data=data)
    losses = []
    for copy, step in enumerate(steps.tolist()):
        group.advance(step - group.step)
        losses.append(group.evaluate()[-1, REASONING, 0])
        disturb(group, copy, step)
    now = advance(group, task.stages["settled"], config.train.steps)
    names = []
    for copy in range(N_FORKS + 2):
        weights = {name: weight.detach()[copy] for name, weight in group.weights.items()}
        model = lens_model(config.model, *group.sizes, weights)
        shares = anchor_routes(model, data[seed], set="rsn_train", n=500).values
        names.append(circuit_by_cause(shares, now[copy, REASONING, 1]))
    rows = pd.DataFrame({"gamma": gamma, "seed": seed, "fork": range(N_FORKS)})
    rows = rows.assign(step=steps, loss=losses, circuit=names[:N_FORKS], sibling=names[-1])
    differs = [(weight[-1] - weight[-2]).abs().max().item() for weight in group.weights.values()]
    return rows.assign(control=names[-2], control_differs=max(differs), step_read=group.step)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--preset", default="quick")
    options = parser.parse_args()
    table = pd.read_parquet(options.table) if options.table.is_file() else pd.DataFrame()
    done = set() if table.empty else set(zip(table["gamma"], table["seed"], strict=True))
    torch.set_num_threads(1)
    config = rb.study("anchor").preset(options.preset)
    for seed in SEEDS:
        for gamma in GAMMAS:
            if (gamma, seed) not in done:
                rows = forks(config, gamma, seed)
                table = pd.concat([table, rows], ignore_index=True)
                write_file(options.table, table.to_parquet)
                print(rows.to_string())


if __name__ == "__main__":
    main()
