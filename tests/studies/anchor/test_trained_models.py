"""Copies that compute what their original computes, and what training says of the truth."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from rb_interp.interventions.hooking import last_logits
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.reference import reference
from rb_interp.models.schemes import draw
from rb_interp.studies.anchor import starting_members, trained_models
from rb_interp.studies.anchor.detectors import CAUSES, DETECTORS, NAMES, Detection
from rb_interp.studies.anchor.known_models import Subject, rows_from
from rb_interp.studies.anchor.routes_by_training import RECIPES, Recipe
from rb_interp.studies.anchor.trained_models import (
    OF_SEVERAL_HEADS,
    _of_heads_together,
    copies_of,
    detections,
    truth_of,
)

pytestmark = pytest.mark.lens


def test_copies_compute_the_same_and_their_weights_are_what_they_are_called():
    config = ModelConfig(d_model=16, d_head=8, d_mlp=20)
    task = reference("averager").task
    weights = {k: torch.from_numpy(w) for k, w in draw(config, task.d_vocab, task.length, 0.3, 0).items()}
    original = Subject("member", "member", 0, config, task.dataset(0), weights)
    tokens = original.data.tokens[:50]
    expected = last_logits(lens_model(config, task.d_vocab, task.length, weights, torch.float64), tokens)
    copies = list(copies_of(original))
    assert [copy.source for copy in copies] == ["gauge", "silent head", "split head", "gauge", "silent head"]
    for copy in copies:
        model = lens_model(copy.config, task.d_vocab, task.length, copy.weights, torch.float64)
        torch.testing.assert_close(last_logits(model, tokens), expected, rtol=0, atol=1e-10)
    gauges = [copy.weights["blocks.0.attn.W_V"][0] for copy in copies if copy.source == "gauge"]
    spectra = [np.linalg.svd(W_V, compute_uv=False) for W_V in gauges]
    assert spectra[1][0] / spectra[1][-1] == pytest.approx(1, abs=1e-8)
    assert spectra[0][0] / spectra[0][1] > 1.05
    silent = [copy.weights for copy in copies if copy.source == "silent head"]
    assert [bool((each["blocks.0.attn.W_Q"][1] == 0).all()) for each in silent] == [True, False]
    assert all((each["blocks.0.attn.W_O"][1] == 0).all() for each in silent)


def test_with_several_heads_the_one_that_shows_the_most_counts_and_claims_about_one_head_are_left_out(monkeypatch):
    place, low = ("attention_by_role", "key", "rsn_train", 1), ("uniformity", "tv", "rsn_train", 0)
    assert (_of_heads_together(place, [0.2, 0.9]), _of_heads_together(low, [0.2, 0.9])) == (0.9, 0.2)
    written = reference("averager")
    original = Subject("member", "averager", 0, written.config, written.task.dataset(0), written.weights)
    read = {place: [1.0, 0.1], low: [0.0, 0.9], ("learning_order", "acc_rsn_train", "", None): [1.0]}
    monkeypatch.setattr(trained_models, "readings_of", lambda model, data, fewer: read)
    monkeypatch.setattr(trained_models, "load", lambda subject: None)
    two = original._replace(config=replace(written.config, n_heads=2))
    found = detections(two)
    assert set(found) <= set(OF_SEVERAL_HEADS)
    assert found["average-then-key"].present
    assert not found["key-to-anchors"].present


def test_every_recipe_has_a_truth_for_all_names():
    for recipe in RECIPES.values():
        known = truth_of(recipe)
        assert [known[name] for name in NAMES] == [recipe.circuit == name for name in NAMES]
        assert [known[detector] for detector in CAUSES] == [recipe.circuit == name for name in CAUSES.values()]
        assert known["M7r"] == known["M8r"] == known["M9b"] == (recipe.circuit == "average-then-key")
        assert set(known) <= set(DETECTORS)


def test_a_member_counts_after_the_last_stage_of_its_training_alone(monkeypatch, tmp_path):
    asked = Recipe("key-to-anchors", ((0.8, 0),), "average-then-key")
    stages = {"first": asked, "second": replace(asked, begins="first")}
    reached = {"routed": {}, "members_of": [(0.8, 0)], "datasets": [None], "shares": np.ones((1, 4))}
    for name, value in {**reached, "attention_reached": np.ones(1)}.items():
        monkeypatch.setattr(trained_models, name, lambda *_, value=value: value)
    monkeypatch.setattr(trained_models, "RECIPES", stages)
    subjects, table = trained_models.trained_subjects(tmp_path, progress=False)
    assert [subject.name for subject in subjects] == ["second, gamma 0.8"]
    assert table.groupby("name")["counts"].all().to_dict() == {"first": False, "second": True}


def test_starts_with_layer_norm_are_the_members_with_the_highest_least_share(monkeypatch, tmp_path):
    least = np.linspace(0.1, 0.9, len(starting_members.EVERYONE))
    least[[3, 7]] = 0.95, 0.92
    monkeypatch.setattr(starting_members, "starts", lambda *_: {})
    monkeypatch.setattr(starting_members, "datasets", lambda members: [])
    monkeypatch.setattr(starting_members, "shares", lambda *_: np.stack([np.ones(len(least)), least], 1))
    found = starting_members.nearest(tmp_path, "key-to-anchors", 2, ModelConfig(norm="post"))
    assert found == (starting_members.EVERYONE[3], starting_members.EVERYONE[7])


def test_what_construction_does_not_settle_has_no_truth():
    task = reference("averager").task
    subject = Subject("reference", "r", 0, ModelConfig(), task.dataset(0), {}, "none", frozenset(), cause="none")
    said = {"M4b": Detection(True, 0.1), "M7r": Detection(False, -0.1)}
    open_ones = subject._replace(unsettled=("needs_reasoning_values",))
    assert [row["truth"] for row in rows_from(subject, said)] == ["no", "no"]
    assert [row["truth"] for row in rows_from(open_ones, said)] == ["", "no"]
