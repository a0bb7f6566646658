"""Text to train language models on: PrOntoQA and short stories, as examples, tokens and rows."""

from rb_interp.text.corpora import read_prontoqa, read_stories
from rb_interp.text.data import TextData, text_data
from rb_interp.text.generator import generate
from rb_interp.text.prontoqa import Example, step_kinds, verify
from rb_interp.text.rows import Rows
from rb_interp.text.stories import generate_stories
from rb_interp.text.task import TextTask
from rb_interp.text.tokenizer import Tokenizer, load_tokenizer, train_tokenizer

__all__ = [
    "Example",
    "Rows",
    "TextData",
    "TextTask",
    "Tokenizer",
    "generate",
    "generate_stories",
    "load_tokenizer",
    "read_prontoqa",
    "read_stories",
    "step_kinds",
    "text_data",
    "train_tokenizer",
    "verify",
]
