"""The trained part of the calibration: one call for every family, starts chosen by routes, and nothing made twice."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import torch

from rb_interp.models.config import NORMS, ModelConfig
from rb_interp.models.schemes import draw
from rb_interp.studies.anchor import calibrate, error_rates, starting_members, trained_models
from rb_interp.studies.anchor.detectors import Detection
from rb_interp.studies.anchor.known_models import Subject
from rb_interp.studies.anchor.routes_by_training import Recipe, shares
from rb_interp.studies.anchor.trained_models import copies_of, detections
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig

pytestmark = [pytest.mark.lens, pytest.mark.wide]

TASK, SIZES = AnchorTask.preset("smoke"), ModelConfig(d_model=16, d_head=8, d_mlp=20)
FEW = TrainConfig(steps=6, batch_size=8, lr=5e-3, n_checkpoints=0, eval_rows=10, device="cpu")


@pytest.fixture
def tiny(monkeypatch):
    """Two members of each family, three recipes of two steps, and detectors that always say the same."""
    members = ((0.8, 0), (0.8, 1))
    short = {"steps": 2, "lr": 1e-3}
    recipes = {
        "carries": Recipe("key-to-anchors", members[1:], **short),
        "uniform": Recipe("average-then-key", members[1:], uniform_layers=(0,), **short),
        "looks": Recipe("key-to-anchors", members[1:], "average-then-key", "carries", **short),
    }
    for name, value in {"TASK": TASK, "TRAIN": FEW, "GAMMAS": (0.8,), "SEEDS": (0, 1), "EVERYONE": members}.items():
        monkeypatch.setattr(starting_members, name, value)
    settings = {"SEEDS": (0, 1), "SMALLEST_SHARE": -1.0, "ATTENTION_WITHIN": 9.0, "STEPS_FROM_AFAR": 2}
    for name, value in {"RECIPES": recipes, **settings}.items():
        monkeypatch.setattr(trained_models, name, value)
    monkeypatch.setattr(trained_models, "detections", lambda subject: {"M1": Detection(True, 0.1)})
    monkeypatch.setattr(calibrate, "BLENDED", ())
    monkeypatch.setattr(calibrate, "blend_table", lambda pairs, progress: pd.DataFrame({"pair": []}))
    monkeypatch.setattr(calibrate, "blend_means", lambda table: table)
    monkeypatch.setattr(calibrate, "save_blends", lambda means, path: None)
    return tuple(replace(SIZES, norm=norm) for norm in NORMS)


def test_one_call_has_every_family_and_an_interrupted_one_continues(tiny, tmp_path, monkeypatch):
    trained, plain = [], trained_models.train_routes

    def counted(start, data, config, recipe, progress):
        if len(trained) == 7:
            raise KeyboardInterrupt
        trained.append((config.norm, recipe.circuit))
        return plain(start, data, config, recipe, progress=progress)

    monkeypatch.setattr(trained_models, "train_routes", counted)
    with pytest.raises(KeyboardInterrupt):
        calibrate.calibrate_on_trained_models(tmp_path, False, tiny)
    monkeypatch.setattr(trained_models, "train_routes", plain)
    assert {path.name for path in (tmp_path / calibrate.PARTIAL).iterdir()} == {
        f"{norm}-{name}" for norm in ("none", "pre") for name in ("trained_copies.csv", "trained_models.csv")
    }
    monkeypatch.setattr(
        starting_members, "train_members", lambda *args, **kwargs: pytest.fail("members are trained twice")
    )
    rates = calibrate.calibrate_on_trained_models(tmp_path, False, tiny)
    families = [error_rates.family(config) for config in tiny]
    models, copies = (error_rates.read_table(tmp_path / f"trained_{name}.csv") for name in ("models", "copies"))
    assert models["family"].drop_duplicates().tolist() == families
    assert models.groupby("family")["name"].unique().map(list).tolist() == [["carries", "uniform", "looks"]] * 3
    assert set(families) <= set(copies["family"])
    assert {*rates.loc[rates["source"] == "uniform", "family"]} == set(families)  # M1 is true of it
    assert sorted(path.name for path in (tmp_path / "trained").iterdir()) == sorted(
        f"{name}-{norm}.safetensors" for name in ("start", "carries", "uniform", "looks") for norm in NORMS
    )
    assert not (tmp_path / calibrate.PARTIAL).exists()


def test_a_recipe_names_its_members_or_takes_those_nearest_to_the_route(tiny, tmp_path):
    recipe = trained_models.RECIPES["carries"]
    assert starting_members.members_of(tmp_path, recipe, tiny[0]) == recipe.starts
    config = tiny[1]
    weights = starting_members.starts(tmp_path, starting_members.EVERYONE, config, progress=False)
    data = starting_members.datasets(starting_members.EVERYONE)
    least = shares(weights, data, config, "key-to-anchors").min(1)
    # The tiny members are alike, so the first is made one that answers nothing.
    weights["unembed.b_U"][int(least.argmax())] = torch.linspace(0, 1e6, TASK.d_vocab)
    (tmp_path / f"start-{config.norm}.safetensors").unlink()
    starting_members.kept(tmp_path / f"start-{config.norm}.safetensors", lambda: weights)
    least = shares(weights, data, config, "key-to-anchors").min(1)
    best = starting_members.EVERYONE[int(least.argmax())]
    assert starting_members.nearest(tmp_path, "key-to-anchors", 1, config, progress=False) == (best,)


@pytest.mark.parametrize("norm", NORMS)
def test_detectors_that_are_free_of_gauge_read_the_same_in_copies_of_every_family(norm):
    config = replace(SIZES, norm=norm)
    weights = {name: torch.from_numpy(w).float() for name, w in draw(config, TASK.d_vocab, TASK.length, 0.3, 0).items()}
    original = Subject("member", "member", 0, config, TASK.dataset(0), weights)
    found = detections(original)
    copy = next(iter(copies_of(original)))._replace(config=config)
    again = detections(copy)
    for name in ("M1", "M3b", "M7"):
        assert again[name].margin == pytest.approx(found[name].margin, abs=1e-3), name
    for name in ("M7r", "M8r", "M9b", "average-then-key by cause"):
        assert again[name] == found[name], name
    assert again["M3"].margin != pytest.approx(found["M3"].margin, abs=1e-3)
