"""The text of a language model as a task: predict every next token of PrOntoQA and stories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rb_interp.errors import TextError
from rb_interp.tasks.dataset import Evaluation, Stage
from rb_interp.text.corpora import stamps
from rb_interp.text.data import TextData, TextRows, cached_text_data
from rb_interp.text.settings import EARLY, TRAIN, TextSettings


class TextTask(TextSettings):
    """Next-token prediction on PrOntoQA and TinyStories, 1:1 (paper 1, Figs. 1 and 7).

    Raises ConfigError where a value is out of range or settings contradict each other.

    >>> task = TextTask.preset("smoke")
    >>> data = task.dataset(seed=0)
    >>> data.tokens.shape, len(data.rows("prontoqa_train")), task.length
    ((96, 256), 40, 256)
    """

    @property
    def stages(self) -> Mapping[str, Stage]:
        """``early``: the first evaluation whose training loss is at most 80 % of the first.

        The loss is the mean of both corpora.
        """
        return {
            "early": Stage(lambda now, start: _training_loss(now) <= EARLY * _training_loss(start))
        }

    def text(self, seed: int) -> TextData:
        """The text of a seed, drawn once per process while its files stay as they are.

        Raises TextError if the text cannot be had.
        """
        return cached_text_data(self, seed, stamps(self))

    def prepare(self, seeds: Sequence[int]) -> None:
        """Raise TextError if the text of a seed cannot be had, or if no example fits a row."""
        for seed in seeds:
            text = self.text(seed)
            lengths = [len(text.tokenizer.encode(example.text)) for example in text.examples]
            shortest = min(lengths)
            if shortest > self.n_ctx:
                raise TextError(
                    f"none of {len(text.examples)} held-out PrOntoQA examples fits into "
                    f"n_ctx={self.n_ctx} (the "
                    f"shortest has {shortest} tokens), so no answer could be asked for; give a "
                    f"larger n_ctx, or fewer "
                    f"hops."
                )

    def provenance(self, seed: int) -> dict[str, Any]:
        """What a seed reads, as plain data: sources, sizes, hashes, unigram entropies (nats)."""
        text = self.text(seed)
        return {**text.provenance, "entropies": list(text.entropies)}

    def dataset(self, seed: int) -> TextRows:
        """The rows of a seed's text; a label is the next token, -1 if nothing is to be predicted.

        Raises TextError if the text cannot be had.
        """
        return TextRows.of(self.text(seed))


def _training_loss(values: Evaluation) -> np.ndarray:
    """Mean over both corpora, of each member."""
    return np.nanmean(values[:, : len(TRAIN), 0], axis=1)
