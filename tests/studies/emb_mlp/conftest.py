"""One tiny Emb-MLP study, trained and measured once, that the tests of this folder look at."""

import pytest

from rb_interp.runs.config import from_mapping
from rb_interp.runs.run import Run
from rb_interp.studies.emb_mlp import EMB_MLP

TINY = {
    "preset": "smoke",
    "seeds": [0, 1, 2],
    "n_null": 10,
    "adamw": {"gammas": [0.3, 0.5, 0.8], "train": {"steps": 60}},
    "descent": {"gammas": [0.3, 0.8], "train": {"steps": 60, "lr": 1.0, "n_checkpoints": 1}},
    "one_layer": {"gammas": [0.3, 0.8], "train": {"steps": 20}},
    "scaling": {"d_models": [80, 120], "gammas": [0.3, 0.8], "lemma_gammas": [0.3, 0.8], "n_init": 5},
}


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    made = Run.start(tmp_path_factory.mktemp("emb_mlp") / "run", EMB_MLP, from_mapping(EMB_MLP.load("config"), TINY))
    made.train(progress=False)
    made.probe(progress=False)
    return made


@pytest.fixture(scope="session")
def evidence(run):
    return run.evidence
