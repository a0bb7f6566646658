"""What a new run may take: the memory and the disk that there are, and the work that is not asked about.

The estimate is that of ``runs.estimate``. A run that exists is continued without being asked again.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from rb_interp.errors import ConfigError
from rb_interp.runs.config import StudyConfig
from rb_interp.runs.estimate import (
    HOUR,
    Estimate,
    disk,
    estimate,
    in_gib,
    in_words,
    of_machine,
    on_device,
    on_gpu,
    seconds,
)

LONG_ON_CPU, LONG_ON_GPU = 12 * HOUR, 30 * 24 * HOUR
"""Work from which on ``--yes`` is asked for. On a GPU the presets of the paper's size take days, and are not asked."""


SILENT = 5.0
"""Seconds of drawing rows beyond which it is said before it begins."""


def check_affordable(
    config: StudyConfig, folder: Path, yes: bool = False, seeds: tuple[int, ...] | None = None
) -> Estimate:
    """`check_room`; where drawing the rows takes long, it is said before it begins."""
    found = check_room(config, folder, yes, seeds)
    if found.data_seconds > SILENT:
        print(f"drawing the rows of all seeds: {in_words(found.data_seconds)}", file=sys.stderr)
    return found


def check_room(config: StudyConfig, folder: Path, yes: bool = False, seeds: tuple[int, ...] | None = None) -> Estimate:
    """Refuse what this machine cannot hold, and long work that nobody has agreed to.

    Args:
        folder: where the run will be; the disk is that of its nearest folder that exists.
        yes: whether long work is agreed to.
        seeds: those to be trained; by default all of the configuration.

    Raises ConfigError for a device that is not there, for more memory or disk than there is, and, without ``yes``, for
    long work.
    """
    gpu = on_gpu(config)
    found = estimate(config, gpu, seeds)
    places = [("machine", found.memory, machine_memory(), of_machine)]
    places += [("GPU", found.gpu_memory, gpu_memory(), on_device)] if gpu else []
    for place, needed, there, cost in places:
        if needed > there:
            raise ConfigError(
                f"training needs about {in_gib(needed)} of memory for "
                f"{max(s.members for s in found.sweeps.values()):,} members, most of it for {found.culprit(cost)}; "
                f"this {place} has {in_gib(there)}. Reduce that."
            )
    free = disk_free(folder)
    if found.disk > free:
        raise ConfigError(
            f"the checkpoints need about {in_gib(found.disk)}, most of it for {found.culprit(disk)}; the disk of "
            f"{folder} has {in_gib(free)} free. Reduce that, or use another --out."
        )
    if found.seconds > (LONG_ON_GPU if gpu else LONG_ON_CPU) and not yes:
        rate = max(1, round(found.steps / found.seconds))
        raise ConfigError(
            f"training would take {in_words(found.seconds)} here, at about {rate:,} steps of a member a second, "
            f"most of it for {found.culprit(seconds)}; pass --yes (yes=True in Python) to do it, or reduce that."
        )
    return found


def machine_memory() -> float:
    """Bytes that this process may take: of the machine, or of the limits that are set for it."""
    limits = [math.inf]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    group = Path("/sys/fs/cgroup/memory.max")
    if group.is_file() and (text := group.read_text().strip()).isdigit():
        limits.append(int(text))
    try:
        import resource
    except ImportError:  # not on Windows
        return min(limits)
    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        soft, _ = resource.getrlimit(getattr(resource, name))
        limits.append(math.inf if soft == resource.RLIM_INFINITY else soft)
    return min(limits)


def gpu_memory() -> float:
    """Bytes of the current GPU."""
    import torch

    return torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory


def disk_free(folder: Path) -> float:
    """Free bytes on the disk where a folder is, or would be; no limit where that cannot be told."""
    with suppress(OSError):  # the current folder may be gone
        whole = Path(folder).absolute()
        for place in (whole, *whole.parents):
            with suppress(OSError):
                return shutil.disk_usage(place).free
    return math.inf
