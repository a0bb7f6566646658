"""The text of a language model as a task: predict every next token on a 1:1 mix of PrOntoQA and
stories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from rb_interp.errors import ConfigError, TextError
from rb_interp.settings import ReadRows, each_once
from rb_interp.tasks.dataset import Evaluation, Stage, TaskSettings

if TYPE_CHECKING:
    from rb_interp.text.data import TextData, TextRows

CORPORA = ("prontoqa", "stories")
"""The two corpora, by their index everywhere: 0 reasoning (PrOntoQA), 1 memory (TinyStories)."""
TEXT_SETS = ("prontoqa_train", "stories_train", "prontoqa_test", "stories_test")
"""The sets of a language study; ``_test`` is held out."""
TRAIN = TEXT_SETS[: len(CORPORA)]
EARLY = 0.80
"""The stage ``early`` is where the training loss, mean of both corpora, first is at most this share
of its start."""
GPT2_D_VOCAB = 50_257
LEAST_D_VOCAB = 257
"""All bytes and the token that ends a document."""


class TextTask(TaskSettings):
    """Next-token prediction on PrOntoQA and TinyStories, 1:1 (paper 1, Figs. 1 and 7).

    Raises ConfigError where a value is out of range or settings contradict each other.

    >>> task = TextTask.preset("smoke")
    >>> data = task.dataset(seed=0)
    >>> data.tokens.shape, len(data.rows("prontoqa_train")), task.length
    ((96, 256), 40, 256)
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {
            "sequences": 40,
            "held_out": 8,
            "answers": 20,
            "hops": (1, 2),
            "d_vocab": 512,
            "n_ctx": 256,
        },
        "quick": {},
        "paper": {
            "stories": "hub",
            "sequences": 5000,
            "held_out": 250,
            "answers": 500,
            "tokenizer": "gpt2",
            "d_vocab": GPT2_D_VOCAB,
            "n_ctx": 512,
            "layout": "padded",
        },
    }
    source_fields: ClassVar[tuple] = CORPORA
    sets: ClassVar[tuple] = TEXT_SETS
    train_sets: ClassVar[tuple] = TRAIN
    predicts: ClassVar[str] = "next"

    prontoqa: str = "generate"
    """``generate``, ``hub``, ``hub:owner/name``, or a file or folder."""
    stories: str = "grammar"
    """``grammar`` (a stand-in for TinyStories), ``hub``, ``hub:owner/name``, or a file or
    folder."""
    hops: Annotated[
        tuple[Annotated[int, Field(ge=1, le=8)], ...],
        Field(min_length=1),
        AfterValidator(each_once),
    ] = (1, 2, 3, 4, 5)
    """Numbers of reasoning steps of generated PrOntoQA examples."""
    ontology: Literal["fictional"] = "fictional"
    """Concepts of generated examples: the made-up ones."""
    ordering: Literal["random", "preorder", "postorder"] = "random"
    """Order of the sentences of generated contexts."""
    sequences: ReadRows = 1000
    """Training rows of each corpus."""
    held_out: ReadRows = 100
    """Held-out rows of each corpus."""
    answers: Annotated[int, Field(ge=1, le=10_000_000)] = 200
    """Held-out PrOntoQA examples on which answers and chains are judged."""
    tokenizer: str = "train"
    """``train`` (byte-level BPE of the mix), ``gpt2`` (from the hub), a folder or a
    tokenizer.json."""
    d_vocab: Annotated[int, Field(ge=LEAST_D_VOCAB, le=1_000_000)] = 2048
    """For ``train`` the size at most, for others the size they must have (GPT-2: 50,257)."""
    n_ctx: Annotated[int, Field(ge=2, le=100_000)] = 256
    """Tokens that a model sees of a row; a row holds one more, the last target."""
    layout: Literal["packed", "padded"] = "packed"
    """``packed`` (rows cut from the stream of all documents) or ``padded`` (one document a row)."""

    def __post_init__(self) -> None:
        for name, default in (
            ("prontoqa", "generate"),
            ("stories", "grammar"),
            ("tokenizer", "train"),
        ):
            if not getattr(self, name).removeprefix("hub:"):
                raise ConfigError(
                    f"{name}='{getattr(self, name)}' names nothing; expected '{default}' or a "
                    f"place."
                )
        if self.tokenizer == "gpt2" and self.d_vocab != GPT2_D_VOCAB:
            raise ConfigError(
                f"d_vocab={self.d_vocab} with tokenizer 'gpt2', which has {GPT2_D_VOCAB:,} "
                f"entries; "
                f"give d_vocab={GPT2_D_VOCAB}, or tokenizer 'train' for a vocabulary of your own "
                f"size."
            )

    @property
    def length(self) -> int:
        """Tokens that a model sees of a row."""
        return self.n_ctx

    @property
    def stages(self) -> Mapping[str, Stage]:
        """``early``: the first evaluation whose training loss, mean of both corpora, is at most 80
        % of the first."""
        return {
            "early": Stage(lambda now, start: _training_loss(now) <= EARLY * _training_loss(start))
        }

    def text(self, seed: int) -> TextData:
        """The text of a seed, drawn once per process while its files stay as they are; TextError
        without a text."""
        from rb_interp.text.corpora import stamps
        from rb_interp.text.data import drawn

        return drawn(self, seed, stamps(self))

    def prepare(self, seeds: Sequence[int]) -> None:
        """Raise TextError where the text of a seed cannot be had, or no example of it could be
        asked."""
        for text in map(self.text, seeds):
            shortest = min(len(text.tokenizer.encode(example.text)) for example in text.examples)
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
        """The rows of a seed's text; a label is the next token, -1 where nothing is to be
        predicted.

        Raises TextError where the text cannot be had.
        """
        from rb_interp.text.data import TextRows

        return TextRows.of(self.text(seed))


def _training_loss(values: Evaluation) -> np.ndarray:
    """Mean over both corpora, of each member."""
    return np.nanmean(values[:, : len(TRAIN), 0], axis=1)
