"""Text to train language models on: PrOntoQA and short stories, as examples, tokens and rows."""

from typing import TYPE_CHECKING

from rb_interp.lazy import lazy_package

if TYPE_CHECKING:
    from rb_interp.text.config import CORPORA as CORPORA
    from rb_interp.text.config import TEXT_SETS as TEXT_SETS
    from rb_interp.text.config import TextConfig as TextConfig
    from rb_interp.text.data import TextData as TextData
    from rb_interp.text.data import text_data as text_data
    from rb_interp.text.data import text_provenance as text_provenance
    from rb_interp.text.data import tokenizer_of as tokenizer_of
    from rb_interp.text.example import Example as Example
    from rb_interp.text.grammar import STAND_IN as STAND_IN
    from rb_interp.text.grammar import generate_stories as generate_stories
    from rb_interp.text.prontoqa import generate as generate
    from rb_interp.text.prontoqa_files import load_prontoqa_hub as load_prontoqa_hub
    from rb_interp.text.prontoqa_files import read_prontoqa as read_prontoqa
    from rb_interp.text.prontoqa_verify import parse_sentence as parse_sentence
    from rb_interp.text.prontoqa_verify import step_kinds as step_kinds
    from rb_interp.text.prontoqa_verify import verify as verify
    from rb_interp.text.rows import Rows as Rows
    from rb_interp.text.stories import load_stories_hub as load_stories_hub
    from rb_interp.text.stories import read_stories as read_stories
    from rb_interp.text.task import TextTask as TextTask
    from rb_interp.text.tokenizer import Tokenizer as Tokenizer
    from rb_interp.text.tokenizer import load_tokenizer as load_tokenizer
    from rb_interp.text.tokenizer import train_tokenizer as train_tokenizer
else:
    __getattr__, __dir__, __all__ = lazy_package(
        __name__,
        {
            "config": ("CORPORA", "TEXT_SETS", "TextConfig"),
            "data": ("TextData", "text_data", "text_provenance", "tokenizer_of"),
            "example": ("Example",),
            "grammar": ("STAND_IN", "generate_stories"),
            "prontoqa": ("generate",),
            "prontoqa_files": ("load_prontoqa_hub", "read_prontoqa"),
            "prontoqa_verify": ("parse_sentence", "step_kinds", "verify"),
            "rows": ("Rows",),
            "stories": ("load_stories_hub", "read_stories"),
            "task": ("TextTask",),
            "tokenizer": ("Tokenizer", "load_tokenizer", "train_tokenizer"),
        },
    )
