"""Every general probe says the truth of the heads that are known: a true one, false ones, and an
untrained model."""

import pytest
from induction import INDUCTION, OTHER, PREVIOUS, known, rows

from rb_interp import probes
from rb_interp.tasks import Inputs, Roles

HEADS = [(layer, head) for layer in range(2) for head in range(2)]


def read(probe, quantity, inputs=None, **options):
    """The quantity of every head of the trained model, and the largest one of the untrained
    model's."""
    table = probes.scan(
        probe, known().model, inputs or rows(), untrained=known().untrained, n_null=0, **options
    )
    table = table[table.quantity.str.fullmatch(quantity)]
    return dict(zip(HEADS, table.value, strict=True)), float(table.untrained.max())


def in_the_anchor_task_s_words() -> Inputs:
    """``first`` is the key, and ``second`` its one anchor."""
    roles = rows().roles
    return Inputs(
        rows().tokens,
        rows().labels,
        Roles({"key": roles.position("first"), "anchor": roles.position("second")}),
    )


def test_uniformity():
    """Every head that does something is far from an average; untrained, all are near it."""
    found, untrained = read(probes.uniformity, "tv")
    assert min(found[head] for head in (PREVIOUS, *INDUCTION)) > 0.3 > 0.2 > untrained


def test_attention_to_key_finds_the_previous_token_head():
    found, untrained = read(
        probes.attention_to_key, "key_from_anchor_1", in_the_anchor_task_s_words()
    )
    assert (
        found[PREVIOUS]
        > 0.9
        > 0.4
        > max(found[OTHER], *(found[head] for head in INDUCTION), untrained)
    )


def test_attention_by_role_finds_the_induction_heads():
    found, untrained = read(probes.attention_by_role, "anchors", in_the_anchor_task_s_words())
    assert (
        min(found[head] for head in INDUCTION)
        > 0.9
        > 0.2
        > max(found[PREVIOUS], found[OTHER], untrained)
    )


def test_variance_explained_finds_who_writes_the_answer():
    """At the query the induction heads write the answer; L0's heads know the query's own token."""
    labels = {"answer": rows().labels, "token": rows().tokens[:, -1]}
    written = {}
    for layer, head in HEADS:
        found = probes.variance_explained(
            known().model,
            rows(),
            layer=layer,
            head=head,
            untrained=known().untrained,
            groupings=labels,
            n_null=100,
        )
        name = f"attn_out.{layer}:answer"
        p = found.nulls[name].p_value(found.values[name])
        written[layer, head] = (found.values[name], found.untrained[name], p)
    assert min(written[head][0] for head in INDUCTION) > 0.7
    assert all(written[head][2] == pytest.approx(1 / 101) for head in INDUCTION)
    assert max(written[head][0] for head in (PREVIOUS, OTHER)) < 0.2
    assert max(before for _, before, _ in written.values()) < 0.2


def test_cosines_by_target_find_where_the_answer_stands():
    def difference(model, hook):
        return probes.cosines_by_target(model, rows(), hook=hook, n_null=0).values["difference"]

    end, middle = "blocks.1.hook_resid_post", "blocks.0.hook_resid_post"
    assert difference(known().model, end) > 0.4
    assert max(difference(known().model, middle), difference(known().untrained, end)) < 0.1
