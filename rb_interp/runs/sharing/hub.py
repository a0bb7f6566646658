"""Members on the Hugging Face Hub, through ``huggingface_hub``: downloaded to read, uploaded to share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rb_interp.checks import checked
from rb_interp.errors import RunError, first_line
from rb_interp.runs.sharing.content import CARD, FILE, UNTRAINED, WEIGHTS
from rb_interp.runs.sharing.manifest import FILE as MANIFEST
from rb_interp.runs.sharing.manifest import real

FILES = (FILE, MANIFEST, WEIGHTS, UNTRAINED, CARD)
"""What a member's folder holds."""


@contextmanager
def downloaded(repo_id: str, revision: str | None, choose: Callable[[Path], Path]) -> Iterator[Path]:
    """A folder with the files of one member of a repository; it is gone afterwards.

    The Hub's cache holds links, and a member's folder may hold none that leads out of it. So the files are copied; a
    link is followed within the cache of this repository alone.

    Args:
        choose: which folder of the repository holds the member.

    Raises RunError where the Hub does not answer, or has no such repository or revision.
    """
    listed = _snapshot(repo_id, revision, [FILE, f"*/{FILE}"])
    chosen = choose(listed).relative_to(listed)
    prefix = "" if chosen == Path() else f"{chosen.as_posix()}/"
    snapshot = _snapshot(repo_id, revision, [f"{prefix}{name}" for name in FILES])
    with TemporaryDirectory(prefix="rb_interp-") as temporary:
        for name in FILES:
            held = snapshot / chosen / name
            if not held.is_file():
                continue
            if not _inside(held, snapshot.parents[1]):
                raise RunError(f"{held} leads out of the cache of {repo_id}; nothing was read there. Remove that link.")
            shutil.copyfile(held, Path(temporary) / name)
        yield Path(temporary)


def _inside(path: Path, folder: Path) -> bool:
    return real(path).is_relative_to(real(folder))


def _snapshot(repo_id: str, revision: str | None, patterns: list[str]) -> Path:
    import huggingface_hub

    try:
        return Path(huggingface_hub.snapshot_download(repo_id, revision=revision, allow_patterns=patterns))
    except Exception as error:  # of the library, of the network, of the disk
        at = f" at revision '{revision}'" if revision else ""
        raise RunError(
            f"{repo_id}{at} could not be had from the Hub ({type(error).__name__}: {first_line(error)}), and there is "
            f"no folder of that name here; check the name and the network."
        ) from None


@checked
def push_to_hub(path: Path | str, repo_id: str, *, private: bool | None = None) -> str:
    """Upload a member's folder, or one that holds several, to a repository of the Hub; returns the commit's address.

    The repository is made where there is none. Every member is read first, so a damaged one is not uploaded. Whose
    account it is, ``huggingface_hub`` knows (``hf auth login``).

    Args:
        path: the folder. repo_id: ``owner/name``. private: of a new repository; None is the account's own default.

    Raises RunError for a folder without members, a damaged member, and where the Hub refuses.
    """
    from huggingface_hub import HfApi

    from rb_interp.runs.sharing.pretrained import members, read

    folder = Path(path)
    places = [folder] if (folder / FILE).exists() else [folder / name for name in members(folder)]
    if not places:
        raise RunError(f"{folder} holds no shared member: it has no {FILE}. Run.export(...) writes one.")
    for place in places:
        read(place)
    leading = [path for place in (folder, *places) for path in place.iterdir() if not _inside(path, folder)]
    if leading:
        raise RunError(f"{leading[0]} leads out of {folder}; nothing was uploaded. Remove that link.")
    patterns = [
        f"{place.relative_to(folder).as_posix()}/{name}".removeprefix("./") for place in places for name in FILES
    ]
    try:
        api: Any = HfApi(library_name="rb-interp")
        api.create_repo(repo_id, private=private, exist_ok=True)
        found = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            allow_patterns=[CARD, *patterns],
            commit_message=f"Upload {', '.join(place.name for place in places[:3])}{' and more' * (len(places) > 3)}",
        )
    except Exception as error:  # of the library and of the network
        raise RunError(
            f"{folder} could not be uploaded to {repo_id} ({type(error).__name__}: {first_line(error)}); check the "
            f"name, the network, and that 'hf auth login' was done."
        ) from None
    return str(getattr(found, "commit_url", found))
