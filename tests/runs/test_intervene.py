"""Interventions on members of a run, whatever the sets of its task are called."""

from dataclasses import replace

import pandas as pd
import pytest
from own_studies import ONE, TASK, One

from rb_interp.runs import Run
from rb_interp.runs.intervene import patch_member
from rb_interp.tasks import AnchorTask

pytestmark = pytest.mark.trains


class Renamed(AnchorTask):
    sets, train_sets = ("exceptions", "rule", "held_out"), ("exceptions", "rule")

    def dataset(self, seed):
        return replace(super().dataset(seed), sets=self.sets, train_sets=self.train_sets)


@pytest.mark.lens
@pytest.mark.parametrize("task", [TASK, Renamed(**vars(TASK))])
def test_patching_takes_the_last_set_that_the_task_trains_on(task, tmp_path):
    run = Run.start(tmp_path / "run", ONE, One(seeds=(0,), gammas=(0.8,), task=task))
    run.train(progress=False)
    options = {"gamma": 0.8, "seed": 0, "pairs": 8, "components": ("z",)}
    named = patch_member(run, set=task.sets[1], **options)
    pd.testing.assert_frame_equal(patch_member(run, **options), named)
    assert not patch_member(run, set=task.sets[2], **options).equals(named)
