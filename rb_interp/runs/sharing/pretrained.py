"""Read a shared member: from a folder, from the zoo that comes with the package, or from the Hub.

    folder/config.json                one member
    folder/MEMBER/config.json         one of several; ``member=`` names it

Nothing in the files is executed, no path leaves the folder, and no link is followed out of it.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rb_interp.checks import checked, shown
from rb_interp.errors import RunError, nearest
from rb_interp.runs.sharing import tensors
from rb_interp.runs.sharing.circuit import Circuit
from rb_interp.runs.sharing.content import (
    CARD,
    DRAWN,
    FILE,
    NAME,
    STORED,
    UNTRAINED,
    WEIGHTS,
    Content,
    check_name,
    parsed,
)
from rb_interp.runs.sharing.manifest import FILE as MANIFEST
from rb_interp.runs.sharing.manifest import read_file, real
from rb_interp.runs.sharing.member import SharedMember

if TYPE_CHECKING:
    import pandas as pd

ZOO, ZOO_FOLDER = "zoo", Path(__file__).parent.parent / "zoo"
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
REMEDY = "Get a sound copy of the folder, or write it again."


@checked
def from_pretrained(
    path: Path | str, *, member: str | None = None, revision: str | None = None, task: Any = None
) -> SharedMember:
    """A shared member: its TransformerLens model, its task, its untrained counterpart, its circuit and readings.

    Args:
        path: a folder that `Run.export` wrote, one that holds several of these, ``zoo`` for the members that come with
            the package, or the name of a repository of the Hugging Face Hub, ``owner/name``.
        member: which one, where there are several. revision: branch, tag or commit of the repository.
        task: the task that it learned, where its class is not installed here.

    Raises RunError, in one sentence, for what is no shared member, is damaged, or holds other weights than it says, and
    for a Hub that does not answer.

    >>> known = from_pretrained("zoo", member="average-then-key")
    >>> known.circuit.name, known.content.gamma, tuple(known.model.W_E.shape)
    ('average-then-key', 0.8, (200, 64))
    >>> from rb_interp.probes import attention_by_role
    >>> inputs = known.inputs("rsn_test", 200)
    >>> reading = attention_by_role(known.model, inputs, layer=1, untrained=known.untrained)
    >>> reading.values["key"] > 0.9 > reading.untrained["key"]
    True
    """
    if member is not None:
        check_name(member)
    if str(path) == ZOO:
        return read(_chosen(ZOO_FOLDER, member), task)
    if os.path.lexists(path):
        if revision is not None:
            raise RunError(f"{path} is a folder here, and revision={shown(revision)} is of a repository; leave it out.")
        return read(_chosen(Path(path), member), task)
    if not HUB_ID.fullmatch(str(path)):
        raise RunError(
            f"there is no folder {path}, and it is no name of a repository (owner/name); give one of them, or "
            f"'{ZOO}' for the members that come with the package."
        )
    from rb_interp.runs.sharing.hub import downloaded

    with downloaded(str(path), revision, lambda folder: _chosen(folder, member)) as folder:
        return read(folder, task, keeps=False)


@checked
def zoo() -> pd.DataFrame:
    """The members that come with the package, one row each: ``from_pretrained("zoo", member=...)`` reads one.

    Columns: member, task, norm, gamma and seed (NaN for weights written by hand), circuit, by (how it was named), share
    (the least of those that the name rests on; NaN for ``mixed``), accuracy (in words, by set), bytes (of the weights).

    >>> table = zoo()
    >>> len(table), "average-then-key" in set(table.member)
    (15, True)
    """
    import pandas as pd

    return pd.DataFrame([listed(ZOO_FOLDER / name) for name in members(ZOO_FOLDER)])


def listed(folder: Path) -> dict[str, Any]:
    """The row of a member's folder in `zoo`."""
    told = parsed(folder / FILE, (folder / FILE).read_bytes())
    circuit = told.circuit or Circuit("", "")
    return {
        "member": told.name,
        "task": told.task.kind.rpartition(":")[2],
        "norm": told.model.norm,
        "gamma": told.gamma,
        "seed": told.seed,
        "circuit": circuit.name,
        "by": circuit.by,
        "share": math.nan if circuit.name == "mixed" else min(circuit.shares.values(), default=math.nan),
        "accuracy": ", ".join(f"{name} {value:.2f}" for name, value in told.accuracy.items()),
        "bytes": (folder / WEIGHTS).stat().st_size,
    }


def members(folder: Path) -> list[str]:
    """Names of the members right in a folder."""
    return sorted(path.parent.name for path in folder.glob(f"*/{FILE}") if NAME.fullmatch(path.parent.name))


def _chosen(folder: Path, member: str | None) -> Path:
    """The folder of a member among those in a folder, or the folder itself; RunError where none is meant."""
    if (folder / FILE).exists():
        return folder
    found = members(folder) if folder.is_dir() else []
    if not found:
        raise RunError(f"{folder} holds no shared member: it has no {FILE}. Run.export(...) writes one.")
    if member is None and len(found) > 1:
        raise RunError(f"{folder} holds {len(found)} members; name one with member=: {', '.join(found)}.")
    if member is not None and member not in found:
        raise RunError(f"{folder} holds no member '{member}'; {nearest(member, found)}")
    place = folder / (member or found[0])
    if not real(place).is_relative_to(real(folder)):
        raise RunError(f"{place} leads out of {folder}; nothing was read there. Remove that link.")
    return place


def read(folder: Path, task: Any = None, *, keeps: bool = True) -> SharedMember:
    """The member in a folder; ``keeps`` says whether the folder stays there."""
    content = read_content(folder)
    sizes = content.model, content.d_vocab, content.n_ctx
    dtype = getattr(torch, content.dtype)
    weights, initial = tensors.read(folder / WEIGHTS, *sizes, dtype), {}
    if content.untrained == STORED:
        initial = tensors.read(folder / UNTRAINED, *sizes, dtype)
    elif content.untrained == DRAWN and content.seed is not None:
        initial = tensors.drawn(*sizes, content.gamma, content.seed, dtype)
        if tensors.checksum(initial) != content.checksum:
            raise RunError(
                f"{folder} tells another checksum of its untrained weights than scheme, gamma {content.gamma} and seed "
                f"{content.seed} give here; use the versions that it was made with: {_versions(content)}."
            )
    return SharedMember(content, _card(folder / CARD), weights, initial, folder if keeps else None, task)


def read_content(folder: Path) -> Content:
    """What ``config.json`` of a member's folder says; RunError where it is damaged or is none."""
    if not (folder / MANIFEST).exists():
        raise RunError(f"{folder} has no {MANIFEST}, which says what its files are. {REMEDY}")
    return parsed(folder / FILE, read_file(folder / FILE))


def _card(path: Path) -> str:
    """The card, which people may have edited; "" where there is none."""
    try:
        inside = real(path).is_relative_to(real(path.parent))
        return path.read_bytes().decode(errors="replace") if inside else ""
    except (OSError, ValueError):
        return ""


def _versions(content: Content) -> str:
    return ", ".join(f"{name} {version}" for name, version in content.versions.items()) or "they are not told"
