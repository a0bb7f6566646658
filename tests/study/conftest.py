"""One tiny study, run whole, that the tests of this folder look at; whoever damages it repairs it."""

import pytest

import rb_interp.study.causal
from rb_interp.cli import main
from rb_interp.study.config import StudyConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig

TINY = StudyConfig.from_preset(
    "smoke",
    gammas=(0.3, 0.5, 0.8),
    seeds=(0, 1),
    task=AnchorTask(
        length=6, keys=(21, 24), memory_anchors=(1, 2), reasoning_anchors=(11, 13), d_vocab=80, n_sequences=1800
    ),  # few labels, so that half is reached before the end
    train=TrainConfig(steps=80, batch_size=16, eval_every=5, eval_rows=20, lr=2e-2, n_checkpoints=1),
    probe_rows=60,
    n_null=20,
    n_init=10,
)


@pytest.fixture(scope="session", autouse=True)
def _few_interventions():
    """Fewer inputs and draws: these tests ask whether tables are right, not how sharp they are."""
    with pytest.MonkeyPatch.context() as patched:
        for name, few in (("ROWS", 60), ("PAIRS", 16), ("DRAWS", 4)):
            patched.setattr(rb_interp.study.causal, name, few)
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("study")
    (place / "study.toml").write_text(TINY.to_toml())
    assert main(["reproduce", "--config", str(place / "study.toml"), "--out", str(place / "run")]) == 0
    return place / "run"
