"""What is given in another form: lists and tensors are taken for arrays, and the rest is named in one sentence."""

import numpy as np
import pytest
import torch
from probes.lens_models import lens_model
from torch import nn

from rb_interp.errors import RbInterpError
from rb_interp.interventions import ablation, blocked_attention, interchange, patching_matrix, path_patch
from rb_interp.interventions.ablating import ablate, ablations
from rb_interp.interventions.hooking import last_logits
from rb_interp.interventions.sites import read_at
from rb_interp.probes import captured, geometry, scan, uniformity, value_alignment, weight_rank
from rb_interp.tasks import Inputs
from rb_interp.tasks.roles import Roles

TOKENS = np.random.default_rng(0).integers(0, 30, (5, 6))
LABELS, KEY = np.arange(5), np.arange(5)[:, None]
ROWS = Inputs(TOKENS, LABELS, Roles({"key": KEY}))
LATE = Inputs(TOKENS, LABELS, Roles({"key": KEY * 0, "noise": KEY * 0 + 1}))
MODEL = lens_model("gpt2", n_layers=2)


@pytest.mark.parametrize("given", [lambda x: x.tolist(), torch.from_numpy], ids=["lists", "tensors"])
def test_lists_and_tensors_give_the_numbers_of_arrays(given):
    rows = Inputs(given(TOKENS), given(LABELS), Roles({"key": given(KEY)}))
    for metric in ("accuracy", "loss"):
        found, expected = (ablation(MODEL, some, "z.0.3@key", metric=metric) for some in (rows, ROWS))
        assert np.array_equal(found.values, expected.values)
    assert ablations(MODEL, rows, ["z.1@last"]).equals(ablations(MODEL, ROWS, ["z.1@last"]))
    with ablate(MODEL, rows, "z.0@key", method="resample"), torch.no_grad():
        changed = MODEL(torch.from_numpy(TOKENS))[:, -1]
    with ablate(MODEL, ROWS, "z.0@key", method="resample"):
        assert torch.allclose(last_logits(MODEL, TOKENS), changed)
    predicted = [interchange(MODEL, ROWS, ROWS, "z.0", some, control=ROWS).values for some in (given(LABELS), LABELS)]
    assert np.array_equal(*predicted)


def entered(context):
    with context:
        pass


ROLES = "a dict; expected Roles"
INPUTS = "expected Inputs."
METRIC = "got metric=3; expected str | Metric | Callable[[Tensor, Answers, Answers | None], Any]."
WRONG = {
    "no head": (lambda: uniformity(MODEL, ROWS, head=None), "uniformity got head=None; expected int."),
    "roles as a mapping": (lambda: Inputs(TOKENS, LABELS, {"key": KEY}), f"Inputs got roles={ROLES}"),
    "roles of a site": (lambda: read_at(MODEL, TOKENS, "z.0@key", {"key": KEY}), f"read_at got roles={ROLES}"),
    "three values": (lambda: uniformity(MODEL, TOKENS, None), "uniformity: too many positional arguments."),
    "bare tokens": (lambda: uniformity(MODEL, TOKENS.tolist()), f"uniformity got inputs=a list; {INPUTS}"),
    "bare tokens in a context": (lambda: entered(ablate(MODEL, TOKENS.tolist(), "z.0")), INPUTS),
    "fewer labels": (lambda: Inputs(TOKENS, LABELS[:3]), "got 5 rows of tokens and 3 labels; expected one for each"),
    "no labels": (
        lambda: ablation(MODEL, Inputs(TOKENS), "z.0"),
        "needs the right answer of each clean row",
    ),
    "labels of words": (lambda: ablation(MODEL, Inputs(TOKENS, ["a"] * 5), "z.0"), "expected a token of the model"),
    "fewer answers": (
        lambda: interchange(MODEL, ROWS, ROWS, "z.0", LABELS[:3], control=ROWS),
        "3 predicted answers for",
    ),
    "a metric": (lambda: patching_matrix(MODEL, ROWS, ROWS, metric=3), METRIC),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_used_is_named_in_one_sentence(case):
    call, message = WRONG[case]
    with pytest.raises(RbInterpError) as raised:
        call()
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


class Plain(nn.Module):
    """A module of torch's with a configuration of its own."""

    def __init__(self):
        super().__init__()
        self.cfg = MODEL.cfg

    def forward(self, tokens):
        return nn.functional.one_hot(tokens, 30).float()


CALLS = {
    "uniformity": lambda model: uniformity(model, ROWS),
    "uniformity beside": lambda model: uniformity(MODEL, ROWS, untrained=model),
    "geometry": lambda model: geometry(model, ROWS),
    "value_alignment": lambda model: value_alignment(model, ROWS),
    "weight_rank": lambda model: weight_rank(model, ROWS),
    "scan": lambda model: scan(uniformity, model, ROWS),
    "captured": lambda model: captured(model, TOKENS, ["blocks.0.attn.hook_pattern"]),
    "last_logits": lambda model: last_logits(model, TOKENS),
    "ablation": lambda model: ablation(model, ROWS, "z.0"),
    "ablate": lambda model: entered(ablate(model, ROWS, "z.0")),
    "patching_matrix": lambda model: patching_matrix(model, ROWS, ROWS),
    "blocked_attention": lambda model: blocked_attention(model, ROWS, layer=0),
}


@pytest.mark.parametrize("call", CALLS)
def test_plain_modules_are_named(call):
    for module in (Plain(), nn.Linear(2, 2)):
        with pytest.raises(RbInterpError, match=f"got an object of type {type(module).__name__}; pass a HookedTransf"):
            CALLS[call](module)


def test_calls_without_a_control_say_that_there_is_none():
    swap = Inputs(TOKENS[:, ::-1].copy(), LABELS + 1, ROWS.roles)
    path = path_patch(MODEL, ROWS, swap, "z.0@key", "resid_post.1", metric=None)
    without = [ablation(MODEL, ROWS, "z.0"), blocked_attention(MODEL, LATE, layer=0, n_draws=0), path]
    assert [found.summary()["control_name"] for found in without] == ["none given"] * 3
    assert ablation(MODEL, ROWS, "z.0", control=ROWS).summary()["control_name"] == "noise redrawn"
