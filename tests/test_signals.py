"""Signals: training notes them, a second one ends at once, and other people's handlers are left alone."""

import os
import signal
import subprocess
import sys
from threading import Thread

import pytest

from rb_interp.signals import Interrupts, Stopped, stopped_by_signals


@pytest.fixture(autouse=True)
def _as_python_has_them():
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_training_notes_a_signal_and_a_second_one_ends_it_at_once(number):
    with Interrupts() as interrupts:
        interrupts.check()
        signal.raise_signal(number)
        with pytest.raises(Stopped):
            interrupts.check()
        with pytest.raises(Stopped) as ended:
            signal.raise_signal(number)
    assert ended.value.signal == number
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == [
        signal.default_int_handler, signal.SIG_DFL
    ]  # fmt: skip


def test_other_handlers_are_left_alone():
    pressed = []
    own = lambda *_: pressed.append(True)  # noqa: E731
    signal.signal(signal.SIGTERM, own)
    with stopped_by_signals(), Interrupts() as interrupts:
        signal.raise_signal(signal.SIGTERM)
        assert (pressed, interrupts.asked, signal.getsignal(signal.SIGTERM)) == ([True], 0, own)


def test_the_command_line_lets_training_end_and_stops_all_else_at_once(monkeypatch):
    with pytest.raises(Stopped) as stopped, stopped_by_signals():
        signal.raise_signal(signal.SIGTERM)
    assert stopped.value.signal == signal.SIGTERM

    def ended(code):
        raise SystemExit(code)

    monkeypatch.setattr(os, "_exit", ended)
    with stopped_by_signals(to_the_end=True):
        pass
    with pytest.raises(SystemExit, match=f"{128 + signal.SIGTERM}"):  # a program that has all but ended
        signal.raise_signal(signal.SIGTERM)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with stopped_by_signals(), Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.asked == signal.SIGINT
        with pytest.raises(SystemExit, match=f"{128 + signal.SIGTERM}"):
            signal.raise_signal(signal.SIGTERM)


LATE = """
import os, signal, sys
from rb_interp.signals import stopped_by_signals

class Late:
    def __del__(self, kill=os.kill, process=os.getpid()):
        kill(process, signal.SIGTERM)

with stopped_by_signals(to_the_end=True):
    late = Late()
sys.exit(129)
"""


def test_a_signal_while_python_takes_itself_apart_leaves_the_status_alone():
    assert subprocess.run([sys.executable, "-c", LATE], check=False).returncode == 129


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no terminal goes away here")
def test_a_terminal_that_goes_away_is_noted():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with Interrupts() as interrupts:
            assert signal.getsignal(signal.SIGHUP) == interrupts.note
            signal.raise_signal(signal.SIGHUP)
            assert interrupts.asked == signal.SIGHUP
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_work_in_another_thread_leaves_signals_to_the_main_one():
    found = []

    def beside():
        with stopped_by_signals() as come, Interrupts() as interrupts:
            found.extend([signal.getsignal(signal.SIGINT), come, interrupts.asked])

    other = Thread(target=beside)
    other.start()
    other.join()
    assert found == [signal.default_int_handler, [], 0]
