"""The label study, measured on three tiny sweeps, and each number found again another way."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from made_up import places
from studies.labels.synthetic_labels import make_labels
from table_columns import check_tables

from rb_interp.claims import judge
from rb_interp.models.config import ModelConfig
from rb_interp.probes.labels import pooled_inside
from rb_interp.runs.run import Run
from rb_interp.studies.labels import LABELS
from rb_interp.studies.labels.claims import CLAIMS
from rb_interp.studies.labels.config import LabelsConfig, LabelsSweep
from rb_interp.studies.labels.measure import label_speed, measure, memory_groups
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig

pytestmark = pytest.mark.wide

RANGES = ((24, 27), (24, 31))  # wide enough that a guess within them stays below .20
TASK = AnchorTask(
    length=5, keys=(21, 24), memory_anchors=(1, 4), reasoning_anchors=(11, 13), d_vocab=60, n_sequences=1440
)
TRAIN = TrainConfig(
    steps=60, batch_size=16, eval_every=10, eval_rows=40, lr=5e-3, n_checkpoints=1, stages=("half", "before_memory")
)
TASKS = {
    "keys": TASK,
    "near_sum": replace(TASK, memory_labels="near_sum"),
    "ranges": replace(TASK, memory_labels="ranges", label_ranges=RANGES),
}
SWEEPS = {name: LabelsSweep((0.8,), task, ModelConfig.preset("smoke"), TRAIN) for name, task in TASKS.items()}
TINY = LabelsConfig("smoke", (0, 1), **SWEEPS, probe_rows=120)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = Run.start(tmp_path_factory.mktemp("labels") / "run", LABELS, TINY)
    run.train(progress=False)
    return run


@pytest.fixture(scope="module")
def sweeps(run):
    return run.sweeps


@pytest.fixture(scope="module")
def measured(run):
    return measure(run, progress=False)


def reading(measured, probe: str, quantity: str, seed: int, sweep: str) -> dict:
    table = measured.readings
    found = table[(table["probe"] == probe) & (table["quantity"] == quantity) & (table["seed"] == seed)]
    found = found[found["sweep"] == sweep]
    (row,) = found.to_dict("records")
    return row


def test_speed_compares_the_areas_of_the_two_parts(measured, sweeps):
    check_tables(LABELS, {**measured.tables, "readings": measured.readings})
    for seed in TINY.seeds:
        areas = []
        for name in ("keys", "near_sum"):
            curves = sweeps[name].curves()
            loss = curves.loc[(curves["set"] == "mem") & (curves["seed"] == seed), "loss"].to_numpy()
            areas.append(np.minimum(loss / np.log(60), 1).mean())
        found = reading(measured, "label_speed", "bias", seed, "")
        assert found["value"] == pytest.approx((areas[0] - areas[1]) / (areas[0] + areas[1]))
        assert found["value"] != 0
        assert abs(found["untrained"]) < 1e-3  # at step 0 both are uniform guesses
        assert reading(measured, "label_speed", "area_mem2", seed, "")["value"] == pytest.approx(areas[1])
        per_entropy = []
        for name in ("keys", "near_sum"):
            task, data = sweeps[name].config.task, sweeps[name].config.task.dataset(seed)
            rows = data.rows("mem")
            sums = np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1).sum(1)
            widths = 2 * sums + 1 if name == "near_sum" else np.full(len(rows), task.keys[1] - task.keys[0] + 1)
            curves = sweeps[name].curves()
            loss = curves.loc[(curves["set"] == "mem") & (curves["seed"] == seed), "loss"].to_numpy()
            per_entropy.append(np.minimum(loss / np.log(widths).mean(), 1).mean())
        index = (per_entropy[0] - per_entropy[1]) / (per_entropy[0] + per_entropy[1])
        found = reading(measured, "label_speed", "bias_per_entropy", seed, "")
        assert found["value"] == pytest.approx(index)
        assert reading(measured, "learning_order", "area_mem", seed, "keys")["value"] == pytest.approx(areas[0])


def test_speed_by_hand():
    columns = {"quantity": ["area_mem"], "gamma": [0.8], "seed": [3], "stage": ["final"], "step": [60], "n": [7]}
    keys, near = (pd.DataFrame({**columns, "value": [area], "untrained": [1.0]}) for area in (0.75, 0.25))
    table = label_speed(keys, near, {(0.8, 3): 0.6}, {(0.8, 3): 0.9}).set_index("quantity")
    expected = {"bias": 0.5, "area_mem1": 0.75, "area_mem2": 0.25, "bias_per_entropy": pytest.approx(-0.2)}
    assert table["value"].to_dict() == expected
    assert table["untrained"].to_dict() == {"bias": 0.0, "area_mem1": 1.0, "area_mem2": 1.0, "bias_per_entropy": 0.0}
    assert set(table["seed"]) == {3}


def test_inside_is_the_mean_over_inputs_that_the_model_itself_gives(measured, sweeps):
    sweep, seed = sweeps["ranges"], 1
    data = sweep.config.task.dataset(seed)
    rows = data.sample("mem", 120)
    step = sweep.checkpoint("before_memory", 0.8, seed).step
    assert 0 < step < 60  # neither the untrained model nor the last one
    for stage, column in (("before_memory", "value"), ("init", "untrained")):
        with torch.no_grad():
            logits = sweep.model(gamma=0.8, seed=seed, stage=stage)(torch.from_numpy(data.tokens[rows]))[:, -1]
        probabilities = torch.softmax(logits.double(), -1).numpy()
        groups = [[], []]
        for row, p in zip(rows, probabilities, strict=True):
            anchors = data.tokens[row, data.anchor_positions[row]]
            group = 0 if set(anchors.tolist()) <= {1, 2} else 1
            assert group == 0 or set(anchors.tolist()) <= {3, 4}
            groups[group].append(p[24:28].sum() if group == 0 else p[24:32].sum())
        inside = [np.mean(values) for values in groups]
        for number, expected in enumerate(inside, start=1):
            found = reading(measured, "label_range", f"inside_{number}", seed, "ranges")
            assert found[column] == pytest.approx(expected, abs=1e-6)
        lowest = reading(measured, "label_range", "lowest_inside", seed, "ranges")
        assert lowest[column] == pytest.approx(min(inside), abs=1e-6)
        assert (lowest["stage"], lowest["set"], lowest["step"]) == ("before_memory", "mem", step)
        accuracy = reading(measured, "label_range", "accuracy", seed, "ranges")[column]
        assert accuracy == pytest.approx((probabilities.argmax(1) == data.labels[rows]).mean())


def test_in_range_has_every_kept_step_and_the_one_before_memory(measured, sweeps):
    sweep, table = sweeps["ranges"], measured.tables["in_range"]
    assert set(table["sweep"]) == {"ranges"}
    for seed in TINY.seeds:
        own = table[table["seed"] == seed]
        kept = {0, 60, *sweep.checkpoint_steps}
        before = sweep.checkpoint("before_memory", 0.8, seed).step
        assert sorted(own["step"].unique()) == sorted(kept | {before})
        assert not own.duplicated(["step", "group"]).any()
        assert own.groupby("group")[["low", "high"]].first().to_numpy().tolist() == [list(r) for r in RANGES]
        np.testing.assert_allclose(
            own.groupby("group")["pooled"].unique().explode().astype(float), pooled_inside(RANGES)
        )
        at = own[own["step"] == before].set_index("group")
        assert at.loc[1, "inside"] == reading(measured, "label_range", "inside_1", seed, "ranges")["value"]
        start = own[own["step"] == 0].set_index("group")
        assert start.loc[2, "inside"] == reading(measured, "label_range", "inside_2", seed, "ranges")["untrained"]


def test_outputs_are_distributions_whose_mass_inside_is_the_reading(measured):
    table = measured.tables["outputs"]
    for (seed, group), rows in table.groupby(["seed", "group"]):
        assert rows["label"].tolist() == list(range(60))
        assert rows["probability"].sum() == pytest.approx(1)
        inside = rows[(rows["label"] >= rows["low"]) & (rows["label"] <= rows["high"])]["probability"].sum()
        expected = reading(measured, "label_range", f"inside_{group}", seed, "ranges")
        assert inside == pytest.approx(expected["value"])
        assert set(rows["step"]) == {expected["step"]}
    array = measured.arrays["ranges/0.8/1/before_memory/mem/label_range/outputs"]
    np.testing.assert_array_equal(table[table["seed"] == 1]["probability"].to_numpy(), array.reshape(-1))


def test_made_up_readings_are_a_part_of_a_runs(measured):
    """But for groups 3 and 4: the task here has two ranges, ``quick``'s has four."""
    more = places(make_labels().readings) - places(measured.readings)
    place = ("ranges", "before_memory", "mem", "label_range")
    assert more == {(*place, quantity, False, False) for quantity in ("inside_3", "inside_4")}


def test_the_claims_find_their_readings(measured):
    """Two seeds decide nothing; what counts is that every term is there, and none twice."""
    for verdict in judge(measured.readings, CLAIMS, scale="smoke"):
        assert verdict.conditions[0].seeds == (0, 1)
        assert verdict.reason == "seeds: 2, needed: 8"
        assert verdict.untrained is not None
        named = [shown for shown in verdict.context if not shown.statistic.endswith(("group 3", "group 4"))]
        assert all(shown.seeds == (0, 1) for shown in named), verdict.id


def test_memory_groups_follow_the_anchors():
    task = AnchorTask(memory_anchors=(1, 8), memory_labels="ranges", label_ranges=((30, 49),) * 4)
    data = task.dataset(0)
    rows = data.rows("mem")
    groups = memory_groups(data, rows)
    assert np.bincount(groups).tolist() == [len(rows) // 4] * 4
    anchors = data.tokens[rows[:, None], data.anchor_positions[rows]]
    for group, members in enumerate(task.memory_groups()):
        assert set(anchors[groups == group].ravel().tolist()) == set(members.tolist())
