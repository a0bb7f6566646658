"""Text to train language models on: PrOntoQA and short stories, as examples, tokens and rows."""

from rb_interp.text.classes import generate_classes
from rb_interp.text.corpora import generate_stories, read_prontoqa, read_stories
from rb_interp.text.prontoqa import Example, generate, step_kinds, verify
from rb_interp.text.task import TextData, TextTask, text_data
from rb_interp.text.tokens import (
    Rows,
    Tokenizer,
    load_tokenizer,
    train_tokenizer,
    word_tokenizer,
)

__all__ = [
    "Example",
    "Rows",
    "TextData",
    "TextTask",
    "Tokenizer",
    "generate",
    "generate_classes",
    "generate_stories",
    "load_tokenizer",
    "read_prontoqa",
    "read_stories",
    "step_kinds",
    "text_data",
    "train_tokenizer",
    "verify",
    "word_tokenizer",
]
