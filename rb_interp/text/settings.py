"""Settings of the text of a language model, and the names of its corpora and sets."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from rb_interp.errors import ConfigError
from rb_interp.settings import ReadRows, distinct
from rb_interp.tasks.dataset import TaskSettings

CORPORA = ("prontoqa", "stories")
"""The two corpora, by their index everywhere: 0 reasoning (PrOntoQA), 1 memory (TinyStories)."""
TEXT_SETS = ("prontoqa_train", "stories_train", "prontoqa_test", "stories_test")
"""The sets of a language study; ``_test`` is held out."""
TRAIN = TEXT_SETS[: len(CORPORA)]
EARLY = 0.80
"""The stage ``early`` is reached when the training loss is at most this share of its start."""
GPT2_D_VOCAB = 50_257
LEAST_D_VOCAB = 257
"""All bytes and the token that ends a document."""


class TextSettings(TaskSettings):
    """Which text is read or generated, and how it is cut into rows; `TextTask` draws it.

    Raises ConfigError if a value is out of range or settings contradict each other.
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
    LATER: ClassVar[tuple] = ("query",)
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
        AfterValidator(distinct),
    ] = (1, 2, 3, 4, 5)
    """Numbers of reasoning steps of generated PrOntoQA examples."""
    query: Literal["property", "class", "steps"] = "property"
    """What generated PrOntoQA examples ask: a property, true or false; a class, to be proved; or a
    number of steps. The latter two have rules of classes alone, and no answer but the chain."""
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
    """``train`` (byte-level BPE of the mix), ``words`` (a token for each word, plurals split off),
    ``gpt2`` (from the hub), a folder or a tokenizer.json."""
    d_vocab: Annotated[int, Field(ge=LEAST_D_VOCAB, le=1_000_000)] = 2048
    """For ``train`` and ``words`` the size at most, for others the size they must have (GPT-2: 50,257)."""
    n_ctx: Annotated[int, Field(ge=2, le=100_000)] = 256
    """Tokens that a model sees of a row; a row holds one more, the last target."""
    layout: Literal["packed", "padded"] = "packed"
    """``packed`` (rows cut from the stream of all documents) or ``padded`` (one document a row)."""

    def __post_init__(self) -> None:
        defaults = {"prontoqa": "generate", "stories": "grammar", "tokenizer": "train"}
        for name, default in defaults.items():
            source = getattr(self, name)
            if not source.removeprefix("hub:"):
                raise ConfigError(
                    f"{name}='{source}' names nothing; expected '{default}' or a file, a folder or "
                    f"a dataset."
                )
        if self.tokenizer == "gpt2" and self.d_vocab != GPT2_D_VOCAB:
            raise ConfigError(
                f"d_vocab={self.d_vocab} with tokenizer 'gpt2', which has {GPT2_D_VOCAB:,} "
                f"entries; give d_vocab={GPT2_D_VOCAB}, or tokenizer 'train' for a vocabulary of "
                f"your own size."
            )

    @property
    def length(self) -> int:
        """Tokens that a model sees of a row."""
        return self.n_ctx
