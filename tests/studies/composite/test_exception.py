"""Where the exception is stored: reference models whose truth is known, and the test on seeds that were kept for it."""

import numpy as np
import pandas as pd
import pytest
from reference_models import FLOWS, reference_model

from rb_interp.errors import ModelError
from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.studies.composite.exception import EDGES, place_of, qualifying, read_exception, suggestions
from rb_interp.studies.composite.flow import flow_of, read_interchange
from rb_interp.studies.composite.phase import phase_of, read_phase
from rb_interp.studies.composite.task import CompositeTask

pytestmark = pytest.mark.wide

TASK = CompositeTask(n_sequences=1600)
DATA = TASK.dataset(seed=0)
SIZES = ModelConfig(d_model=16, d_head=8, d_mlp=16, norm="post")
PLANTED = {f"{edge}:{what}": value for edge in EDGES for what, value in (("turned", 0.0), ("kept", 1.0))}


@pytest.mark.parametrize(
    ("flow", "table_in", "phase"),
    [("via_last", 0, "inferential"), ("via_last", 1, "symmetric"), ("via_anchors", 1, "inferential")],
)
def test_an_exception_in_an_edge_of_l0_is_found_there_and_changes_neither_phase_nor_flow(flow, table_in, phase):
    model = reference_model(DATA, flow, phase, table_in=table_in, edge="a2_from_a1")
    found = read_phase(model, DATA).values
    assert found["acc_train"] == found["acc_seen_test"] == 1
    assert phase_of(1.0, found["I"], found["S"]) == phase
    assert max(found["I"], found["S"]) == 1
    assert flow_of(read_interchange(model, DATA).values) == flow.replace("_", " ")
    values = read_exception(model, DATA).values
    assert (values["before:learned"], values["before:turned"], values["before:kept"]) == (1, 0, 1)
    assert qualifying(values) == ["a2_from_a1"]
    assert (values["a2_from_a1:turned"], values["a2_from_a1:kept"]) == (1, 1)


@pytest.mark.parametrize("phase", ["inferential", "symmetric"])
@pytest.mark.parametrize("flow", FLOWS)
def test_an_exception_behind_l1s_attention_is_in_no_edge_of_l0(flow, phase):
    values = read_exception(reference_model(DATA, flow, phase), DATA).values
    assert (values["before:learned"], place_of(values)) == (1, "none")
    assert min(values[f"{edge}:kept"] for edge in EDGES) < 0.5  # an edge that all pairs need is not the exception's


def test_models_without_the_exception_say_so():
    untrained = build_model(TASK, gamma=0.8, config=SIZES)
    assert place_of(read_exception(untrained, DATA).values) == "unlearned"
    sums = CompositeTask(n_sequences=1600, exceptions=(((1, 2), 0),)).dataset(0)  # the mirror (3,4) is a sum here
    reading = read_exception(reference_model(DATA, "via_last", "inferential"), sums)
    assert (reading.n, place_of(reading.values)) == (0, "no rows")
    assert set(reading.notes) == set(reading.values)
    with pytest.raises(ModelError, match="read_exception got a model of 3 layers"):
        read_exception(build_model(TASK, gamma=0.8, config=ModelConfig(n_layers=3, d_model=16, d_head=8)), DATA)


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({}, "none"),
        ({"a1_from_key:turned": 0.9}, "a1_from_key"),
        ({"a1_from_key:turned": 0.89}, "none"),
        ({"a1_from_key:turned": 1.0, "a1_from_key:kept": 0.95}, "a1_from_key"),
        ({"a1_from_key:turned": 1.0, "a1_from_key:kept": 0.94}, "none"),
        ({"a1_from_key:turned": 0.9, "last_from_a2:turned": 0.95}, "last_from_a2"),
        ({"last_from_a2:turned": 0.95, "a1_from_key:turned": 0.95}, "a1_from_key"),
        ({"a1_from_key:turned": 1.0, "before:learned": 0.89}, "unlearned"),
        ({"before:learned": np.nan}, "no rows"),
    ],
)
def test_a_place_begins_exactly_at_its_thresholds(changed, place):
    assert place_of({**PLANTED, "before:learned": 1.0, **changed}) == place


def members(*groups) -> pd.DataFrame:
    """So many alike: number, use, phase, flow, place."""
    rows = [group[1:] for group in groups for _ in range(group[0])]
    return pd.DataFrame(rows, columns=["used_for", "phase", "flow", "place"])


def test_what_some_seeds_suggest_is_tested_on_the_others():
    places = members(
        (6, "look", "inferential", "via anchors", "none"), (4, "look", "symmetric", "via last", "a2_from_a1"),
        (1, "look", "symmetric", "several", "none"), (9, "look", "unfit", "none", "unlearned"),
        (3, "test", "inferential", "via anchors", "none"), (5, "test", "symmetric", "via last", "a2_from_a1"),
        (2, "test", "symmetric", "several", "none"), (1, "test", "mixed", "via a2", "none"),
        (9, "test", "unfit", "none", "unlearned"),
    )  # fmt: skip
    found = {row["by"]: row for row in suggestions(places)}
    assert {row["n"] for row in found.values()} == {11}
    right = {by: round(row["right"] * 11) for by, row in found.items()}
    assert right == {"nothing": 6, "phase": 9, "flow": 11, "phase and flow": 11}
    assert found["phase"]["low"] < 9 / 11 < found["phase"]["high"]
    alone = {row["by"]: row for row in suggestions(places.loc[places["used_for"] == "test"])}
    assert np.isnan(alone["phase"]["right"])  # nothing was looked at, so nothing is suggested
