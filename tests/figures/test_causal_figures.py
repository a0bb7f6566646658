from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from synthetic_causes import paper_like
from synthetic_evidence import make_evidence

from rb_interp.claims.causes import CAUSES, WORDS
from rb_interp.claims.judging_causes import EARLY
from rb_interp.claims.registry import CAUSAL
from rb_interp.figures.ablations import METHODS, PLACES, caption_ablations, components, draw_ablations
from rb_interp.figures.cause_criteria import PANELS, by_seed, criteria, level, stage_of
from rb_interp.figures.causes import caption_causes, draw_causes
from rb_interp.figures.evidence import TABLES, MissingEvidenceError
from rb_interp.figures.patching_matrix import caption_patching_matrix, columns, draw_patching_matrix, matrix
from rb_interp.figures.registry import FIGURES
from rb_interp.figures.style import SET_COLOURS

CAUSAL_FIGURES = ("causes", "ablations", "patching_matrix", "dynamics")


@pytest.fixture(scope="module")
def evidence():
    return make_evidence(seeds=5)


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(Text)).replace("\n", " ").replace("\xa0", " ")


def pick(table, **where):
    for column, value in where.items():
        table = table[table[column] == value]
    return table


def marks(axes) -> list[np.ndarray]:
    """Heights of what is drawn as separate marks, seeds and means."""
    return [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]


def drawn(axes, values) -> bool:
    return any(len(y) == len(values) and np.allclose(y, values) for y in marks(axes))


def test_every_intervention_and_criterion_has_its_panel():
    assert {panel.intervention for panel in PANELS} == set(WORDS)
    shown = {part: ids for panel in PANELS for part, ids in criteria(panel).items()}
    checks = [(cause.of, cause.check) for cause in CAUSES] + [(claim.id, claim) for claim in CAUSAL]
    for claim_id, check in checks:
        for part in check.parts:
            assert claim_id in shown[part].split(", "), part
    for cause in CAUSES:
        term = cause.check.parts[0].of
        early = term.stage != "final"
        assert stage_of(cause.intervention, 0.8, [0.3, 0.8]) == ("half" if early else "final")
        assert stage_of(cause.intervention, 0.3, [0.3, 0.8]) == (EARLY["half"] if early else "final")


def test_panels_of_causes_show_every_seed_of_effect_and_placebo_and_their_means(evidence):
    table = evidence.tables["effects"]
    axes = draw_causes(evidence).axes
    for panel, place in (("forced_average", 0), ("key_blocked", 5), ("swap_sum", 9)):
        rows = "mem" if place == 5 else "rsn_train"
        for gamma in evidence.gammas:
            stage = "final" if place else ("half" if gamma == 0.8 else "matched")
            here = pick(table, intervention=panel, rows=rows, gamma=gamma, stage=stage).sort_values("seed")
            assert len(here) == 5
            for column in ("effect", "placebo"):
                assert drawn(axes[place], here[column].to_numpy()), (panel, gamma, column)
                assert drawn(axes[place], [here[column].mean()] * 2), (panel, gamma, column)


def test_criteria_lie_where_the_mean_over_seeds_is_judged(evidence):
    """A part is met on average exactly where the mean of its marks is on its side of the line."""
    judged = {}
    for cause, record in zip(CAUSES, evidence.causes, strict=True):
        judged |= dict(zip(cause.check.parts, record["parts"], strict=True))
    for panel in PANELS:
        for part in criteria(panel):
            effects = by_seed(evidence, panel, part.of.gamma)
            mean = effects["placebo" if part.of.quantity == "placebo" else "effect"].mean()
            beyond = judged[part]["effect"] - part.threshold
            np.testing.assert_allclose(mean - level(evidence, part), beyond, atol=1e-12, err_msg=part.criterion)
    lines = marks(draw_causes(evidence).axes[2])
    for part in criteria(PANELS[2]):
        assert any(np.allclose(y, level(evidence, part)) for y in lines)


def test_panels_of_a_unit_share_their_scale_and_seeds_never_fall_outside():
    evidence = make_evidence(seeds=3)
    worst = evidence.tables["effects"].copy()
    blocked = worst["intervention"].isin(["key_blocked", "key_blocked_answers"]) & (worst["gamma"] == 0.8)
    blocked &= worst["stage"] == "final"
    worst.loc[blocked, "effect"] = [-40.0, 3000.0] * (int(blocked.sum()) // 2)
    figure = draw_causes(replace(evidence, tables={**evidence.tables, "effects": worst}))
    figure.draw_without_rendering()
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


def test_ablation_panels_show_means_placebos_and_the_most_that_can_be_lost(evidence):
    table = evidence.tables["ablations"]
    names = components(evidence)
    assert names == ["attn_out.0", "mlp_out.0", "attn_out.1", "mlp_out.1"]
    panels = np.array(draw_ablations(evidence).axes).reshape(len(METHODS), len(names))
    for row, method in zip(panels, METHODS, strict=True):
        for axes, component in zip(row, names, strict=True):
            for rows in PLACES:
                here = pick(table, component=component, method=method, rows=rows)
                means = here.groupby("gamma")[["accuracy_lost", "placebo_accuracy_lost"]].mean()
                whole = (here["accuracy"] + here["accuracy_lost"]).groupby(here["gamma"]).mean()
                lines = [line for line in axes.lines if line.get_color() == SET_COLOURS[rows]]
                joined = [line.get_ydata() for line in lines if len(line.get_ydata()) == len(evidence.gammas)]
                assert any(np.allclose(y, means["accuracy_lost"]) for y in joined)
                for gamma in evidence.gammas:
                    assert drawn(axes, [means["placebo_accuracy_lost"][gamma]] * 2)
                    assert drawn(axes, [whole[gamma]] * 2)


def test_patching_matrices_are_means_over_seeds_and_split_by_circuit(evidence):
    found = columns(evidence)
    assert [(c.gamma, c.circuit, c.seeds) for c in found] == [
        (0.3, "", (0, 1, 2, 3, 4)),
        (0.5, "", (0, 1, 2, 3, 4)),
        (0.8, "average-then-key", (0, 2, 4)),
        (0.8, "key-to-anchors", (1, 3)),
    ]
    assert all(paper_like(0.8, seed) for seed in found[2].seeds)
    figure = draw_patching_matrix(evidence)
    panels = np.array(figure.axes[:8]).reshape(2, 4)
    table = evidence.tables["patching"]
    rows = [label.get_text() for label in panels[0, 0].get_yticklabels()]
    roles = [label.get_text() for label in panels[1, 0].get_xticklabels()]
    for line, change in zip(panels, ("key", "anchors"), strict=True):
        for axes, column in zip(line, found, strict=True):
            here = table[(table["gamma"] == column.gamma) & table["seed"].isin(column.seeds)]
            here = pick(here, change=change, component="attn_out", layer=0, role="last")
            shown = axes.images[0].get_array()[rows.index("layer 1: attention"), roles.index("last\nposition")]
            np.testing.assert_allclose(shown, here["recovered"].mean())
            np.testing.assert_allclose(np.ma.getdata(axes.images[0].get_array()), matrix(evidence, change, column))


def test_cells_outside_the_unit_are_marked_and_written_as_they_are(evidence):
    table = evidence.tables["patching"].copy()
    table["recovered"] = 0.5
    at = (table["component"] == "mlp_out") & (table["layer"] == 1) & (table["role"] == "key")
    table.loc[at & (table["change"] == "key"), "recovered"] = -0.3
    table.loc[at & (table["change"] == "anchors"), "recovered"] = 1.4
    panels = draw_patching_matrix(replace(evidence, tables={"patching": table})).axes[:8]
    for axes, marker, text in ((panels[0], "v", "−.30"), (panels[4], "^", "1.40")):
        triangles = [line for line in axes.lines if line.get_marker() in ("v", "^")]
        assert [line.get_marker() for line in triangles] == [marker]
        assert [t.get_text() for t in axes.texts if t.get_text() != ".50"] == [text]


def test_captions_say_the_numbers_of_the_tables(evidence):
    effects = by_seed(evidence, PANELS[8], 0.8)
    assert f"by the key in {effects['effect'].mean():.2f} [" in caption_causes(evidence).seen
    table = evidence.tables["patching"].copy()
    table.loc[(table["gamma"] == 0.5).idxmax(), "placebo"] = -0.37
    changed = replace(evidence, tables={"patching": table})
    assert "0.37 at γ = 0.5" in caption_patching_matrix(changed).seen
    assert "split by circuit" in caption_patching_matrix(changed).seen
    alike = replace(changed, circuits=evidence.circuits.assign(circuit="mixed"))
    assert "split by circuit" not in caption_patching_matrix(alike).seen
    assert "5 seeds, 4 components" in caption_ablations(evidence).seen


@pytest.mark.parametrize("spec", [s for s in FIGURES if s.id in CAUSAL_FIGURES], ids=lambda spec: spec.id)
def test_a_run_without_the_tables_says_what_makes_them(spec, evidence):
    emptied = {name: table.iloc[:0] for name, table in evidence.tables.items()}
    for tables in ({}, emptied):
        bare = replace(evidence, tables=tables)
        figure = spec.draw(bare)
        figure.draw_without_rendering()
        assert "This run has no table of" in texts(figure)
        assert "This run has no table of" in str(spec.caption(bare))
    for name in TABLES:
        with pytest.raises(MissingEvidenceError, match=r"no table of .*; “rb-interp probe RUN” makes it"):
            replace(evidence, tables=emptied).table(name)


def test_a_run_that_lacks_one_intervention_or_one_rate_shows_the_rest(evidence):
    table = evidence.tables["effects"]
    kept = table[(table["intervention"] != "number_line") & ~((table["gamma"] == 0.3) & (table["stage"] == "final"))]
    figure = draw_causes(replace(evidence, tables={"effects": kept}))
    figure.draw_without_rendering()
    assert "no effect of number_line" in texts(figure)
    assert [text.get_text() for text in figure.axes[4].texts].count("no reading") == 1
    with pytest.raises(MissingEvidenceError, match=r"No effect of swap_key at γ = 0\.3, stage final"):
        by_seed(replace(evidence, tables={"effects": kept}), PANELS[8], 0.3)


def test_interventions_without_placebo_are_drawn_without_the_criteria_that_are_measured_from_it(evidence):
    table = evidence.tables["effects"].assign(placebo=np.nan, difference=np.nan)
    bare = replace(evidence, tables={"effects": table})
    figure = draw_causes(bare)
    figure.draw_without_rendering()
    names = {axes.get_title(loc="left"): [text.get_text() for text in axes.texts] for axes in figure.axes}
    assert "M6" in names[PANELS[2].title]
    assert "M4" not in names[PANELS[2].title]
    assert "nan" not in str(caption_causes(bare))


def test_other_layers_and_other_rates_are_drawn_too():
    evidence = make_evidence(gammas=(0.4, 0.6), seeds=2)
    table = evidence.tables["ablations"]
    deeper = table.assign(component=table["component"].str.replace(".1", ".2", regex=False))
    both = replace(evidence, tables={**evidence.tables, "ablations": deeper})
    for spec in (s for s in FIGURES if s.id in CAUSAL_FIGURES):
        spec.draw(both).draw_without_rendering()
        assert "nan" not in str(spec.caption(both))
    assert [axes.get_title(loc="left") for axes in draw_ablations(both).axes[2:4]] == [
        "layer 3: attention",
        "layer 3: MLP",
    ]
