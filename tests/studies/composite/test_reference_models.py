"""Hand-written models of the three flows: right answers, the attention of paper 2's Fig. 3, and the flow by cause."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference_models import EQUAL, FLOWS, ORDERED, reference_model

from rb_interp.studies.composite.task import CompositeTask

pytestmark = pytest.mark.lens

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


def before_the_end(name: str) -> np.ndarray:
    """Rows whose key stands at positions 0 to 4, so that noise lies between the pair and the last position."""
    rows = DATA.rows(name)
    return rows[DATA.key_position[rows] <= 4]


@pytest.mark.parametrize("name", ["seen_test", "unseen"])
def test_attention_is_that_of_the_flow(kind, model, name):
    rows = before_the_end(name)
    _, cache = model.run_with_cache(torch.as_tensor(DATA.tokens[rows]))
    here = np.arange(len(rows))

    def attention(layer: int, query: str, key: str) -> float:
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"][:, 0].numpy()
        at = {role: places[rows, 0] for role, places in DATA.positions.items()}
        return float(pattern[here, at[query], at[key]].mean())

    flow, _, shares, _ = kind
    both = [pytest.approx(share, abs=0.01) for share in shares]
    if flow == "via_last":
        assert [attention(0, "last", "a1"), attention(0, "last", "a2")] == both
        assert attention(1, "last", "key") > 0.99
    elif flow == "via_anchors":
        assert min(attention(0, "a1", "key"), attention(0, "a2", "key")) > 0.99
        assert [attention(1, "last", "a1"), attention(1, "last", "a2")] == both
    else:
        assert attention(0, "a2", "a1") == pytest.approx(0.5, abs=0.01)
        assert attention(0, "a2", "key") == pytest.approx(0.5, abs=0.01)
        assert attention(1, "last", "a2") > 0.99


def interchanges(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Rows, source tokens with another key and pair, and four answers that differ: paper 2's claims, "Interchange"."""
    other = TASK.counterfactual(DATA, rows, "both", seed=1)
    at = DATA.anchor_positions[rows]
    pairs = {"base": DATA.pairs[rows], "source": np.take_along_axis(other.tokens, at, 1)}
    keys = {"base": DATA.keys[rows], "source": np.take_along_axis(other.tokens, at[:, :1] - 1, 1)[:, 0]}
    found = {
        "base": TASK.inferential(keys["base"], pairs["base"]),
        "source": TASK.inferential(keys["source"], pairs["source"]),
        "kb_ps": TASK.inferential(keys["base"], pairs["source"]),
        "ks_pb": TASK.inferential(keys["source"], pairs["base"]),
    }
    exceptional = DATA.is_exception(pairs["base"]) | DATA.is_exception(pairs["source"])
    different = np.array([len(set(four)) == 4 for four in zip(*found.values(), strict=True)])
    kept = different & ~exceptional
    return rows[kept], other.tokens[kept], {name: value[kept] for name, value in found.items()}


def test_the_flow_by_interchange_is_the_one_that_was_built(kind, model):
    rows, sources, four = interchanges(before_the_end("seen_test"))
    assert len(rows) > 100
    _, cache = model.run_with_cache(torch.as_tensor(sources))
    source, here = cache["blocks.0.hook_resid_post"], torch.arange(len(rows))

    def share(roles: tuple[str, ...], expected: str) -> float:
        def write(resid, hook):
            for role in roles:
                at = torch.as_tensor(DATA.positions[role][rows, 0])
                resid[here, at] = source[here, at]
            return resid

        given = answers(model, DATA.tokens[rows], [("blocks.0.hook_resid_post", write)])
        return float((given == four[expected]).mean())

    flow = kind[0]
    expected = {
        "via_last": {("last",): "kb_ps", ("key",): "ks_pb", ("a1",): "base", ("a2",): "base", ("a1", "a2"): "base"},
        "via_anchors": {("last",): "base", ("key",): "base", ("a1", "a2"): "source"},
        "via_a2": {("last",): "base", ("key",): "base", ("a1",): "base", ("a2",): "source"},
    }[flow]
    for roles, answer in expected.items():
        assert share(roles, answer) == 1.0, (roles, answer)
    if flow == "via_anchors":
        assert max(share(("a1",), "source"), share(("a2",), "source")) < 0.5
