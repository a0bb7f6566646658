"""Controls that are the rows, and what an effect says of the untouched runs."""

import numpy as np
import pytest
from interventions.rows import DATA, TASK, model_of

from rb_interp.errors import ModelError
from rb_interp.interventions.ablating import (
    ablation,
    ablations,
    patching_effect,
)
from rb_interp.interventions.attribution import attribution_matrix
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.path import path_matrix, path_patch
from rb_interp.interventions.swaps import interchange
from rb_interp.models.reference import reference
from rb_interp.tasks import Inputs

ROWS = DATA.sample("rsn_train", 30)


INPUTS = DATA.inputs(ROWS)


BOTH, NOISE = (TASK.counterfactual(DATA, ROWS, change) for change in ("both", "noise"))


CONTROLLED = {
    "ablation": lambda model, control: ablation(model, INPUTS, "z.0", control=control),
    "ablations": lambda model, control: ablations(model, INPUTS, ["z.0"], control=control),
    "interchange": lambda model, control: interchange(
        model, INPUTS, BOTH, "z.0", BOTH.labels, control=control
    ),
    "patching_effect": lambda model, control: patching_effect(
        model, BOTH, INPUTS, "z.0", control=control
    ),
    "patching_matrix": lambda model, control: patching_matrix(
        model, BOTH, INPUTS, layers=[0], control=control
    ),
    "attribution_matrix": lambda model, control: attribution_matrix(
        model, BOTH, INPUTS, control=control
    ),
    "path_matrix": lambda model, control: path_matrix(
        model, INPUTS, BOTH, ["z.0"], ["v.1"], control=control
    ),
    "path_patch": lambda model, control: path_patch(
        model, INPUTS, BOTH, "z.0", "v.1", control=control
    ),
}


@pytest.mark.parametrize("name", CONTROLLED)
def test_a_control_that_is_the_rows_themselves_is_refused(name):
    call, model = CONTROLLED[name], model_of("gpt2")
    with pytest.raises(
        ModelError, match="a control that is the rows themselves, so it changes nothing; redraw"
    ):
        call(model, Inputs(INPUTS.tokens.copy(), INPUTS.labels, INPUTS.roles))
    some = np.where((np.arange(30) < 4)[:, None], INPUTS.tokens, NOISE.tokens)
    found = call(model, Inputs(some, INPUTS.labels, INPUTS.roles))
    if name != "ablations":  # a table has no notes
        assert found.notes["control"].startswith("4 of its 30 rows are the rows themselves")
        assert "control: 4 of its 30 rows" in str(found)


def test_a_control_that_leaves_a_site_as_it_is_says_so():
    """Noise does not reach the key's embedding, nor its z in rows in which all noise stands behind
    the key."""
    model, behind = model_of("gpt2"), np.arange(9) > INPUTS.roles.position("key")
    n = int(((INPUTS.tokens == NOISE.tokens) | behind).all(1).sum())
    some, every = (
        f"{n} of its 30 rows are the rows themselves at {site}@key, and change nothing."
        for n, site in ((n, "z.0"), (30, "embed"))
    )
    assert ablation(model, INPUTS, "z.0@key", control=NOISE).notes["control"] == some
    notes = ablations(
        model, INPUTS, ["z.0@key", "embed@key", "z.0"], control=NOISE, methods=["mean"]
    ).note
    assert notes.tolist() == [f"control: {some}", f"control: {every}", ""]
    assert (
        path_patch(model, INPUTS, BOTH, "embed@key", "z.0", control=NOISE).notes["control"] == every
    )
    assert (
        interchange(model, INPUTS, BOTH, "embed@key", BOTH.labels, control=NOISE).notes["control"]
        == every
    )
    assert (
        patching_effect(model, BOTH, INPUTS, "embed@key", control=NOISE).notes["control"] == every
    )


def test_an_effect_says_what_was_before_and_after_and_how_many_rows_are_answered_rightly():
    """With the labels of other rows nothing can be lost: the caution says that the model answers
    none."""
    known = reference("averager")
    model, data = known.model(), known.task.dataset(0)
    given = data.inputs(data.sample("rsn_train", 40))
    lost = ablation(model, given, "attn_out.1", method="zero")
    row = lost.summary()
    assert (row["before"], row["answered"]) == (1, 1)
    assert row["before"] - row["after"] == pytest.approx(row["effect"])
    assert row["effect"] > 0.75
    assert "answers:" not in str(lost)
    assert "effect" not in lost.notes
    unread = ablation(model, given, "attn_out.1@key", method="zero")
    assert unread.notes["effect"].startswith("no logit changes")
    labels = np.roll(given.labels, 1)
    right = (labels == given.labels).mean()
    shifted = Inputs(given.tokens, labels, given.roles)
    found = ablation(model, shifted, "attn_out.1", method="zero")
    assert found.answered == found.before == right < 0.2
    assert f"answers: the untouched model answers {right:.2f} of the rows rightly" in str(found)
    other = data.task.counterfactual(data, data.sample("rsn_train", 40), "key")
    pair = (
        patching_effect(model, shifted, other, "z.0"),
        patching_matrix(model, shifted, other, layers=[0]),
    )
    assert all(f"answers {some.answered:.2f} of the rows" in str(some) for some in pair)
    unknown = ablation(model, Inputs(given.tokens), "attn_out.1", metric="kl")
    assert np.isnan(unknown.answered)
