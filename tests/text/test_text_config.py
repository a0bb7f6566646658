"""Settings of text contradict each other, or they do not."""

import subprocess
import sys

import pytest

from rb_interp.errors import ConfigError
from rb_interp.text.config import TextConfig


def test_presets_are_the_ones_written_down():
    smoke, paper = TextConfig.preset("smoke"), TextConfig.preset("paper")
    assert (smoke.d_vocab, smoke.n_ctx, smoke.sequences, smoke.held_out, smoke.answers) == (512, 256, 40, 8, 20)
    assert TextConfig.preset("quick") == TextConfig()
    assert (paper.sequences, paper.held_out, paper.answers, paper.n_ctx) == (5000, 250, 500, 512)
    assert (paper.tokenizer, paper.layout, paper.prontoqa, paper.stories) == ("gpt2", "padded", "generate", "hub")
    with pytest.raises(ConfigError, match=r"^TextConfig has no preset 'smoek'; did you mean 'smoke'\?$"):
        TextConfig.preset("smoek")
    assert set(TextConfig.PRESETS) == {"smoke", "quick", "paper"}


def test_importing_the_package_imports_nothing_heavy():
    heavy = "{'torch', 'datasets', 'transformers', 'pandas', 'pyarrow', 'tomllib', 'tomli'}"
    modules = ", ".join(f"rb_interp.text.{name}" for name in ("data", "corpora", "task"))
    code = f"import sys, {modules}; sys.exit(', '.join({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.strip() == ""
