"""Text to train language models on: PrOntoQA and short stories, as examples, tokens and rows."""

from rb_interp.lazy import lazy_names

_WHERE = {
    "CORPORA": "config",
    "STAND_IN": "grammar",
    "TEXT_SETS": "config",
    "Example": "example",
    "Rows": "rows",
    "TextConfig": "config",
    "TextData": "data",
    "Tokenizer": "tokenizer",
    "generate": "prontoqa",
    "generate_stories": "grammar",
    "load_prontoqa_hub": "prontoqa_files",
    "load_stories_hub": "stories",
    "load_tokenizer": "tokenizer",
    "parse_sentence": "prontoqa_verify",
    "read_prontoqa": "prontoqa_files",
    "read_stories": "stories",
    "step_kinds": "prontoqa_verify",
    "text_about": "data",
    "text_data": "data",
    "tokenizer_of": "data",
    "train_tokenizer": "tokenizer",
    "verify": "prontoqa_verify",
}

__all__ = [
    "CORPORA",
    "STAND_IN",
    "TEXT_SETS",
    "Example",
    "Rows",
    "TextConfig",
    "TextData",
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
    "text_about",
    "text_data",
    "tokenizer_of",
    "train_tokenizer",
    "verify",
]

__getattr__ = lazy_names(__name__, {name: f"{__name__}.{module}" for name, module in _WHERE.items()})
