"""Keep what was measured of a run, without its checkpoints: a run folder small enough for a repository.

A kept result holds ``run.json``, ``config.toml``, tables, arrays, verdicts and a manifest of these. It is opened like
any run, and its report is drawn without training. Its configuration has all seeds of the run, added ones too, and
``run.json`` says by which command the run is made again.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rb_interp.bounds import check_path
from rb_interp.errors import RunError
from rb_interp.machine.config import fingerprint, plain
from rb_interp.machine.metadata import FILE, check_free, holds_run, write_toml
from rb_interp.manifest import PROBE, START, TRAIN, Manifest
from rb_interp.one_writer import LOCK, WRITER

if TYPE_CHECKING:
    from rb_interp.machine.run import Run

CHECKPOINTS = "checkpoints"
"""The part of a path that only files of members' weights have."""


def has_checkpoints(manifest: Manifest) -> bool:
    """Whether a manifest lists a file of members' weights; False before training begins, too."""
    return any(CHECKPOINTS in Path(name).parts for name in manifest.content.files)


def making(study: str, folder: Path) -> str:
    """The command that makes the run of a kept result again."""
    return f"rb-interp reproduce {study} --config {folder / 'config.toml'} --out {Path('runs') / folder.name}"


def keep(run: Run, folder: Path) -> None:
    """Write a kept result into a new folder, all of it or nothing; see ``Run.keep``."""
    check_path("the folder of the result", folder)
    for step in (TRAIN, PROBE):
        run.check_current(step)
        run.manifest.check_step(step)
    if holds_run(folder):
        raise RunError(f"{folder} holds a run already; nothing was changed. Give another folder, or remove that one.")
    check_free(folder)
    beside = folder.with_name(f".{folder.name}.keep")
    shutil.rmtree(beside, ignore_errors=True)  # of a process that was killed
    try:
        _write(run, beside, folder)
        if folder.is_dir():
            folder.rmdir()
        os.rename(beside, folder)
    except OSError as error:
        raise RunError(f"{folder} cannot be written ({error.strerror}); nothing is left there.") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write(run: Run, beside: Path, folder: Path) -> None:
    """Write the files into a folder that nobody knows yet, with a manifest of their own."""
    config, study = run.config, run.study.name
    of = fingerprint(study, config)
    metadata = {**run.metadata, "config": plain(config), "added_seeds": [], "fingerprint": of}
    metadata["command"] = making(study, folder)
    content, manifest = run.manifest.content, Manifest(beside, of)
    with manifest.writing():
        manifest.write_bytes(beside / FILE, json.dumps(metadata, indent=1).encode(), START)
        write_toml(manifest, study, config)
        kept = [name for name in content.files if CHECKPOINTS not in Path(name).parts and not (beside / name).exists()]
        for step, made_from in ((TRAIN, START), (PROBE, TRAIN)):
            for name in kept:
                if content.files[name].step == step:
                    manifest.write_bytes(beside / name, run.manifest.read(run.folder / name, step), step)
            manifest.finish(step, made_from, version=content.steps[step].version)
    for name in (LOCK, WRITER):
        (beside / name).unlink(missing_ok=True)
