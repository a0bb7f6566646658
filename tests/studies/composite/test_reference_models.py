"""Hand-written models of the three flows: right answers, the attention of paper 2's Fig. 3, and the flow by cause."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference_models import EQUAL, FLOWS, ORDERED, reference_model

from rb_interp.studies.composite.task import CompositeTask

TASK = CompositeTask(n_sequences=1600)
DATA = TASK.dataset(seed=0)
KINDS = [
    *[(flow, phase, ORDERED, 1) for flow in FLOWS for phase in ("inferential", "symmetric")],
    ("via_last", "inferential", ORDERED, 0),
    ("via_last", "symmetric", ORDERED, 0),
]
IDS = ["-".join(map(str, (flow, phase, f"L{layer}"))) for flow, phase, _, layer in KINDS]


def answers(model, tokens, hooks=()) -> np.ndarray:
    with torch.no_grad():
        return model.run_with_hooks(torch.as_tensor(tokens), fwd_hooks=list(hooks))[:, -1].argmax(-1).numpy()


@pytest.fixture(scope="module", params=KINDS, ids=IDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def model(kind):
    flow, phase, shares, layer = kind
    return reference_model(DATA, flow, phase, shares, layer)


def test_every_row_is_answered_as_the_phase_says(kind, model):
    for name in ("train", "seen_train", "seen_test"):
        rows = DATA.rows(name)
        np.testing.assert_array_equal(answers(model, DATA.tokens[rows]), DATA.labels[rows])
    rows = DATA.rows("unseen")
    expected = DATA.keys[rows] - (10 if kind[1] == "inferential" else 6)
    np.testing.assert_array_equal(answers(model, DATA.tokens[rows]), expected)


@pytest.mark.parametrize("flow", FLOWS)
def test_without_layer_norm_the_answers_are_the_same(flow):
    model, rows = reference_model(DATA, flow, "inferential", norm="none"), DATA.rows("seen_test")
    np.testing.assert_array_equal(answers(model, DATA.tokens[rows]), DATA.labels[rows])
    rows = DATA.rows("unseen")
    np.testing.assert_array_equal(answers(model, DATA.tokens[rows]), DATA.labels[rows])


@pytest.mark.parametrize("flow", ["via_last", "via_anchors"])
@pytest.mark.parametrize("task", [TASK, TASK.both_unseen()], ids=["one held out", "both unseen"])
def test_equal_shares_serve_what_does_not_tell_orders_apart(flow, task):
    data = task.dataset(0)
    model, seen, unseen = reference_model(data, flow, "symmetric", EQUAL), data.rows("seen_test"), data.rows("unseen")
    np.testing.assert_array_equal(answers(model, data.tokens[seen]), data.labels[seen])
    shift = 6 if task is TASK else 10
    np.testing.assert_array_equal(answers(model, data.tokens[unseen]), data.keys[unseen] - shift)


def test_random_exceptions_of_a_seed_are_known():
    data = CompositeTask(n_sequences=1600, random_exceptions=6).dataset(5)
    rows = data.rows("seen_test")
    for flow in FLOWS:
        np.testing.assert_array_equal(
            answers(reference_model(data, flow, "inferential"), data.tokens[rows]), data.labels[rows]
        )
