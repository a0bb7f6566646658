"""A claim's terms find their readings, and no others."""

from __future__ import annotations

from claims.planted import BY_ID, NAN, judged, planted


def test_other_gammas_stages_rows_and_layers_are_not_read():
    term = BY_ID["M7"].conditions[0].of
    right = planted(term, [0.95] * 8)
    for changed in (
        {"gamma": 0.5},
        {"stage": "half"},
        {"set": "mem"},
        {"layer": 0},
        {"probe": "uniformity"},
    ):
        wrong = planted(term, [0.1] * 8, **changed)
        assert judged("M7", right, wrong).outcome == "HOLDS"
        alone = judged("M7", wrong)
        assert (alone.outcome, alone.n_seeds) == ("NOT JUDGED", 0)
        assert alone.reason.startswith("no reading of attention_by_role/key at gamma 0.8")


def test_several_heads_are_not_silently_one():
    term = BY_ID["M7"].conditions[0].of
    claim = judged("M7", planted(term, [0.95] * 5, head=0), planted(term, [0.1] * 5, head=1))
    assert claim.outcome == "NOT JUDGED"
    assert "several readings of attention_by_role/key per seed" in claim.reason


def test_values_that_are_not_finite_are_counted_and_named():
    learned = planted(BY_ID["A5"].learned.of, [1.0] * 9)
    claim = judged(
        "A5", planted(BY_ID["A5"].conditions[0].of, [0.95, 0.96, NAN, *[0.97] * 6]), learned
    )
    assert (claim.outcome, claim.n_seeds) == ("HOLDS", 8)
    assert claim.reason == "1 of 9 seeds have no finite acc_rsn_test"
    assert claim.conditions[0].seeds == claim.seeds == (0, 1, 3, 4, 5, 6, 7, 8)
