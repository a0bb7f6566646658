"""Tokenizers of the library `tokenizers`: byte-level BPE trained on the mix, GPT-2's own, or any tokenizer.json."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import tokenizers
from jaxtyping import Int
from tokenizers import decoders, models, pre_tokenizers, trainers

from rb_interp.errors import TextError, first_line
from rb_interp.text.task import LEAST_D_VOCAB
from rb_interp.typed import typed

END = "<|endoftext|>"


@typed
class Tokenizer:
    """A tokenizer of the library `tokenizers`, with nothing added to a text, cut off or filled up.

    Every text stays text: the letters ``<|endoftext|>`` within a document are spelled out in ordinary tokens, so that
    the token of that name only ever stands between documents. Raises TextError where there is no such token.

    Attributes:
        backend: the ``tokenizers.Tokenizer``. kind: ``train``, ``gpt2`` or the place it came from.
        end: id of ``<|endoftext|>``. d_vocab: number of entries; ids run from 0 to one below it.
        fingerprint: sha256 of its tokenizer.json, 64 hex digits.

    >>> tokenizer = train_tokenizer(["to be or not to be"] * 2, d_vocab=300)
    >>> tokenizer.decode(tokenizer.encode("to be, or not")), tokenizer.end
    ('to be, or not', 0)
    """

    def __init__(self, backend: tokenizers.Tokenizer, kind: str):
        end = backend.token_to_id(END)
        if end is None:
            raise TextError(f"tokenizer '{kind}' has no token {END}; add it with add_special_tokens(['{END}']).")
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True
        self.backend, self.kind, self.end, self.d_vocab = backend, kind, end, backend.get_vocab_size()
        self.fingerprint = hashlib.sha256(backend.to_str().encode()).hexdigest()

    @typed
    def encode(self, text: str) -> list[int]:
        """Token ids of a text, no token added at either end."""
        return self.backend.encode(text, add_special_tokens=False).ids

    @typed
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of many texts, on all cores."""
        return [one.ids for one in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    @typed
    def decode(self, ids: Sequence[int] | Int[np.ndarray, " token"]) -> str:
        """The text of token ids, ``<|endoftext|>`` included; TextError for a number that is no token."""
        if len(ids) and not 0 <= min(ids) <= max(ids) < self.d_vocab:  # the library leaves it out without a word
            raise TextError(f"got tokens {min(ids)} to {max(ids)}; this tokenizer has 0 to {self.d_vocab - 1}.")
        return self.backend.decode([int(token) for token in ids], skip_special_tokens=False)

    @typed
    def token_text(self, token: int) -> str:
        """One token as a reader should see it: its text, leading space included; its raw name where it is no text."""
        text = self.decode([token])
        return text if text and "\ufffd" not in text else str(self.backend.id_to_token(token))


@typed
def train_tokenizer(texts: Iterable[str], d_vocab: int) -> Tokenizer:
    """Byte-level BPE of at most d_vocab entries: every text can be written in it, and it is the same at every call.

    Entry 0 ends a document. The 256 bytes follow, then the merges of pairs that occur at least twice within a word (as
    GPT-2 cuts words), most frequent first. Raises TextError below 257 entries.

    >>> train_tokenizer(["one two"] * 2, d_vocab=2048).d_vocab
    262
    """
    if d_vocab < LEAST_D_VOCAB:
        raise TextError(
            f"d_vocab={d_vocab}; a byte-level tokenizer has at least {LEAST_D_VOCAB} entries. Give more."
        )
    backend = tokenizers.Tokenizer(models.BPE())
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
    """The tokenizer ``gpt2`` (from the hub), of a tokenizer.json or of a folder with one.

    Raises TextError where it cannot be read, it has no ``<|endoftext|>``, or its size is not d_vocab: some loaders give
    an empty tokenizer where there is no network.
    """
    path = Path(place).expanduser()
    file = path / "tokenizer.json" if path.is_dir() else path
    read = tokenizers.Tokenizer
    try:
        backend = read.from_pretrained(place) if place == "gpt2" else read.from_str(file.read_text("utf-8"))
    except Exception as error:  # tokenizers raises bare Exceptions
        raise TextError(
            f"no tokenizer at '{place}' ({first_line(error)}). Give a tokenizer.json, a folder with one, 'gpt2' (from "
            f"the hub) or 'train'."
        ) from None
    if (size := backend.get_vocab_size()) != d_vocab:
        raise TextError(f"tokenizer '{place}' has {size:,} entries and d_vocab={d_vocab:,}; give d_vocab={size}.")
    return Tokenizer(backend, place)
