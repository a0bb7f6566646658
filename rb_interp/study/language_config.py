"""The language study as a configuration: GPT-2 at several initialisation rates on PrOntoQA and stories.

Paper 1 gives GPT-2, 5,000 + 5,000 sequences, 200 epochs and gamma .3, .5 and .8; its size, context, tokenizer, learning
rate, batch and weight decay are not known to us. The preset ``paper`` takes GPT-2 small, its tokenizer, rows of 512
tokens with one document each, and the constant 5e-5 without weight decay of the group's GPT-2 code for another paper,
in bfloat16. ``quick`` and ``smoke`` are our own: see docs/language.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from rb_interp.errors import ConfigError, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters
from rb_interp.study.config import overlay
from rb_interp.study.sweep_config import PRESETS, SweepConfig, comparable
from rb_interp.text.config import TextConfig
from rb_interp.toml import to_toml
from rb_interp.training.config import TrainConfig

LANGUAGE = "language"
STAGES = ("early",)
PLACES = ("prontoqa", "stories")
"""Settings that say where a text comes from: the same study on other text of the same kind, which reports name."""


@dataclass(frozen=True)
class LanguageConfig(SweepConfig):
    """A gamma sweep of language models on PrOntoQA and stories (paper 1, Figs. 1 and 7).

    Attributes:
        preset: sizes and schedule to start from (``smoke`` seconds, ``quick`` minutes, ``paper`` a GPU).
        gammas: initialisation rates, std = d_in^-gamma.
        seeds: each fixes the text that is drawn, batch order and normal draws, shared across gammas.
        text: what is read, and how it is cut.
        model: what learns it.
        train: how it is trained.
        probe_rows: held-out rows of each corpus that attention is read on, at most.
        n_null: draws of each null distribution.

    >>> LanguageConfig.from_preset("smoke", seeds=(0,)).model.tied
    True
    """

    parts: ClassVar[tuple[str, ...]] = ("text", "model", "train")

    text: TextConfig = field(default_factory=TextConfig)
    model: ModelConfig = field(default_factory=lambda: MODELS["quick"])
    train: TrainConfig = field(default_factory=lambda: TRAINING["quick"])
    probe_rows: int = 16
    n_null: int = 200

    def __post_init__(self) -> None:
        self.check_sweep(self.model)
        for name, least in (("probe_rows", 1), ("n_null", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name}={getattr(self, name)}; expected at least {least}.")
        if self.model.architecture != "transformer":
            raise ConfigError(
                f"architecture='{self.model.architecture}'; language models are transformers, so leave it out."
            )
        if self.train.stages != STAGES:
            raise ConfigError(
                f"stages={list(self.train.stages)}; the language study reads {list(STAGES)} and no other."
            )
        if self.train.track_drift:
            raise ConfigError("track_drift=True; theory of the drift is about the simplified models, so leave it out.")
        if self.train.batch_size % 2:
            raise ConfigError(
                f"batch_size={self.train.batch_size}; half of a batch comes from each corpus, so give an even number."
            )
        parameters(self.model, self.text.d_vocab, self.text.n_ctx)

    @staticmethod
    def from_preset(preset: str = "quick", **changes: Any) -> LanguageConfig:
        """A preset, with fields replaced; ConfigError for an unknown one."""
        if preset not in PRESETS:
            raise ConfigError(f"there is no preset '{preset}'; {nearest(preset, PRESETS)}")
        seeds = (0, 1) if preset == "smoke" else (0, 1, 2, 3, 4)
        base = LanguageConfig(
            preset, (0.3, 0.5, 0.8), seeds, TextConfig.preset(preset), MODELS[preset], TRAINING[preset]
        )
        return replace(base, **changes)

    @property
    def tier(self) -> str:
        """The preset's name, or ``custom`` where text, model or training differ in more than where texts lie."""
        base = self.from_preset(self.preset)
        places = {name: getattr(base.text, name) for name in PLACES}
        same = replace(self, text=replace(self.text, **places))
        kept = all(comparable(getattr(same, part)) == comparable(getattr(base, part)) for part in self.parts)
        return self.preset if kept else "custom"

    @property
    def plain(self) -> dict[str, Any]:
        """The configuration as nested plain data, in the form of its TOML file."""
        return {"study": LANGUAGE, **asdict(self)}

    def to_toml(self) -> str:
        """The configuration as a TOML file that gives the same study again."""
        return to_toml(self.plain)


def language_from_mapping(data: Mapping[str, Any], source: str = "the configuration") -> LanguageConfig:
    """A language study from nested plain data; ConfigError names an unknown key and the nearest known one.

    >>> language_from_mapping({"preset": "smoke", "text": {"n_ctx": 64}}).text.n_ctx
    64
    """
    base = LanguageConfig.from_preset(str(data.get("preset", "quick")))
    held = {key: value for key, value in data.items() if key != "study"}
    try:
        return overlay(base, held, source, "")
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{source}: a value has the wrong shape ({error}); compare it with the config.toml of a run."
        ) from None


def default_language_folder(config: LanguageConfig) -> Path:
    """``runs/language-quick`` for a preset as it stands, with a fingerprint behind it for a variation."""
    as_it_stands = config.fingerprint == LanguageConfig.from_preset(config.preset).fingerprint
    name = f"{LANGUAGE}-{config.preset}"
    return Path("runs") / (name if as_it_stands else f"{name}-{config.fingerprint}")


_GPT2 = ModelConfig(act="gelu_new", norm="pre", train_biases=True, tied=True)
MODELS = {
    "smoke": replace(_GPT2, n_layers=2, n_heads=2, d_model=32, d_head=16, d_mlp=128),
    "quick": replace(_GPT2, n_layers=2, n_heads=4, d_model=128, d_head=32, d_mlp=512),
    "paper": replace(_GPT2, n_layers=12, n_heads=12, d_model=768, d_head=64, d_mlp=3072),
}
TRAINING = {
    "smoke": TrainConfig(
        steps=60, batch_size=8, lr=3e-3, warmup=5, eval_every=10, eval_rows=8, n_checkpoints=1, stages=STAGES
    ),
    "quick": TrainConfig(
        steps=1000, batch_size=8, lr=3e-3, lr_final=1.5e-4, warmup=50, eval_every=20, eval_rows=16, n_checkpoints=1,
        keep_at=(0.1, 0.3), stages=STAGES, save_every=120.0,
    ),
    "paper": TrainConfig(
        steps=62_500, batch_size=32, lr=5e-5, schedule="constant", weight_decay=0.0, dtype="bfloat16", eval_every=250,
        eval_rows=100, n_checkpoints=2, stages=STAGES, save_every=1800.0,
    ),
}  # fmt: skip
