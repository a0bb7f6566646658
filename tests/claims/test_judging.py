"""The judge on planted numbers, and causal checks on planted effects."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from claims.planted import BY_ID, NAN, judged, planted, readings_of, shares

from rb_interp.claims import (
    Claim,
    Condition,
    Term,
    Verdict,
    Verdicts,
    expected_by_chance,
    judge,
    judge_checks,
)
from rb_interp.claims.rule import outcome_probabilities
from rb_interp.runs.measurement import VERDICT_FILES
from rb_interp.statistics.intervals import proportion_interval
from rb_interp.studies.anchor.checks import CHECKS
from rb_interp.studies.anchor.config import AnchorConfig, stopped_early


def as_kept(found: Verdict) -> Verdict:
    """A verdict as a run's file gives it back."""
    kept = VERDICT_FILES["verdicts.json"]
    return kept.validate_json(
        json.dumps(kept.dump_python(Verdicts([found]), mode="json"), allow_nan=False)
    )[0]


def test_a_seed_meets_a_claim_where_it_meets_all_of_it():
    bias, test = (part.of for part in BY_ID["A1"].conditions)
    high, low = (
        [0.3, 0.4, 0.35, 0.3, 0.4, 0.3, 0.3, 0.3],
        [-0.3, -0.4, -0.35, -0.3, -0.4, -0.3, -0.3, -0.5],
    )
    assert judged("A1", planted(bias, high), planted(test, high)).outcome == "HOLDS"
    failed = judged("A1", planted(bias, high), planted(test, low))
    assert (failed.outcome, failed.statistic, failed.n_meeting) == ("FAILS", "B_test", 0)
    assert (failed.effect, failed.low, failed.high) == pytest.approx((-0.325, -0.5, -0.3))
    assert (failed.share_low, failed.share_high) == proportion_interval(0, 8)[1:]
    # each condition is met by 7 of 8 seeds, and both by 6
    one, other = [-0.3, *high[1:]], [*high[1:], -0.3]
    both = judged("A1", planted(bias, one), planted(test, other))
    assert [part.n_meeting for part in both.conditions] == [7, 7]
    assert (both.n_meeting, both.seeds, both.met) == (
        6,
        tuple(range(8)),
        (False, *[True] * 6, False),
    )
    assert both.reason == "the evidence is 1.8 after 8 seeds, needed: 40"


def test_a_seed_without_every_number_does_not_count():
    bias, test = (part.of for part in BY_ID["A1"].conditions)
    missing = judged("A1", planted(bias, [0.3] * 8))
    assert (missing.outcome, missing.statistic, missing.n_seeds) == ("NOT JUDGED", "B_test", 0)
    lost = "seeds without every number: 0, 1, 2, 3, 4, 5, 6, 7"
    assert (
        missing.reason
        == f"no reading of learning_order/bias_test at gamma 0.8, stage 'final'; {lost}; seeds: 0, needed: 8"
    )
    assert missing.effect is None
    some = judged("A1", planted(bias, [0.3] * 10), planted(test, [0.3] * 8, seeds=range(2, 10)))
    assert (some.outcome, some.seeds) == ("HOLDS", tuple(range(2, 10)))
    assert some.reason == "seeds without every number: 0, 1"


def test_a_diverged_member_counts_as_not_met_where_the_claim_reads_it():
    a4 = BY_ID["A4"]
    tables = [planted(part.of, [0.3 + part.of.gamma] * 8) for part in a4.conditions]
    tables.append(planted(a4.conditions[1].minus, [0.1] * 8))
    readings = pd.concat(tables).drop(columns="head").drop_duplicates()
    for gamma, outcome in ((0.3, "OPEN"), (1.0, "HOLDS")):
        without = readings[~(np.isclose(readings["gamma"], gamma) & (readings["seed"] == 2))]
        (verdict,) = judge(without, [a4], diverged=[("", gamma, 2), ("other", 0.8, 3)])
        assert (verdict.outcome, verdict.n_seeds) == (outcome, 8)
    assert (judge(readings, [a4], diverged=[("", 0.3, 2)])[0].met) == (
        True,
        True,
        False,
        *[True] * 5,
    )
    assert "diverged, so not met: 2" in judge(readings, [a4], diverged=[("", 0.3, 2)])[0].reason


def test_a_diverged_member_has_learned_nothing_and_counts_in_what_is_of_all_gammas():
    """A2 in 12 seeds, of which three have learned and meet nothing: nine diverged."""
    a2 = BY_ID["A2"]
    tables = [
        planted(part.of, [0.9 if part.operator == "<=" else 0.0] * 3) for part in a2.conditions
    ]
    readings = readings_of(*tables, planted(a2.learned.of, [1.0] * 3))
    (found,) = judge(readings, [a2], diverged=[("", 0.3, seed) for seed in range(3, 12)])
    assert (found.outcome, found.learned, found.n_seeds) == ("NOT JUDGED", False, 12)
    assert "not learned: accuracy on rsn_train >= 0.95 in 3 of 12 seeds" in found.reason
    place = {"stage": "final", "probe": "map", "quantity": "crosses"}
    for sweep, of_sweep, n_met in (
        ("", "", 7),
        ("", "deep", 8),
        ("deep", "deep", 7),
        ("deep", "", 8),
    ):
        term = Term("map", "crosses", None, "final", sweep=sweep)
        claim = Claim("X", "It does.", "here", (Condition(term, ">=", 1.0),))
        rows = [{**place, "gamma": NAN, "seed": s, "sweep": sweep, "value": 1.0} for s in range(8)]
        table = pd.DataFrame(rows).assign(set="", layer=NAN, untrained=NAN)
        (found,) = judge(table, [claim], diverged=[(of_sweep, 0.6, 0)])
        assert found.n_meeting == n_met
        of_all = replace(claim, conditions=(Condition(replace(term, every_sweep=True), ">=", 1.0),))
        assert judge(table, [of_all], diverged=[(of_sweep, 0.6, 0)])[0].n_meeting == 7


def test_a_seed_that_diverged_before_the_gate_does_not_count():
    claim = BY_ID["M7b"]
    met = planted(claim.conditions[0].of, [NAN] * 8 + [0.95] * 8)
    known = planted(claim.gate.of, [0.0] * 8 + [0.9] * 8)
    (found,) = judge(readings_of(met, known), [claim], diverged=[("", 0.8, s) for s in range(8)])
    assert (found.outcome, found.n_meeting, found.n_seeds) == ("HOLDS", 8, 8)


def test_a_gate_does_not_stand_for_what_must_be_learned():
    """M7b of training that stopped early: memory is known, and no seed has learned the rule."""
    claim = stopped_early(BY_ID["M7b"])
    key, known = claim.conditions[0].of, claim.gate.of
    for learned, outcome in ((0.4, "NOT JUDGED"), (0.96, "HOLDS")):
        accuracy = planted(claim.learned.of, [learned] * 8)
        table = readings_of(planted(key, [0.95] * 8), planted(known, [0.9] * 8), accuracy)
        assert judge(table, [claim])[0].outcome == outcome


def test_learning_is_asked_of_the_seeds_that_decide():
    """M3b, which seeds from 10 on decide: the ten that were read before have learned."""
    claim = replace(BY_ID["M3b"], learned=BY_ID["A2"].learned)
    met = planted(claim.conditions[0].of, [3.0] * 18)
    for late, outcome in ((0.0, "NOT JUDGED"), (1.0, "HOLDS")):
        accuracy = planted(claim.learned.of, [1.0] * 10 + [late] * 8)
        assert judge(readings_of(met, accuracy), [claim])[0].outcome == outcome


def test_a_difference_at_the_threshold_meets_it_whatever_its_last_digit():
    accuracy = [Term("curve", "acc", gamma, "final") for gamma in (0.8, 0.3)]
    claim = Claim("X", "It is.", "here", (Condition(accuracy[0], ">=", 0.2, accuracy[1]),))
    for large, small in ((0.8, 0.6), (0.7, 0.5)):
        table = readings_of(planted(accuracy[0], [large] * 8), planted(accuracy[1], [small] * 8))
        assert judge(table, [claim])[0].n_meeting == 8
    assert not claim.conditions[0].met(0.2 - 1e-8)


def test_a_contrast_pairs_its_seeds():
    # Spread over seeds is large, the paired difference is not; the seed that only one side has does
    # not count.
    tv = BY_ID["M2"].conditions[0]
    base = np.arange(8) / 2
    large = planted(
        tv.of,
        [*(base + np.array([0.3, 0.31, 0.32, 0.31, 0.3, 0.3, 0.32, 0.3])), 9.0],
        untrained=[0.5] * 9,
    )
    small = planted(tv.minus, base[::-1], untrained=[0.1] * 8, seeds=range(7, -1, -1))
    claim = judged("M2", large, small)
    assert (claim.outcome, claim.n_seeds) == ("HOLDS", 8)
    assert claim.effect == pytest.approx(0.305)
    assert claim.untrained == pytest.approx(0.4)
    assert claim.met_at_initialisation
    assert claim.conditions[0].seeds == tuple(range(8))
    assert claim.reason == "seeds without every number: 8"


def test_met_at_initialisation_needs_half_of_the_untrained_models_in_every_condition():
    ratio, cos = (part.of for part in BY_ID["E5"].conditions)
    low = [0.2, 0.25, 0.2, 0.22, 0.2, 0.2, 0.2, 0.2]
    condensed = judged(
        "E5", planted(ratio, low, untrained=[1.0] * 8), planted(cos, low, untrained=[0.1] * 8)
    )
    assert (condensed.outcome, condensed.untrained, condensed.met_at_initialisation) == (
        "HOLDS",
        1.0,
        False,
    )
    for far, met in ((3, True), (4, False)):
        before = [0.02, NAN, 0.03, 0.02, *[0.9] * far]
        uniform = judged(
            "M1", planted(BY_ID["M1"].conditions[0].of, [0.05] * len(before), untrained=before)
        )
        assert uniform.met_at_initialisation is met
        assert uniform.untrained == pytest.approx(np.nanmedian(before))
    assert (
        judged("A5", planted(BY_ID["A5"].conditions[0].of, [0.95] * 5)).met_at_initialisation
        is False
    )


def test_m7b_counts_only_seeds_that_know_the_memory_mapping():
    claim = BY_ID["M7b"]
    key = [0.95, 0.96, 0.95, 0.97, 0.95, 0.95, 0.95, 0.95, 0.1]
    attention = planted(claim.conditions[0].of, key)

    def accuracy(*values):
        return planted(claim.gate.of, values)

    knows = judged("M7b", attention, accuracy(0.9, 0.8, 0.5, *[0.9] * 5, 0.2))
    assert (knows.outcome, knows.n_seeds) == ("HOLDS", 8)
    assert knows.reason == "accuracy on mem >= 0.5 in 8 of 9 seeds"
    assert (knows.learned, knows.withheld) == (True, False)
    learned_late = judged("M7b", attention, accuracy(0.9, 0.8, 0.49, *[0.9] * 5, 0.2))
    assert (learned_late.outcome, learned_late.n_seeds) == ("OPEN", 7)
    unknown = judged("M7b", attention)
    assert (unknown.outcome, unknown.n_seeds) == ("NOT JUDGED", 0)
    assert "no reading of learning_order/acc_mem" in unknown.reason


@pytest.mark.parametrize(
    ("seeds", "n_meeting", "outcome", "reason"),
    [
        (range(10, 18), 8, "HOLDS", ""),
        (range(8), 8, "NOT JUDGED", "judged on seeds from 10 on: 0/0; seeds: 0, needed: 8"),
        (range(2, 18), 8, "FAILS", "judged on seeds from 10 on: 0/8"),
        (range(18), 18, "HOLDS", "judged on seeds from 10 on: 8/8"),
    ],
)
def test_seeds_read_before_a_criterion_was_written_do_not_decide(seeds, n_meeting, outcome, reason):
    """Values of M3b, of which the first ``n_meeting`` seeds meet it."""
    values = [3.0] * n_meeting + [1.0] * (len(seeds) - n_meeting)
    found = judged("M3b", planted(BY_ID["M3b"].conditions[0].of, values, seeds=seeds))
    n_decisive = sum(seed >= 10 for seed in seeds)
    assert (found.outcome, found.conditions[0].outcome, found.reason) == (outcome, outcome, reason)
    assert (found.n_meeting, found.n_seeds, found.n_decisive) == (n_meeting, len(seeds), n_decisive)
    assert (found.share_low, found.share_high) == proportion_interval(n_meeting, len(seeds))[1:]
    assert found.effect == np.median(values)
    assert expected_by_chance([found]) == outcome_probabilities(0.5, n_decisive)
    assert as_kept(found) == found


@pytest.mark.parametrize(
    ("n_late", "n_seeds", "outcome"),
    [
        (0, 8, "HOLDS"),
        (1, 8, "OPEN"),
        (1, 9, "HOLDS"),
        (4, 8, "OPEN"),
        (5, 8, "NOT JUDGED"),
        (12, 20, "NOT JUDGED"),
    ],
)
def test_seeds_whose_member_never_came_to_the_stage_are_left_out_and_named(
    n_late, n_seeds, outcome
):
    """E2, met at the stage; seeds that never came there do not meet it at their last step, but the
    first one."""
    late = [seed < n_late for seed in range(n_seeds)]
    values = [0.6, *[0.1 if one else 0.6 for one in late[1:]]]
    readings = planted(BY_ID["E2"].conditions[0].of, values).assign(reached=np.logical_not(late))
    found = judged("E2", readings)
    there = n_seeds - n_late
    assert (found.outcome, found.n_meeting, found.n_seeds) == (outcome, there, there)
    assert found.seeds == found.conditions[0].seeds == tuple(range(n_late, n_seeds))
    assert found.unreached == tuple(range(n_late))
    assert (found.effect == 0.6) == bool(there)
    assert found.uncalibrated_outcome == ("HOLDS" if there >= 8 else "OPEN")
    assert found.withheld == (outcome == "NOT JUDGED")
    named = f"never at the stage, so left out: {', '.join(map(str, range(n_late)))} (with them at their last step "
    assert (f"{named}{there + (n_late > 0)}/{n_seeds})" in found.reason) == (n_late > 0)
    assert found.reason.startswith("not reached: ") == (outcome == "NOT JUDGED")
    assert as_kept(found) == found
    (lost,) = judge(readings, [BY_ID["E2"]], diverged=[("", 0.8, 0)])
    assert (lost.met[0], lost.n_seeds, 0 in lost.unreached) == (False, there + (n_late > 0), False)


@pytest.mark.parametrize(("late", "outcome"), [(range(10), "HOLDS"), (range(11, 18), "NOT JUDGED")])
def test_seeds_that_decide_say_whether_the_stage_was_reached(late, outcome):
    claim = replace(BY_ID["E2"], first_seed=10)
    reached = [seed not in late for seed in range(18)]
    readings = planted(claim.conditions[0].of, [0.6] * 18).assign(reached=reached)
    (found,) = judge(readings, [claim])
    assert found.outcome == outcome


@pytest.mark.parametrize("n_learned", [0, 4, 8, 9])
def test_what_was_not_learned_is_not_decided(n_learned):
    """A2's numbers hold in 9 seeds, some of which have learned nothing: their loss is where it
    started."""
    accuracy = [1.0] * n_learned + [0.94] * (9 - n_learned)
    seeds, conditions = range(10, 19), BY_ID["A2"].conditions
    tables = [
        planted(part.of, [0.05 if part.operator == "<=" else 0.4] * 9, seeds=seeds)
        for part in conditions
    ]
    tables.append(planted(BY_ID["A2"].learned.of, accuracy, seeds=seeds))
    first, second = judged("A2", *tables), judged("A2b", *tables)
    said = f"accuracy on rsn_train >= 0.95 in {n_learned} of 9 seeds"
    by_half = n_learned >= 5
    assert (
        first.criterion == BY_ID["A2"].criterion == second.criterion.partition("; in seeds with")[0]
    )
    # without a gate in its criterion all seeds count, and the verdict is withheld
    assert (first.n_meeting, first.n_seeds, first.uncalibrated_outcome) == (9, 9, "HOLDS")
    assert (first.outcome, first.withheld) == (
        ("HOLDS", False) if by_half else ("NOT JUDGED", True)
    )
    # with it only seeds that have learned count
    assert (second.n_meeting, second.n_seeds, second.withheld) == (
        n_learned,
        n_learned,
        0 < n_learned < 5,
    )
    assert second.outcome == ("HOLDS" if n_learned >= 8 else "NOT JUDGED")
    assert first.learned is second.learned is by_half
    for found in (first, second):
        assert (said in found.reason) == (n_learned < 9)
        assert ("not learned: " + said in found.reason) == (not by_half)
    (early,) = judge(readings_of(*tables), [replace(BY_ID["A2"], stopped_early=True)])
    assert early.reason == first.reason.replace("not learned: ", "stopped early: ")
    assert expected_by_chance([first]) == ((2**-8, 2**-8) if by_half else (0, 0))
    assert (
        judged("A2", *tables[:-1]).reason
        == "no reading of learning_order/acc_rsn_train at gamma 0.3, stage 'final'"
    )
    assert (
        judged("A1", *(planted(part.of, [0.95] * 8) for part in BY_ID["A1"].conditions)).learned
        is None
    )


@pytest.mark.parametrize(
    ("large", "middle", "small", "verdict", "decides"),
    [
        (0, 50, 200, "HOLDS", 0),
        (0, 0, 197, "HOLDS", 0),  # exact lower bound .9568
        (0, 0, 195, "OPEN", 0),  # .975, but its lower bound is .9426
        (0, 0, 175, "FAILS", 0),  # .875, upper bound .917
        (0, 0, 170, "FAILS", 0),  # although 85 % of the initialisations are uniform
        (200, 200, 200, "OPEN", 1),  # not less at .3, and not more either
        (60, 50, 200, "OPEN", 2),  # falls, within chance
        (150, 50, 200, "FAILS", 2),  # falls, clearly
        (0, 200, 199, "OPEN", 3),
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
    assert (
        judged("I1", *shares(large=0, small=200)).outcome == "NOT JUDGED"
    )  # gamma .5 was not tried
    assert (
        judged("I1", *shares(n=20, large=0, middle=0, small=20)).outcome == "OPEN"
    )  # lower bound .83


def test_a_claim_about_all_gammas_counts_readings_of_no_single_gamma():
    term = Term("unseen_attention", "kept", None, "final", "unseen", label="share of members")
    claim = Claim("F", "Kept.", "text", (Condition(term, ">=", 0.9),), unit="share")
    every = planted(replace(term, gamma=0.8), [1.0] * 99 + [0.0], gamma=np.nan)
    single = planted(replace(term, gamma=0.8), [0.0] * 8)
    (found,) = judge(
        pd.concat([every, single], ignore_index=True), [claim], diverged=[("", 0.8, 0)]
    )
    assert (found.outcome, found.n_seeds, found.n_meeting) == ("HOLDS", 100, 99)
    assert found.criterion.startswith("all gammas, final: share of members >= 0.9; a share meets")
    assert as_kept(found) == found
    (nothing,) = judge(single, [claim])
    assert nothing.outcome == "NOT JUDGED"
    assert nothing.reason.startswith("no reading of unseen_attention/kept at all gammas")


AUC = Term("auc", "within", None, "final", label="AUC")


@pytest.mark.parametrize(
    ("operator", "numbers", "outcome", "reason"),
    [
        (">=", (0.95, 0.8, 1.0), "HOLDS", ""),
        (">=", (0.95, 0.79, 1.0), "OPEN", "the interval contains 0.8"),
        (">=", (0.5, 0.2, 0.79), "FAILS", ""),
        ("<=", (0.5, 0.2, 0.8), "HOLDS", ""),
        ("<=", (0.7, 0.6, 0.9), "OPEN", "the interval contains 0.8"),
        ("<=", (0.9, 0.81, 1.0), "FAILS", ""),
        (">=", (0.9, NAN, 1.0), "NOT JUDGED", "no interval was read with it"),
    ],
)
def test_a_number_of_all_members_is_judged_by_the_interval_that_was_read_with_it(
    operator, numbers, outcome, reason
):
    claim = Claim("K", "Tells.", "text", (Condition(AUC, operator, 0.8),), unit="interval")
    names = [AUC.quantity + end for end in ("", ":low", ":high")]
    readings = [
        planted(replace(AUC, quantity=name), [x], gamma=NAN)
        for name, x in zip(names, numbers, strict=True)
    ]
    lost = [("", 0.8, 11)]  # no seeds to count, so none that diverged
    (found,) = judge(pd.concat(readings, ignore_index=True), [claim], diverged=lost)
    assert (found.outcome, found.reason) == (outcome, reason)
    assert found.conditions[0].n_seeds == 1
    assert (found.effect, found.high) == (numbers[0], numbers[2])
    assert (found.n_seeds, found.n_meeting) == (1, claim.conditions[0].met(numbers[0]))
    assert expected_by_chance([found]) == (0.025, 0.025)
    (nothing,) = judge(readings[1], [claim], diverged=lost)
    assert nothing.reason == "no reading of auc/within at all gammas, stage 'final'"
    assert expected_by_chance([nothing]) == (0, 0)
    assert "its whole interval over members" in found.criterion


SEEDS = range(8)


def planted_effects(effect=0.5, control=0.1, gammas=(0.3, 0.8)):
    """Effects and readings of ``without_reasoning``: the untrained at 0, seeds .01 apart."""
    effects, readings = [], []
    for gamma in gammas:
        for seed in SEEDS:
            for stage, size in (
                ("init", 0.0),
                ("half" if gamma == 0.8 else "matched", effect + 0.01 * seed),
            ):
                row = {"gamma": gamma, "seed": seed, "stage": stage, "step": 10, "set": "rsn_train"}
                effects.append(
                    {
                        **row,
                        "intervention": "without_reasoning",
                        "quantity": "loss_increase",
                        "effect": size,
                        "control": control,
                        "difference": size - control,
                    }
                )
                for quantity in ("effect", "control", "difference"):
                    readings.append(
                        {
                            **row,
                            "probe": "without_reasoning",
                            "layer": np.nan,
                            "head": np.nan,
                            "quantity": quantity,
                            "value": effects[-1][quantity],
                            "untrained": np.nan,
                            "n": 300,
                        }
                    )
    return pd.DataFrame(readings), pd.DataFrame(effects)


def judge_effects(**sizes):
    return judge_checks(
        *planted_effects(**sizes), CHECKS, sibling_stages=AnchorConfig.sibling_stages
    )


def cause_of(of, **sizes):
    return next(cause for cause in judge_effects(**sizes) if cause.of == of)


@pytest.mark.parametrize(("effect", "verdict"), [(0.5, "HOLDS"), (0.2, "FAILS"), (0.28, "OPEN")])
def test_the_rule_is_the_claims_own(effect, verdict):
    m4 = cause_of("M4", effect=effect)  # difference >= .20; seeds are .01 apart
    assert m4.verdict.outcome == verdict
    assert m4.verdict.effect == pytest.approx(effect + 0.035 - 0.1)
    assert (m4.verdict.n_seeds, m4.quantity) == (8, "loss_increase")


def test_cells_are_medians_over_seeds_at_the_stage_of_each_gamma():
    large, small = cause_of("M4").by_gamma
    assert (large["gamma"], large["stage"], small["gamma"], small["stage"]) == (
        0.3,
        "matched",
        0.8,
        "half",
    )
    assert (small["effect"], small["low"], small["high"]) == pytest.approx((0.535, 0.5, 0.57))
    assert (small["control"], small["control_low"], small["n_seeds"]) == (0.1, 0.1, 8)
    readings, effects = planted_effects()
    late = effects.assign(reached=effects["seed"] < 6)
    checks = [check for check in CHECKS if check.of == "M4"]
    (cause,) = judge_checks(readings, late, checks, sibling_stages=AnchorConfig.sibling_stages)
    assert (cause.by_gamma[1]["n_seeds"], cause.by_gamma[1]["high"]) == (6, 0.55)


def test_every_mechanism_is_there_and_what_was_not_measured_says_so():
    causes = judge_effects()
    kept = VERDICT_FILES["checks.json"]
    assert (
        kept.validate_json(json.dumps(kept.dump_python(causes, mode="json"), allow_nan=False))
        == causes
    )
    assert [cause.of for cause in causes] == [cause.of for cause in CHECKS]
    missing = next(cause for cause in causes if cause.of == "M7")
    assert (missing.verdict.outcome, missing.by_gamma) == ("NOT JUDGED", ())
    assert "no reading of key_blocked/difference at gamma 0.8" in missing.verdict.reason
