"""G1 to G3 on planted readings: sides, pairing by seed, per entropy, and the stage that G3 reads."""

import pandas as pd
import pytest

from rb_interp.claims import Term, judge
from rb_interp.studies.language.config import CLAIMS, PAPER_COSINES

NAN = float("nan")
BY_ID = {claim.id: claim for claim in CLAIMS}
UP, DOWN, SPLIT = (0.4, 0.5, 0.3, 0.4) * 2, (-0.4, -0.5, -0.3, -0.4) * 2, (0.4, -0.5, 0.5, -0.4) * 2


def planted(term: Term, values, untrained: float = NAN, **changed) -> pd.DataFrame:
    """Readings of one term, one row a seed."""
    row = {"gamma": term.gamma, "stage": term.stage, "set": term.set, "probe": term.probe, "layer": NAN}
    row |= {"quantity": term.quantity, "untrained": untrained, **changed}
    return pd.DataFrame([{**row, "seed": seed, "value": value} for seed, value in enumerate(values)])


def judged(id: str, *tables: pd.DataFrame):
    return judge(pd.concat(tables, ignore_index=True), [BY_ID[id]], scale="quick")[id]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [(UP, "HOLDS"), (DOWN, "FAILS"), (SPLIT, "OPEN"), (UP[:7], "OPEN"), ((0.0,) * 8, "FAILS")],
)
@pytest.mark.parametrize(("id", "sign"), [("G1", 1), ("G1n", 1), ("G3", -1)])
def test_each_has_its_side_of_zero(id, sign, values, verdict):
    claim = judged(id, planted(BY_ID[id].conditions[0].of, [sign * value for value in values], untrained=0.0))
    assert (claim.outcome, claim.met_at_initialisation) == (verdict, False)
    assert (claim.calibrated, claim.withheld) == (None, False)


def test_g1_and_its_control_read_different_losses():
    raw, fair = (BY_ID[id].conditions[0].of for id in ("G1", "G1n"))
    tables = (planted(raw, UP), planted(fair, DOWN))
    assert [judged(id, *tables).outcome for id in ("G1", "G1n")] == ["HOLDS", "FAILS"]


def test_g2_is_paired_by_seed_and_needs_both_rises():
    """Seeds differ by more than the rates do: only their differences rise."""
    first, second = BY_ID["G2"].conditions
    seeds = [1.0, 3.0, 0.2, 5.0, 2.0, 4.0, 0.5, 6.0]

    def at(large: float, middle: float, small: float) -> dict:
        found = [planted(first.of, [s + small for s in seeds]), planted(first.minus, [s + middle for s in seeds])]
        return judged("G2", *found, planted(second.minus, [s + large for s in seeds]))

    assert first.minus == second.of
    rises = at(0.0, 0.1, 0.3)
    assert rises.outcome == "HOLDS"
    assert [one.effect for one in rises.conditions] == pytest.approx([0.2, 0.1])
    assert at(0.2, 0.1, 0.3).outcome == "FAILS"  # .8 > .3 > .5
    assert at(0.0, 0.4, 0.3).outcome == "FAILS"
    assert at(0.0, 0.0, 0.3).outcome == "FAILS"
    missing = judged("G2", planted(first.of, UP), planted(first.minus, DOWN))
    assert (missing.outcome, missing.n_seeds) == ("NOT JUDGED", 0)
    assert "no reading of corpus_loss/delta_loss at gamma 0.3" in missing.reason
    shuffled = planted(first.minus, [s + 0.1 for s in seeds]).assign(seed=[1, 2, 3, 4, 5, 6, 7, 0])
    tables = [planted(first.of, [s + 0.3 for s in seeds]), planted(second.minus, seeds)]
    assert judged("G2", *tables, shuffled).outcome == "FAILS"  # no seed of these rises twice


def test_g3_is_read_early_and_shows_the_papers_numbers():
    claim = BY_ID["G3"]
    of = claim.conditions[0].of
    values = (0.1, 0.5, -0.2, 0.4, -0.3)
    context = [planted(term, [value] * 8) for term, value in zip(claim.context, values, strict=True)]
    found = judged("G3", planted(of, DOWN), planted(of, UP, stage="final"), *context)
    assert found.outcome == "HOLDS"
    assert judged("G3", planted(of, DOWN, stage="final")).n_seeds == 0
    assert [row.effect for row in found.context] == pytest.approx(values)
    assert "(paper: 0.123)" in found.context[0].statistic
    assert "(paper: 0.531)" in found.context[1].statistic
    assert PAPER_COSINES == {"prontoqa": 0.123, "stories": 0.531}


def test_an_untrained_model_that_meets_a_claim_is_marked():
    term = BY_ID["G1n"].conditions[0].of
    assert judged("G1n", planted(term, UP, untrained=0.1)).met_at_initialisation
    assert not judged("G1n", planted(term, UP, untrained=-0.09)).met_at_initialisation
