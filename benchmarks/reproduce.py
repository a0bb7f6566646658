"""Wall time and peak memory of the main job as a user runs it; and what importing costs.

    python benchmarks/reproduce.py [--preset quick] [--out FOLDER]

The run folder must not exist: a finished run would be measured as nothing.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def wall(arguments: list[str]) -> float:
    """Seconds that a Python process takes, its output left alone."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    bare = statistics.median(wall(["-c", ""]) for _ in range(7))
    imported = statistics.median(wall(["-c", "import rb_interp"]) for _ in range(7))
    helped = statistics.median(wall(["-m", "rb_interp", "reproduce", "--help"]) for _ in range(7))
    print(
        f"import rb_interp: {imported - bare:.3f} s; reproduce --help: {helped:.2f} s (medians of "
        f"7)"
    )
    folder = options.out or Path(tempfile.mkdtemp()) / options.preset
    seconds = wall(
        ["-m", "rb_interp", "reproduce", "--preset", options.preset, "--out", str(folder)]
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(f"reproduce --preset {options.preset}: {seconds:.0f} s, peak {peak:.2f} GiB")


if __name__ == "__main__":
    main()
