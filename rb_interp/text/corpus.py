"""Tokenised corpora, cached by content.

One stream a corpus: ``end``, then every document followed by ``end``. The file's name is a hash of the texts, the
tokenizer and the format, so another text or tokenizer is another file and nothing ever has to be invalidated. Beside
each ``.npy`` lies a ``.json`` with its sha256; a file that does not agree with it is made again.
The folder is RB_INTERP_CACHE, else ``rb_interp`` in XDG_CACHE_HOME, else ``~/.cache/rb_interp``; it may be emptied at
any time. Where it cannot be read or written, everything works without it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int32

from rb_interp.errors import RunError, TextError
from rb_interp.runs.store import write_file
from rb_interp.text.tokenizer import Tokenizer

FORMAT = 1
"""Version of what a stream holds; another one is another file."""


def stream(texts: Sequence[str], tokenizer: Tokenizer) -> Int32[np.ndarray, " token"]:
    """The token stream of texts: ``end doc end doc end``; memory-mapped and read-only where the cache can be used.

    Raises TextError where the tokenizer gives ``end`` within a document.
    """
    folder = cache_folder()
    if folder is None:
        return tokenise(texts, tokenizer)
    key = content_key([str(FORMAT), tokenizer.fingerprint, *texts])
    file, sidecar = (folder / f"stream-{key[:40]}.{ending}" for ending in ("npy", "json"))
    found = _read(file, sidecar)
    if found is not None:
        return found
    made, buffer = tokenise(texts, tokenizer), io.BytesIO()
    np.save(buffer, made)
    facts = {"format": FORMAT, "tokens": len(made), "sha256": hashlib.sha256(buffer.getvalue()).hexdigest()}
    try:
        # Two processes at once write the same bytes; the sidecar comes last, so that it vouches for a whole file.
        write_file(file, buffer.getvalue())
        write_file(sidecar, json.dumps(facts).encode())
    except RunError:
        return made
    found = _read(file, sidecar)
    return made if found is None else found


def tokenise(texts: Sequence[str], tokenizer: Tokenizer) -> Int32[np.ndarray, " token"]:
    """As ``stream``, without a cache."""
    documents = tokenizer.encode_batch(texts)
    tokens = np.full(1 + sum(map(len, documents)) + len(documents), tokenizer.end, dtype=np.int32)
    at = 1
    for document in documents:
        tokens[at : at + len(document)] = document
        at += len(document) + 1
    if np.count_nonzero(tokens == tokenizer.end) != len(documents) + 1:
        raise TextError(
            f"tokenizer '{tokenizer.kind}' gives the token between documents within a document; "
            f"take <|endoftext|> out of the texts."
        )
    return tokens


def content_key(texts: Sequence[str]) -> str:
    """sha256 of texts in their order, 64 hex digits; where one text ends and the next begins counts too.

    >>> content_key(["ab", "c"]) == content_key(["a", "bc"])
    False
    """
    digest = hashlib.sha256()
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def cache_folder() -> Path | None:
    """Where streams are kept; None where there is no home folder either."""
    try:
        if place := os.environ.get("RB_INTERP_CACHE"):
            return Path(place).expanduser()
        base = os.environ.get("XDG_CACHE_HOME")
        return (Path(base) if base else Path.home() / ".cache") / "rb_interp"
    except RuntimeError:
        return None


def _read(file: Path, sidecar: Path) -> np.ndarray | None:
    """The memory-mapped stream; None where it is missing, unreadable or not what its sidecar says."""
    try:
        if json.loads(sidecar.read_text())["sha256"] != hashlib.sha256(file.read_bytes()).hexdigest():
            return None
        return np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, KeyError, TypeError):
        return None
