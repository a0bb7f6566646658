"""Gaps at equal training loss, by curves that are worked out by hand."""

import numpy as np
import pandas as pd
import pytest

from rb_interp.claims import judge
from rb_interp.statistics.equal_loss import equal_loss, equal_loss_table
from rb_interp.studies.anchor.claims import BY_ID

STEPS = np.arange(0, 450, 50)
LOSS = np.array([5.0, 4.0, 3.0, 3.0, 3.0, 3.0, 2.0, 2.0, 2.0])
ACCURACY = np.array([0.0, 0.1, 0.5, 0.5, 0.5, 0.5, 0.9, 0.9, 0.9])
GAP = np.array([0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])


def reading(loss=LOSS, accuracy=ACCURACY, gap=GAP):
    return equal_loss(
        {"rsn_train": loss, "rsn_test": loss + gap},
        {"rsn_train": accuracy, "rsn_test": accuracy - gap / 10},
        STEPS,
    )


def test_gaps_are_means_of_the_first_five_evaluations_at_a_level():
    values = reading().values
    # 3.0 is first met by evaluations 2 to 6 (mean 2.8), 2.65 by 3 to 7 (mean 2.6)
    assert (values["step_3"], values["step_2.65"]) == (100, 150)
    expected = {"loss_3": 2.8, "loss_2.65": 2.6, "gap_3": 0.3, "gap_2.65": 0.4, "gap": 0.35}
    expected |= {"acc_gap_3": 0.03, "acc_gap_at_0.5": 0.03, "acc_gap_at_0.7": 0.05}
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    assert np.isnan(values["acc_gap_at_0.9"])


def test_a_member_that_comes_to_no_level_has_no_gap_and_its_untrained_model_neither():
    late = reading(loss=LOSS + 0.7)
    assert np.isnan([late.values[name] for name in ("gap", "gap_3", "step_2.65")]).all()
    assert np.isnan([*reading().untrained.values()]).all()


def test_the_claim_counts_seeds_that_come_to_both_levels_and_decides_from_seed_18_on():
    curves = []
    for seed in range(17, 27):
        for gamma, gap in ((0.3, 2.0 * GAP), (0.5, GAP), (0.8, 0.5 * GAP)):
            late = 0.3 if (seed, gamma) == (26, 0.3) else 0.0  # comes to 3.0 and not to 2.65
            for name, more in (("rsn_train", 0.0 * gap), ("rsn_test", gap)):
                member = pd.DataFrame({"step": STEPS, "loss": LOSS + late + more})
                member["accuracy"] = ACCURACY - more / 10
                curves.append(member.assign(gamma=gamma, seed=seed, set=name))
    readings = equal_loss_table(pd.concat(curves)).assign(sweep="")
    a6, a6m = judge(readings, [BY_ID["A6"], BY_ID["A6m"]])
    assert (a6.outcome, a6.met_by, a6.n_decisive) == ("HOLDS", "9/9", 8)
    assert a6.effect == pytest.approx(1.5 * 0.35)
    assert "seeds without every number: 26" in a6.reason
    # a difference of .175 nats is below .30
    assert (a6m.outcome, a6m.met_by, a6m.n_decisive) == ("FAILS", "0/10", 9)
