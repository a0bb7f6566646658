"""Signals: training notes them, a second one ends at once, and other people's handlers are left alone."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from rb_interp import signals
from rb_interp.signals import SIGNALS, Interrupts, Stopped, stopped_by_signals


def handle_as_python_does():
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _as_python_has_them():
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handle_as_python_does()
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
    handle_as_python_does()
    with stopped_by_signals(), Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        assert interrupts.asked == signal.SIGINT
        with pytest.raises(SystemExit, match=f"{128 + signal.SIGTERM}"):
            signal.raise_signal(signal.SIGTERM)


EARLY = """
import os

try:
    os.kill(os.getpid(), {number:d})
except {inside} as error:
    raise ImportError("initialisation failed") from error
"""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("inside", ["KeyboardInterrupt", "()"])
def test_a_signal_while_the_command_line_is_imported_ends_it_in_one_sentence(number, inside, tmp_path):
    (tmp_path / "tyro.py").write_text(EARLY.format(number=number, inside=inside))
    path = os.pathsep.join([str(tmp_path), str(Path(signals.__file__).parents[1])])
    ended = subprocess.run(
        [sys.executable, "-m", "rb_interp", "info", "nowhere"], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    sentence = "rb-interp: stopped; the same command goes on from what is saved."
    assert (ended.returncode, ended.stderr.split("\n")) == (128 + number, ["", sentence, ""])


def test_a_second_signal_ends_a_command_whose_messages_nobody_reads():
    ended = subprocess.run([sys.executable, "-c", TWO], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGTERM, "")


TWO = """
import os, signal
from rb_interp.signals import Interrupts, stopped_by_signals

with stopped_by_signals(), Interrupts():
    os.close(2)
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
"""

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


LOST = """
import os, signal, sys, threading
from rb_interp.signals import Stopped, stopped_by_signals

class Loses:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10_000):
            pass

with stopped_by_signals() as come:
    try:
        Loses()
        threading.Event().wait(60)
    except Stopped as stopped:
        print(stopped, come, file=sys.stderr)
"""


def test_a_signal_that_python_would_only_print_is_sent_again():
    ended = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, f"stopped by SIGINT [{signal.SIGINT.value}]\n")


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
