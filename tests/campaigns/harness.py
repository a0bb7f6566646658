"""What campaigns share: a case in a process of its own, how it ended, and the table of all."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from tqdm import tqdm

ENDS = ("equal", "sentence", "silent", "lost", "traceback", "hang")
"""Equal: results as without the mishap. Sentence: refused in one sentence, nothing changed. The others are failures:
wrong results without a word; something lost; an error that is not ours, or an abort; no end."""
GOOD = ENDS[:2]


@dataclass(frozen=True)
class Outcome:
    """How a case ended.

    Attributes:
        group: what kind of case it was, a row of the table. end: one of ENDS. detail: what to look at, in short.
    """

    group: str
    end: str
    detail: str = ""


@dataclass(frozen=True)
class Ended:
    """A process that has ended: ``status`` is its exit status, or less than 0 for the signal that ended it."""

    status: int
    out: str
    err: str
    hung: bool
    seconds: float

    @property
    def sentence(self) -> bool:
        """Whether it was refused in one sentence, as the command line does."""
        lines = [line for line in self.err.splitlines() if line.startswith("rb-interp: ")]
        return self.status == 2 and len(lines) == 1 and "Traceback" not in self.err

    @property
    def failure(self) -> str:
        """``hang`` or ``traceback`` where it ended so, else nothing."""
        if self.hung:
            return "hang"
        return "traceback" if "Traceback" in self.err or self.status not in (0, 2) else ""


class Child:
    """Work in a forked process. Imports are shared, so it starts at once; it may be killed like any other.

    The parent must not have computed with torch: its threads do not survive a fork.
    """

    def __init__(self, work: Callable[[], int | None]) -> None:
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 (closed by wait)
        self._started = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            self._work(work)

    def _work(self, work: Callable[[], int | None]) -> None:
        status = 70
        try:
            gc.freeze()
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
            os.dup2(self._out.fileno(), 1)
            os.dup2(self._err.fileno(), 2)
            sys.stdout = os.fdopen(os.dup(1), "w", 1)
            sys.stderr = os.fdopen(os.dup(2), "w", 1, errors="backslashreplace")
            status = work() or 0
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):
                    stream.flush()
            os._exit(status)

    def signal(self, number: int) -> None:
        """Send a signal, where it still runs."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    @property
    def ended(self) -> bool:
        """Whether it has ended already."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def wait(self, limit: float = 60.0) -> Ended:
        """Wait for its end; after ``limit`` seconds it is killed and counts as hung."""
        hung, until = False, time.monotonic() + limit
        while not (found := os.waitpid(self.pid, os.WNOHANG))[0]:
            if not hung and time.monotonic() > until:
                hung = True
                self.signal(signal.SIGKILL)
            time.sleep(0.003)
        texts = []
        for stream in (self._out, self._err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
            stream.close()
        return Ended(os.waitstatus_to_exitcode(found[1]), *texts, hung, time.monotonic() - self._started)


def forked(work: Callable[[], int | None], limit: float = 60.0) -> Ended:
    """Carry out work in a process of its own, and wait for it."""
    return Child(work).wait(limit)


def command(*arguments: str | Path) -> Callable[[], int]:
    """A command line as work for a process: ``forked(command("info", folder))``."""
    from rb_interp.cli import main

    def work() -> int:
        sys.argv = ["rb-interp", *map(str, arguments)]
        return main()

    return work


def preload() -> None:
    """Import what children use, once."""
    import matplotlib

    matplotlib.use("agg")
    # Its own lock is one of all processes that were forked, and stays closed where one is killed that holds it.
    tqdm.set_lock(threading.RLock())
    tqdm.monitor_interval = 0
    import rb_interp.models.build
    import rb_interp.report.write
    import rb_interp.runs.run
    import rb_interp.training.members  # noqa: F401


def table(campaign: str, outcomes: Iterable[Outcome]) -> pd.DataFrame:
    """Counts of each end, a row for each group: campaign, group, n, and the ends."""
    rows = pd.DataFrame([(o.group, o.end) for o in outcomes], columns=["group", "end"])
    counts = pd.crosstab(rows["group"], rows["end"]).reindex(columns=list(ENDS), fill_value=0)
    counts.insert(0, "n", counts.sum(axis=1))
    return counts.reset_index().assign(campaign=campaign)[["campaign", "group", "n", *ENDS]].rename_axis(columns=None)
