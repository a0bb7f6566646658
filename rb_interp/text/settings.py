"""Settings of the text of a language model, and the names of its corpora and sets."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from rb_interp.errors import ConfigError
from rb_interp.settings import ReadRows, distinct
from rb_interp.tasks.dataset import TaskSettings

CORPORA = ("prontoqa", "stories")
"""The two corpora by their index everywhere: 0 reasoning (PrOntoQA), 1 memory (facts, stories)."""
TEXT_SETS = ("prontoqa_train", "stories_train", "prontoqa_test", "stories_test")
"""The sets of a language study; ``_test`` is held out."""
TRAIN = TEXT_SETS[: len(CORPORA)]
EARLY = 0.80
"""The stage ``early`` is reached when the training loss is at most this share of its start."""
GPT2_D_VOCAB = 50_257
MOST_FACTS = 256
"""Pairs of one of 32 names and one of eight classes."""
MOST_STEPS = 6
"""Rules of the prompt of an example about classes."""
CURVES = {
    **{
        kind: ("prontoqa_test", kind)
        for kind in ("template", "form", "rule", "object", "stop", "answer")
    },
    "fact": ("stories_test", "fact"),
    "repeated": ("prontoqa_train", "rule"),
}
"""Name of a curve at single tokens -> the set that it is read on, and the kind of its targets."""
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
        "stories": {},
        "quick": {
            "stories": "facts",
            "query": "class",
            "hops": (1, 2, 3),
            "sequences": 16_384,
            "held_out": 128,
            "answers": 300,
            "tokenizer": "phrases",
            "n_ctx": 96,
            "layout": "padded",
            "chain_weight": 10.0,
            "curves": ("template", "rule", "stop", "fact"),
        },
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
    LATER: ClassVar[tuple] = ("query", "facts", "repeated", "chain_weight", "curves")
    source_fields: ClassVar[tuple] = CORPORA
    generated: ClassVar[tuple] = ("generate", "grammar", "facts")
    train_sets: ClassVar[tuple] = TRAIN
    predicts: ClassVar[str] = "next"

    prontoqa: str = "generate"
    """``generate``, ``hub``, ``hub:owner/name``, or a file or folder."""
    stories: str = "grammar"
    """``grammar`` (a stand-in for TinyStories), ``facts`` (of the form of PrOntoQA, see
    ``text.classes``), ``hub``, ``hub:owner/name``, or a file or folder."""
    facts: Annotated[int, Field(ge=1, le=MOST_FACTS)] = 64
    """Different facts where ``stories`` is ``facts``; each stands in as many training rows."""
    hops: Annotated[
        tuple[Annotated[int, Field(ge=1, le=8)], ...],
        Field(min_length=1),
        AfterValidator(distinct),
    ] = (1, 2, 3, 4, 5)
    """Numbers of reasoning steps of generated PrOntoQA examples."""
    query: Literal["property", "class", "steps"] = "property"
    """What generated PrOntoQA examples ask: a property, true or false; a class, to be proved; or a
    number of steps. The latter two have rules of classes alone, no answer but the chain, and 6 hops
    at most."""
    ontology: Literal["fictional"] = "fictional"
    """Concepts of generated examples: the made-up ones."""
    ordering: Literal["random", "preorder", "postorder"] = "random"
    """Order of the sentences of generated contexts; facts' are in random order."""
    sequences: ReadRows = 1000
    """Training rows of each corpus."""
    repeated: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Different rows that make up half of PrOntoQA's training rows, again and again; 0 for none."""
    held_out: ReadRows = 100
    """Held-out rows of each corpus."""
    answers: Annotated[int, Field(ge=1, le=10_000_000)] = 200
    """Held-out PrOntoQA examples on which answers and chains are judged."""
    tokenizer: str = "train"
    """``train`` (byte-level BPE of the mix), ``words`` (a token for each word, plurals split off),
    ``phrases`` (a token for each predicate and other word), ``gpt2`` (from the hub), a folder or a
    tokenizer.json."""
    d_vocab: Annotated[int, Field(ge=LEAST_D_VOCAB, le=1_000_000)] = 2048
    """For ``train``, ``words`` and ``phrases`` the size at most, for others the size they must have (GPT-2: 50,257)."""
    n_ctx: Annotated[int, Field(ge=2, le=100_000)] = 256
    """Tokens that a model sees of a row; a row holds one more, the last target."""
    layout: Literal["packed", "padded"] = "packed"
    """``packed`` (rows cut from the stream of all documents) or ``padded`` (one document a row)."""

    chain_weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    """Weight in the training loss of a target behind the prompt of an example, where each target of
    a prompt and of a story has 1. Curves show losses without weights."""
    curves: Annotated[
        tuple[
            Literal["template", "form", "rule", "object", "stop", "answer", "fact", "repeated"], ...
        ],
        AfterValidator(distinct),
    ] = ()
    """Kinds of targets that have a learning curve of their own, see ``text.targets``; ``repeated``
    are targets ``rule`` of the repeated rows."""

    def __post_init__(self) -> None:
        if self.query != "property" and max(self.hops) > MOST_STEPS:
            raise ConfigError(
                f"hops={self.hops} with query '{self.query}', whose prompts have {MOST_STEPS} rules; "
                f"give fewer hops."
            )
        if self.needs_kinds and self.layout != "padded":
            raise ConfigError(
                f"chain_weight={self.chain_weight:g}, curves={self.curves} and "
                f"repeated={self.repeated} with layout 'packed', which cuts examples; give layout "
                f"'padded'."
            )
        for name, value, parts in (
            ("facts", self.facts if self.stories == "facts" else 1, self.sequences),
            ("repeated", self.repeated or 1, self.sequences // 2),
        ):
            if parts % value:
                raise ConfigError(
                    f"{name}={value} with sequences={self.sequences}: {parts} rows are no multiple, "
                    f"so some would be seen more often than others; give another number."
                )
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
    def sets(self) -> tuple[str, ...]:
        """The sets, and the kinds of targets that have a curve."""
        return (*TEXT_SETS, *self.curves)

    @property
    def needs_kinds(self) -> bool:
        """Whether rows must say what kind of token each target is."""
        return self.chain_weight != 1 or bool(self.curves) or self.repeated > 0

    @property
    def length(self) -> int:
        """Tokens that a model sees of a row."""
        return self.n_ctx
