"""Figures of the studies of several parts draw what their tables say."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from synthetic_theory import EMB_TASK, make_emb_mlp, make_labels

from rb_interp.claims.studies import claims_of
from rb_interp.errors import ConfigError
from rb_interp.figures.agreement import ROWS, draw_agreement
from rb_interp.figures.agreement_end import BAND, BASE, COLUMNS, draw_agreement_end, fall_text, told_end
from rb_interp.figures.criteria import LABELS, THEORY, THRESHOLDS
from rb_interp.figures.distributions import draw_distributions, less_uniform
from rb_interp.figures.drift import draw_drift, r2_at_leaving
from rb_interp.figures.evidence import TABLES, MissingEvidenceError
from rb_interp.figures.label_range import draw_label_range, never_learned, pooled_by_group
from rb_interp.figures.label_speed import draw_label_speed
from rb_interp.figures.parts import FLOOR, PARTS, at_leaving, leaving_steps, part_of, rates, rows_of, told_at_leaving
from rb_interp.figures.registry import EMB_MLP, FIGURES, figures_of
from rb_interp.figures.registry import LABELS as LABEL_FIGURES
from rb_interp.figures.save import save_figures
from rb_interp.figures.scaling import draw_inner_products, draw_lemma_1
from rb_interp.figures.style import gamma_colour
from rb_interp.figures.value_flow import draw_value_flow

MAKERS = {"emb-mlp": make_emb_mlp, "labels": make_labels}
SPECS = [("emb-mlp", spec) for spec in EMB_MLP] + [("labels", spec) for spec in LABEL_FIGURES]
EVERY = pytest.mark.parametrize(("study", "spec"), SPECS, ids=lambda value: getattr(value, "id", value))


@pytest.fixture(scope="module")
def studies():
    return {study: make(seeds=3) for study, make in MAKERS.items()}


@pytest.fixture(scope="module")
def theory(studies):
    return studies["emb-mlp"]


@pytest.fixture(scope="module")
def labels(studies):
    return studies["labels"]


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(Text)).replace("\n", " ").replace("\xa0", " ")


def heights(axes) -> list[np.ndarray]:
    return [np.asarray(line.get_ydata(), dtype=float) for line in axes.lines]


def drawn(axes, values) -> bool:
    return any(len(y) == len(values) and np.allclose(y, values) for y in heights(axes))


def test_every_claim_of_a_study_is_on_one_of_its_figures():
    for study in MAKERS:
        shown = {claim for spec in figures_of(study) for claim in spec.claims}
        assert shown == {claim.id for claim in claims_of(study)}
        assert len({spec.id for spec in figures_of(study)}) == len(figures_of(study))
    assert figures_of("anchor") is FIGURES
    with pytest.raises(ConfigError, match=r"no figures of a study 'label'; did you mean 'labels'\?"):
        figures_of("label")


def test_drawn_thresholds_are_the_claims_own():
    own = {c.id: [part.threshold for part in c.parts] for study in MAKERS for c in claims_of(study)}
    assert own["T1"] == [THEORY["T1"], THEORY["excess"]]
    assert own["T2"] == [THEORY["T2"]]
    assert own["T4"] == [THEORY["T4"], THEORY["excess"]]
    assert own["R1"] == [LABELS["R1"]]
    assert own["R2"] == [LABELS["R2"]]
    assert own["B1"] == [THRESHOLDS["A1"]] * 2
    assert own["B2"][0] == THRESHOLDS["A2"]


@EVERY
def test_captions_say_what_would_refute_each_claim_and_show_no_raw_values(study, spec, studies):
    caption = spec.caption(studies[study])
    assert len(caption.would_refute) > 60
    for claim in spec.claims:
        assert claim in caption.would_refute
    for word in ("nan", "n/a", "None", "{"):
        assert word not in str(caption)


@EVERY
def test_a_study_without_tables_parts_or_readings_gives_sentences(study, spec, studies):
    evidence = studies[study]
    nothing = {name: table.iloc[:0] for name, table in evidence.tables.items()}
    bare = replace(evidence, tables=nothing, parts={}, readings=evidence.readings.iloc[:0])
    figure = spec.draw(bare)
    figure.draw_without_rendering()
    assert "No " in texts(figure) or "no " in texts(figure)
    for word in ("nan", "None"):
        assert word not in str(spec.caption(bare))


@EVERY
def test_one_seed_and_two_rates_are_drawn_too(study, spec):
    rates_of = {"gammas": (0.3, 0.8), "all_gammas": (0.3, 0.8)} if study == "emb-mlp" else {}
    evidence = MAKERS[study](seeds=1, **rates_of)
    spec.draw(evidence).draw_without_rendering()
    assert "nan" not in str(spec.caption(evidence))


def test_same_evidence_gives_same_bytes(labels, tmp_path):
    first, again = (save_figures(e, tmp_path / name) for e, name in ((labels, "a"), (make_labels(3), "b")))
    assert list(first) == list(again) == [spec.id for spec in LABEL_FIGURES]
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def _colours(line) -> tuple:
    return line.get_color(), line.get_markerfacecolor()


def test_a_part_reads_the_studys_readings_of_it(theory):
    own = part_of(theory, "descent").values("drift", "r2", 0.8, stage="leaving", rows="anchor")
    table = theory.readings
    here = table[(table["part"] == "descent") & (table["quantity"] == "r2") & (table["gamma"] == 0.8)]
    assert own.tolist() == here[here["rows"] == "anchor"]["value"].tolist()
    with pytest.raises(MissingEvidenceError, match="no part “sweeps”"):
        part_of(theory, "sweeps")
    with pytest.raises(MissingEvidenceError, match="has no row of descent, γ = 0.35"):
        rows_of(theory, "drift", part="descent", gamma=0.35)
    assert set(theory.tables) | set(make_labels(1).tables) <= set(TABLES)


def test_at_leaving_each_seed_is_read_at_its_own_step(theory):
    steps = leaving_steps(theory, "descent", 0.8)
    assert len(set(steps.values())) == 3
    where = {"part": "descent", "gamma": 0.8, "group": "anchor", "prediction": "step_0"}
    rows = rows_of(theory, "drift", **where).set_index(["seed", "step"])
    assert at_leaving(theory, "r2", **where).tolist() == [rows.loc[place, "r2"] for place in steps.items()]


def test_agreement_lines_are_the_table_cut_at_the_floor(theory):
    panels = np.array(draw_agreement(theory).axes).reshape(len(ROWS), len(PARTS))
    below = 0
    for line, (column, prediction) in zip(panels, ROWS, strict=True):
        for axes, part in zip(line, PARTS, strict=True):
            for gamma in theory.parts[part].gammas:
                where = {"part": part, "gamma": gamma, "group": "anchor", "prediction": prediction}
                table = rows_of(theory, "drift", **where)
                table = table[table["step"] > 0].pivot(index="step", columns="seed", values=column)
                below += int((table < FLOOR).to_numpy().sum())
                cut = np.maximum(table, FLOOR)
                colour = gamma_colour(gamma, rates(theory))
                lines = [(y.get_xdata(), y.get_ydata()) for y in axes.lines if colour in _colours(y)]
                for seed in cut:
                    values = cut[seed].dropna()
                    assert any(np.array_equal(x, values.index) and np.allclose(y, values) for x, y in lines)
                mean = cut.dropna().mean(axis=1)
                assert any(np.array_equal(x, mean.index) and np.allclose(y, mean) for x, y in lines)
                for seed, step in leaving_steps(theory, part, gamma).items():
                    assert any(np.allclose(y, cut.loc[step, seed]) for x, y in lines if len(x) == 1 and x[0] == step)
    assert below > 100  # the floor was put to the test
    assert "below −1" in texts(panels[0, 0].figure)


def test_falls_stand_at_their_step_and_never_in_its_band(theory):
    table = theory.tables["agreement"].copy()
    at = (table["part"] == "descent") & (table["gamma"] == 1.0) & (table["group"] == "key") & (table["metric"] == "r2")
    table.loc[at & (table["seed"] > 0), ["step", "fraction"]] = np.nan
    evidence = replace(theory, tables={**theory.tables, "agreement": table})
    panels = np.array(draw_agreement_end(evidence).axes).reshape(2, len(COLUMNS))
    marks = [y for y in heights(panels[0, 0]) if len(y) == 3 and (y > BAND).any()]
    assert [int((y > BAND).sum()) for y in marks] == [2]
    where = {"part": "descent", "metric": "r2", "prediction": "each_step"}
    fractions = rows_of(evidence, "agreement", group="anchor", gamma=0.8, **where)["fraction"].to_numpy()
    expected = BASE + (BAND - BASE) * (1.04 - fractions) / 1.08
    assert drawn(panels[1, 0], expected)
    assert any(len(y) == 2 and np.allclose(y, np.median(expected)) for y in heights(panels[1, 0]))
    at = {"part": "one_layer", "metric": "r2", "group": "anchor", "gamma": 0.8}
    shares = rows_of(evidence, "agreement", prediction="positions", **at)["fraction"].to_numpy()
    assert drawn(panels[1, 3], BASE + (BAND - BASE) * (1.04 - shares) / 1.08)
    ticks = {t.get_text(): y for t, y in zip(panels[0, 0].get_yticklabels(), panels[0, 0].get_yticks(), strict=True)}
    steps = rows_of(evidence, "agreement", group="anchor", gamma=0.8, **where)["step"].to_numpy()
    on_axis = ticks["10"] + np.log10(steps / 10) * (ticks["100"] - ticks["10"])
    assert drawn(panels[0, 0], on_axis)


def test_falls_in_words():
    assert fall_text(pd.Series([np.nan] * 2), pd.Series([np.nan] * 2)) == "never (2 seeds)"
    assert fall_text(pd.Series([10.0, 30.0]), pd.Series([1.0, 0.5])) == "step 20 (f = 0.750)"


def test_drift_panels_show_every_seed_the_control_and_the_criteria(theory):
    panels = draw_drift(theory).axes
    for axes, part in zip(panels, PARTS, strict=True):
        for gamma in theory.parts[part].gammas:
            for quantity in ("r2", "permuted", *(("r2_positions",) if part == "one_layer" else ())):
                values = r2_at_leaving(theory, part, gamma, quantity)
                outside = values < FLOOR
                assert drawn(panels[list(PARTS).index(part)], np.where(outside, FLOOR - 0.08, values))
                if not outside.any():
                    assert drawn(axes, [values.mean()] * 2)
    small = r2_at_leaving(theory, "descent", 0.8)
    lines = [y for y in heights(panels[0]) if len(y) == 2 and y[0] == y[1]]
    for level in (0.90, r2_at_leaving(theory, "descent", 0.8, "permuted").mean() + 0.10, small.mean() - 0.20):
        assert any(np.isclose(y[0], level) for y in lines)
    table = theory.tables["drift"]
    at = table[(table["part"] == "descent") & (table["gamma"] == 0.8) & (table["prediction"] == "each_step")]
    at = at[(at["group"] == "anchor") & (at["seed"] == 1) & (at["step"] == leaving_steps(theory, "descent", 0.8)[1])]
    assert r2_at_leaving(theory, "descent", 0.8, "permuted")[1] == pytest.approx(at["r2_permuted"].item())


def test_value_flow_lines_are_means_over_seeds(theory):
    figure = draw_value_flow(theory)
    for axes, column in zip(figure.axes, ("cos", "cos_direction", "share_leading"), strict=True):
        rows = rows_of(theory, "value_flow", part="one_layer", gamma=0.8)
        table = rows[rows["step"] > 0].pivot(index="step", columns="seed", values=column).dropna()
        assert drawn(axes, table.mean(axis=1))


def test_errors_and_exponents_stand_beside_the_bound(theory):
    errors, slopes = draw_inner_products(theory).axes
    rows = rows_of(theory, "inner_products", gamma=0.5)
    mean = np.exp(np.log(rows.pivot(index="d_model", columns="seed", values="error")).mean(axis=1)).to_numpy()
    assert drawn(errors, mean)
    assert drawn(errors, mean[0] * np.array([1, 2, 4, 8]) ** 0.5)  # slope 1 - gamma from the same first point
    for gamma in rates(theory):
        assert drawn(slopes, rows_of(theory, "exponents", gamma=gamma)["exponent"].to_numpy())
    assert drawn(slopes, [1 - gamma for gamma in rates(theory)])


def test_shares_of_lemma_1_have_their_intervals_and_level(theory):
    axes = draw_lemma_1(theory).axes[0]
    for d_model in (100, 800):
        assert drawn(axes, rows_of(theory, "lemma_1", d_model=d_model)["share"].to_numpy())
    assert drawn(axes, [0.95, 0.95])
    ends = np.concatenate([[s[:, 1] for s in lines.get_segments()] for lines in axes.collections])
    table = theory.tables["lemma_1"].sort_values(["d_model", "gamma"])
    np.testing.assert_allclose(ends, table[["low", "high"]].to_numpy())


def test_label_distributions_are_less_the_uniform_one(theory):
    figure = draw_distributions(theory)
    table = theory.tables["label_distributions"]
    here = table[(table["token"] == 11) & (table["group"] == "reasoning_anchor")].sort_values("label")
    assert drawn(figure.axes[0], here["population"].to_numpy() - 1 / EMB_TASK.d_vocab)
    assert drawn(figure.axes[0], here["empirical"].to_numpy() - 1 / EMB_TASK.d_vocab)
    vectors = less_uniform(theory, "reasoning_anchor", "population").to_numpy()
    expected = vectors[0] @ vectors[4] / np.linalg.norm(vectors[0]) / np.linalg.norm(vectors[4])
    assert np.ma.getdata(figure.axes[3].images[0].get_array())[0, 4] == pytest.approx(expected)


def test_part_figures_carry_this_studys_claims(theory):
    named = texts(next(spec for spec in EMB_MLP if spec.id == "bias").draw(theory))
    assert "B1: ≥ .10" in named
    assert "A1" not in named
    for spec in EMB_MLP[:3]:
        assert "A1" not in str(spec.caption(theory))
    cosines = next(spec for spec in EMB_MLP if spec.id == "cosines").draw(theory)
    assert "early (step 300)" in texts(cosines)
    assert "late (step 5,400)" in texts(cosines)
    assert "untrained (step 0)" in texts(cosines)


def test_speeds_of_both_mappings_and_their_index(labels):
    loss, _, index = draw_label_speed(labels).axes
    for part, rows in (("keys", "mem"), ("near_sum", "mem"), ("keys", "rsn_train"), ("near_sum", "rsn_train")):
        curves = labels.parts[part].curves
        table = curves[curves["set"] == rows].pivot(index="step", columns="seed", values="loss")
        assert drawn(loss, table.mean(axis=1))
    values = labels.readings[(labels.readings["probe"] == "label_speed") & (labels.readings["quantity"] == "bias")]
    assert drawn(index, values["value"].to_numpy())
    assert drawn(index, [LABELS["R1"]] * 2)


def test_outputs_ranges_and_the_judged_seeds(labels):
    figure = draw_label_range(labels)
    *groups, inside = figure.axes
    for axes, group in zip(groups, (1, 2, 3, 4), strict=True):
        rows = rows_of(labels, "outputs", group=group)
        assert drawn(axes, rows.pivot(index="label", columns="seed", values="probability").mean(axis=1))
        (span,) = axes.patches
        assert (span.get_x(), span.get_x() + span.get_width()) == (29.5, 29.5 + 20 * group)
    table = rows_of(labels, "in_range", group=2).pivot(index="step", columns="seed", values="inside").dropna()
    assert drawn(inside, table.loc[1:].mean(axis=1))
    assert inside.get_xscale() == "log"
    assert pooled_by_group(labels) == pytest.approx({1: 25 / 48, 2: 19 / 24, 3: 15 / 16, 4: 1})
    readings = part_of(labels, "ranges").values("label_range", "lowest_inside", 0.8, stage="before_memory", rows="mem")
    marks = {tuple(line.get_xydata()[0]) for line in inside.lines if line.get_marker() == "v"}
    assert marks == {(1200 + 150 * seed, value) for seed, value in readings.items()}
    assert drawn(inside, [0.9, 0.9])
    assert any(np.allclose(y, 25 / 48) for y in heights(inside) if len(y) == 2)  # (1 + 1/2 + 1/3 + 1/4) / 4


def test_a_fall_that_was_not_seen_stands_in_the_strip_and_is_told_as_such(theory):
    drift, ends = theory.tables["drift"].copy(), theory.tables["agreement"].copy()
    place = {"part": "descent", "gamma": 0.8, "group": "anchor", "prediction": "each_step"}
    for table in (drift, ends):
        table["here"] = np.logical_and.reduce([table[name] == value for name, value in place.items()])
    steps = sorted(drift.loc[drift["here"] & (drift["step"] > 0), "step"].unique())
    shared = [s for s in steps if (drift.loc[drift["here"] & (drift["step"] == s), "seed"]).nunique() == 3]
    drift.loc[drift["here"] & (drift["step"] < shared[1]), "r2"] = 0.5
    drift.loc[drift["here"] & (drift["step"] >= shared[1]), "r2"] = 0.95
    drift.loc[drift["here"] & (drift["step"] >= shared[4]), "r2"] = 0.1
    ends.loc[ends["here"] & (ends["metric"] == "r2"), ["step", "fraction"]] = [float(shared[0]), 1.0]
    evidence = replace(theory, tables={**theory.tables, "drift": drift, "agreement": ends})
    back, again = f".90 or more from step {shared[1]}", f"below again from step {shared[4]}"
    assert told_end(evidence, **place) == f"first kept step, {shared[0]} (f = 1.00), {back}, {again}"
    strips = [draw_agreement_end(e).axes[0] for e in (theory, evidence)]
    before, after = (sum(len(y) == 3 and bool((y < BASE).all()) for y in heights(axes)) for axes in strips)
    assert after == before + 1
    assert "below .90 at the first kept step" in texts(strips[0].figure)


def test_at_leaving_counts_seeds_of_which_only_readings_tell(theory):
    drift = theory.tables["drift"]
    place = {"part": "descent", "gamma": 0.8, "group": "anchor", "prediction": "each_step"}
    bare = replace(theory, tables={**theory.tables, "drift": drift[drift["seed"] != 1]})
    assert at_leaving(bare, "r2", **place).tolist() == at_leaving(theory, "r2", **place).tolist()
    assert told_at_leaving(bare, "r2", **{**place, "prediction": "step_0"}).endswith("(2 of 3 seeds)")


@pytest.mark.parametrize(("study", "id"), [("emb-mlp", "learning"), ("labels", "label_speed")])
def test_two_seeds_have_no_band(study, id, studies):
    spec = next(spec for spec in figures_of(study) if spec.id == id)
    assert any(axes.collections for axes in spec.draw(studies[study]).axes)
    assert not any(axes.collections for axes in spec.draw(MAKERS[study](seeds=2)).axes)


def test_memory_that_was_never_learned_is_said(labels):
    assert never_learned(labels) == ""
    readings = labels.readings.copy()
    late = (readings["stage"] == "before_memory") & (readings["seed"] < 2)
    readings.loc[late, "step"] = 6000
    found = never_learned(replace(labels, readings=readings))
    assert found == "Memory was not learned in some of these runs: R2 is read at the last step in 2 of 3 seeds."


def test_figures_of_loads_only_when_asked():
    code = "import sys, rb_interp.figures as f; print('matplotlib' in sys.modules, f.figures_of('labels')[0].id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "label_speed"]
