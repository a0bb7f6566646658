"""Tokenizers: byte-level BPE trained on the mix, GPT-2's own, or any tokenizer.json, behind one small class.

Every text stays text: the letters ``<|endoftext|>`` within a document are spelled out in ordinary tokens, so that the
token of that name (``end``) only ever stands between documents.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

from rb_interp.errors import TextError, first_line
from rb_interp.runs.store import write_file
from rb_interp.text.config import GPT2_D_VOCAB, LEAST_D_VOCAB
from rb_interp.text.records import END_OF_TEXT as END
from rb_interp.text.records import SECONDS
from rb_interp.typed import typed

if TYPE_CHECKING:
    import tokenizers


@typed
class Tokenizer:
    """Text to token ids and back; what a ``tokenizers.Tokenizer`` does, with nothing added, cut or filled up.

    Raises TextError where the tokenizer has no ``<|endoftext|>``.

    Attributes:
        end: id of ``<|endoftext|>``. kind: ``train``, ``gpt2`` or the place it came from.
    """

    def __init__(self, backend: tokenizers.Tokenizer, kind: str):
        end = backend.token_to_id(END)
        if end is None:
            raise TextError(
                f"tokenizer '{kind}' has no token {END}, which stands between documents; add it to the tokenizer "
                f"(add_special_tokens(['{END}'])), save it and give that folder."
            )
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        self._backend, self.kind, self.end = backend, kind, end

    @cached_property
    def d_vocab(self) -> int:
        """Number of entries; ids run from 0 to one below it."""
        return self._backend.get_vocab_size()

    @cached_property
    def json(self) -> str:
        """The tokenizer.json that gives this tokenizer again."""
        return self._backend.to_str()

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of its tokenizer.json: 64 hex digits."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    @typed
    def encode(self, text: str) -> list[int]:
        """Token ids of a text, no token added at either end.

        >>> tokenizer = train_tokenizer(["to be or not to be"] * 2, d_vocab=300)
        >>> tokenizer.decode(tokenizer.encode("to be, or not")), tokenizer.end
        ('to be, or not', 0)
        """
        return self._backend.encode(text, add_special_tokens=False).ids

    @typed
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of many texts, on all cores; TextError names a text that is not Unicode (half a surrogate pair)."""
        try:
            return [one.ids for one in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]
        except TypeError:
            number, text = next((n, text) for n, text in enumerate(texts, 1) if re.search("[\ud800-\udfff]", text))
            raise TextError(
                f"text {number} of {len(texts)} holds half a surrogate pair, which no tokenizer takes: "
                f"{text[:40]!a}. Mend or drop it."
            ) from None

    @typed
    def decode(self, ids: Sequence[int] | Int[np.ndarray, " token"]) -> str:
        """The text of token ids, ``<|endoftext|>`` included; TextError for a number that is no token."""
        wrong = [int(token) for token in ids if not 0 <= token < self.d_vocab]
        if wrong:
            raise TextError(f"there is no token {wrong[0]}; this tokenizer has 0 to {self.d_vocab - 1}.")
        return self._backend.decode([int(token) for token in ids], skip_special_tokens=False)

    @typed
    def token_text(self, token: int) -> str:
        """One token as a reader should see it: its text, leading space included; its raw name where it is no text."""
        text = self.decode([token])
        return text if text and "\ufffd" not in text else str(self._backend.id_to_token(int(token)))

    @typed
    def save(self, folder: Path) -> None:
        """Write ``tokenizer.json`` into a folder, which ``load_tokenizer`` reads again; RunError where it cannot."""
        write_file(Path(folder) / "tokenizer.json", self.json.encode())


@typed
def train_tokenizer(texts: Iterable[str], d_vocab: int) -> Tokenizer:
    """Byte-level BPE of at most d_vocab entries: every text can be written in it, and it is the same at every call.

    Entry 0 ends a document. The 256 bytes follow, then the merges of pairs that occur at least twice within a word (as
    GPT-2 cuts words), most frequent first. Raises TextError below 257 entries.

    >>> train_tokenizer(["one two"] * 2, d_vocab=2048).d_vocab
    262
    """
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers, trainers

    if d_vocab < LEAST_D_VOCAB:
        raise TextError(f"d_vocab={d_vocab}; a byte-level tokenizer has at least {LEAST_D_VOCAB} entries. Give more.")
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=d_vocab,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        min_frequency=2,
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return Tokenizer(backend, "train")


@typed
def load_tokenizer(place: str, d_vocab: int) -> Tokenizer:
    """The tokenizer ``gpt2`` (from the hub), of a folder (tokenizer.json, or vocab.json and merges.txt) or of a file.

    Raises TextError where there is none, it cannot be read, it has no ``<|endoftext|>``, or its size is not d_vocab:
    some loaders return an empty tokenizer where there is no network.
    """
    try:
        backend = _from_hub(place) if place == "gpt2" else _from_place(Path(place).expanduser())
    except TextError:
        raise
    except Exception as error:  # tokenizers raises bare Exceptions
        if place == "gpt2":
            raise TextError(
                f"GPT-2's tokenizer could not be had from the hub ({first_line(error)}). With a network, try again; "
                f"without one, give a folder that holds its tokenizer.json, or tokenizer 'train'."
            ) from None
        raise TextError(
            f"{place} cannot be read as a tokenizer ({first_line(error)}). Save it again with "
            f"tokenizers.Tokenizer.save, or give another."
        ) from None
    size = backend.get_vocab_size()
    if place == "gpt2" and size != GPT2_D_VOCAB:
        raise TextError(
            f"the tokenizer 'gpt2' came with {size:,} entries instead of {GPT2_D_VOCAB:,}: an empty or foreign one. "
            f"Give a folder that holds GPT-2's tokenizer.json, or tokenizer 'train'."
        )
    if size < 2:
        raise TextError(f"tokenizer '{place}' is empty ({size} entries); give one that has a vocabulary, or 'train'.")
    if size != d_vocab:
        raise TextError(f"tokenizer '{place}' has {size:,} entries and d_vocab={d_vocab:,}; give d_vocab={size}.")
    return Tokenizer(backend, place)


def _from_hub(name: str) -> tokenizers.Tokenizer:
    """From the copy that was fetched before; else asked for once, as the hub's client tries for half a minute."""
    from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
    from tokenizers import Tokenizer as Backend

    file = try_to_load_from_cache(name, "tokenizer.json")
    if not isinstance(file, str):
        if not constants.HF_HUB_OFFLINE:
            HfApi().model_info(name, timeout=SECONDS)
        file = hf_hub_download(name, "tokenizer.json")
    return Backend.from_file(file)


def _from_place(place: Path) -> tokenizers.Tokenizer:
    from tokenizers import Tokenizer as Backend

    file = place / "tokenizer.json" if place.is_dir() else place
    if file.is_file():
        return Backend.from_str(file.read_text(encoding="utf-8"))
    if (place / "vocab.json").is_file() and (place / "merges.txt").is_file():
        return _from_vocabulary(place)
    raise TextError(
        f"there is no tokenizer at {place}; expected a tokenizer.json, or a folder with tokenizer.json or with "
        f"vocab.json and merges.txt. Give such a place, 'gpt2' (from the hub) or 'train'."
    )


def _from_vocabulary(folder: Path) -> tokenizers.Tokenizer:
    """GPT-2's original two files."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    backend = Backend(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    if backend.token_to_id(END) is not None:
        backend.add_special_tokens([AddedToken(END, special=True, normalized=True)])
    return backend
