"""Forks: when is a circuit's fate sealed?

    python experiments/census/forks.py results/census/forks.parquet

A member of ``quick``, at the learning rate where the map's circuits are most mixed, trains with
nine copies of itself, on the same batches. Eight are disturbed once: at eight steps, evenly from 0
to ``half``, each weight is multiplied by 1 + 1e-6 z, z standard normal. The ninth is not, and must
end as the member does, to the bit. Each is read where it is ``settled``, or at the last step. A row
holds one copy: its circuit, accuracy and shares of the routes, and those of the member
(``sibling``, ``sibling_*``).

Writes the table after each member, and begins with those that it lacks.
"""

import argparse
from collections import deque
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import rb_interp as rb
from rb_interp.interventions.circuits import anchor_routes, circuit_by_cause
from rb_interp.models.build import lens_model
from rb_interp.store import write_file
from rb_interp.studies.anchor.circuits import ROUTES
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.tasks.dataset import Stage
from rb_interp.training.member_group import LastGroup, Member

GAMMAS, SEEDS = (0.5, 0.8), range(30, 38)
N_FORKS = 8
SIZE = 1e-6
RATE = 1e-3
LAST = 10
"""Evaluations before a member is read."""
REASONING = 1
"""The place of rsn_train among the sets of the task."""


def settled(group: LastGroup, rule: Stage) -> tuple[list[dict[str, Tensor]], list[float]]:
    """Advance a group to the last step, or to where all its members have come to a stage; returns
    each one's weights there and accuracy on rsn_train, a mean of the last ten evaluations."""
    start = group.evaluate()
    n, every, last = len(group.members), group.train.eval_every, group.train.steps
    first = np.full(n, last)
    weights: list[dict[str, Tensor]] = [{}] * n
    accuracies = [0.0] * n
    latest: deque[np.ndarray] = deque(maxlen=LAST)
    while not all(weights):
        now = group.evaluate()
        latest.append(now[:, REASONING, 1])
        first = np.where(rule.reached(now, start), np.minimum(first, group.step), first)
        state = None
        for copy in range(n):
            if not weights[copy] and group.step >= min(first[copy] + rule.delay, last):
                state = state or group.state(moments=False)
                weights[copy] = {name: value[copy] for name, value in state.items()}
                accuracies[copy] = float(np.mean([past[copy] for past in latest]))
        group.advance(min(every, last - group.step))
    return weights, accuracies


def disturb(group: LastGroup, copy: int) -> None:
    """Multiply each weight of one copy by 1 + 1e-6 z."""
    generator = torch.Generator().manual_seed(copy)
    for weight in group.trained.values():
        noise = torch.randn(weight[copy].shape, generator=generator)
        weight.data[copy] *= 1 + SIZE * noise


def forks(config: AnchorConfig, gamma: float, seed: int) -> pd.DataFrame:
    task = config.task
    data = {seed: task.dataset(seed)}
    member = Member(gamma, seed, RATE)
    fine = replace(config.train, eval_every=5)
    alone = LastGroup([member], config.model, task, fine, data=data)
    settled(alone, task.stages["half"])
    steps = np.linspace(0, alone.step - fine.eval_every, N_FORKS).round().astype(int)
    group = LastGroup([member] * (N_FORKS + 2), config.model, task, config.train, data=data)
    losses = []
    for copy, step in enumerate(steps.tolist()):
        group.advance(step - group.step)
        losses.append(group.evaluate()[-1, REASONING, 0])
        disturb(group, copy)
    every = config.train.eval_every
    group.advance(-group.step % every)
    weights, accuracies = settled(group, task.stages["settled"])
    if not all(weights[-1][name].equal(value) for name, value in weights[-2].items()):
        raise SystemExit(f"gamma {gamma}, seed {seed}: an undisturbed copy is not as the member.")
    read = []
    for one, accuracy in zip(weights, accuracies, strict=True):
        model = lens_model(config.model, *group.sizes, one)
        shares = anchor_routes(model, data[seed], set="rsn_train", n=500).values
        row = {column: shares.get(term.quantity, np.nan) for column, term in ROUTES.items()}
        read.append({"circuit": circuit_by_cause(shares, accuracy), "accuracy": accuracy} | row)
    rows = pd.DataFrame({"gamma": gamma, "seed": seed, "fork": range(N_FORKS)})
    rows = rows.assign(step=steps, loss=losses).join(pd.DataFrame(read))
    sibling = {f"sibling_{name}": value for name, value in read[-1].items()}
    return rows.assign(**sibling).rename(columns={"sibling_circuit": "sibling"})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--preset", default="quick")
    options = parser.parse_args()
    table = pd.read_parquet(options.table) if options.table.is_file() else pd.DataFrame()
    done = set() if table.empty else set(zip(table["gamma"], table["seed"], strict=True))
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
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
