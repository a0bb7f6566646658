"""Are two circuits two mechanisms? The answers of their members to the same rows.

Some rows are unlike any that the members learned. At gamma .8, final, on rows of
`tasks.batteries`. With d_ab the share of rows that members a and b answer differently (argmax), a
seed's reading ``equivalence/<battery>`` is its mean over partners of other circuits less its mean
over partners of its own; NaN if it has no partner of one kind. The permutation test over members
and the means over pairs are those of `statistics.disagreement`. Members named ``none`` take no
part, since they learned nothing. ``mixed`` counts as a circuit like the others.

How it can mislead. Untrained models read about 0 too, at or near the bound of Q1, since their later
circuit says nothing of their answers: read the accuracy beside it. A circuit whose members all fail
on a battery, each in its own way, has a disagreement within itself that is as large as that with
others. Its seeds then read about 0, although the other circuit answers rightly: look at the means
of each circuit. ``mixed`` means that no rule fits; two such members need share nothing.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from rb_interp.interventions.edits import most_likely
from rb_interp.runs.member_models import MemberModels, each_member
from rb_interp.runs.results import StudyResult, frame, readings_table
from rb_interp.runs.run import Run
from rb_interp.settings import SMALL
from rb_interp.statistics.disagreement import (
    between_less_within,
    disagreement,
    excess_disagreement,
    pair_means,
)
from rb_interp.statistics.reading import Reading
from rb_interp.studies.anchor.circuits import circuit_of_seed
from rb_interp.tasks import Battery, batteries
from rb_interp.training.member_group import Member

Answers = Mapping[int, Int[np.ndarray, " row"]]
"""Seed -> answer of its member to each row of one battery."""
ByBattery = dict[str, dict[int, np.ndarray]]

COLUMNS = {
    "disagreement": (
        "battery:str gamma seed_a:int seed_b:int circuit_a:str circuit_b:str disagreement n"
    ),
    "disagreement_means": ("battery:str gamma circuit_a:str circuit_b:str mean smallest largest n"),
    "equivalence": (
        "battery:str gamma groups:str within between difference p_value n_relabelings:int "
        "exact:bool n_members:int"
    ),
    "battery_accuracy": "battery:str gamma seed circuit:str accuracy second_accuracy n",
}
"""Table -> its columns."""


def measure_equivalence(run: Run, circuits: pd.DataFrame, progress: bool = True) -> StudyResult:
    """Let every member at gamma .8 answer the battery, trained and untrained.

    The tables are empty if the run has no such member.
    """
    sweep = run.sweep()
    members = [member for member in sweep.sound_members if member.gamma == SMALL]
    battery = batteries(sweep.config.task) if members else {}

    def answer(models: MemberModels, member: Member) -> tuple[dict, dict]:
        models.load(member, "final")
        tokens = {name: rows.inputs.tokens for name, rows in battery.items()}
        now = {name: most_likely(models.model, tokens[name]) for name in battery}
        return now, {name: most_likely(models.untrained, tokens[name]) for name in battery}

    results = each_member(sweep, members, answer, progress=progress, desc="battery")
    answers: ByBattery = {name: {} for name in battery}
    untrained: ByBattery = {name: {} for name in battery}
    for member, (now, before) in zip(members, results, strict=True):
        for name in battery:
            answers[name][member.seed] = now[name]
            untrained[name][member.seed] = before[name]
    names = circuit_of_seed(circuits)
    return compare(battery, answers, untrained, names, sweep.config.train.steps)


def compare(
    battery: Mapping[str, Battery],
    answers: Mapping[str, Answers],
    untrained: Mapping[str, Answers],
    names: Mapping[int, str],
    step: int,
) -> StudyResult:
    """Readings and tables of answers.

    Args:
        battery: rows by name. answers, untrained: by the same names, of the members at the end and
            at step 0.
        names: seed -> circuit. step: the last one.
    """
    rows: dict[str, list[tuple]] = {table: [] for table in COLUMNS}
    readings = []
    for name, kind in battery.items():
        n = len(kind.inputs)
        seeds = [seed for seed in answers[name] if names[seed] != "none"]
        groups = [names[seed] for seed in seeds]
        now = _disagreement(answers[name], seeds)
        before = _disagreement(untrained[name], seeds)
        rows["disagreement"] += _pairs(name, now, seeds, groups, n)
        rows["disagreement_means"] += _means(name, now, groups)
        rows["equivalence"].append(_test(name, now, groups))
        for seed, answer in answers[name].items():
            accuracy = (answer == kind.inputs.labels).mean()
            second = np.nan if kind.second is None else (answer == kind.second).mean()
            rows["battery_accuracy"].append((name, SMALL, seed, names[seed], accuracy, second, n))
        excess = dict(zip(seeds, excess_disagreement(now, groups), strict=True))
        start = dict(zip(seeds, excess_disagreement(before, groups), strict=True))
        for seed in answers[name]:
            values = {name: excess.get(seed, np.nan)}
            at_start = {name: start.get(seed, np.nan)}
            reading = Reading("equivalence", values, untrained=at_start, n=n)
            place = {"gamma": SMALL, "seed": seed, "stage": "final", "step": step, "set": ""}
            readings += [row | place for row in reading.rows()]
    tables = {table: frame(rows[table], columns) for table, columns in COLUMNS.items()}
    return StudyResult(readings_table(readings), tables)


Disagreement = Float[np.ndarray, "member member"]


def _pairs(
    name: str, d: Disagreement, seeds: Sequence[int], groups: Sequence[str], n: int
) -> list[tuple]:
    """Rows of ``disagreement``."""
    rows = []
    for a, b in combinations(range(len(seeds)), 2):
        rows.append((name, SMALL, seeds[a], seeds[b], groups[a], groups[b], d[a, b], n))
    return rows


def _means(name: str, d: Disagreement, groups: Sequence[str]) -> list[tuple]:
    """Rows of ``disagreement_means``."""
    rows = []
    for (a, b), pairs in pair_means(d, groups).items():
        rows.append((name, SMALL, a, b, pairs.mean(), pairs.min(), pairs.max(), len(pairs)))
    return rows


def _test(name: str, d: Disagreement, groups: Sequence[str]) -> tuple:
    """A row of ``equivalence``."""
    counts = ", ".join(f"{group} {groups.count(group)}" for group in sorted(set(groups)))
    return (name, SMALL, counts, *between_less_within(d, groups), len(groups))


def _disagreement(answers: Answers, seeds: Sequence[int]) -> Disagreement:
    """Disagreement of the members of some seeds."""
    if not seeds:
        return np.zeros((0, 0))
    return disagreement(np.array([answers[seed] for seed in seeds]))
