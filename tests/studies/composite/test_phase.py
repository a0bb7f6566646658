"""Phases: at and beside every threshold, and of hand-written models."""

import numpy as np
import pytest
from reference_models import reference_model

from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.studies.composite.phase import early, phase_of, read_phase
from rb_interp.studies.composite.task import CompositeTask

pytestmark = pytest.mark.wide

TASK = CompositeTask(n_sequences=1600)
DATA = TASK.dataset(seed=0)
SIZES = ModelConfig(d_model=16, d_head=8, d_mlp=16, norm="post")


@pytest.mark.parametrize(
    ("seen_test", "inferential", "symmetric", "phase"),
    [
        (0.8999, 1.0, 0.0, "unfit"),
        (0.90, 0.90, 0.10, "inferential"),
        (0.90, 0.10, 0.90, "symmetric"),
        (1.0, 0.8999, 0.1, "mixed"),
        (1.0, 0.0, 0.0, "mixed"),
        (np.nan, 1.0, 0.0, "unfit"),
    ],
)
def test_a_phase_begins_exactly_at_its_threshold(seen_test, inferential, symmetric, phase):
    assert phase_of(seen_test, inferential, symmetric) == phase


@pytest.mark.parametrize("phase", ["inferential", "symmetric"])
def test_reference_models_are_in_the_phase_that_they_were_built_for(phase):
    untrained = build_model(TASK, gamma=0.8, config=SIZES)
    reading = read_phase(reference_model(DATA, "via_last", phase), DATA, untrained=untrained)
    inferential = float(phase == "inferential")
    exact = {
        "I": inferential,
        "S": 1 - inferential,
        "O": 0,
        "acc_seen_test": 1,
        "acc_train": 1,
        "gap": 0,
    }
    exact |= {"I_early": inferential, "S_early": 1 - inferential}
    assert {name: reading.values[name] for name in exact} == exact
    assert phase_of(1.0, reading.values["I"], reading.values["S"]) == phase
    assert reading.tables["answers"]["difference"].tolist() == [0 if inferential else 4]
    places = reading.tables["by_position"]
    assert places["position"].tolist() == list(range(7))
    assert places["n"].sum() == reading.n == 1000
    assert set(places["I"]) == {inferential}
    assert phase_of(*(reading.untrained[name] for name in ("acc_seen_test", "I", "S"))) == "unfit"


@pytest.mark.parametrize("phase", ["inferential", "symmetric"])
def test_the_control_counts_answers_that_only_the_main_task_has_trained(phase):
    """One that infers every pair knows the control's rows; one that knows the exception answers as
    it is trained."""
    control = TASK.both_unseen().dataset(seed=0)
    reading = read_phase(reference_model(DATA, "via_last", phase), control, unseen_data=DATA)
    inferential = float(phase == "inferential")
    assert (reading.values["I"], reading.values["S"], reading.n) == (
        inferential,
        1 - inferential,
        1000,
    )
    assert (reading.values["acc_train"], reading.values["acc_seen_test"]) == (1, 1)


def test_early_rows_alone_have_noise_between_anchors_and_last_position(monkeypatch):
    rows = np.arange(len(DATA))
    between = DATA.positions["last"][:, 0] - DATA.positions["a2"][:, 0]
    np.testing.assert_array_equal(early(DATA, rows), between >= 2)

    def answer(model, tokens):
        """By inference, but for the pair (4, 3) at the last or the last but one position, answered
        as its mirror."""
        here, first = np.arange(len(tokens)), (tokens < 20).argmax(1)
        keys, pairs = (
            tokens[here, first - 1],
            np.stack([tokens[here, first], tokens[here, first + 1]], 1),
        )
        mirrored = (pairs == (4, 3)).all(1) & (first >= 6)
        return keys + np.where(mirrored, -6, DATA.pair_shifts[pairs[:, 0] - 1, pairs[:, 1] - 1])

    monkeypatch.setattr("rb_interp.studies.composite.phase.most_likely", answer)
    reading = read_phase(build_model(TASK, gamma=0.8, config=SIZES), DATA)
    late = (~early(DATA, DATA.rows("unseen"))).mean()
    found = [reading.values[name] for name in ("I_early", "S_early", "S", "I", "acc_train")]
    assert found == pytest.approx([1, 0, late, 1 - late, 1])
    assert reading.tables["by_position"]["S"].tolist() == [0, 0, 0, 0, 0, 1, 1]
