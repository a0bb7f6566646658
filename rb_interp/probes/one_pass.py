"""One pass for many readings: a source that captures what a probe asks of one layer for all layers, and remembers it.

How it can mislead. A model that is changed afterwards is not run again, so a source of this kind lives for one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, cast

from jaxtyping import Int
from torch import Tensor

from rb_interp.models.protocol import HookedModel
from rb_interp.probes.source import Source, held, is_cache, kept, model_of

ROOM = 2**30
"""Bytes of activations that one pass keeps, about; where all layers need more, several passes share them."""


class OnePass:
    """A model, or activations of one, of which many heads are read.

    Args:
        source: what is read. run: captures named activations of some rows of a model, as ``capture`` does.
        layers: those that will be asked for.
    """

    def __init__(
        self, source: Source, run: Callable[[HookedModel, Any, Sequence[str]], dict[str, Tensor]], layers: Sequence[int]
    ) -> None:
        self.source, self.run, self.layers = source, run, sorted(layers)
        self.cache_dict: dict[str, Tensor] = {}
        self._kept: dict[bytes, dict[str, Tensor]] = {}
        self._facts: dict[str, Any] = {}

    @property
    def model(self) -> HookedModel:
        """The model, for its weights."""
        return model_of(self.source)

    def remembered(self, what: str, find: Callable[[], Any]) -> Any:
        """What was found out once about the model."""
        if what not in self._facts:
            self._facts[what] = find()
        return self._facts[what]

    def held(
        self, rows: Int[Tensor, "row pos"], names: Sequence[str], keep: Callable[[Tensor], Tensor] | None
    ) -> dict[str, Tensor]:
        """Named activations of the source's rows; raises ModelError as ``capture`` does."""
        if is_cache(self.source):
            return held(cast(Any, self.source), rows, names, keep)
        return self.of_rows(rows, names, keep)

    def of_rows(
        self, rows: Int[Tensor, "row pos"], names: Sequence[str], keep: Callable[[Tensor], Tensor] | None = None
    ) -> dict[str, Tensor]:
        """Named activations of any rows, which the model runs where they are not kept yet."""
        there = self._kept.setdefault(_digest(rows), {})
        if not set(names) <= there.keys():
            wanted = self._together(rows, names)
            asked = {_place(name)[1] for name in names}
            for name in [name for name in there if _place(name)[1] in asked]:
                del there[name]  # the next layers take the place of those before
            there |= self.run(self.model, rows, wanted)
        return {name: kept(there[name], keep) for name in names}

    def _together(self, rows: Int[Tensor, "row pos"], names: Sequence[str]) -> list[str]:
        """The names, and the same of the following layers as far as there is room."""
        cfg, length = self.model.cfg, rows.shape[1]
        widest = max(getattr(cfg, "d_mlp", 0) or 0, cfg.d_model, cfg.n_heads * max(length, cfg.d_head))
        most = max(1, ROOM // (4 * rows.numel() * widest * len(names)))
        first = min(_place(name)[0] for name in names)
        layers = [layer for layer in self.layers if layer >= first][:most]
        more = [_in_layer(name, layer) for layer in layers for name in names]
        return [*names, *(name for name in dict.fromkeys(more) if name in self.model.hook_dict and name not in names)]


def _place(name: str) -> tuple[int, str]:
    """A hook's layer, 0 where it has none, and its name within the layer."""
    parts = name.split(".", 2)
    return (int(parts[1]), parts[2]) if parts[0] == "blocks" else (0, name)


def _in_layer(name: str, layer: int) -> str:
    return f"blocks.{layer}.{_place(name)[1]}" if name.startswith("blocks.") else name


def _digest(rows: Tensor) -> bytes:
    return blake2b(rows.numpy().tobytes(), digest_size=16).digest() + str(tuple(rows.shape)).encode()
