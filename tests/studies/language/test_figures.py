"""Figures of the language study draw what curves, readings and tables say, and say what stands in for TinyStories."""

from dataclasses import replace

import numpy as np
import pytest
import synthetic
from drawing import drawn, texts
from synthetic import ENTROPIES, GAMMAS, LAST, SENTENCE, make_corpora, make_language

from rb_interp.figures.save import draw
from rb_interp.figures.style import CORPUS_COLOURS
from rb_interp.report.content import report_content
from rb_interp.studies.language import LANGUAGE
from rb_interp.studies.language.claims import CLAIMS
from rb_interp.studies.language.figures import FIGURES
from rb_interp.studies.language.figures.similarity import NAMED
from rb_interp.studies.language.figures.skills import ROWS
from rb_interp.studies.language.words import by_hops, pooled_text

pytestmark = pytest.mark.wide

EVERY = pytest.mark.parametrize("spec", FIGURES, ids=lambda spec: spec.id)
BY_ID = {spec.id: spec for spec in FIGURES}


def panels_of(evidence, id: str) -> list:
    return draw(BY_ID[id], evidence).axes


@pytest.fixture(scope="module")
def evidence():
    return make_language(3)


def reading(evidence, probe, quantity, gamma, stage="final", **rest):
    table = evidence.readings
    here = table[(table["probe"] == probe) & (table["quantity"] == quantity) & (table["gamma"] == gamma)]
    here = here[here["stage"] == stage]
    for column, value in rest.items():
        here = here[here[column] == value]
    return here.sort_values("seed")


def test_every_claim_is_on_a_figure():
    assert {claim for spec in FIGURES for claim in spec.claims} == {claim.id for claim in CLAIMS}


@EVERY
def test_captions_say_what_is_seen_what_refutes_and_what_stands_in(spec, evidence):
    caption = spec.caption(evidence)
    assert len(caption.would_refute) > 60
    for claim in spec.claims:
        assert f"({claim}" in caption.would_refute
    for word in ("nan", "n/a", "None", "{", "not read"):
        assert word not in str(caption)
    assert (f"Not the paper's text: {SENTENCE}" in caption.seen) == (spec.id != "skills")  # skills: PrOntoQA alone
    real = replace(evidence, tables={**evidence.tables, "corpora": make_corpora(stand_in=False)})
    assert "stand" not in str(spec.caption(real))
    assert "grammar" not in texts(draw(spec, real))


def test_a_run_without_readings_and_tables_gives_sentences(evidence):
    few = {"readings": evidence.readings.iloc[:0], "summary": evidence.summary.iloc[:0]}
    bare = replace(evidence, **few, tables={}, arrays={})
    for shown in (bare, replace(bare, curves=evidence.curves.iloc[:0])):
        for spec in FIGURES:
            figure = draw(spec, shown)
            figure.draw_without_rendering()
            assert "No " in texts(figure) or "no " in texts(figure)
            assert "nan" not in texts(figure)
        assert "nan" not in str(report_content(LANGUAGE, shown)["figures"])


def test_losses_are_means_over_seeds_in_the_colour_of_their_corpus(evidence):
    panels = panels_of(evidence, "language_loss")
    for axes, gamma in zip(panels, GAMMAS, strict=True):
        for corpus in ("prontoqa", "stories"):
            for end in ("train", "test"):
                here = evidence.curves[(evidence.curves["gamma"] == gamma)]
                here = here[here["set"] == f"{corpus}_{end}"].groupby("step")["loss"].mean()
                assert drawn(axes, here, CORPUS_COLOURS[corpus])
        for corpus, entropy in zip(("prontoqa", "stories"), ENTROPIES, strict=True):
            assert drawn(axes, [entropy, entropy], CORPUS_COLOURS[corpus])
        steps = reading(evidence, "corpus_loss", "early_step", gamma)["value"].tolist()
        assert any(line.get_marker() == "^" and line.get_xdata().tolist() == steps for line in axes.lines)
    assert 0 < panels[0].get_ylim()[1] <= 1.08 * 1.5 * max(ENTROPIES)


def test_delta_is_relative_to_prontoqa(evidence):
    curves, raw, fair = panels_of(evidence, "delta_loss")
    for gamma in GAMMAS:
        wide = evidence.curves.query("gamma == @gamma").pivot(index=["step", "seed"], columns="set", values="loss")
        expected = (wide["stories_train"] / wide["prontoqa_train"] - 1).unstack()
        assert drawn(curves, expected.mean(axis=1))
        assert drawn(curves, expected[1])
        for axes, name in ((raw, "delta_loss"), (fair, "delta_loss_per_entropy")):
            for end in ("", "_test"):
                values = reading(evidence, "corpus_loss", name + end, gamma)["value"]
                assert drawn(axes, values)
                assert drawn(axes, [values.mean()] * 2)
    by_seed = [evidence.values("corpus_loss", "delta_loss", gamma)[1] for gamma in GAMMAS]
    assert drawn(raw, by_seed)  # the line that joins a seed's rates, which G2 compares
    assert "G1n: > 0" in texts(fair.figure)


def test_cosines_are_those_of_early_with_the_tokens_of_their_seed(evidence):
    figure = draw(BY_ID["token_cosines"], evidence)
    table = evidence.tables["tokens"]
    for column, group in enumerate(("prontoqa", "stories", "control")):
        place = "0.8/0/early//token_similarity"
        matrix, tokens = (evidence.arrays[f"{place}/{name}"] for name in (f"cos_{group}_matrix", f"tokens_{group}"))
        whole, named = figure.axes[column], figure.axes[3 + column]
        np.testing.assert_allclose(np.ma.getdata(whole.images[0].get_array()), matrix)
        np.testing.assert_allclose(np.ma.getdata(named.images[0].get_array()), matrix[:NAMED, :NAMED])
        words = table[table["seed"] == 0].drop_duplicates("token").set_index("token")["text"]
        shown = [text.get_text() for text in named.get_yticklabels()]
        assert shown == [words[token].replace(" ", "·").replace("$", r"\$") for token in tokens[:NAMED]]
        mean = reading(evidence, "token_similarity", f"cos_{group}", 0.8, "early")["value"].mean()
        assert f"mean cos {mean:.2f}" in whole.get_title(loc="left")


def test_mean_cosines_have_the_papers_two_numbers_and_untrained_models(evidence):
    early, final, differences, _ = panels_of(evidence, "token_similarity")
    for axes, stage in ((early, "early"), (final, "final")):
        for group, colour in CORPUS_COLOURS.items():
            values = reading(evidence, "token_similarity", f"cos_{group}", 0.8, stage)["value"]
            assert drawn(axes, values, colour)
    assert drawn(early, [0.123] * 2, CORPUS_COLOURS["prontoqa"])
    assert drawn(early, [0.531] * 2, CORPUS_COLOURS["stories"])
    assert not drawn(final, [0.531] * 2)
    assert drawn(early, [0.01] * 2)
    for axes, quantities in (
        (early, ("cos_prontoqa", "cos_stories", "cos_control")),
        (differences, ("difference", "difference_control", "difference_counterpart", "difference_centred")),
    ):
        bars = [tuple(path.vertices[:, 1]) for each in axes.collections for path in each.get_paths()]
        for name in quantities:
            values = reading(evidence, "token_similarity", name, 0.8, "early")["value"]
            assert drawn(axes, values)
            expected = values.mean() - 0.03, values.mean() + 0.05
            assert any(len(bar) == 2 and np.allclose(bar, expected) for bar in bars), name
    assert early.get_ylim() == final.get_ylim()


def test_ranks_are_beside_the_untrained_models(evidence):
    ratio, shares, weights = panels_of(evidence, "embedding_rank")
    for group in (*CORPUS_COLOURS, "all"):
        assert drawn(ratio, reading(evidence, "embedding_rank", f"participation_ratio_{group}", 0.8)["value"])
    assert drawn(shares, reading(evidence, "embedding_rank", "share_3_all", 0.5)["value"])
    table = reading(evidence, "weight_rank", "stable_rank_W_OV", 0.3, layer=0)
    assert drawn(weights, table["value"] / table["untrained"])


def test_attention_shows_every_head_of_its_layer_stage_and_corpus(evidence):
    panels = np.array(panels_of(evidence, "text_attention")).reshape(2, 3)
    for layer in (0, 1):
        for column, stage in enumerate(("init", "early", "final")):
            for corpus in ("prontoqa", "stories"):
                rows = reading(evidence, "uniformity", "tv", 0.8, stage, set=corpus, layer=layer)
                heads = rows.groupby("head")["value"].mean()
                assert len(heads) == 4
                assert drawn(panels[layer, column], heads, CORPUS_COLOURS[corpus])
                assert drawn(panels[layer, column], [rows["value"].mean()] * 2)


def test_geometries_stand_beside_their_null(evidence):
    panels = panels_of(evidence, "next_token")
    for axes, group in zip(panels, ("prontoqa", "stories", "all"), strict=True):
        for stage in ("init", "early", "final"):
            assert drawn(axes, reading(evidence, "next_token", f"spearman_{group}", 0.3, stage)["value"])
        assert drawn(axes, [0.1] * 2)


def test_skills_are_those_of_the_last_step_by_hops(evidence):
    panels = np.array(panels_of(evidence, "skills")).reshape(2, 3)
    table = evidence.tables["skills"]
    for row, kinds in zip(panels, ROWS.values(), strict=True):
        for axes, gamma in zip(row, GAMMAS, strict=True):
            assert drawn(axes, [0.5, 0.5]) == ("answer_two_way" in kinds)
            for kind in kinds:
                here = table[(table["gamma"] == gamma) & (table["accuracy_of"] == kind) & (table["step"] == LAST)]
                assert drawn(axes, here.groupby("hops")["accuracy"].mean())
    uneven = table.copy()
    uneven.loc[uneven["hops"] == 1, "n"] = 360
    changed = synthetic.changed(evidence, skills=uneven)
    by_hop = table.query("gamma == 0.8 and accuracy_of == 'chain' and step == @LAST").pivot(
        index="hops", columns="seed", values="accuracy"
    )
    pooled = (by_hop.T @ (np.array([360, 40, 40, 40, 40]) / 520)).mean()
    assert pooled_text(changed, 0.8, "chain").startswith(f"{pooled:.2f} [")
    assert by_hops(changed, "chain").startswith(f"{by_hop.loc[1].mean():.2f} at 1 hop, ")
    assert (
        "guessing gives .50 (dashed) and going by the query's “not” alone gives .53."
        in BY_ID["skills"].caption(changed).seen
    )
