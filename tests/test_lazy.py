"""What loads when: public names at first use; help and presets without torch; training without
TransformerLens."""

import compileall
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rb_interp as rb

PUBLIC = [rb, *(getattr(rb, name) for name in rb.__all__ if hasattr(getattr(rb, name), "__path__"))]


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_another_one_is_an_attribute_error(package):
    for name in getattr(package, "__all__", ()):
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="attribute '?nothing"):
        _ = package.nothing


OWN_PROCESS = """
import contextlib, io, sys
import rb_interp
from rb_interp.cli import main

def check(*names):
    assert not {"torch", "transformer_lens", *names} & {*sys.modules}, {*names} & {*sys.modules}

def run(*words, status=2):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        assert main(words) == status

heavy = "pandas", "matplotlib", "scipy"
check(*heavy, "numpy", "rb_interp.studies")
run("--help")
check(*heavy, "numpy", "rb_interp.studies")
run("info", "nowhere")
check(*heavy)
run("reproduce", "--help")
check(*heavy, *(f"rb_interp.studies.{name}" for name in ("emb_mlp", "labels", "language")))
import rb_interp.text.corpora, rb_interp.text.task
check(*heavy, "datasets", "transformers", "pyarrow", "tomllib", "tomli")
from rb_interp.runs.config import study_names
from rb_interp.runs.studies import study
for name in study_names():
    study(name).preset("smoke")
    check()
for one in map(study, study_names()):  # claims are held against their study before training
    one.check_claims(one.preset("smoke"))
assert not {"transformer_lens", "matplotlib"} & {*sys.modules}

sys.modules["transformer_lens"] = None  # whoever imports it fails
run("train", "--preset", "smoke", "--steps", "2", "--seeds", "0", "--gammas", "0.8", "--out", sys.argv[1], status=0)
assert rb_interp.runs.Run.open(sys.argv[1]).finished
print(rb_interp.__file__)
"""


def test_help_loads_no_torch_and_training_no_transformer_lens(tmp_path):
    """By an installation of bytecode and stubs alone: nothing reads a module's own source."""
    target = tmp_path / "rb_interp"
    ignored = shutil.ignore_patterns("__pycache__", "zoo")
    shutil.copytree(Path(rb.__file__).parent, target, ignore=ignored)
    assert compileall.compile_dir(target, quiet=1, legacy=True)
    for path in target.rglob("*.py"):
        path.unlink()
    command = [sys.executable, "-c", OWN_PROCESS, str(tmp_path / "run")]
    threads = {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **threads}
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == str(target / "__init__.pyc")
