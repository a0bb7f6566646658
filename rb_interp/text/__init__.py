"""Text to train language models on: PrOntoQA and short stories, as examples, tokens and rows."""

from rb_interp.lazy import lazy_names

_NAMES = {
    "config": ("CORPORA", "TEXT_SETS", "TextConfig"),
    "data": ("TextData", "text_provenance", "text_data", "tokenizer_of"),
    "example": ("Example",),
    "grammar": ("STAND_IN", "generate_stories"),
    "prontoqa": ("generate",),
    "prontoqa_files": ("load_prontoqa_hub", "read_prontoqa"),
    "prontoqa_verify": ("parse_sentence", "step_kinds", "verify"),
    "rows": ("Rows",),
    "stories": ("load_stories_hub", "read_stories"),
    "task": ("TextTask",),
    "tokenizer": ("Tokenizer", "load_tokenizer", "train_tokenizer"),
}
_WHERE = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}

__all__ = sorted(_WHERE)  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__ = lazy_names(__name__, _WHERE)
