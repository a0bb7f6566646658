"""The rule and the judge on planted numbers, and how often chance alone makes a claim hold."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rb_interp.claims import Claim, Condition, Standing, Term, Verdict, Verdicts, expected_by_chance, judge
from rb_interp.claims.rule import Finding, decide, decide_share, deciding
from rb_interp.errors import RunError, StudyError
from rb_interp.statistics.intervals import Interval, proportion_interval
from rb_interp.studies.anchor.claims import CLAIMS
from rb_interp.studies.anchor.detectors import MECHANISM_CLAIMS

NAN = float("nan")
BY_ID = {claim.id: claim for claim in CLAIMS}
AT_LEAST = Condition(Term("learning_order", "bias", 0.8, "final", label="B"), ">=", 0.1)


def planted(term: Term, values, untrained=None, seeds=None, **changed) -> pd.DataFrame:
    """Readings of one term, one row a seed."""
    seeds = range(len(values)) if seeds is None else seeds
    row = {"gamma": term.gamma, "stage": term.stage, "set": term.set, "probe": term.probe, "layer": term.layer}
    row |= {"quantity": term.quantity, "head": None, **changed}
    untrained = [NAN] * len(values) if untrained is None else untrained
    return pd.DataFrame(
        [{**row, "seed": s, "value": v, "untrained": t} for s, v, t in zip(seeds, values, untrained, strict=True)]
    )


def judged(id: str, *tables: pd.DataFrame) -> Verdict:
    readings = pd.concat([table.dropna(axis=1, how="all") for table in tables], ignore_index=True)
    for column in ("layer", "untrained"):
        if column not in readings:
            readings[column] = NAN
    (claim,) = judge(readings, [BY_ID[id]], scale="quick")
    return claim


@pytest.mark.parametrize(
    ("values", "verdict", "meeting"),
    [
        ([0.2, 0.3, 0.25, 0.2, 0.3], "HOLDS", 5),
        ([-0.2, 0.0, -0.1, 0.0, -0.2], "FAILS", 0),
        ([0.2, 0.0, 0.3, 0.0, 0.2], "UNDECIDED", 3),  # the interval contains .1
        ([0.2, 0.3, 0.25, 0.2], "UNDECIDED", 4),  # too few seeds
        ([0.2, 0.3, 0.25, 0.2, NAN], "UNDECIDED", 4),
        ([0.2, 0.3, 0.25, 0.2, 0.3, NAN, np.inf], "HOLDS", 5),
        ([0.1] * 5, "HOLDS", 5),  # zero spread, at the threshold: >= is met
        ([0.1 - 1e-12] * 5, "FAILS", 0),
        # mean .277, interval [.17, .38], but a quarter of the seeds learned something else
        ([0.35] * 15 + [0.05] * 5, "UNDECIDED", 15),
        ([0.35] * 16 + [0.05] * 4, "HOLDS", 16),  # 80 % exactly
        ([-0.2] * 15 + [0.15] * 5, "UNDECIDED", 5),
        ([-0.2] * 16 + [0.15] * 4, "FAILS", 4),  # 20 % exactly
    ],
)
def test_the_rule_on_means(values, verdict, meeting):
    finding = decide(AT_LEAST, values)
    assert (finding.outcome, finding.n_meeting) == (verdict, meeting)
    assert finding.n_seeds == np.isfinite(values).sum()
    assert bool(finding.reason) == (verdict == "UNDECIDED")


def test_undecided_says_why():
    assert decide(AT_LEAST, [0.2] * 4).reason == "seeds: 4, needed: 5"
    assert decide(AT_LEAST, [0.2, 0.0, 0.3, 0.0, 0.2]).reason == "the interval contains 0.1"
    split = decide(AT_LEAST, [0.35] * 15 + [0.05] * 5)
    assert split.reason == "the interval is on the claimed side, but 15 of 20 meet the criterion"


@pytest.mark.parametrize(
    ("operator", "at_threshold", "below", "above"),
    [
        (">=", "HOLDS", "FAILS", "HOLDS"),
        (">", "FAILS", "FAILS", "HOLDS"),
        ("<=", "HOLDS", "HOLDS", "FAILS"),
        ("<", "FAILS", "HOLDS", "FAILS"),
    ],
)
def test_strict_and_other_thresholds_differ_only_at_the_threshold(operator, at_threshold, below, above):
    part = Condition(AT_LEAST.of, operator, 0.5)
    assert [decide(part, [x] * 5).outcome for x in (0.5, 0.4, 0.6)] == [at_threshold, below, above]


def test_several_parts_any_failure_fails_and_the_first_such_part_decides():
    holds, fails, undecided = (Finding(v, Interval(0, 0, 0), 5, 5) for v in ("HOLDS", "FAILS", "UNDECIDED"))
    assert deciding([holds, holds]) == 0
    assert deciding([holds, undecided, holds]) == 1
    assert deciding([undecided, holds, fails, fails]) == 2


def test_a_part_that_fails_beats_one_that_was_not_read():
    bias, test = (part.of for part in BY_ID["A1"].conditions)
    high, low = [0.3, 0.4, 0.35, 0.3, 0.4], [-0.3, -0.4, -0.35, -0.3, -0.4]
    assert judged("A1", planted(bias, high), planted(test, high)).outcome == "HOLDS"
    failed = judged("A1", planted(bias, high), planted(test, low))
    assert (failed.outcome, failed.statistic, failed.n_meeting) == ("FAILS", "B_test", 0)
    assert failed.effect == pytest.approx(-0.35)
    assert judged("A1", planted(test, low)).outcome == "FAILS"
    missing = judged("A1", planted(bias, high))
    assert (missing.outcome, missing.statistic, missing.n_seeds) == ("UNDECIDED", "B_test", 0)
    assert missing.reason == "no reading of learning_order/bias_test at gamma 0.8; seeds: 0, needed: 5"
    assert missing.effect is None


def test_a_contrast_pairs_its_seeds():
    # Spread over seeds is large, the paired difference is not; the seed that only one side has does not count.
    tv = BY_ID["M2"].conditions[0]
    base = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    large = planted(tv.of, [*(base + np.array([0.3, 0.31, 0.32, 0.31, 0.3])), 9.0], untrained=[0.5] * 6)
    small = planted(tv.minus, base[::-1], untrained=[0.1] * 5, seeds=range(4, -1, -1))
    claim = judged("M2", large, small)
    assert (claim.outcome, claim.n_seeds, claim.gamma, claim.stage) == ("HOLDS", 5, 0.3, "matched")
    assert claim.effect == pytest.approx(0.308)
    assert claim.untrained == pytest.approx(0.4)
    assert claim.met_at_initialisation
    assert claim.conditions[0].seeds == (0, 1, 2, 3, 4)


def test_other_gammas_stages_rows_and_layers_are_not_read():
    term = BY_ID["M7"].conditions[0].of
    right = planted(term, [0.95] * 5)
    for changed in ({"gamma": 0.5}, {"stage": "half"}, {"set": "mem"}, {"layer": 0}, {"probe": "uniformity"}):
        wrong = planted(term, [0.1] * 5, **changed)
        assert judged("M7", right, wrong).outcome == "HOLDS"
        alone = judged("M7", wrong)
        assert (alone.outcome, alone.n_seeds) == ("UNDECIDED", 0)
        assert alone.reason.startswith("no reading of attention_by_role/key at gamma 0.8")


def test_several_heads_are_not_silently_one():
    term = BY_ID["M7"].conditions[0].of
    claim = judged("M7", planted(term, [0.95] * 5, head=0), planted(term, [0.1] * 5, head=1))
    assert claim.outcome == "UNDECIDED"
    assert "several readings of attention_by_role/key per seed" in claim.reason


def test_values_that_are_not_finite_are_counted_and_named():
    claim = judged("A5", planted(BY_ID["A5"].conditions[0].of, [0.95, 0.96, NAN, 0.97, 0.95, 0.96]))
    assert (claim.outcome, claim.n_seeds) == ("HOLDS", 5)
    assert claim.reason == "1 of 6 seeds have no finite acc_rsn_test"
    assert claim.conditions[0].seeds == (0, 1, 3, 4, 5)


def test_met_at_initialisation_needs_the_twin_of_every_part():
    ratio, cos = (part.of for part in BY_ID["E5"].conditions)
    low = [0.2, 0.25, 0.2, 0.22, 0.2]
    condensed = judged("E5", planted(ratio, low, untrained=[1.0] * 5), planted(cos, low, untrained=[0.1] * 5))
    assert [part.met_at_initialisation for part in condensed.conditions] == [False, True]
    assert (condensed.outcome, condensed.untrained, condensed.met_at_initialisation) == ("HOLDS", 1.0, False)
    uniform = judged("M1", planted(BY_ID["M1"].conditions[0].of, [0.05] * 5, untrained=[0.02, NAN, 0.03, 0.02, 0.01]))
    assert uniform.met_at_initialisation
    assert uniform.untrained == pytest.approx(0.02)
    assert judged("A5", planted(BY_ID["A5"].conditions[0].of, [0.95] * 5)).met_at_initialisation is False


def test_m7b_counts_only_seeds_that_know_the_memory_mapping():
    claim = BY_ID["M7b"]
    key = [0.95, 0.96, 0.95, 0.97, 0.95, 0.1]
    attention = planted(claim.conditions[0].of, key)

    def accuracy(*values):
        return planted(claim.gate.of, values)

    knows = judged("M7b", attention, accuracy(0.9, 0.8, 0.5, 0.9, 0.9, 0.2))
    assert (knows.outcome, knows.n_seeds) == ("HOLDS", 5)
    assert knows.reason == "1 of 6 seeds left out, not accuracy on mem >= 0.5"
    learned_late = judged("M7b", attention, accuracy(0.9, 0.8, 0.49, 0.9, 0.9, 0.2))
    assert (learned_late.outcome, learned_late.n_seeds) == ("UNDECIDED", 4)
    unknown = judged("M7b", attention)
    assert (unknown.outcome, unknown.n_seeds) == ("UNDECIDED", 0)
    assert "no reading of learning_order/acc_mem" in unknown.reason


def shares(n: int = 200, **ones: int) -> list[pd.DataFrame]:
    gammas = {"large": 0.3, "middle": 0.5, "small": 0.8}
    term = BY_ID["I1"].conditions[0].of
    return [planted(term, [1.0] * k + [0.0] * (n - k), gamma=gammas[name]) for name, k in ones.items()]


@pytest.mark.parametrize(
    ("large", "middle", "small", "verdict", "decides"),
    [
        (0, 50, 200, "HOLDS", 0),
        (0, 0, 197, "HOLDS", 0),  # exact lower bound .9568
        (0, 0, 195, "UNDECIDED", 0),  # .975, but its lower bound is .9426
        (0, 0, 175, "FAILS", 0),  # .875, upper bound .917
        (0, 0, 170, "FAILS", 0),  # although 85 % of the initialisations are uniform
        (200, 200, 200, "UNDECIDED", 1),  # not less at .3, and not more either
        (60, 50, 200, "UNDECIDED", 2),  # falls, within chance
        (150, 50, 200, "FAILS", 2),  # falls, clearly
        (0, 200, 199, "UNDECIDED", 3),
    ],
)
def test_i1_on_planted_shares(large, middle, small, verdict, decides):
    claim = judged("I1", *shares(large=large, middle=middle, small=small))
    assert (claim.outcome, claim.n_seeds) == (verdict, 200)
    assert claim.statistic == claim.conditions[decides].statistic


def test_i1_reports_shares_with_their_clopper_pearson_bounds():
    first, contrast = judged("I1", *shares(large=10, middle=50, small=198)).conditions[:2]
    small, large = proportion_interval(198, 200), proportion_interval(10, 200)
    assert (first.effect, first.low, first.high, first.n_meeting) == (*small, 198)
    assert contrast.effect == pytest.approx(0.94)
    assert (contrast.low, contrast.high) == (small.low - large.high, small.high - large.low)
    assert judged("I1", *shares(large=0, small=200)).outcome == "UNDECIDED"  # gamma .5 was not tried
    assert judged("I1", *shares(n=20, large=0, middle=0, small=20)).outcome == "UNDECIDED"  # lower bound .83


def test_the_records_are_json_with_every_field_and_the_table_prints_them():
    tables = [planted(BY_ID[i].conditions[0].of, [0.95] * n) for i, n in (("A5", 5), ("M7", 1))]
    readings = pd.concat([table.drop(columns="head") for table in tables], ignore_index=True)
    standings = {id: Standing(False) for id in MECHANISM_CLAIMS}
    verdicts = judge(readings, CLAIMS, scale="smoke", standings=standings)
    assert Verdicts.from_json(json.loads(json.dumps(verdicts.to_json(), allow_nan=False))) == verdicts
    assert [verdict.id for verdict in verdicts] == [claim.id for claim in CLAIMS]
    for verdict in verdicts:
        assert (verdict.scale, verdict.withheld) == ("smoke", False)
        assert verdict.calibrated is (False if verdict.id in MECHANISM_CLAIMS else None)
        assert verdict.outcome == ("HOLDS" if verdict.id == "A5" else "UNDECIDED")
        assert verdict.criterion == BY_ID[verdict.id].criterion
    m7 = verdicts["M7"]
    assert (m7.effect, m7.low, m7.high, m7.n_seeds) == (0.95, None, None, 1)
    table = verdicts.table().set_index("id")
    assert table.loc["A5", ["outcome", "effect", "n_meeting"]].tolist() == ["HOLDS", 0.95, 5]
    assert list(table.index) == [claim.id for claim in CLAIMS]
    with pytest.raises(StudyError, match="no claim 'A9' was judged"):
        verdicts["A9"]


def test_rates_that_are_missed_withhold_the_outcome():
    readings = planted(BY_ID["M7"].conditions[0].of, [0.95] * 5).assign(untrained=NAN)
    (m7,) = judge(readings, [BY_ID["M7"]], standings={"M7": Standing(False, "true-positive rate .80")})
    assert (m7.outcome, m7.uncalibrated_outcome, m7.withheld) == ("UNDECIDED", "HOLDS", True)
    assert m7.reason == "true-positive rate .80"


def test_context_is_reported_and_does_not_judge():
    e3 = BY_ID["E3"]
    judged_parts = [planted(part.of, [0.95] * 5) for part in e3.conditions]
    claim = judged("E3", *judged_parts, planted(e3.context[1], [0.1, 0.2, 0.3, 0.2, 0.2], untrained=[0.4] * 5))
    assert claim.outcome == "HOLDS"
    missing, own = claim.context
    assert (missing.effect, missing.n_seeds) == (None, 0)
    assert (own.effect, own.untrained) == pytest.approx((0.2, 0.4))


def test_a_table_that_lacks_columns_is_refused_with_their_names():
    with pytest.raises(RunError, match=r"lack the columns \['untrained'\].*Probe the run again"):
        judge(planted(AT_LEAST.of, [0.1]).drop(columns="untrained"), CLAIMS)


@pytest.mark.parametrize("n", [5, 12])
def test_chance_alone_makes_a_claim_hold_in_at_most_one_case_of_forty(n):
    trials = 4000
    x = np.random.default_rng(n).normal(0.1, 3.0, (trials, n))
    held = sum(decide(AT_LEAST, row).outcome == "HOLDS" for row in x)
    bounds = proportion_interval(held, trials, 0.999)
    assert bounds.low <= 0.025
    if n == 5:  # here the 80 % rule asks nothing more than the interval does, so the rate is .025 exactly
        assert bounds.high >= 0.025


def test_chance_bound_of_a_share_is_exact():
    part = BY_ID["I1"].conditions[0]
    holding = [k for k in range(201) if decide_share(part, [1.0] * k + [0.0] * (200 - k)).outcome == "HOLDS"]
    assert 0 < stats.binom.pmf(holding, 200, 0.95).sum() <= 0.025


def test_expected_by_chance_counts_claims_that_could_hold():
    two = Claim("X", "Two parts.", "here", (AT_LEAST, Condition(BY_ID["A5"].conditions[0].of, ">=", 0.9)))
    readings = pd.concat([planted(two.conditions[0].of, [0.2] * 5), planted(two.conditions[1].of, [0.95] * 4)]).drop(
        columns="head"
    )
    assert expected_by_chance(judge(readings, [two])) == 0
    one = Claim("Y", "One part.", "here", (AT_LEAST,))
    assert expected_by_chance(judge(readings, [one, one, two])) == pytest.approx(0.05)
