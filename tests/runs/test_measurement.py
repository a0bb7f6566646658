"""Members read side by side: results in order, models to oneself, and an end to all when one fails
or at Ctrl-C."""

import gc
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from own_studies import TASK

from rb_interp.errors import RunError
from rb_interp.runs import measurement
from rb_interp.runs.measurement import map_members, measure_members, seeds_to_add
from rb_interp.statistics.reading import Reading
from rb_interp.training.member_group import Member

MEMBERS = [Member(0.5, seed) for seed in range(12)]


@pytest.fixture
def sweep(one, monkeypatch):
    """A sweep whose models are made at once and load nothing."""

    class Models:
        stopped = False

        def __init__(self, sweep):
            self.in_use = False

        def load(self):
            if self.stopped:
                raise RunError("stopped")

    monkeypatch.setattr(measurement, "MemberModels", Models)
    sweep = one.sweep()
    monkeypatch.setattr(sweep, "dataset", lambda seed: TASK)
    return sweep


def with_workers(sweep, n, monkeypatch):
    monkeypatch.setattr(
        sweep, "config", replace(sweep.config, train=replace(sweep.config.train, workers=n))
    )
    return sweep


@pytest.mark.trains
def test_results_keep_their_order_and_no_models_are_shared(sweep, monkeypatch):
    used = set()

    def work(models, member):
        assert not models.in_use
        models.in_use = True
        time.sleep(0.02 if member.seed % 2 else 0.005)
        models.in_use = False
        used.add(models)
        return member, threading.current_thread()

    found = map_members(with_workers(sweep, 3, monkeypatch), MEMBERS, work, progress=False)
    assert ([member for member, _ in found], len(used)) == (MEMBERS, 3)
    alone = map_members(with_workers(sweep, 1, monkeypatch), MEMBERS[:2], work, progress=False)
    assert {thread for _, thread in alone} == {threading.current_thread()}


@pytest.mark.parametrize("how", ["error", "ctrl-c"])
def test_a_failure_and_ctrl_c_stop_the_others(sweep, how, ctrl_c, monkeypatch):
    begun = []

    def work(models, member):
        begun.append(member)
        if member.seed == 0:
            time.sleep(0.1)
            if how == "error":
                raise RunError("the file is broken.")
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        for _ in range(500):
            models.load()
            time.sleep(0.01)

    error, message = (
        (RunError, "^the file is broken.$") if how == "error" else (KeyboardInterrupt, None)
    )
    with pytest.raises(error, match=message):
        map_members(with_workers(sweep, 2, monkeypatch), MEMBERS, work, progress=False)
    assert len(begun) <= 3


@pytest.mark.parametrize("n", [1, 2])
def test_the_bar_is_closed_before_an_error_is_printed(sweep, n, capsys, monkeypatch):
    """A bar that ends with its iterator is printed again when the error's frames are freed."""

    def work(models, member):
        raise RunError("the file is broken.")

    with pytest.raises(RunError) as caught:
        map_members(with_workers(sweep, n, monkeypatch), MEMBERS, work, desc="reading")
    assert "reading" in capsys.readouterr().err
    del caught
    gc.collect()
    assert capsys.readouterr().err == ""


@pytest.mark.trains
def test_arrays_of_two_layers_stand_under_two_names(one):
    def plan(models, member):
        models.load(member, "final")
        for layer in (0, 1):
            yield "final", "", Reading("p", {"q": 1.0}, layer, 0, arrays={"a": np.full(2, layer)})

    result = measure_members(one, plan, progress=False)
    member = one.sweep().members[0]
    for layer in (0, 1):
        key = f"{member.gamma}/{member.seed}/final//p.L{layer}.H0/a"
        assert result.arrays[key].tolist() == [layer, layer]


@pytest.mark.trains
@pytest.mark.parametrize(
    ("changes", "n_seeds", "more"),
    [
        ({}, 2, 6),
        ({}, 8, 4),
        ({}, 19, 1),
        ({}, 20, 0),
        ({}, 30, 0),
        ({"outcome": "NOT JUDGED"}, 8, 0),
        ({"unit": "share"}, 8, 0),
        ({"outcome": "FAILS"}, 8, 0),
    ],
)
def test_seeds_are_added_where_they_can_decide(one, changes, n_seeds, more):
    verdicts = [one.verdicts["S1"], replace(one.verdicts["S1"], **{"outcome": "OPEN", **changes})]
    assert seeds_to_add(verdicts, n_seeds) == more
