"""Notebooks run as scripts, each with a shorter training: building the pages runs none of them."""

import os
import re
from pathlib import Path

import pytest
from golden.calls import FEW
from transformers import AutoTokenizer

from rb_interp.studies.anchor import causes

GPT2 = Path(os.environ.get("RB_INTERP_DATA", "")) / "gpt2_tokenizer"
ROOT = Path(__file__).parents[2]
SHORTER = {
    "gamma_in_your_own_loop": ("steps=300", "steps=20"),
    "indirect_objects": ("steps, batches = 400", "steps, batches = 120"),
    "induction": ("steps, rng, losses = 600", "steps, rng, losses = 20"),
    "study": ("steps=60", "steps=10"),
}


@pytest.mark.lens
@pytest.mark.wide
@pytest.mark.filterwarnings(
    "ignore:.*never came to", "ignore:HookedTransformer is deprecated:DeprecationWarning"
)
@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/notebooks").glob("*.py")), ids=lambda path: path.stem
)
def test_a_notebook_runs(path, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, few in FEW.items():
        monkeypatch.setattr(causes, name, few)
    code, (here, shorter) = path.read_text("utf-8"), SHORTER.get(path.stem, ("", ""))
    assert here in code
    exec(compile(code.replace(here, shorter), path, "exec"), {"__name__": "__main__"})


@pytest.mark.skipif(not GPT2.is_dir(), reason="RB_INTERP_DATA does not name GPT-2's tokenizer")
def test_the_names_of_indirect_objects_are_one_token_each_in_gpt_2_too():
    """Answers of several tokens are refused, and the notebook says that it can take GPT-2 small."""
    code = (ROOT / "docs/notebooks/indirect_objects.py").read_text("utf-8")
    [*lists] = re.findall(r"^NAMES \+?= (\[.*\])$", code, re.MULTILINE)
    names = re.findall(r"\w+", " ".join(lists))
    assert len(names) == 24
    tokenizer = AutoTokenizer.from_pretrained(GPT2)
    assert all(len(tokenizer(f" {name}")["input_ids"]) == 1 for name in names)
