"""The rule: its evidence by quadrature, its verdicts on all sequences, and its errors on simulated
worlds."""

from __future__ import annotations

import numpy as np
import pytest
from claims.planted import judged, planted, shares
from scipy import integrate, stats

from rb_interp.claims import (
    CalibrationStatus,
    Claim,
    Condition,
    Term,
    expected_by_chance,
    judge,
)
from rb_interp.claims.rule import MIN_SEEDS, decide, decide_share, evidence, outcome_probabilities
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.studies.anchor.claims import CLAIMS


@pytest.mark.parametrize(("k", "n"), [(0, 0), (8, 8), (3, 7), (0, 12), (16, 20), (17, 20)])
def test_the_evidence_is_the_integral_that_defines_it(k, n):
    def likelihood(p):
        return p**k * (1 - p) ** (n - k)

    above, below = (integrate.quad(likelihood, *ends)[0] for ends in ((0.5, 1), (0, 0.5)))
    assert evidence(k, n) == pytest.approx((2 * above * 2**n, 2 * below * 2**n))


@pytest.mark.parametrize(
    ("met", "verdict", "after"),
    [
        ("1" * 8, "HOLDS", 8),
        ("0" * 8, "FAILS", 8),
        ("1" * 7, "OPEN", None),
        ("1" * 7 + "0" + "1" * 3, "OPEN", None),  # 10 of 11
        ("1" * 7 + "0" + "1" * 4, "HOLDS", 12),
        ("1" * 8 + "0" * 12, "HOLDS", 8),  # once decided, a verdict stands
        ("0" * 8 + "1" * 40, "FAILS", 8),
        ("10" * 10, "OPEN", None),
        ("", "OPEN", None),
    ],
)
def test_the_rule_counts_seeds_in_their_order(met, verdict, after):
    finding = decide([one == "1" for one in met])
    assert (finding.outcome, finding.decided_after) == (verdict, after)
    assert bool(finding.reason) == (verdict == "OPEN")


def test_fewer_seeds_than_said_never_decide():
    assert decide([True] * MIN_SEEDS).outcome == "HOLDS"
    assert max(evidence(k, n) for n in range(MIN_SEEDS) for k in range(n + 1))[0] < 40


@pytest.mark.parametrize("n", [8, 20])
def test_probabilities_of_verdicts_are_those_of_all_sequences(n):
    """By the definition: every sequence of 8 seeds, and 4,000 drawn ones of 20."""
    rng = np.random.default_rng(n)
    whole = (
        [[bool(i >> j & 1) for j in range(n)] for i in range(2**n)]
        if n == 8
        else rng.random((4000, n)) < 0.9
    )
    outcomes = [decide(list(met)).outcome for met in whole]
    chances = (
        [0.9 ** sum(met) * 0.1 ** (n - sum(met)) for met in whole] if n == 8 else [1 / 4000] * 4000
    )
    for outcome, found in zip(("HOLDS", "FAILS"), outcome_probabilities(0.9, n), strict=True):
        total = sum(p for p, one in zip(chances, outcomes, strict=True) if one == outcome)
        assert found == pytest.approx(total, rel=1e-9, abs=1e-12 if n == 8 else 0.02)


WORLDS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "skewed": lambda rng, size: -rng.exponential(size=size),
    "near 1": lambda rng, size: rng.beta(5.4, 0.6, size),
    "two clusters": lambda rng, size: (
        np.where(rng.random(size) < 0.9, 1.0, 0.0) + rng.normal(0, 0.02, size)
    ),
}


@pytest.mark.wide
@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("world", WORLDS)
def test_wrong_verdicts_are_rarer_than_one_in_forty(world, parts):
    """Each condition's threshold is where half of all seeds meet all of them; up to 20 seeds,
    looked at after each."""
    rng, trials = np.random.default_rng(parts), 300
    conditions = [Condition(Term("p", str(part), 0.8, "final"), ">=", 0.0) for part in range(parts)]
    threshold = np.quantile(WORLDS[world](rng, 200_000), 1 - 0.5 ** (1 / parts))
    seeds = WORLDS[world](rng, (trials, 20, parts)) - threshold
    met = [
        [all(c.met(x) for c, x in zip(conditions, seed, strict=True)) for seed in run]
        for run in seeds
    ]
    outcomes = [decide(run).outcome for run in met]
    for wrong in ("HOLDS", "FAILS"):
        assert proportion_interval(outcomes.count(wrong), trials, 0.999).low <= 1 / 40
    assert sum(outcome_probabilities(0.5, 400)) <= 2 / 40


def test_chance_bound_of_a_share_is_exact():
    part = next(claim for claim in CLAIMS if claim.id == "I1").conditions[0]
    holding = [
        k for k in range(201) if decide_share(part, [1.0] * k + [0.0] * (200 - k))[0] == "HOLDS"
    ]
    assert 0 < stats.binom.pmf(holding, 200, 0.95).sum() <= 0.025


def test_a_share_can_be_claimed_to_be_small():
    small = Condition(Term("kind", "other", None, "final"), "<=", 0.1)
    outcomes = [decide_share(small, [1.0] * k + [0.0] * (200 - k))[0] for k in (5, 20, 60)]
    assert outcomes == ["HOLDS", "OPEN", "FAILS"]


def test_expected_by_chance_counts_holds_and_fails_of_claims_that_could_be_decided():
    bias = Term("learning_order", "bias", 0.8, "final", label="B")
    one = Claim("Y", "One.", "here", (Condition(bias, ">=", 0.1),))
    for n, chance in ((7, 0.0), (8, 2**-8), (20, outcome_probabilities(0.5, 20)[0])):
        verdicts = judge(planted(bias, [0.2] * n), [one, one])
        assert expected_by_chance(verdicts) == pytest.approx((2 * chance, 2 * chance))
    withheld = judge(
        planted(bias, [0.2] * 20), [one], standings={"Y": CalibrationStatus(False, "why")}
    )
    assert expected_by_chance(withheld) == expected_by_chance([]) == (0, 0)
    assert expected_by_chance([judged("I1", *shares(large=0, middle=50, small=200))]) == (
        0.025,
        0.1,
    )
