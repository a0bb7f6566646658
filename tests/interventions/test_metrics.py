"""Metrics worked out by hand, any function in every call that measures, and answers elsewhere than
at the end."""

import numpy as np
import pytest
import torch
from interventions.rows import CLEAN, CORRUPTED, QUERY, by_hooks
from probes.lens_models import hooks_on, lens_model

from rb_interp.errors import ModelError
from rb_interp.interventions import (
    ablation,
    blocked_attention,
    forced_average,
    patching_effect,
    patching_matrix,
    subspace_effect,
)
from rb_interp.interventions.edits import last_logits
from rb_interp.interventions.metrics import (
    METRICS,
    Answers,
    logit,
    logit_diff,
    measure,
    metric_of,
    probability,
)
from rb_interp.tasks import Inputs

LOGITS = torch.tensor([[0.0, np.log(3.0), 0.0], [1e5, 0.0, -1e5]], dtype=torch.float64)
BEFORE = Answers(torch.tensor([[0.0, 0.0, 0.0], [1e5, 0.0, 0.0]]), torch.tensor([1, 1]))
OTHER = Answers(torch.zeros(2, 3), torch.tensor([2, 0]))
BY_HAND = {
    "logit_diff": [np.log(3), -1e5],
    "logit": [np.log(3), 0],
    "probability": [3 / 5, 0],
    "loss": [np.log(5 / 3), 1e5],
    "accuracy": [1, 0],
    "rank": [0, 1],
    "kl": [sum(np.log((1 / 3) / q) / 3 for q in (1 / 5, 3 / 5, 1 / 5)), 0],
}


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_by_hand(name):
    found = measure(METRICS[name], LOGITS, BEFORE, OTHER)
    np.testing.assert_allclose(found, BY_HAND[name], atol=1e-12)
    assert measure(METRICS[name], LOGITS.bfloat16(), BEFORE, OTHER).dtype == torch.float64


def test_metrics_of_given_tokens():
    assert measure(logit_diff(1, 0), LOGITS, BEFORE).tolist() == pytest.approx([np.log(3), -1e5])
    assert measure(logit_diff(b=[2, 0]), LOGITS, BEFORE).tolist() == pytest.approx(
        [np.log(3), -1e5]
    )
    assert measure(logit(torch.tensor([1, 2])), LOGITS, BEFORE).tolist() == pytest.approx(
        [np.log(3), -1e5]
    )
    assert measure(probability(0), LOGITS, BEFORE).tolist() == pytest.approx([1 / 5, 1])
    assert [
        logit_diff(1, 0).needs,
        logit_diff(1).needs,
        logit_diff(b=1).needs,
        METRICS["kl"].needs,
    ] == [0, 2, 1, 0]
    names = [metric.change for metric in METRICS.values()]
    assert names == [
        *(
            "logit_diff_drop",
            "logit_drop",
            "probability_drop",
            "loss_increase",
            "accuracy_drop",
            "rank_increase",
        ),
        "kl_increase",
    ]


MODEL = lens_model("gpt2", n_layers=2)
AT = np.array([4, 3, 5])


def spread(logits, clean, corrupted):
    """Knows its rows by their place: rows that are left out, or come in another order, would
    show."""
    assert len(logits) == len(clean.logits) == 3
    assert clean.labels is None or len(clean.labels) == 3
    return logits.std(1) + torch.arange(3) * (logits[:, 0] - clean.logits[:, 0])


def test_every_cell_has_the_number_of_a_hook_by_hand_under_any_metric_and_answer():
    for metric, at in (
        (spread, None),
        ("kl", AT),
        (logit_diff([3, 4, 5], 1), "query"),
        ("logit_diff", -3),
    ):
        matrix = patching_matrix(
            MODEL,
            CLEAN,
            CORRUPTED,
            metric=metric,
            answer_at=at,
            components=("k", "resid_post", "q"),
        )
        where = (
            QUERY[:, 0]
            if isinstance(at, str)
            else {None: 5, -3: 3}.get(at, at)
            if np.ndim(at) == 0
            else at
        )
        where = torch.from_numpy(np.broadcast_to(where, 3).copy())
        clean, corrupted = (
            Answers(last_logits(MODEL, rows.tokens, positions=where), torch.from_numpy(rows.labels))
            for rows in (CLEAN, CORRUPTED)
        )
        known = metric_of(metric)
        np.testing.assert_allclose(
            matrix.clean, measure(known, clean.logits, clean, corrupted), atol=1e-5
        )
        for component, layer, role in (
            ("k", 0, "key"),
            ("resid_post", 1, "query"),
            ("q", 1, "query"),
        ):
            cell = matrix.cell(component, layer, role)
            logits = by_hooks(MODEL, CORRUPTED, CLEAN, [(component, layer, None, role)], where)
            expected = measure(known, logits, clean, corrupted)
            np.testing.assert_allclose(
                matrix.patched[cell], expected, atol=1e-4 * float(expected.abs().max() + 1)
            )
            site = f"{component}.{layer}@{role}"
            effect = patching_effect(MODEL, CLEAN, CORRUPTED, site, metric=metric, answer_at=at)
            assert effect.values.mean() == pytest.approx(matrix.values[cell], abs=1e-4)
    assert hooks_on(MODEL) == []


def test_costs_are_differences_of_the_metric_at_the_answer():
    """Of each call, against the model run by hand: what the metric falls or rises by at each row's
    own position."""
    no_labels, average = Inputs(CLEAN.tokens, None, CLEAN.roles), np.zeros(6)
    z = by_hooks(MODEL, CLEAN, None, [("z", 0, 2, "key")], torch.from_numpy(AT))
    before = Answers(
        last_logits(MODEL, CLEAN.tokens, positions=torch.from_numpy(AT)),
        torch.from_numpy(CLEAN.labels),
    )
    for metric in ("kl", "probability", "rank", spread, logit_diff([2, 3, 4], 0)):
        known = metric_of(metric)
        found = ablation(MODEL, CLEAN, "z.0.2@key", method="zero", metric=metric, answer_at=AT)
        change = (measure(known, z, before) - measure(known, before.logits, before)).numpy()
        np.testing.assert_allclose(found.values, -change if known.worse < 0 else change, atol=1e-5)
        assert found.quantity == known.change
    for call in (
        lambda **given: ablation(MODEL, no_labels, "mlp_out.1@last", **given),
        lambda **given: blocked_attention(MODEL, no_labels, layer=1, n_draws=2, **given),
        lambda **given: forced_average(MODEL, no_labels, average, n_draws=2, **given),
        lambda **given: subspace_effect(
            MODEL, no_labels, np.eye(16)[:, :3], layer=1, n_draws=2, **given
        ),
    ):
        found, first = call(metric="kl"), call(metric="kl", answer_at=0)
        assert (found.values > 0).all()
        assert found.control.shape[1] == 3
        assert np.abs(first.values).max() < 1e-6 or first.intervention.startswith("values")
        with pytest.raises(ModelError, match=r"needs the right answer of each clean row"):
            call(metric="loss")
