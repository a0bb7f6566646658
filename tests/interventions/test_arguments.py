"""What is given in another form: lists and tensors are taken for arrays, and the rest is named in
one sentence."""

import numpy as np
import pytest
import torch
from probes.lens_models import lens_model

from rb_interp.errors import RbInterpError
from rb_interp.interventions import (
    Effect,
    ablation,
    ablations,
    blocked_attention,
    interchange,
    patching_matrix,
    subspace_effect,
)
from rb_interp.interventions.ablating import ablate
from rb_interp.interventions.metrics import logit
from rb_interp.probes import attention, geometry, logit_lens, scan, uniformity
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

TOKENS = np.random.default_rng(0).integers(0, 30, (5, 6))
LABELS, KEY = np.arange(5), np.arange(5)[:, None]
ROWS = Inputs(TOKENS, LABELS, Roles({"key": KEY}))
MODEL = lens_model("gpt2", n_layers=2)


@pytest.mark.parametrize(
    "given", [lambda x: x.tolist(), torch.from_numpy], ids=["lists", "tensors"]
)
def test_lists_and_tensors_give_the_numbers_of_arrays(given):
    rows = Inputs(given(TOKENS), given(LABELS), Roles({"key": given(KEY)}))
    found, expected = (ablation(MODEL, some, "z.0.3@key", metric="loss") for some in (rows, ROWS))
    assert np.array_equal(found.values, expected.values)
    predicted = [
        interchange(MODEL, ROWS, ROWS, "z.0", some, control=PAIR).values
        for some in (given(LABELS), LABELS)
    ]
    assert np.array_equal(*predicted)


def entered(context):
    with context:
        pass


def measured(metric):
    return lambda: ablation(MODEL, ROWS, "z.0", metric=metric)


METRIC = "got metric=3; expected str or Metric(name, function, worse, needs) or a function."
PAIR = Inputs(TOKENS[:, ::-1].copy(), LABELS + 1, ROWS.roles)
WRONG = {
    "no site": (
        lambda: ablation(MODEL, ROWS, []),
        "needs at least one site, such as 'attn_out.0'; got none",
    ),
    "an unknown method": (
        lambda: ablation(MODEL, ROWS, "z.0", method="meen"),
        "ablation got method='meen'; expected 'zero' or 'mean' or 'resample'.",
    ),
    "by position": (
        lambda: ablation(MODEL, ROWS, "z.0", "mean"),
        "ablation: too many positional arguments; it takes model, inputs, sites, method=, ",
    ),
    "a control of other rows": (
        lambda: Effect("", "", "loss_increase", np.ones(4), np.ones((2, 3)), ""),
        "Effect got a control of shape [2, 3]; expected [draw, row] for 4 rows.",
    ),
    "bare tokens in a context": (
        lambda: entered(ablate(MODEL, TOKENS.tolist(), "z.0")),
        "expected Inputs(tokens, labels, roles, vocabulary).",
    ),
    "no labels": (
        lambda: ablation(MODEL, Inputs(TOKENS), "z.0"),
        "needs the right answer of each clean row",
    ),
    "no sites": (lambda: ablations(MODEL, ROWS), "name some, or give head='all'"),
    "labels of words": (
        lambda: ablation(MODEL, Inputs(TOKENS, ["a"] * 5), "z.0"),
        "expected whole numbers",
    ),
    "labels of masks": (
        lambda: ablation(MODEL, Inputs(TOKENS, LABELS > 2), "z.0"),
        "expected whole numbers",
    ),
    "one prediction": (
        lambda: interchange(MODEL, ROWS, PAIR, "z.0", [1], control=PAIR),
        "got 1 predicted answers for",
    ),
    "a control of fewer rows": (
        lambda: ablations(MODEL, ROWS, ["z.0"], control=PAIR.take([0, 1])),
        "the source, or the control, has tokens [2, 6] and the rows that run [5, 6]",
    ),
    "a source of fewer rows": (
        lambda: interchange(
            MODEL, ROWS, PAIR.take([0]), "z.0", {"a": LABELS, "b": LABELS + 1}, control=PAIR
        ),
        "has tokens [1, 6] and the rows that run [5, 6]",
    ),
    "labels beyond the vocabulary": (
        lambda: logit_lens(MODEL, Inputs(TOKENS, LABELS + 500)),
        "logit_lens got the label 504; the model answers with tokens 0 to",
    ),
    "a role named twice": (
        lambda: attention(MODEL, ROWS, layer=0, to=["key"] * 2),
        "name each of them once",
    ),
    "no such group": (
        lambda: geometry(MODEL, ROWS, groups={"low": [1]}, clusters=["lo"]),
        "has no group 'lo'",
    ),
    "many heads": (
        lambda: scan(uniformity, MODEL, ROWS, layer=1),
        "from layers=[...] and heads=[...]",
    ),
    "a direction": (
        lambda: patching_matrix(MODEL, ROWS, PAIR, direction="noising"),
        "direction='noising'; expected 'denoise' or 'noise'.",
    ),
    "a metric": (lambda: patching_matrix(MODEL, ROWS, ROWS, metric=3), METRIC),
    "tokens of others": (
        measured(logit([1, 2, 3])),
        "got tokens of shape [3] for 5 rows; give one token, or one a",
    ),
    "one row": (
        lambda: ablation(MODEL, ROWS.take([0]), "z.0", method="resample"),
        "got a single one; give two rows",
    ),
    "one row and its mean": (
        lambda: ablation(MODEL, ROWS.take([0]), "z.0"),
        "the mean and resampling take values from other rows and got a single one; give two rows",
    ),
    "a basis": (
        lambda: subspace_effect(MODEL, ROWS, 2 * np.eye(16)[:, :2]),
        "the basis is not orthonormal; span(vec",
    ),
    "a difference of one kind of rows": (
        measured("logit_diff"),
        "compares the answers of clean and corrupted rows, and this call has one kind of rows; name "
        "two tokens, rb_interp.interventions.metrics.logit_diff(a, b)",
    ),
    "an answer behind the rows": (
        lambda: ablation(MODEL, ROWS, "z.0", answer_at=50),
        "got answer_at=50; these rows have the positions 0 to 5, or -6 to -1 from the end",
    ),
    "an answer before the rows": (
        lambda: ablation(MODEL, ROWS, "z.0", answer_at=[0, 1, -7, 2, 3]),
        "got answer_at=-7; these rows",
    ),
    "no key to block": (
        lambda: blocked_attention(MODEL, Inputs(TOKENS, LABELS), layer=0),
        "name a role of these rows by key=: this intervention needs the role 'key'; this task has no "
        "such role (add it to Roles): known: all, last, rest",
    ),
    "no query to block": (
        lambda: blocked_attention(MODEL, ROWS, layer=0, query="anchor"),
        "name a role of these rows by query=: ",
    ),
    "two": (
        lambda: ablation(MODEL, ROWS, "z.0", answer_at="all"),
        "got answer_at of shape [5, 6] and type in",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_used_is_named_in_one_sentence(case):
    call, message = WRONG[case]
    with pytest.raises(RbInterpError) as raised:
        call()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
