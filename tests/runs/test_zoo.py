"""The members that come with the package are what their cards say: accuracy, readings and circuit,
read again."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import rb_interp as rb
from rb_interp.interventions.circuits import anchor_routes
from rb_interp.runs.shared_member import ZOO_FOLDER, Circuit, members
from rb_interp.runs.sharing import model_card
from rb_interp.studies.anchor.circuits import circuit_of
from rb_interp.studies.composite.flow import circuit_of as flow_circuit
from rb_interp.studies.composite.flow import read_interchange
from rb_interp.training.members import evaluate_model

NAMES = members(ZOO_FOLDER)


def named_again(member) -> Circuit:
    """The circuit, read off the member's model; of fewer rows than its card's where it is by
    interchange."""
    if member.circuit.named_by == "interchange":
        data = replace(member.task, n_sequences=1600).dataset(member.content["data_seed"])
        return flow_circuit(read_interchange(member.model, data).values)
    shares = anchor_routes(member.model, member.data).values
    return circuit_of(shares, member.accuracy["rsn_train"])


def check(member):
    found = {row["set"]: row["accuracy"] for row in evaluate_model(member.model, member.data)}
    assert found == pytest.approx(member.accuracy, abs=0.002, nan_ok=True)
    if (
        member.circuit.named_by == "construction"
    ):  # it sums embeddings: no order of the tokens matters
        tokens = torch.from_numpy(member.data.tokens[:50])
        torch.testing.assert_close(member.model(tokens), member.model(tokens[:, [2, 0, 1]]))
        return
    if member.circuit.named_by == "ablation":
        return  # tests/tasks/test_induction.py ablates its heads
    again, near = named_again(member), 0.1 if member.circuit.named_by == "interchange" else 1e-3
    assert again.name == member.circuit.name
    assert dict(again.shares) == pytest.approx(dict(member.circuit.shares), abs=near)
    assert (
        member.circuit.name in member.name or member.circuit.name.replace(" ", "-") in member.name
    )
    check_reading(member)


def check_reading(member):
    """One reading of attention, beside the untrained model's."""
    if member.circuit.named_by != "cause":
        return
    table = member.readings
    row = table[(table.probe == "attention_by_role") & (table.quantity == "key")].iloc[0]
    now = rb.probes.attention_by_role(
        member.model, member.inputs("rsn_train"), layer=1, untrained=member.untrained, n_null=0
    )
    assert now.values["key"] == pytest.approx(row["value"], abs=1e-4)
    if member.untrained is not None:
        assert now.untrained["key"] == pytest.approx(row["untrained"], abs=1e-4)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("average-then-key", marks=pytest.mark.lens),
        "mixed",
        "sum-of-embeddings",
        pytest.param("key-to-anchors-post-norm", marks=pytest.mark.lens),
        "induction",
        pytest.param("composite-via-last", marks=pytest.mark.wide),
    ],
)
def test_a_member_of_the_zoo_is_what_its_card_says(name):
    """One of each kind; the golden readings have the routes and flows of all."""
    check(rb.from_pretrained("zoo", member=name))


@pytest.mark.parametrize("name", NAMES)
def test_its_card_is_written_from_what_it_holds(name):
    """So it says, for instance, what the shares of its circuit are of."""
    found = rb.from_pretrained("zoo", member=name)
    assert (ZOO_FOLDER / name / "README.md").read_text() == model_card(found.content)


def test_the_zoo_holds_every_circuit_and_every_norm():
    table = rb.zoo()
    assert (list(table.member), len(NAMES)) == (NAMES, 15)
    assert {
        "average-then-key",
        "key-to-anchors",
        "gather-at-last-anchor",
        "mixed",
        "via last",
        "via anchors",
    } <= set(table.circuit)
    assert {"none", "pre", "post"} == set(table.norm)
    named = table[(table.named_by == "cause") & (table.circuit != "mixed")]
    assert (named.share >= 0.8).all()


def test_an_untrained_member_is_drawn_again_bit_for_bit():
    told = json.loads((ZOO_FOLDER / "average-then-key" / "config.json").read_text())
    member = rb.from_pretrained("zoo", member="average-then-key")
    model = rb.build_model(
        member.task, gamma=told["gamma"], seed=told["seed"], config=member.config
    )
    tokens = torch.from_numpy(member.data.tokens[:20])
    assert torch.equal(member.untrained(tokens), model(tokens))
    assert not np.array_equal(member.weights["embed.W_E"], member.initial["embed.W_E"])
