"""What a process does when it is told to stop: Ctrl-C (SIGINT), SIGTERM, and SIGHUP where the terminal goes away.

Training notes the signal, ends where all members stand at one step, saves, and raises `Stopped`. Everything else is
stopped where it stands, for files are written whole or not at all. A second signal ends the command line at once,
without the clearing up that waits for threads; nothing that lies on disk is harmed.

A library has no say over signals that somebody else handles. So without the command line, training notes only those
that have Python's own handler, or none.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
DEFAULTS = (signal.default_int_handler, signal.SIG_DFL)

AGAIN = 0.01
"""Seconds until a signal that was lost is sent once more, when what lost it has ended."""
_noting: list[Interrupts] = []


class Stopped(KeyboardInterrupt):
    """A signal ended the work. ``signal`` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.signal = number


class Interrupts:
    """Notes a signal, so that work ends where nothing is half done; a second one ends it at once.

    Attributes:
        asked: the signal that has come, 0 while none has.
    """

    def __init__(self) -> None:
        self.asked, self._before = 0, {}

    def __enter__(self) -> Interrupts:
        _noting.append(self)
        if threading.current_thread() is threading.main_thread():
            self._before = {number: now for number in SIGNALS if (now := signal.getsignal(number)) in DEFAULTS}
            for number in self._before:
                signal.signal(number, self.note)
        return self

    def __exit__(self, *_: object) -> None:
        _noting.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def note(self, number: int, frame: FrameType | None = None) -> None:
        """Handle a signal."""
        if self.asked:
            raise Stopped(number)
        self.asked = number

    def check(self) -> None:
        """Raise Stopped where a signal has come."""
        if self.asked:
            raise Stopped(self.asked)


class _Ending:
    """Handles a signal for the command line, and notes in ``come`` that it has come.

    Python only prints what is raised where it has nobody to hand an error to, such as in ``__del__`` and in callbacks
    of weak references. A signal that is lost there is sent once more.
    """

    def __init__(self) -> None:
        self.come: list[int] = []
        self.usual = sys.unraisablehook

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.come.append(number)
        if len(self.come) > 1:
            say("rb-interp: ended at once; the same command goes on from what is saved.")
            os._exit(128 + number)
        if not _noting:
            raise Stopped(number)
        _noting[-1].note(number)

    def lost(self, unraisable: Any) -> None:
        """What Python calls in place of raising an error; see ``sys.unraisablehook``."""
        stopped, main = unraisable.exc_value, threading.main_thread().ident
        if not isinstance(stopped, Stopped) or main is None:
            return self.usual(unraisable)
        self.come.clear()
        again = threading.Timer(AGAIN, signal.pthread_kill, (main, stopped.signal))
        again.daemon = True
        again.start()


def say(sentence: str) -> None:
    """Write a sentence on a line of its own to the standard error, past its buffer, where somebody reads it."""
    with suppress(OSError):
        os.write(2, f"\n{sentence}\n".encode())


@contextmanager
def stopped_by_signals(to_the_end: bool = False) -> Iterator[list[int]]:
    """Handle all of them as the command line does, for the time of a command. In the main thread alone.

    Within another one this changes nothing, and yields what the other one does.

    Args:
        to_the_end: whether the process ends afterwards. Then a signal that comes on the way out ends it at once. While
            Python shuts down, for a moment, signals are ignored: Python would hand them back to the system, and the
            process would end without its status.

    Yields the signals that have come.
    """
    now = {number: signal.getsignal(number) for number in SIGNALS}
    handle = next((handler for handler in now.values() if isinstance(handler, _Ending)), _Ending())
    come = handle.come
    if threading.current_thread() is not threading.main_thread() or handle in now.values():
        yield come
        return

    before = {number: signal.signal(number, handle) for number in SIGNALS if now[number] in DEFAULTS}
    sys.unraisablehook = handle.lost
    try:
        yield come
    finally:
        sys.unraisablehook = handle.usual
        if to_the_end:
            come.append(0)
            atexit.register(_ignore, tuple(before))
        else:
            for number, handler in before.items():
                signal.signal(number, handler)


def _ignore(numbers: Iterable[int]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)
