"""A made-up study of addition and commands: right answers rise with gamma, with weight decay and with rows."""

from __future__ import annotations

from itertools import product

import numpy as np
from made_up import MadeUp

from rb_interp.claims import Verdicts, judge
from rb_interp.figures.evidence import Evidence
from rb_interp.runs.measured import arrays_over_seeds
from rb_interp.studies.addition_and_scan import ADDITION_AND_SCAN
from rb_interp.studies.addition_and_scan.config import CLAIMS, DECAYS, LARGE, SMALL, TASKS, AdditionAndScanConfig
from rb_interp.studies.addition_and_scan.measure import contrasts

SIZE = {"addition": 0.0, "scan_small": 0.05, "scan_middle": 0.15, "scan_large": 0.25}
SETS = {"addition": ("train", "seen_test", "block")}
COMMANDS = ("train", "seen_test", "composites")


def share(task: str, decay: str, gamma: float, seed: int, set: str) -> float:
    """The made-up share of right answers."""
    if set == "train":
        return 1.0 if decay == "low" or seed else 0.985
    if set == "seen_test":
        return 0.9 - 0.01 * seed
    return 0.1 + SIZE[task] + 0.4 * (gamma == SMALL) + 0.1 * (decay == "high") - 0.01 * seed * (gamma == SMALL)


def fill_readings(made: MadeUp, seeds: int, share=share) -> None:
    """Shares of right answers of every member, and their contrasts."""
    for task, decay, gamma, seed in product(TASKS, DECAYS, (LARGE, SMALL), range(seeds)):
        for set in SETS.get(task, COMMANDS):
            where = {"sweep": f"{task}_{decay}", "gamma": gamma, "seed": seed, "step": 100, "set": set}
            made.reading("answers", {"right": share(task, decay, gamma, seed, set)}, untrained=0.0, **where)
    made.extend("readings", contrasts(made.tables()["readings"]))


def verdicts(share) -> Verdicts:
    """What eight seeds with these shares make of the claims."""
    made = MadeUp(ADDITION_AND_SCAN, AdditionAndScanConfig.from_preset("paper"))
    fill_readings(made, 8, share)
    return judge(made.tables()["readings"], CLAIMS)


def make(seeds: int = 8) -> Evidence:
    """Evidence of a study with made-up shares of right answers."""
    config = AdditionAndScanConfig.from_preset("paper", seeds=tuple(range(seeds)))
    made = MadeUp(ADDITION_AND_SCAN, config)
    for name in config.sweeps:
        sets = SETS.get(name.rpartition("_")[0], COMMANDS)
        place = {"sweep": [name], "gamma": [LARGE, SMALL], "seed": range(seeds), "set": sets, "step": [0, 100]}
        made.fill("curves", lambda step, **_: {"loss": 5.0 - step / 25, "accuracy": step / 100}, **place)
    fill_readings(made, seeds)
    for decay, gamma, seed in product(DECAYS, (LARGE, SMALL), range(seeds)):
        name, inside = f"addition_{decay}", share("addition", decay, gamma, seed, "block")
        made.arrays[f"{name}/{gamma}/{seed}/final//answers/sums"] = _sums(config.sweeps[name].task, inside, seed)
    made.arrays |= arrays_over_seeds(made.arrays)
    return made.evidence(lambda _: {}, "paper", command="rb-interp reproduce addition-and-scan", toml="", versions={})


def _sums(task, inside: float, seed: int) -> np.ndarray:
    """Sums outside the block are right, those inside at random."""
    low, high = task.operands
    numbers = np.arange(low, high + 1, -(-(high - low + 1) // 100))
    block = (task.block[0] <= numbers) & (numbers <= task.block[1])
    found = np.ones((len(numbers), len(numbers)))
    where = np.ix_(block, block)
    found[where] = np.random.default_rng(seed).random(found[where].shape) < inside
    return found
