"""The golden run of the label study: each number found again another way."""

import numpy as np
import pytest
import torch
from table_columns import check_run

from rb_interp.studies.labels.measure import range_entropy
from rb_interp.tasks import AnchorTask

RANGES = ((22, 31), (22, 41), (22, 51), (22, 61))
SEEDS = (0, 1)


def reading(measured, probe: str, quantity: str, seed: int, sweep: str) -> dict:
    table = measured.readings
    found = table[
        (table["probe"] == probe) & (table["quantity"] == quantity) & (table["seed"] == seed)
    ]
    found = found[found["sweep"] == sweep]
    (row,) = found.to_dict("records")
    return row


@pytest.mark.wide
def test_speed_compares_the_areas_of_the_two_parts(run, measured):
    check_run(run)
    sweeps = run.sweeps
    for seed in SEEDS:
        areas = []
        for name in ("keys", "near_sum"):
            curves = sweeps[name].curves()
            loss = curves.loc[
                (curves["set"] == "mem") & (curves["seed"] == seed), "loss"
            ].to_numpy()
            areas.append(np.minimum(loss / np.log(80), 1).mean())
        found = reading(measured, "label_speed", "bias", seed, "")
        assert found["value"] == pytest.approx((areas[0] - areas[1]) / (areas[0] + areas[1]))
        assert found["value"] != 0
        assert abs(found["untrained"]) < 1e-3  # at step 0 both are uniform guesses
        assert reading(measured, "label_speed", "area_mem2", seed, "")["value"] == pytest.approx(
            areas[1]
        )
        per_entropy = []
        for name in ("keys", "near_sum"):
            task, data = sweeps[name].config.task, sweeps[name].config.task.dataset(seed)
            rows = data.rows("mem")
            sums = np.take_along_axis(data.tokens[rows], data.anchor_positions[rows], 1).sum(1)
            widths = (
                2 * sums + 1
                if name == "near_sum"
                else np.full(len(rows), task.keys[1] - task.keys[0] + 1)
            )
            curves = sweeps[name].curves()
            loss = curves.loc[
                (curves["set"] == "mem") & (curves["seed"] == seed), "loss"
            ].to_numpy()
            per_entropy.append(np.minimum(loss / np.log(widths).mean(), 1).mean())
        index = (per_entropy[0] - per_entropy[1]) / (per_entropy[0] + per_entropy[1])
        found = reading(measured, "label_speed", "bias_per_entropy", seed, "")
        assert found["value"] == pytest.approx(index)
        assert reading(measured, "learning_order", "area_mem", seed, "keys")[
            "value"
        ] == pytest.approx(areas[0])


@pytest.mark.wide
def test_inside_is_the_mean_over_inputs_that_the_model_itself_gives(run, measured):
    sweep, seed = run.sweeps["ranges"], 1
    data = sweep.config.task.dataset(seed)
    rows = data.sample("mem", 1000)
    step = sweep.checkpoint("before_memory", 0.8, seed).step
    course = (
        measured.tables["in_range"]
        .query("seed == @seed and step == 50")
        .set_index("group")["inside"]
    )
    for stage, column in (("before_memory", "value"), ("init", "untrained"), (50, "")):
        with torch.no_grad():
            logits = sweep.model(gamma=0.8, seed=seed, stage=stage)(
                torch.from_numpy(data.tokens[rows])
            )[:, -1]
        probabilities = torch.softmax(logits.double(), -1).numpy()
        groups = [[] for _ in RANGES]
        for row, p in zip(rows, probabilities, strict=True):
            anchors = data.tokens[row, data.anchor_positions[row]]
            group = (anchors[0] - 1) // 2
            assert set(anchors.tolist()) <= {2 * group + 1, 2 * group + 2}
            low, high = RANGES[group]
            groups[group].append(p[low : high + 1].sum())
        inside = [np.mean(values) for values in groups]
        if not column:
            assert course[[1, 2, 3, 4]].tolist() == pytest.approx(inside, abs=1e-6)
            continue
        for number, expected in enumerate(inside, start=1):
            found = reading(measured, "label_range", f"inside_{number}", seed, "ranges")
            assert found[column] == pytest.approx(expected, abs=1e-6)
        lowest = reading(measured, "label_range", "lowest_inside", seed, "ranges")
        assert lowest[column] == pytest.approx(min(inside), abs=1e-6)
        assert (lowest["stage"], lowest["set"], lowest["step"]) == ("before_memory", "mem", step)
        accuracy = reading(measured, "label_range", "accuracy", seed, "ranges")[column]
        assert accuracy == pytest.approx((probabilities.argmax(1) == data.labels[rows]).mean())


def test_range_entropy_by_hand():
    task = AnchorTask(length=3, balanced_keys=True, n_sequences=2000, memory_labels="near_sum")
    sums = np.add.outer(
        np.arange(1, 6), np.arange(1, 6)
    )  # every ordered pair of memory anchors, equally often
    assert range_entropy(task.dataset(seed=0)) == pytest.approx(np.log(2 * sums + 1).mean())
