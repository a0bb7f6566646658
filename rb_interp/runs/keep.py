"""Keep what was measured of a run, without its checkpoints: a run folder small enough for a repository.

A kept result holds ``run.json``, ``config.toml``, tables, arrays, verdicts and a manifest of these. It is opened like
any run, and its report is drawn without training. Its configuration has all seeds of the run, added ones too, and
``run.json`` says by which command the run is made again.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from rb_interp.bounds import check_path
from rb_interp.errors import RunError
from rb_interp.manifest import FILE as MANIFEST
from rb_interp.manifest import PROBE, START, TRAIN, Manifest
from rb_interp.one_writer import LOCK, TEMPORARY, WRITER
from rb_interp.runs.config import fingerprint, plain
from rb_interp.runs.metadata import FILE, check_free, holds_run, manifest_of, write_toml
from rb_interp.signals import Interrupts

if TYPE_CHECKING:
    from rb_interp.runs.run import Run

CHECKPOINTS = "checkpoints"
"""The part of a path that only files of members' weights have."""
LOOKS = (0, 0.05, 0.1, 0.2, 0.3)
"""Seconds before each look at the folder that is needed, for another ``keep`` may be filling or removing it."""
Held = tuple[str, dict[str, bytes]]
"""The version of the code that carried out a step, and the content of its files by name."""


def has_checkpoints(manifest: Manifest) -> bool:
    """Whether a manifest lists a file of members' weights; False before training begins, too."""
    return any(CHECKPOINTS in Path(name).parts for name in manifest.content.files)


def making(study: str, folder: Path) -> str:
    """The command that makes the run of a kept result again."""
    config, out = quote(str(folder / "config.toml")), quote(str(Path("runs") / folder.name))
    return f"rb-interp reproduce {study} --config {config} --out {out}"


def keep(run: Run, folder: Path) -> None:
    """Write a kept result into a new folder, all of it or nothing; see ``Run.keep``.

    A signal leaves nothing behind, unless all of it is there.
    """
    check_path("the folder of the result", folder)
    if folder.name in ("", ".."):
        raise RunError(f"the result has no name; give a new folder instead of '{folder}'.")
    temporary = folder.with_name(f".{folder.name}.keep")
    check_path("the folder beside the result", temporary)
    _check_empty(folder)
    held = run.manifest.steady(TRAIN, lambda: run.manifest.steady(PROBE, lambda: _held(run)))
    _check_ours(temporary)
    config, study = run.config, run.study.name
    manifest = Manifest(temporary, fingerprint(study, config))
    with Interrupts() as interrupts, manifest.writing():  # a signal ends it between two files
        try:
            _check_empty(folder)  # somebody may have made it since it was looked at
            for path in temporary.iterdir():
                if path.name not in (LOCK, WRITER):
                    path.unlink()
            _write(run, manifest, making(study, folder), held, interrupts.check)
            os.rename(temporary, folder)  # with the lock in it, so that nobody begins there before it has moved
        except OSError as error:
            raise RunError(f"{folder} cannot be written ({error.strerror}); nothing is left there.") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        for name in (LOCK, WRITER):
            (folder / name).unlink(missing_ok=True)
    interrupts.check()


def _check_empty(folder: Path) -> None:
    """Raise RunError where a folder holds something."""
    if holds_run(folder):
        raise RunError(f"{folder} holds a run already; nothing was changed. Give another folder, or remove that one.")
    check_free(folder)


def _check_ours(temporary: Path) -> None:
    """Raise RunError where a folder holds something else than what a killed process kept there."""
    check_free(temporary)
    for wait in LOOKS:
        time.sleep(wait)
        if _is_free(temporary):
            return
    raise RunError(f"{temporary} is needed for a moment, and holds something else; nothing was changed. Move it away.")


def _is_free(temporary: Path) -> bool:
    """Whether a folder is not there, or ours; False also where another process fills or removes it at this moment."""
    try:
        return not temporary.is_symlink() and (not temporary.is_dir() or _is_left(temporary))
    except FileNotFoundError:
        return False


def _is_left(temporary: Path) -> bool:
    """Whether a folder is what a killed process left: a lock, and files that its manifest knows or that were begun."""
    found = {path.name: path for path in temporary.iterdir()}
    begun = {name for pattern in TEMPORARY for name in fnmatch.filter(found, pattern)}
    ours = {LOCK, WRITER, MANIFEST, *manifest_of(temporary).content.files} | begun
    return not found or (LOCK in found and found.keys() <= ours and not any(map(Path.is_dir, found.values())))


def _held(run: Run) -> dict[str, Held]:
    """What is kept of each step; raises where a file is not what it was."""
    found = {}
    for step in (TRAIN, PROBE):
        run.check_current(step)
        run.manifest.check_step(step)
        content = run.manifest.content
        names = [name for name, entry in content.files.items() if entry.step == step]
        kept = [name for name in names if CHECKPOINTS not in Path(name).parts]
        files = {name: run.manifest.read(run.folder / name, step) for name in kept}
        found[step] = content.steps[step].version, files
    return found


def _write(run: Run, manifest: Manifest, command: str, held: dict[str, Held], check: Callable[[], object]) -> None:
    """Write the files into a folder that nobody knows yet, with a manifest of their own; ``check`` before each."""
    config, study, temporary = run.config, run.study.name, manifest.folder
    metadata = {**run.metadata, "config": plain(config), "added_seeds": [], "fingerprint": fingerprint(study, config)}
    manifest.write_bytes(temporary / FILE, json.dumps({**metadata, "command": command}, indent=1).encode(), START)
    write_toml(manifest, study, config)
    for step, made_from in ((TRAIN, START), (PROBE, TRAIN)):
        version, files = held[step]
        for name, content in files.items():
            check()
            manifest.write_bytes(temporary / name, content, step)
        manifest.finish(step, made_from, version=version)
