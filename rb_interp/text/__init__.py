"""Text to train language models on: PrOntoQA and short stories, as examples, tokens and rows."""

from rb_interp.text.config import CORPORA, TEXT_SETS, TextConfig
from rb_interp.text.data import TextData, text_data, text_provenance, tokenizer_of
from rb_interp.text.example import Example
from rb_interp.text.grammar import STAND_IN, generate_stories
from rb_interp.text.prontoqa import generate
from rb_interp.text.prontoqa_files import load_prontoqa_hub, read_prontoqa
from rb_interp.text.prontoqa_verify import parse_sentence, step_kinds, verify
from rb_interp.text.rows import Rows
from rb_interp.text.stories import load_stories_hub, read_stories
from rb_interp.text.task import TextTask
from rb_interp.text.tokenizer import Tokenizer, load_tokenizer, train_tokenizer

__all__ = [
    "CORPORA",
    "STAND_IN",
    "TEXT_SETS",
    "Example",
    "Rows",
    "TextConfig",
    "TextData",
    "TextTask",
    "Tokenizer",
    "generate",
    "generate_stories",
    "load_prontoqa_hub",
    "load_stories_hub",
    "load_tokenizer",
    "parse_sentence",
    "read_prontoqa",
    "read_stories",
    "step_kinds",
    "text_data",
    "text_provenance",
    "tokenizer_of",
    "train_tokenizer",
    "verify",
]
