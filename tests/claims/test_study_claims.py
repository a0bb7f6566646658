"""The claims about Emb-MLP, theory and label ranges on planted readings, and the part of a study that a term reads."""

import pandas as pd
import pytest

from rb_interp.claims import Part, Term, claims_of, judge

NAN = float("nan")
BY_ID = {claim.id: claim for study in ("anchor", "emb-mlp", "labels") for claim in claims_of(study)}
HIGH, LOW, SPLIT = (0.95, 0.96, 0.95, 0.97, 0.96), (0.01, 0.02, 0.01, 0.03, 0.02), (0.95, 0.02, 0.96, 0.01, 0.95)


def planted(term: Term, values, twin: float = NAN, **changed) -> pd.DataFrame:
    """Readings of one term, one row a seed."""
    row = {"gamma": term.gamma, "stage": term.stage, "rows": term.rows, "probe": term.probe, "layer": NAN}
    row |= {"quantity": term.quantity, "part": term.part, "twin": twin, **changed}
    return pd.DataFrame([{**row, "seed": seed, "value": value} for seed, value in enumerate(values)])


def judged(id: str, *tables: pd.DataFrame) -> dict:
    (claim,) = judge(pd.concat(tables, ignore_index=True), "quick", [BY_ID[id]])
    return claim


@pytest.mark.parametrize("id", ["T1", "T4"])
@pytest.mark.parametrize(
    ("r2", "excess", "verdict", "statistic"),
    [
        (HIGH, (0.5, 0.6, 0.5, 0.4, 0.5), "HOLDS", "R^2 of the anchors' predicted drift"),
        (HIGH, LOW, "FAILS", "R^2 - that of predictions permuted within kind"),  # right only in what a kind shares
        (LOW, LOW, "FAILS", "R^2 of the anchors' predicted drift"),
        (SPLIT, HIGH, "UNDECIDED", "R^2 of the anchors' predicted drift"),
        (HIGH, HIGH[:4], "UNDECIDED", "R^2 - that of predictions permuted within kind"),
        ((0.899,) * 5, HIGH, "FAILS", "R^2 of the anchors' predicted drift"),
        ((0.90,) * 5, (0.10,) * 5, "HOLDS", "R^2 of the anchors' predicted drift"),
    ],
)
def test_drift_needs_size_and_tokens(id, r2, excess, verdict, statistic):
    first, second = (part.of for part in BY_ID[id].parts)
    claim = judged(id, planted(first, r2), planted(second, excess))
    assert (claim["verdict"], claim["statistic"]) == (verdict, statistic)
    assert (claim["calibrated"], claim["withheld"]) == (None, False)


def test_drift_at_large_initialisation_is_compared_seed_by_seed():
    part = BY_ID["T2"].parts[0]
    small = planted(part.of, HIGH)
    assert part.minus
    assert judged("T2", small, planted(part.minus, [x - 0.25 for x in HIGH]))["verdict"] == "HOLDS"
    assert judged("T2", small, planted(part.minus, [x - 0.15 for x in HIGH]))["verdict"] == "FAILS"
    assert judged("T2", small, planted(part.minus, [x - 0.25 for x in HIGH], part="one_layer"))["n_seeds"] == 0


def test_t3_needs_both_at_both_stages():
    values = [[-x for x in HIGH], HIGH, [-x for x in HIGH], HIGH]
    tables = [planted(part.of, value) for part, value in zip(BY_ID["T3"].parts, values, strict=True)]
    assert judged("T3", *tables)["verdict"] == "HOLDS"
    for number, part in enumerate(BY_ID["T3"].parts):
        others = [table for index, table in enumerate(tables) if index != number]
        assert judged("T3", *others, planted(part.of, LOW))["verdict"] == "FAILS"
        elsewhere = planted(part.of, values[number], stage="final")
        assert judged("T3", *others, elsewhere)["verdict"] == "UNDECIDED"


@pytest.mark.parametrize(
    ("inside", "verdict"),
    [(HIGH, "HOLDS"), ((0.52,) * 5, "FAILS"), (SPLIT, "UNDECIDED"), (HIGH[:4], "UNDECIDED"), ((0.9,) * 5, "HOLDS")],
)
def test_the_lowest_group_decides_r2(inside, verdict):
    claim = BY_ID["R2"]
    tables = [planted(term, [0.5] * 5) for term in claim.beside]
    found = judged("R2", planted(claim.parts[0].of, inside, twin=0.1), *tables)
    assert (found["verdict"], found["twin"], found["met_at_initialisation"]) == (verdict, pytest.approx(0.1), False)
    assert [part["effect"] for part in found["beside"]] == [0.5] * 6


def test_r1_reads_what_belongs_to_no_part():
    term = BY_ID["R1"].parts[0].of
    assert judged("R1", planted(term, (0.06, 0.07, 0.06, 0.08, 0.07), twin=0.0))["verdict"] == "HOLDS"
    assert judged("R1", planted(term, (0.04,) * 5))["verdict"] == "FAILS"
    assert judged("R1", planted(term, HIGH, part="keys"))["n_seeds"] == 0
    assert judged("R1", planted(term, HIGH, part=None), planted(term, LOW, part="keys"))["verdict"] == "HOLDS"


def test_readings_of_another_part_are_not_read():
    term = BY_ID["B5"].parts[0].of
    assert judged("B5", planted(term, HIGH), planted(term, LOW, part="descent"))["verdict"] == "HOLDS"
    alone = judged("B5", planted(term, HIGH, part="descent"))
    assert (alone["verdict"], alone["n_seeds"]) == ("UNDECIDED", 0)
    assert alone["reason"].startswith("no reading of learning_order/acc_rsn_test at gamma 0.8, part 'sweep'; seeds: 0")


def test_without_a_column_nothing_is_asked_about_parts():
    """A table of one part alone, such as the sweep's own run folder has, or any anchor run's."""
    for id in ("A5", "B5"):
        table = planted(BY_ID[id].parts[0].of, HIGH)
        assert judged(id, table)["verdict"] == judged(id, table.drop(columns="part"))["verdict"] == "HOLDS"
    assert judged("A5", planted(BY_ID["A5"].parts[0].of, HIGH, part="sweep"))["n_seeds"] == 0


def test_places_name_the_part_and_the_stage_in_words():
    term = Term("drift", "r2", 0.8, "leaving", "anchor", label="R^2", part="descent")
    assert Part(term, ">=", 0.9).criterion == (
        "Emb-MLP under gradient descent, gamma 0.8, leaving the plateau: R^2 >= 0.9"
    )
    assert Term("drift", "r2", 0.8, "half", part="mine").place == "mine, gamma 0.8, half"
