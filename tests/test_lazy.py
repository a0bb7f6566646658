"""What loads when: public names at first use; help and presets without torch; training without
TransformerLens."""

import os
import subprocess
import sys

import pytest

import rb_interp as rb

PUBLIC = [rb, *(getattr(rb, name) for name in rb.__all__ if hasattr(getattr(rb, name), "__path__"))]


@pytest.mark.parametrize("package", PUBLIC, ids=lambda package: package.__name__)
def test_every_public_name_is_there_and_another_one_is_an_attribute_error(package):
    for name in getattr(package, "__all__", ()):
        assert getattr(package, name) is not None
    with pytest.raises(
        AttributeError, match=f"module '{package.__name__}' has no attribute 'nothing'"
    ) as error:
        _ = package.nothing
    assert error.value.obj is package


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
import rb_interp.text.corpora, rb_interp.text.data, rb_interp.text.task
check(*heavy, "datasets", "transformers", "pyarrow", "tomllib", "tomli")
from rb_interp.runs.config import names, study
for name in names():
    study(name).preset("smoke")
    check()
for one in map(study, names()):  # claims are held against their study before training
    one.check_claims(one.preset("smoke"))
assert not {"transformer_lens", "matplotlib"} & {*sys.modules}

sys.modules["transformer_lens"] = None  # whoever imports it fails
run("train", "--preset", "smoke", "--steps", "2", "--seeds", "0", "--gammas", "0.8", "--out", sys.argv[1], status=0)
assert rb_interp.runs.Run.open(sys.argv[1]).finished
"""


def test_help_loads_no_torch_and_training_no_transformer_lens(tmp_path):
    command = [sys.executable, "-c", OWN_PROCESS, str(tmp_path / "run")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
