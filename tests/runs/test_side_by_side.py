"""Jobs side by side: results in order, models to oneself, and an end to all of them when one fails or at Ctrl-C."""

import gc
import signal
import threading
import time

import pytest

from rb_interp.errors import RunError
from rb_interp.runs.side_by_side import StoppedError, check_stop, side_by_side


def test_results_keep_their_order_and_no_models_are_shared():
    in_use, together, made = set(), [], []

    def work(models, job):
        assert id(models) not in in_use
        in_use.add(id(models))
        together.append(len(in_use))
        time.sleep(0.02 if job % 2 else 0.005)
        in_use.remove(id(models))
        return job

    def make():
        made.append([])
        return made[-1]

    assert side_by_side(make, range(12), work, workers=3, progress=False) == [*range(12)]
    assert (len(made), max(together)) == (3, 3)


def test_one_worker_is_the_calling_thread():
    threads = side_by_side(list, [0, 1], lambda models, job: threading.current_thread(), workers=1, progress=False)
    assert threads == [threading.current_thread()] * 2


@pytest.fixture
def ctrl_c():
    """Python's own answer to Ctrl-C, which a shell takes from what it runs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # Python drops what is raised inside a callback of its collector, and test tools have one
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("how", ["error", "ctrl-c"])
def test_a_failure_and_ctrl_c_stop_the_others(how, ctrl_c):
    begun, stopped = [], []

    def work(models, job):
        begun.append(job)
        if job == 0:
            time.sleep(0.1)
            if how == "error":
                raise RunError("the file is broken.")
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        try:
            for _ in range(500):
                check_stop()
                time.sleep(0.01)
        except StoppedError:
            stopped.append(job)
            raise

    error, message = (RunError, "^the file is broken.$") if how == "error" else (KeyboardInterrupt, None)
    with pytest.raises(error, match=message):
        side_by_side(list, range(50), work, workers=2, progress=False)
    assert len(begun) <= 3
    assert set(stopped) == set(begun) - ({0} if how == "error" else set())
    check_stop()
