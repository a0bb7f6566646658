"""Weights as safetensors: written, and read within what the member's sizes allow; and the untrained ones drawn again.

A file is looked at before memory is taken for it: its size must be that of the tensors that the configuration asks for,
and a file can hold no more than it is large. So no header makes a reader take more memory than a file has bytes.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from rb_interp.errors import RunError, first_line
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import draw, parameters
from rb_interp.runs.sharing.manifest import read_file

MOST_HEADER = 1_000_000
"""Bytes of a header, at most; a tensor takes about a hundred."""


def packed(weights: Mapping[str, Tensor]) -> bytes:
    """Weights as the bytes of a safetensors file."""
    return save({name: weight.detach().cpu().contiguous() for name, weight in weights.items()}, {"format": "pt"})


def read(path: Path, model: ModelConfig, d_vocab: int, n_ctx: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """The weights in a file, by TransformerLens name; RunError for a file that holds others than the sizes ask for."""
    wanted = {p.name: p.shape for p in parameters(model, d_vocab, n_ctx)}
    _check_size(path, sum(map(math.prod, wanted.values())) * dtype.itemsize)
    held = read_file(path)
    try:
        weights = load(held)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is no safetensors file ({first_line(error)}); get a sound copy of it.") from None
    found = {name: (tuple(weight.shape), weight.dtype) for name, weight in weights.items()}
    for name in [*wanted, *found]:
        told = (wanted[name], dtype) if name in wanted else None
        if found.get(name) != told:
            raise RunError(
                f"{path} holds {_words(found.get(name))} as '{name[:80]}'; its config.json asks for {_words(told)}. "
                f"Get a sound copy of both."
            )
    wrong = [name for name, weight in weights.items() if not weight.isfinite().all()]
    if wrong:
        raise RunError(f"{path} holds numbers in '{wrong[0]}' that are not finite; get a sound copy of it.")
    return weights


def _words(tensor: tuple[tuple[int, ...], torch.dtype] | None) -> str:
    return "nothing" if tensor is None else f"{list(tensor[0])} of {str(tensor[1]).removeprefix('torch.')}"


def _check_size(path: Path, data: int) -> None:
    """Raise RunError where a file is larger or smaller than a header and so many bytes of data."""
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError:
        size = None
    if size is not None and not data + 8 <= size <= data + 8 + MOST_HEADER:
        raise RunError(
            f"{path} has {size:,} bytes, and the sizes in its config.json take {data:,} and a header; get a sound copy "
            f"of both."
        )


def drawn(
    model: ModelConfig, d_vocab: int, n_ctx: int, gamma: float | None, seed: int, dtype: torch.dtype
) -> dict[str, Tensor]:
    """The weights that a scheme draws, as training begins with them."""
    return {
        name: torch.from_numpy(weight).to(dtype) for name, weight in draw(model, d_vocab, n_ctx, gamma, seed).items()
    }


def checksum(weights: Mapping[str, Tensor]) -> str:
    """SHA-256 over names, shapes and bits of weights.

    >>> checksum({"a": torch.zeros(2)}) == checksum({"a": torch.zeros(2)}) != checksum({"b": torch.zeros(2)})
    True
    """
    total = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        total.update(f"{name} {list(weight.shape)} {weight.dtype}\n".encode())
        total.update(weight.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()
