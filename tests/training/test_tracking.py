"""The spectrum of embeddings along training: exact, kept, continued."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import Member
from rb_interp.training.members import train_members
from rb_interp.training.store import CheckpointStore, saved_curves
from rb_interp.training.tracking import N_EIGENVALUES, leading_eigenvalues

pytestmark = pytest.mark.wide

TASK, MODEL = AnchorTask.preset("smoke"), ModelConfig(d_model=12, d_head=6, d_mlp=20)
TRAIN = TrainConfig(
    steps=20, batch_size=16, eval_every=5, eval_rows=10, schedule="constant", workers=2
)


@pytest.fixture
def watched(monkeypatch):
    ids = {"keys": TASK.tokens("key"), "few": np.array([1, 2, 5])}
    monkeypatch.setattr(AnchorTask, "spectra", ids, raising=False)
    return ids


def train(folder, steps, **changes):
    store = CheckpointStore(folder, "same")
    settings = replace(TRAIN, steps=steps, **changes)
    return store, train_members(
        TASK, [0.5, 0.8], [0], config=MODEL, train=settings, store=store, progress=False
    )


def test_eigenvalues_are_those_of_the_covariance_on_either_side_of_square():
    rng = np.random.default_rng(0)
    for n in (5, 12, 40):
        x = rng.standard_normal((2, n, 12)) + 3
        wanted = [
            np.linalg.eigvalsh(np.cov(member.T, bias=True))[::-1][: min(n, N_EIGENVALUES)]
            for member in x
        ]
        np.testing.assert_allclose(leading_eigenvalues(torch.from_numpy(x)), wanted, atol=1e-12)
    x[1, 3, 2] = np.inf
    assert np.isnan(leading_eigenvalues(torch.from_numpy(x))).all(1).tolist() == [False, True]


def test_they_are_kept_at_every_evaluation_and_are_those_of_the_weights(tmp_path, watched):
    _, trained = train(tmp_path, 20)
    table = trained.curves.spectra_table().set_index(["group", "gamma", "step"]).sort_index()
    for name, ids in watched.items():
        final = trained.final.member(0.8, 0)["embed.W_E"][None, ids]
        kept = table.loc[(name, 0.8, 20), "eigenvalue"].to_list()
        assert kept == pytest.approx(leading_eigenvalues(final)[0].tolist(), abs=1e-12)
    assert table.loc[("few", 0.5)].index.unique().to_list() == [0, 5, 10, 15, 20]
    assert table.loc[("few", 0.5, 10), "rank"].to_list() == [1, 2, 3]


def test_a_stopped_training_ends_with_the_same_numbers(tmp_path, watched):
    _, whole = train(tmp_path / "whole", 20)
    train(tmp_path / "stopped", 10)
    store, continued = train(tmp_path / "stopped", 20)
    saved = saved_curves(store.read("state"), (Member(0.5, 0), Member(0.8, 0)), TASK.sets)
    for curves in (continued.curves, saved):
        assert curves.spectra_table().equals(whole.curves.spectra_table())
