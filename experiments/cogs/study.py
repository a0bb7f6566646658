"""Configuration, claim P4 and measurement of sentences: two sweeps, ``cogs_low`` and ``cogs_high``,
of both gammas.

The 2 x 2 of initialisation and weight decay is that of the study ``addition-and-scan``, of which
this was a part. The criterion was written down before the runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from cogs.sentences import RULES
from cogs.task import CogsTask
from rb_interp.claims import Claim, Condition, Term
from rb_interp.runs import MemberModels, Run, StudyConfig, StudyResult, SweepConfig, readings_table
from rb_interp.runs.measurement import measure_members
from rb_interp.settings import Gammas, ReadRows
from rb_interp.statistics.reading import Reading
from rb_interp.studies.addition_and_scan.config import (
    ALONE,
    DECAYS,
    LARGE,
    MODELS,
    SMALL,
    TRAINING,
    check_decay,
)
from rb_interp.studies.addition_and_scan.measure import contrasts, read_member

HELD_OUT = {"cogs": "rules"}
"""The task, and the set of the contrast: the mean over the rules that are held out, each counting
alike."""
CELLS = (("high", SMALL), ("low", LARGE))
"""The two cells that P4 compares, by weight decay and gamma."""


class CogsSweep(SweepConfig):
    """Members that learn the logical forms of sentences."""

    gammas: Gammas = (LARGE, SMALL)
    task: CogsTask = field(default_factory=CogsTask)


def _sweeps(preset: str) -> dict[str, CogsSweep]:
    """The sweeps of a preset."""
    task = CogsTask(n_sequences=200, n_test=40, n_rule=20) if preset == "smoke" else CogsTask()
    train = TRAINING["scan"][preset]
    return {
        f"cogs_{name}": CogsSweep(
            task=task, model=MODELS[preset], train=replace(train, weight_decay=decay)
        )
        for name, decay in DECAYS.items()
    }


class CogsConfig(StudyConfig):
    """Two sweeps that differ in weight decay alone.

    Raises ConfigError where the sweeps differ in more than their names say.

    >>> CogsConfig.from_preset("paper").cogs_high.train.weight_decay
    0.1
    """

    PRESETS: ClassVar[dict] = {"smoke": {"seeds": (0, 1), **_sweeps("smoke")}, "paper": {}}

    preset: str = "paper"
    cogs_low: CogsSweep = _sweeps("paper")["cogs_low"]
    """Weight decay .01."""
    cogs_high: CogsSweep = _sweeps("paper")["cogs_high"]
    """Weight decay .1."""
    probe_rows: ReadRows = 2000
    """Rows of each set that answers are read of, at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_decay("cogs", self.cogs_low, self.cogs_high)


def _share(decay: str, gamma: float, set: str) -> Term:
    where = f"sentences, weight decay {DECAYS[decay]:g}"
    return Term(
        "answers",
        "right",
        gamma,
        "final",
        set,
        label=f"exact match on {set}",
        sweep=f"cogs_{decay}",
        sweep_label=where,
    )


CLAIMS = (
    Claim(
        "P4",
        "With small initialisation and large weight decay, the logical forms of sentences are "
        "right under four rules "
        "that were held out, more often than with large initialisation and small weight decay, "
        "where both are right on "
        "sentences like those trained on.",
        "Fig. 6b,c",
        (
            Condition(_share(*CELLS[0], "rules"), ">=", 0.10, _share(*CELLS[1], "rules")),
            *(Condition(_share(*cell, "seen_test"), ">=", 0.95) for cell in CELLS),
        ),
        context=(
            *(
                Term(
                    "contrast", f"cogs:{name}", None, "final", "rules", label=f"sentences: {words}"
                )
                for name, words in ALONE.items()
            ),
            *(_share(*cell, set) for set in ("train", *RULES) for cell in CELLS),
        ),
    ),
)


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Which answers of every member are right at its last step, and the contrasts of the 2 x 2."""
    found = measure_members(
        run, partial(read_with_rules, probe_rows=run.config.probe_rows), progress=progress
    )
    return StudyResult(readings_table(found.readings, contrasts(found.readings, HELD_OUT)))


def read_with_rules(
    models: MemberModels, member: Any, probe_rows: int
) -> Iterator[tuple[str, str, Reading]]:
    """The readings ``answers`` of a member, of each set and of ``rules``."""
    found = list(read_member(models, member, probe_rows))
    yield from found
    yield "final", "rules", mean_of([reading for _, set, reading in found if set in RULES])


def mean_of(readings: list[Reading]) -> Reading:
    """The mean share of readings ``answers``, each counting alike, however many rows it has."""
    shares, before = (
        {"right": float(np.mean([part["right"] for part in parts]))}
        for parts in ([one.values for one in readings], [one.untrained for one in readings])
    )
    return replace(readings[0], values=shares, untrained=before, n=sum(one.n for one in readings))
