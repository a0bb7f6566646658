"""What checksums and the manifest cost: the files of a finished run written once more, with and without them.

    python benchmarks/manifest.py RUN [--saves 36]

Both ways take turns, file by file. ``--saves`` is how often the state was saved: the run's seconds of training by
``save_every``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from rb_interp.files import write_bytes
from rb_interp.manifest import FILE, PROBE, REPORT, TRAIN, Manifest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--saves", type=int, default=36)
    given = parser.parse_args()
    found = (path.relative_to(given.run) for path in sorted(given.run.rglob("*")) if path.is_file())
    names = [name for name in found if name.name != FILE and not name.name.startswith(".")]
    steps: dict[str, list[Path]] = {TRAIN: [], PROBE: [], REPORT: []}
    for name in names:
        step = TRAIN if "checkpoints" in name.parts else REPORT if "figures" in name.parts else PROBE
        steps[step] += [name] * (given.saves if name.stem == "state" else 1)
    seconds = {"with": 0.0, "without": 0.0}
    with tempfile.TemporaryDirectory() as place:
        manifest, plain = Manifest(Path(place) / "with"), Path(place) / "without"
        with manifest.writing():
            for step, members in steps.items():
                for name in members:
                    content, before = (given.run / name).read_bytes(), time.perf_counter()
                    manifest.write_bytes(manifest.folder / name, content, step)
                    between = time.perf_counter()
                    write_bytes(plain / name, content)
                    seconds["with"] += between - before
                    seconds["without"] += time.perf_counter() - between
        before = time.perf_counter()
        assert not Manifest(manifest.folder).problems()
        read = time.perf_counter() - before
    writes = sum(map(len, steps.values()))
    print(f"{writes} writes of {len(names)} files: {seconds['with']:.2f} s with, {seconds['without']:.2f} s without")
    print(f"comparing every file once: {read:.2f} s")


if __name__ == "__main__":
    main()
