"""Numbers that a change of the code must not change; ``make.py`` makes them again where a change is
meant.

Models and training are in float64. Values agree within 1e-6, the mean of a null within its own
standard error, and what is read of trained runs within 1e-4; ``calls.UNSTABLE`` says what differs
between processors by more. CI makes them on the oldest kernels, but for those of the zoo's members
at other gammas, which are slow. On the processor's own it
makes the readings of one model, and with the newest TransformerLens those of five.
"""

import json
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
from golden import calls
from golden.compared import differing

HERE = Path(__file__).parent
PLACE = ["sweep", "gamma", "seed", "stage", "step", "set", "probe", "layer", "head", "quantity"]


@cache
def _stored(name: str) -> pd.DataFrame:
    return pd.read_parquet(HERE / f"{name}.parquet")


def _marks(name: str) -> list[pytest.MarkDecorator]:
    lens = [pytest.mark.lens] * (name in calls.LENS)
    if "-gamma-" in name:
        return [pytest.mark.slow]
    return [*lens, pytest.mark.trains if name == "average-then-key" else pytest.mark.wide]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=_marks(name)) for name in calls.SUBJECTS]
)
def test_readings(name):
    now, then = calls.rows_of(name), _stored("readings")
    then = then[then["model"] == name]
    found = differing(now, then, ["model", "call", "quantity"], ["value"])
    assert found.empty, found.to_string(max_rows=20)


def test_verdicts_on_stored_readings():
    stored = pd.read_csv(HERE / "verdicts.csv")
    words = ["of", "seeds_from", "claim", "asked", "outcome", "uncalibrated"]
    found = differing(calls.verdicts(HERE), stored, words, ["k", "n", "effect", "low", "high"])
    assert found.empty, found.to_string(max_rows=20)


def test_fingerprints():
    assert calls.fingerprints() == json.loads((HERE / "fingerprints.json").read_text())


@pytest.mark.wide
@pytest.mark.parametrize(
    "study",
    [pytest.param(name, marks=[pytest.mark.lens] * (name == "language")) for name in calls.STUDIES],
)
def test_smoke(study, smoke_run):
    now, then = (
        calls.comparable(study, t) for t in (smoke_run(study).readings, _stored(f"smoke_{study}"))
    )
    found = differing(now, then, PLACE, ["value", "untrained", "null_mean"], tolerance=1e-4)
    assert found.empty, found.to_string(max_rows=20)
