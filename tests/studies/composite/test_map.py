"""The phase map's sweeps, and its claims on planted worlds."""

from dataclasses import replace

import numpy as np
import pytest
from map_worlds import MAP, known

from rb_interp.claims import judge
from rb_interp.errors import ConfigError
from rb_interp.runs.config import stacks
from rb_interp.studies.composite.map import CLAIMS, DECAYS, CompositeMapConfig

pytestmark = pytest.mark.wide


def test_claims_conditions_are_among_the_sweeps_and_settings_share_a_stack():
    sweeps = MAP.sweeps
    rates = [sweep for name, sweep in sweeps.items() if name.startswith("unseen_rate")]
    assert [sweep.train.lr / MAP.train.lr for sweep in rates] == pytest.approx([0.25, 0.5, 1, 2, 3])
    decays = [sweep for name, sweep in sweeps.items() if name.startswith("unseen_decay")]
    products = [s.train.lr * s.train.weight_decay * s.train.steps for s in decays]
    assert products == pytest.approx([25e-5 * decay * 77_700 for decay in DECAYS])
    for sweep in (*rates, *decays):
        assert (sweep.gammas, sweep.model.n_layers, sweep.task) == (
            (0.5,),
            3,
            MAP.task.both_unseen(),
        )
    assert {sweep.train.weight_decay for sweep in rates} == {0.01}
    for norm in ("pre", "post"):
        model = sweeps[f"gpt2_{norm}"].model
        assert (model.norm, model.n_heads, model.act, model.train_biases) == (
            norm,
            4,
            "gelu_new",
            True,
        )
    assert [len(names) for names in stacks(sweeps)] == [10, 1, 1, 1, 10, 1, 1]
    paper = CompositeMapConfig.from_preset("paper").sweeps
    found = [sweep.train.lr for name, sweep in paper.items() if name.startswith("unseen_rate")]
    assert found == pytest.approx([5e-5, 1e-4, 2e-4, 4e-4, 6e-4])


def test_a_depth_beside_the_axis_and_a_pair_that_tells_nothing_are_refused():
    with pytest.raises(ConfigError, match="n_layers=3; depth is an axis"):
        replace(MAP, model=replace(MAP.model, n_layers=3))
    with pytest.raises(ConfigError, match="same answer by inference and by its mirror"):
        replace(MAP, task=replace(MAP.task, held_out=((1, 2),)))


def test_claims_hold_in_the_papers_world_and_fail_in_its_mirror():
    def paper(sweep, setting, gamma):
        if sweep.startswith("unseen"):
            return (min(1.0, 0.1 + 100 * setting) if "rate" in sweep else min(1.0, setting)), 1.0
        deep = sweep in ("depth_4", "depth_6")
        return round(1 / (1 + np.exp(-(gamma - 0.65) / 0.02)), 6), 1.0 if gamma >= (
            0.5 if deep else 0.3
        ) else 0.4

    def mirrored(sweep, setting, gamma):
        inferential, fit = paper(sweep, setting, gamma)
        if sweep.startswith("depth") and sweep != "depth_2":
            return 1.0, 1.0
        return 1 - inferential, fit if sweep.startswith("unseen") else 1.0

    assert {
        verdict.id: verdict.outcome for verdict in judge(known(paper), CLAIMS)
    } == dict.fromkeys(("C7", "C8", "C9", "C10", "C11", "C12"), "HOLDS")
    assert {
        verdict.id: verdict.outcome for verdict in judge(known(mirrored), CLAIMS)
    } == dict.fromkeys(("C7", "C8", "C9", "C10", "C11", "C12"), "FAILS")
