"""Measure the map: the phase of every member at its last step, and per seed what claims C7 to C12 speak of.

phase    accuracies, I, S, O; of members that were trained on neither pair as ``phase.read_control``
map      order        Spearman's correlation of gamma and I - S, with six gammas or more from .5 to 1.0
         gamma_fit    smallest gamma with seen_test >= .90; NaN where there is none
         unfit        how many members along gamma have seen_test < .90
         gamma_star, crosses     see ``boundary``
         fit_rise     gamma_fit at depth 6 less that at depth 2
         distance     |gamma* at depth 4 - gamma* at depth 2|
         rate_order, decay_order     Spearman's correlation of the setting and I, of C10 and C11, with five or more
         rate_gain, decay_gain       I at the highest setting that is fitted, less I at the lowest one
         A number that a seed has no value of, such as the smallest fitted gamma where none is fitted, is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from rb_interp.runs.measured import Measured, frame, readings_table
from rb_interp.runs.members import MemberModels, each_member
from rb_interp.runs.run import Run
from rb_interp.studies.composite.map.cells import best_of_lr, boundaries, boundary, cells, differences, order
from rb_interp.studies.composite.map.config import CompositeMapConfig
from rb_interp.studies.composite.phase import UNFIT, phase_of, read_control, read_phase
from rb_interp.studies.composite.tables import MemberFound
from rb_interp.studies.composite.task import FITTED
from rb_interp.training.member_group import Member

NAN = float("nan")
FEWEST_GAMMAS, FROM, TO = 6, 0.5, 1.0
"""Gammas of claim C7."""
FEWEST_SETTINGS = 5
"""Learning rates of claim C10, and weight decays of C11. A map with fewer, as ``quick``, says nothing of them."""


def measure(run: Run, progress: bool = True) -> Measured:
    """Read the phase of every member of a finished map; RunError where a checkpoint is missing or broken."""
    parts, rows, config = [], [], run.config
    assert isinstance(config, CompositeMapConfig)
    for name, sweep in run.sweeps.items():
        # Which pairs neither mirror was trained of is seen on the task of the other sweeps.
        trained = {seed: config.task.dataset(seed) for seed in sweep.seeds} if name.startswith("unseen") else {}

        def read(models: MemberModels, member: Member, trained: Any = trained) -> MemberFound:
            step, data = models.load(member, "final").step, models.sweep.dataset(member.seed)
            if trained:
                reading = read_control(models.model, data, trained[member.seed], untrained=models.untrained)
            else:
                reading = read_phase(models.model, data, untrained=models.untrained)
            return MemberFound(member, step, [("", reading)])

        found = each_member(sweep, sweep.sound_members, read, progress=progress, desc=f"probing {name}")
        parts.append(readings_table([row for one in found for row in one.rows()], sweep=name))
        for one in found:
            values = one.of("phase")[0].values
            phase = phase_of(values["acc_seen_test"], values["I"], values["S"])
            rows.append({"sweep": name, **one.place, "phase": phase, **values})
        rows += [{"sweep": name, "gamma": m.gamma, "seed": m.seed, "phase": UNFIT} for m in sweep.diverged]
    members = frame(rows, "sweep gamma seed phase:str I S I_early S_early acc_train acc_seen_train acc_seen_test")
    readings = readings_table(*parts, list(map_readings(readings_table(*parts), config)))
    made = {"cells": cells, "boundaries": boundaries, "best_of_lr": best_of_lr}
    return Measured(readings, {"members": members} | {name: of(members, config) for name, of in made.items()})


def map_readings(readings: pd.DataFrame, config: CompositeMapConfig) -> Iterator[dict[str, Any]]:
    """What claims speak of, one number a seed, of trained members and beside it of untrained ones."""
    of_phase, member = readings[readings["probe"] == "phase"], ["sweep", "gamma", "seed"]
    now, before = (
        of_phase.pivot(index=member, columns="quantity", values=column).reset_index()
        for column in ("value", "untrained")
    )
    step = config.train.steps
    empty = dict.fromkeys(("layer", "head", "null", "null_mean", "null_sd", "p_value"))
    for seed in sorted(set(now["seed"])):
        found, untrained = (_of_seed(table.loc[table["seed"] == seed], config) for table in (now, before))
        for (sweep, quantity), value in found.items():
            place = {"sweep": sweep, "gamma": NAN, "seed": seed, "stage": "final", "step": step, "set": ""}
            first = untrained.get((sweep, quantity), NAN)
            row = {"probe": "map", "quantity": quantity, "value": value, "untrained": first}
            yield {**place, **row, **empty, "n": 0}


def _of_seed(members: pd.DataFrame, config: CompositeMapConfig) -> dict[tuple[str, str], float]:
    """(sweep, quantity) -> number of one seed; sweep "" for what compares several."""
    found: dict[tuple[str, str], float] = {}
    for place in config.places:
        if place.axis in ("depth", "gpt2"):
            own = members.loc[members["sweep"] == place.sweep]
            found |= {(place.sweep, name): value for name, value in _along_gamma(own).items()}
    for name, quantity, deep in (("fit_rise", "gamma_fit", "depth_6"), ("distance", "gamma_star", "depth_4")):
        ends = [found[sweep, quantity] for sweep in (deep, "depth_2") if (sweep, quantity) in found]
        if len(ends) == 2:
            found["", name] = round(ends[0] - ends[1], 9) if name == "fit_rise" else abs(ends[0] - ends[1])
    for axis in ("rate", "decay"):
        sweeps = sorted((place.point, place.sweep) for place in config.places if place.axis == f"unseen_{axis}")
        own = {point: members.loc[members["sweep"] == sweep].to_dict("records") for point, sweep in sweeps}
        answered = {point: float(rows[0]["I"]) for point, rows in own.items() if rows}
        if len(answered) < FEWEST_SETTINGS:
            continue
        fitted = [point for point, rows in own.items() if rows and rows[0]["acc_seen_test"] >= FITTED]
        gain = answered[fitted[-1]] - answered[min(answered)] if fitted else NAN
        found |= {("", f"{axis}_order"): order(answered), ("", f"{axis}_gain"): gain}
    return found


def _along_gamma(members: pd.DataFrame) -> dict[str, float]:
    """What the members of one seed and sweep say along gamma."""
    along = differences(members)
    if len(along) < 2:
        return {}
    fitted = members.loc[members["acc_seen_test"] >= FITTED, "gamma"]
    upper = {gamma: value for gamma, value in along.items() if FROM <= gamma <= TO}
    at = boundary(along)
    return {
        **({"order": order(upper)} if len(upper) >= FEWEST_GAMMAS else {}),
        "gamma_fit": float(fitted.min()) if len(fitted) else NAN,
        "unfit": float(len(members) - len(fitted)),
        "gamma_star": at.gamma,
        "crosses": float(at.crosses),
    }
