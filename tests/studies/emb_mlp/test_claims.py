"""The claims about Emb-MLP and its theory on planted readings, and the sweep that a term reads."""

import pandas as pd
import pytest

from rb_interp.claims import Verdict, judge
from rb_interp.studies.emb_mlp.config import CLAIMS

NAN = float("nan")
BY_ID = {claim.id: claim for claim in CLAIMS}
HIGH, LOW, SPLIT = (0.95, 0.96, 0.95, 0.97) * 2, (0.01, 0.02, 0.01, 0.03) * 2, (0.95, 0.02, 0.96, 0.01) * 2


def planted(term, values, **changed) -> pd.DataFrame:
    """Readings of one term, one row a seed."""
    row = {"gamma": term.gamma, "stage": term.stage, "set": term.set, "probe": term.probe, "layer": NAN}
    row |= {"quantity": term.quantity, "sweep": term.sweep, "untrained": NAN, **changed}
    return pd.DataFrame([{**row, "seed": seed, "value": value} for seed, value in enumerate(values)])


def judged(claim: str, *tables: pd.DataFrame) -> Verdict:
    return judge(pd.concat(tables, ignore_index=True), [BY_ID[claim]], scale="quick")[0]


@pytest.mark.parametrize("claim", ["T1", "T4"])
@pytest.mark.parametrize(
    ("r2", "excess", "outcome", "statistic"),
    [
        (HIGH, (0.5, 0.6, 0.5, 0.4) * 2, "HOLDS", "R^2 of the anchors' predicted drift"),
        (HIGH, LOW, "FAILS", "R^2 - that of predictions permuted within kind"),  # right only in what a kind shares
        (LOW, LOW, "FAILS", "R^2 of the anchors' predicted drift"),
        (SPLIT, HIGH, "OPEN", "R^2 of the anchors' predicted drift"),
        (HIGH, HIGH[:7], "OPEN", "R^2 - that of predictions permuted within kind"),
        ((0.899,) * 8, HIGH, "FAILS", "R^2 of the anchors' predicted drift"),
        ((0.90,) * 8, (0.10,) * 8, "HOLDS", "R^2 of the anchors' predicted drift"),
    ],
)
def test_drift_needs_size_and_tokens(claim, r2, excess, outcome, statistic):
    first, second = (condition.of for condition in BY_ID[claim].conditions)
    found = judged(claim, planted(first, r2), planted(second, excess))
    assert (found.outcome, found.statistic, found.calibrated) == (outcome, statistic, None)


def test_drift_at_large_initialisation_is_compared_seed_by_seed():
    condition = BY_ID["T2"].conditions[0]
    small, large = planted(condition.of, HIGH), condition.minus
    assert judged("T2", small, planted(large, [x - 0.25 for x in HIGH])).outcome == "HOLDS"
    assert judged("T2", small, planted(large, [x - 0.15 for x in HIGH])).outcome == "FAILS"
    assert judged("T2", small, planted(large, [x - 0.25 for x in HIGH], sweep="one_layer")).n_seeds == 0


def test_t3_needs_both_at_both_stages():
    values = [[-x for x in HIGH], HIGH, [-x for x in HIGH], HIGH]
    tables = [planted(c.of, value) for c, value in zip(BY_ID["T3"].conditions, values, strict=True)]
    assert judged("T3", *tables).outcome == "HOLDS"
    for number, condition in enumerate(BY_ID["T3"].conditions):
        others = [table for index, table in enumerate(tables) if index != number]
        assert judged("T3", *others, planted(condition.of, LOW)).outcome == "FAILS"
        assert judged("T3", *others, planted(condition.of, values[number], stage="final")).outcome == "NOT JUDGED"


def test_readings_of_another_sweep_are_not_read():
    term = BY_ID["B5"].conditions[0].of
    learned = planted(BY_ID["B5"].learned.of, [1.0] * len(HIGH))
    assert judged("B5", planted(term, HIGH), planted(term, LOW, sweep="descent"), learned).outcome == "HOLDS"
    alone = judged("B5", planted(term, HIGH, sweep="descent"))
    assert (alone.outcome, alone.n_seeds) == ("NOT JUDGED", 0)
    assert alone.reason.startswith("no reading of learning_order/acc_rsn_test at gamma 0.8, sweep 'adamw'; seeds")
