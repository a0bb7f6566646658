"""G1 to G3 on planted readings: sides, pairing by seed, per entropy, and the stage that G3 reads."""

import pandas as pd
import pytest

from rb_interp.claims import Term, claims_of, judge
from rb_interp.claims.language import PAPER_COSINES

NAN = float("nan")
BY_ID = {claim.id: claim for claim in claims_of("language")}
UP, DOWN, SPLIT = (0.4, 0.5, 0.3, 0.4, 0.5), (-0.4, -0.5, -0.3, -0.4, -0.5), (0.4, -0.5, 0.5, -0.4, 0.4)


def planted(term: Term, values, twin: float = NAN, **changed) -> pd.DataFrame:
    """Readings of one term, one row a seed."""
    row = {"gamma": term.gamma, "stage": term.stage, "rows": term.rows, "probe": term.probe, "layer": NAN}
    row |= {"quantity": term.quantity, "twin": twin, **changed}
    return pd.DataFrame([{**row, "seed": seed, "value": value} for seed, value in enumerate(values)])


def judged(id: str, *tables: pd.DataFrame) -> dict:
    (claim,) = judge(pd.concat(tables, ignore_index=True), "quick", [BY_ID[id]])
    return claim


@pytest.mark.parametrize(
    ("values", "verdict"),
    [(UP, "HOLDS"), (DOWN, "FAILS"), (SPLIT, "UNDECIDED"), (UP[:4], "UNDECIDED"), ((0.0,) * 5, "FAILS")],
)
@pytest.mark.parametrize(("id", "sign"), [("G1", 1), ("G1n", 1), ("G3", -1)])
def test_each_has_its_side_of_zero(id, sign, values, verdict):
    claim = judged(id, planted(BY_ID[id].parts[0].of, [sign * value for value in values], twin=0.0))
    assert (claim["verdict"], claim["met_at_initialisation"]) == (verdict, False)
    assert (claim["calibrated"], claim["withheld"]) == (None, False)


def test_g1_and_its_control_read_different_losses():
    raw, fair = (BY_ID[id].parts[0].of for id in ("G1", "G1n"))
    tables = (planted(raw, UP), planted(fair, DOWN))
    assert [judged(id, *tables)["verdict"] for id in ("G1", "G1n")] == ["HOLDS", "FAILS"]


def test_g2_is_paired_by_seed_and_needs_both_rises():
    """Seeds differ by more than the rates do: only their differences rise."""
    first, second = BY_ID["G2"].parts
    seeds = [1.0, 3.0, 0.2, 5.0, 2.0]

    def at(large: float, middle: float, small: float) -> dict:
        found = [planted(first.of, [s + small for s in seeds]), planted(first.minus, [s + middle for s in seeds])]
        return judged("G2", *found, planted(second.minus, [s + large for s in seeds]))

    assert first.minus == second.of
    rises = at(0.0, 0.1, 0.3)
    assert rises["verdict"] == "HOLDS"
    assert [part["effect"] for part in rises["parts"]] == pytest.approx([0.2, 0.1])
    assert at(0.2, 0.1, 0.3)["verdict"] == "FAILS"  # .8 > .3 > .5
    assert at(0.0, 0.4, 0.3)["verdict"] == "FAILS"
    assert at(0.0, 0.0, 0.3)["verdict"] == "FAILS"
    missing = judged("G2", planted(first.of, UP), planted(first.minus, DOWN))
    assert (missing["verdict"], missing["n_seeds"]) == ("UNDECIDED", 0)
    assert "no reading of corpus_loss/delta_loss at gamma 0.3" in missing["reason"]
    shuffled = planted(first.minus, [s + 0.1 for s in seeds]).assign(seed=[1, 2, 3, 4, 0])
    tables = [planted(first.of, [s + 0.3 for s in seeds]), planted(second.minus, seeds)]
    assert judged("G2", *tables, shuffled)["verdict"] == "UNDECIDED"


def test_g3_is_read_early_and_shows_the_papers_numbers_beside():
    claim = BY_ID["G3"]
    of = claim.parts[0].of
    beside = [planted(term, [value] * 5) for term, value in zip(claim.beside, (0.1, 0.5, -0.2, -0.3), strict=True)]
    found = judged("G3", planted(of, DOWN), planted(of, UP, stage="final"), *beside)
    assert found["verdict"] == "HOLDS"
    assert judged("G3", planted(of, DOWN, stage="final"))["n_seeds"] == 0
    assert [row["effect"] for row in found["beside"]] == pytest.approx([0.1, 0.5, -0.2, -0.3])
    assert "(paper: 0.123)" in found["beside"][0]["statistic"]
    assert "(paper: 0.531)" in found["beside"][1]["statistic"]
    assert PAPER_COSINES == {"prontoqa": 0.123, "stories": 0.531}


def test_an_untrained_model_that_meets_a_claim_is_marked():
    term = BY_ID["G1n"].parts[0].of
    assert judged("G1n", planted(term, UP, twin=0.1))["met_at_initialisation"]
    assert not judged("G1n", planted(term, UP, twin=-0.09))["met_at_initialisation"]
