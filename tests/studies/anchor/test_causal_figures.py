from dataclasses import replace

import numpy as np
import pytest
from drawing import drawn, texts
from synthetic_causes import paper_like
from synthetic_evidence import make_evidence

from rb_interp.figures.evidence import MissingEvidenceError
from rb_interp.figures.save import draw
from rb_interp.figures.style import SET_COLOURS
from rb_interp.studies.anchor.checks import CHECKS, INTERVENTIONS
from rb_interp.studies.anchor.claims import CAUSAL, SECOND
from rb_interp.studies.anchor.figures import FIGURES
from rb_interp.studies.anchor.figures.ablations import METHODS, PLACES, components, draw_ablations
from rb_interp.studies.anchor.figures.causes import PANELS, conditions, draw_causes, level, over_seeds, stage_of
from rb_interp.studies.anchor.figures.patching_matrix import (
    columns,
    draw_patching_matrix,
    matrix,
)

pytestmark = pytest.mark.wide

CAUSAL_FIGURES = [spec for spec in FIGURES if spec.id in ("causes", "ablations", "patching_matrix", "dynamics")]


@pytest.fixture(scope="module")
def evidence():
    return make_evidence(seeds=5)


@pytest.fixture(scope="module")
def causes(evidence):
    return draw_causes(evidence)


def pick(table, **where):
    for column, value in where.items():
        table = table[table[column] == value]
    return table


def test_every_intervention_and_condition_has_its_panel():
    assert {panel.intervention for panel in PANELS} == set(INTERVENTIONS)
    shown = {condition: ids for panel in PANELS for condition, ids in conditions(panel).items()}
    causal = [claim for claim in (*CAUSAL, *SECOND) if claim.conditions[0].of.probe in INTERVENTIONS]
    assert [claim.id for claim in causal] == ["M9", "M10", "M4b", "M9b"]
    for claim_id, claim in [(check.of, check.check) for check in CHECKS] + [(claim.id, claim) for claim in causal]:
        for condition in claim.conditions:
            assert claim_id in shown[condition].split(", "), condition
    for check in CHECKS:
        early = check.check.conditions[0].of.stage != "final"
        assert stage_of(check.intervention, 0.8, [0.3, 0.8]) == ("half" if early else "final")
        assert stage_of(check.intervention, 0.3, [0.3, 0.8]) == ("matched" if early else "final")


def test_panels_of_causes_show_every_seed_of_effect_and_control_and_their_means(evidence, causes):
    for intervention, place in (("forced_average", 0), ("key_blocked", 5), ("swap_sum", 9)):
        inputs = "mem" if place == 5 else "rsn_train"
        for gamma in evidence.gammas:
            stage = "final" if place else "half" if gamma == 0.8 else "matched"
            where = {"intervention": intervention, "set": inputs, "gamma": gamma, "stage": stage}
            here = pick(evidence.tables["effects"], **where).sort_values("seed")
            assert len(here) == 5
            for column in ("effect", "control"):
                assert drawn(causes.axes[place], here[column].to_numpy()), (intervention, gamma, column)
                assert drawn(causes.axes[place], [here[column].mean()] * 2), (intervention, gamma, column)


def test_thresholds_lie_where_the_mean_over_seeds_would_meet_them(evidence, causes):
    """A condition is met on average exactly where the mean of its marks is on its side of the line."""
    judged = {}
    for check, found in zip(CHECKS, evidence.checks, strict=True):
        judged |= dict(zip(check.check.conditions, found.verdict.conditions, strict=True))
    for claim in SECOND:
        judged |= dict(zip(claim.conditions, evidence.verdicts[claim.id].conditions, strict=True))
    for panel in PANELS:
        for condition in conditions(panel):
            marks = "control" if condition.of.quantity == "control" else "effect"
            beyond = over_seeds(evidence, panel, condition.of.gamma, marks).estimate - level(evidence, condition)
            expected = np.mean(judged[condition].values) - condition.threshold
            np.testing.assert_allclose(beyond, expected, atol=1e-12, err_msg=condition.criterion)
    assert all(drawn(causes.axes[2], [level(evidence, condition)] * 2) for condition in conditions(PANELS[2]))


def test_ablation_panels_show_means_controls_and_the_most_that_can_be_lost(evidence):
    names = components(evidence)
    assert names == ["attn_out.0", "mlp_out.0", "attn_out.1", "mlp_out.1"]
    panels = np.array(draw_ablations(evidence).axes).reshape(len(METHODS), len(names))
    for row, method in zip(panels, METHODS, strict=True):
        for axes, component in zip(row, names, strict=True):
            for inputs in PLACES:
                here = pick(evidence.tables["ablations"], component=component, method=method, set=inputs)
                means = here.groupby("gamma")[["accuracy_drop", "control_accuracy_drop"]].mean()
                whole = (here["accuracy"] + here["accuracy_drop"]).groupby(here["gamma"]).mean()
                lines = [line.get_ydata() for line in axes.lines if line.get_color() == SET_COLOURS[inputs]]
                joined = [y for y in lines if len(y) == len(evidence.gammas)]
                assert any(np.allclose(y, means["accuracy_drop"]) for y in joined)
                for gamma in evidence.gammas:
                    assert drawn(axes, [means["control_accuracy_drop"][gamma]] * 2)
                    assert drawn(axes, [whole[gamma]] * 2)


def test_patching_matrices_are_means_over_seeds_and_split_by_circuit(evidence):
    found = columns(evidence)
    circuits = {"average-then-key": (0, 2, 4), "key-to-anchors": (1, 3), "": range(5)}
    expected = [(0.3, "", 5), (0.5, "", 5), (0.8, "average-then-key", 3), (0.8, "key-to-anchors", 2)]
    assert [tuple(column) for column in found] == expected
    assert all(paper_like(0.8, seed) for seed in circuits["average-then-key"])
    panels = np.array(draw_patching_matrix(evidence).axes[:8]).reshape(2, 4)
    rows = [label.get_text() for label in panels[0, 0].get_yticklabels()]
    roles = [label.get_text() for label in panels[1, 0].get_xticklabels()]
    for line, change in zip(panels, ("key", "anchors"), strict=True):
        for axes, column in zip(line, found, strict=True):
            here = pick(evidence.tables["patching"], gamma=column.gamma, counterfactual=change, layer=0, role="last")
            here = pick(here[here["seed"].isin(circuits[column.circuit])], component="attn_out")
            shown = axes.images[0].get_array()[rows.index("L0: attention"), roles.index("last\nposition")]
            np.testing.assert_allclose(shown, here["recovered"].mean())
            np.testing.assert_allclose(np.ma.getdata(axes.images[0].get_array()), matrix(evidence, change, column))


@pytest.mark.parametrize("spec", CAUSAL_FIGURES, ids=lambda spec: spec.id)
def test_a_run_without_the_tables_says_what_makes_them(spec, evidence):
    for tables in ({}, {name: table.iloc[:0] for name, table in evidence.tables.items()}):
        bare = replace(evidence, tables=tables)
        assert "“rb-interp probe RUN” makes it" in texts(draw(spec, bare))
        with pytest.raises(MissingEvidenceError, match=r"no table .*; “rb-interp probe RUN” makes it"):
            spec.caption(bare)
