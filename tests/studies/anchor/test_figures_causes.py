from dataclasses import replace

import numpy as np
import pytest
from drawing import drawn
from report.pages import check_page

from rb_interp.claims import Term
from rb_interp.studies.anchor import ANCHOR
from rb_interp.studies.anchor.checks import CHECKS
from rb_interp.studies.anchor.claims import SECOND
from rb_interp.studies.anchor.figures_causes import (
    CRITERIA,
    PANELS,
    ROLES,
    conditions,
    draw_causes,
    draw_dynamics,
    draw_patching,
    level,
    stage_of,
)

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def causes(evidence):
    return draw_causes(evidence)


def pick(table, **where):
    for column, value in where.items():
        table = table[table[column] == value]
    return table


def test_thresholds_lie_where_the_mean_over_seeds_would_meet_them(evidence, causes):
    """A condition is met on average exactly where the mean of its marks is on its side of the
    line."""
    judged = {}
    for check, found in zip(CHECKS, evidence.checks, strict=True):
        judged |= dict(zip(check.check.conditions, found.verdict.conditions, strict=True))
    for claim in SECOND:
        judged |= dict(zip(claim.conditions, evidence.verdicts[claim.id].conditions, strict=True))
    for panel in PANELS:
        for condition in conditions(panel):
            if len(judged[condition].values) < 2:
                continue  # M7b, of seeds that know the memory mapping
            marks = "control" if condition.of.quantity == "control" else "effect"
            stage = stage_of(panel.intervention, condition.of.gamma, evidence.gammas)
            where = {
                "intervention": panel.intervention,
                "set": panel.set,
                "gamma": condition.of.gamma,
                "stage": stage,
            }
            beyond = pick(evidence.tables["effects"], **where)[marks].mean() - level(
                evidence, condition
            )
            expected = np.mean(judged[condition].values) - condition.threshold
            np.testing.assert_allclose(beyond, expected, atol=1e-12, err_msg=condition.criterion)
    assert all(
        drawn(causes.axes[2], [level(evidence, condition)] * 2)
        for condition in conditions(PANELS[2])
    )


def test_patching_matrices_are_means_over_seeds_and_split_by_circuit(evidence):
    named = evidence.tables["circuits"].assign(cause="mixed")
    small = named["gamma"] == 0.8
    named.loc[small, "cause"] = named.loc[small, "seed"].map(
        {0: "average-then-key", 1: "key-to-anchors"}
    )
    split = replace(evidence, tables={**evidence.tables, "circuits": named})
    panels = np.array(draw_patching(split).axes[:8]).reshape(2, 4)
    rows = [label.get_text() for label in panels[0, 0].get_yticklabels()]
    roles = [role for role in ROLES if role in set(evidence.tables["patching"]["role"])]
    shown = [(0.3, [0, 1]), (0.5, [0, 1]), (0.8, [0]), (0.8, [1])]
    for line, change in zip(panels, ("key", "anchors"), strict=True):
        for axes, (gamma, seeds) in zip(line, shown, strict=True):
            here = pick(
                evidence.tables["patching"],
                gamma=gamma,
                counterfactual=change,
                layer=0,
                role="last",
            )
            here = pick(here[here["seed"].isin(seeds)], component="attn_out")
            value = axes.images[0].get_array()[rows.index("L0: attention"), roles.index("last")]
            np.testing.assert_allclose(value, here["recovered"].mean())


def test_the_page_shows_every_figure_and_every_verdict(evidence):
    page = check_page(
        ANCHOR, evidence, lacking=["equivalence", "disagreement_means"]
    )  # no member has a circuit
    for check in CHECKS:
        assert check.done.split("'")[0] in page


def test_a_single_member_is_of_the_lowest_seed_whose_circuit_has_a_name(evidence):
    named = evidence.tables["circuits"]
    place = Term("uniformity", "mean_pattern", 0.8, "half", "rsn_train")
    for causes, seed in ((("mixed", "key-to-anchors"), 1), (("mixed", "none"), 0)):
        circuits = named.assign(cause=named["seed"].map(dict(enumerate(causes))))
        named_now = replace(evidence, tables={**evidence.tables, "circuits": circuits})
        shown, pattern = named_now.first(place)
        assert shown == seed
        np.testing.assert_array_equal(pattern, evidence.array(place)[seed])


def test_events_without_a_date_have_no_row(evidence):
    events = pick(evidence.tables["events"], event_of="loss")
    panel = draw_dynamics(replace(evidence, tables={**evidence.tables, "events": events})).axes[0]
    assert len(panel.get_yticks()) == 3
    assert len(draw_dynamics(evidence).axes[0].get_yticks()) == len(CRITERIA)
