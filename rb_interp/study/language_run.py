"""The run folder of a language study: as of an anchor study, and ``text.json`` with what was read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rb_interp.errors import RunError, TextError
from rb_interp.files import write_whole
from rb_interp.study.about import check_free
from rb_interp.study.language_config import LanguageConfig, language_from_mapping
from rb_interp.study.run import ABOUT, LANGUAGE_FORMAT, Run, kind_of
from rb_interp.text.config import TEXT_SETS
from rb_interp.text.data import TextData, text_data
from rb_interp.training.language import train_language
from rb_interp.training.loop import Trained

if TYPE_CHECKING:
    from typing_extensions import Self

TEXT = "text.json"


class LanguageRun(Run):
    """A run folder of language models.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> run = LanguageRun.start(folder, LanguageConfig.from_preset("smoke", seeds=(0,)))
    >>> LanguageRun.open(folder).config == run.config
    True
    """

    format: ClassVar[str] = LANGUAGE_FORMAT
    stages: ClassVar[tuple[str, ...]] = ("init", "early", "final")
    sets: ClassVar[tuple[str, ...]] = TEXT_SETS

    def __init__(self, folder: Path, config: LanguageConfig, about: dict[str, Any]) -> None:
        super().__init__(folder, config, about)
        self._texts: dict[int, TextData] = {}

    @staticmethod
    def parse(data: Mapping[str, Any], source: str) -> LanguageConfig:
        """The configuration that ``run.json`` holds."""
        return language_from_mapping(data, source)

    @classmethod
    def start(cls, folder: Path | str, config: LanguageConfig, command: str = "") -> Self:
        """Make the folder, or open it where it holds the same configuration; RunError where it holds another.

        A new folder is made only once the text is there and an example fits into the context; else TextError.
        """
        if (Path(folder) / ABOUT).exists():
            return super().start(folder, config, command)
        check_free(Path(folder), ABOUT, "run")
        texts = {seed: text_data(config.text, seed) for seed in config.seeds}
        for text in texts.values():
            check_examples(text)
        run = super().start(folder, config, command)
        run._texts = texts
        return run

    @staticmethod
    def other_kind(folder: Path) -> str:
        """Nothing: a run of another kind is refused for its format."""
        return ""

    @property
    def sizes(self) -> tuple[int, int]:
        """Vocabulary and context of its models."""
        first = self.text(self.config.seeds[0])
        return first.tokenizer.d_vocab, first.train.n_ctx

    def text(self, seed: int) -> TextData:
        """What the members of a seed read; RunError where it is no longer what the run was begun with."""
        if seed not in self._texts:
            found = text_data(self.config.text, seed)
            self._check_text(seed, found)
            self._texts[seed] = found
        return self._texts[seed]

    @property
    def texts(self) -> dict[int, TextData]:
        """What the members of each seed read."""
        return {seed: self.text(seed) for seed in self.config.seeds}

    @property
    def text_about(self) -> dict[str, Any]:
        """What was read, by the first seed's members: sources, sizes, hashes, and what is a stand-in."""
        path = self.folder / TEXT
        return json.loads(path.read_text())[str(self.config.seeds[0])] if path.exists() else {}

    def _train(self, progress: bool) -> Trained:
        config, texts = self.config, self.texts
        if not (self.folder / TEXT).exists():
            content = json.dumps({str(seed): described(text) for seed, text in texts.items()}, indent=1)
            write_whole(self.folder / TEXT, lambda path: path.write_text(content))
        return train_language(
            texts, config.model, config.train, config.gammas, config.seeds, store=self.store, progress=progress
        )

    def _check_text(self, seed: int, found: TextData) -> None:
        path = self.folder / TEXT
        if not path.exists():
            return
        try:
            held = json.loads(path.read_text())[str(seed)]
        except (OSError, ValueError, KeyError) as error:
            raise RunError(
                f"{path} cannot be read ({error!r}); it is damaged. Move the folder away and run again."
            ) from None
        now = described(found)
        if held != now:
            changed = [key for key in held if held[key] != now.get(key)]
            raise RunError(
                f"the text of seed {seed} is not what {self.folder} was begun with ({', '.join(changed)} differ, see "
                f"{path}); nothing was changed. Put the files back as they were, or use another --out."
            )


def check_examples(text: TextData) -> None:
    """Raise TextError where no held-out PrOntoQA example fits into the context, so that none could be asked."""
    shortest = min(len(text.tokenizer.encode(example.text)) for example in text.examples)
    if shortest > text.train.n_ctx:
        raise TextError(
            f"none of {len(text.examples)} held-out PrOntoQA examples fits into n_ctx={text.train.n_ctx} (the shortest "
            f"has {shortest} tokens), so no answer could be asked for; give a larger n_ctx, or fewer hops."
        )


def described(text: TextData) -> dict[str, Any]:
    """What a text is, with its unigram entropies (nats), as plain data."""
    return json.loads(json.dumps({**text.about, "entropies": list(text.entropies)}))


def is_language(folder: Path | str) -> bool:
    """Whether a folder holds a run of language models."""
    return kind_of(folder) == LANGUAGE_FORMAT
