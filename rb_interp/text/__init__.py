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
    "TextTask": "task",
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

__all__ = sorted(_WHERE)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__ = lazy_names(__name__, {name: f"{__name__}.{module}" for name, module in _WHERE.items()})
