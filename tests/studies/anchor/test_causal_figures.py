from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from synthetic_causes import paper_like
from synthetic_evidence import make_evidence, with_tables

from rb_interp.figures.evidence import MissingEvidenceError
from rb_interp.figures.save import draw
from rb_interp.figures.style import SET_COLOURS, styled
from rb_interp.studies.anchor.checks import CHECKS, INTERVENTIONS
from rb_interp.studies.anchor.claims import CAUSAL, SECOND
from rb_interp.studies.anchor.figures import FIGURES
from rb_interp.studies.anchor.figures.ablations import METHODS, PLACES, caption_ablations, components, draw_ablations
from rb_interp.studies.anchor.figures.cause_criteria import PANELS, by_seed, conditions, level, over_seeds, stage_of
from rb_interp.studies.anchor.figures.causes import caption_causes, draw_causes
from rb_interp.studies.anchor.figures.patching_matrix import (
    caption_patching_matrix,
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


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(Text)).replace("\n", " ").replace("\xa0", " ")


def pick(table, **where):
    for column, value in where.items():
        table = table[table[column] == value]
    return table


def drawn(axes, values) -> bool:
    heights = [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]
    return any(len(y) == len(values) and np.allclose(y, values) for y in heights)


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


def test_panels_of_a_unit_share_their_scale_and_seeds_never_fall_outside(evidence):
    worst = evidence.tables["effects"].copy()
    blocked = worst["intervention"].isin(["key_blocked", "key_blocked_answers"]) & (worst["gamma"] == 0.8)
    blocked &= worst["stage"] == "final"
    worst.loc[blocked, "effect"] = [-40.0, 3000.0] * (int(blocked.sum()) // 2)
    figure = draw_causes(replace(evidence, tables=with_tables(evidence, effects=worst)))
    rows = np.array(figure.axes).reshape(-1, 4)
    for nats in (rows[0], rows[1, :2]):
        assert len({axes.get_ylim() for axes in nats}) == 1
        assert {axes.get_yscale() for axes in nats} == {"symlog"}
    assert len({axes.get_ylim() for axes in rows[2]}) == 1
    for axes in figure.axes:
        low, high = axes.get_ylim()
        seeds = np.concatenate([line.get_ydata() for line in axes.lines if line.get_marker() != "None"])
        seeds = seeds[seeds < 100] if axes in rows[1, 2:] else seeds  # an accuracy has no room for 3000
        assert low <= seeds.min() <= seeds.max() <= high


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


def test_cells_outside_the_unit_are_marked_and_written_as_they_are(evidence):
    table = evidence.tables["patching"].assign(recovered=0.5)
    at = (table["component"] == "mlp_out") & (table["layer"] == 1) & (table["role"] == "key")
    table.loc[at & (table["counterfactual"] == "key"), "recovered"] = -0.3
    table.loc[at & (table["counterfactual"] == "anchors"), "recovered"] = 1.4
    panels = draw_patching_matrix(replace(evidence, tables=with_tables(evidence, patching=table))).axes[:8]
    for axes, marker, text in ((panels[0], "v", "−.30"), (panels[4], "^", "1.40")):
        triangles = [line for line in axes.lines if line.get_marker() in ("v", "^")]
        assert [line.get_marker() for line in triangles] == [marker]
        assert [t.get_text() for t in axes.texts if t.get_text() != ".50"] == [text]


def test_captions_say_the_numbers_of_the_tables(evidence):
    effects = [row["effect"] for row in by_seed(evidence, PANELS[8], 0.8)]
    assert f"by the key in {np.median(effects):.2f} [" in caption_causes(evidence).seen
    table = evidence.tables["patching"].copy()
    table.loc[(table["gamma"] == 0.5).idxmax(), "control"] = -0.37
    changed = replace(evidence, tables=with_tables(evidence, patching=table))
    assert "0.37 at γ = 0.5" in caption_patching_matrix(changed).seen
    assert "split by circuit" in caption_patching_matrix(changed).seen
    alike = with_tables(evidence, circuits=evidence.tables["circuits"].assign(cause="mixed"))
    assert "split by circuit" not in caption_patching_matrix(replace(evidence, tables=alike)).seen
    assert "5 seeds, 4 components" in caption_ablations(evidence).seen


@pytest.mark.parametrize("spec", CAUSAL_FIGURES, ids=lambda spec: spec.id)
def test_a_run_without_the_tables_says_what_makes_them(spec, evidence):
    for tables in ({}, {name: table.iloc[:0] for name, table in evidence.tables.items()}):
        bare = replace(evidence, tables=tables)
        assert "“rb-interp probe RUN” makes it" in texts(draw(spec, bare))
        with pytest.raises(MissingEvidenceError, match=r"no table .*; “rb-interp probe RUN” makes it"):
            spec.caption(bare)


def test_a_run_that_lacks_one_intervention_or_one_rate_shows_the_rest(evidence):
    table = evidence.tables["effects"]
    kept = table[(table["intervention"] != "number_line") & ~((table["gamma"] == 0.3) & (table["stage"] == "final"))]
    some = replace(evidence, tables=with_tables(evidence, effects=kept))
    figure = draw_causes(some)
    assert "no effect of number_line" in texts(figure)
    assert [text.get_text() for text in figure.axes[4].texts].count("no reading") == 1
    assert by_seed(some, PANELS[8], 0.3) == []
    assert np.isnan(over_seeds(some, PANELS[8], 0.3, "effect").estimate)


def test_interventions_without_control_are_drawn_without_the_thresholds_that_are_measured_from_it(evidence):
    table = evidence.tables["effects"].assign(control=np.nan, difference=np.nan)
    bare = replace(evidence, tables=with_tables(evidence, effects=table))
    names = {
        axes.get_title(loc="left"): [text.get_text() for text in axes.texts] for axes in styled(draw_causes)(bare).axes
    }
    assert "M6" in names[PANELS[2].title]
    assert "M4" not in names[PANELS[2].title]
    assert "nan" not in str(caption_causes(bare))


def test_other_layers_and_other_rates_are_drawn_too():
    evidence = make_evidence(gammas=(0.4, 0.6), seeds=2)
    table = evidence.tables["ablations"]
    deeper = table.assign(component=table["component"].str.replace(".1", ".2", regex=False))
    both = replace(evidence, tables=with_tables(evidence, ablations=deeper))
    for spec in CAUSAL_FIGURES:
        draw(spec, both)
        assert "nan" not in str(spec.caption(both))
    drawn = styled(draw_ablations)(both).axes
    assert [axes.get_title(loc="left") for axes in drawn[2:4]] == ["L2: attention", "L2: MLP"]
