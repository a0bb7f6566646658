"""The text of a configuration as a task: predict every next token on a 1:1 mix of PrOntoQA and stories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from rb_interp.errors import TextError
from rb_interp.settings import fingerprint
from rb_interp.tasks.dataset import Dataset, Evaluation, Stage
from rb_interp.text.config import CORPORA, EARLY, TEXT_SETS, TextConfig
from rb_interp.text.corpora import stamps
from rb_interp.text.data import TextData, joined, text_data
from rb_interp.typed import typed

TRAIN = TEXT_SETS[: len(CORPORA)]


@dataclass(frozen=True, eq=False, repr=False)
class TextRows(Dataset):
    """Rows of both corpora, trained on and held out; a batch takes as many of one corpus as of the other.

    Attributes:
        text: what the rows are cut from.
    """

    text: TextData | None = None

    @property
    def d_vocab(self) -> int:
        """Entries of the tokenizer; it may have fewer than the task's ``d_vocab``."""
        assert self.text is not None
        return self.text.tokenizer.d_vocab

    def sample(self, set: str, n: int) -> Int[np.ndarray, " n"]:
        """The first n rows of a set; documents come in random order already."""
        return self.rows(set)[:n]


class TextTask(TextConfig):
    """Next-token prediction on a text (paper 1, Figs. 1 and 7). The settings are those of ``TextConfig``.

    >>> task = TextTask.preset("smoke")
    >>> data = task.dataset(seed=0)
    >>> data.tokens.shape, len(data.rows("prontoqa_train")), task.length
    ((96, 256), 40, 256)
    """

    source_fields: ClassVar[tuple] = ("prontoqa", "stories")
    sets: ClassVar[tuple] = TEXT_SETS
    train_sets: ClassVar[tuple] = TRAIN
    predicts: ClassVar[str] = "next"

    @property
    def length(self) -> int:
        """Tokens that a model sees of a row."""
        return self.n_ctx

    @property
    def stages(self) -> Mapping[str, Stage]:
        """``early``: the first evaluation whose training loss, mean of both corpora, is at most 80 % of the first."""
        return {"early": Stage(lambda now, start: _pooled(now) <= EARLY * _pooled(start))}

    def fingerprint(self) -> str:
        """Twelve hex digits of class and settings."""
        return fingerprint(self)

    @typed
    def text(self, seed: int) -> TextData:
        """The text of a seed, drawn once per process while its files stay as they are; TextError without a text."""
        return _drawn(self, seed, stamps(self))

    @typed
    def prepare(self, seeds: Sequence[int]) -> None:
        """Raise TextError where the text of a seed cannot be had, or no example of it could be asked."""
        for text in map(self.text, seeds):
            shortest = min(len(text.tokenizer.encode(example.text)) for example in text.examples)
            if shortest > self.n_ctx:
                raise TextError(
                    f"none of {len(text.examples)} held-out PrOntoQA examples fits into n_ctx={self.n_ctx} (the "
                    f"shortest has {shortest} tokens), so no answer could be asked for; give a larger n_ctx, or fewer "
                    f"hops."
                )

    @typed
    def provenance(self, seed: int) -> dict[str, Any]:
        """What a seed reads, as plain data: sources, sizes, hashes, unigram entropies (nats)."""
        text = self.text(seed)
        return {**text.provenance, "entropies": list(text.entropies)}

    @typed
    def dataset(self, seed: int) -> TextRows:
        """The rows of a seed's text; a label is the next token, -1 where nothing is to be predicted.

        Raises TextError where the text cannot be had.
        """
        text = self.text(seed)
        rows = joined([text.train, text.test])
        tokens = rows.tokens.astype(np.int64)
        return TextRows(
            seed=seed,
            tokens=tokens[:, :-1],
            labels=np.where(rows.targets, tokens[:, 1:], -1),
            set=np.concatenate([text.train.corpus, len(CORPORA) + text.test.corpus]).astype(np.int64),
            sets=TEXT_SETS,
            train_sets=TRAIN,
            name="the text task",
            batch_sets=TRAIN,
            text=text,
        )


@lru_cache(maxsize=8)
def _drawn(task: TextTask, seed: int, stamps: tuple) -> TextData:
    return text_data(task, seed)


def _pooled(values: Evaluation) -> np.ndarray:
    """Mean of the training losses of each member."""
    return np.nanmean(values[:, : len(TRAIN), 0], axis=1)
