"""Figures of the language study draw what curves, readings and tables say, and say what stands in for TinyStories."""

from dataclasses import replace

import numpy as np
import pytest
from drawing import drawn, texts
from report.pages import check_page, visible
from synthetic import ENTROPIES, GAMMAS, LAST, SENTENCE, make_corpora, make_language

from rb_interp.figures.save import draw
from rb_interp.figures.style import CORPUS_COLOURS
from rb_interp.report.page import render_page
from rb_interp.studies.language import LANGUAGE
from rb_interp.studies.language.figures import FIGURES, KINDS, NAMED

pytestmark = pytest.mark.wide


def panels_of(evidence, id: str) -> list:
    return draw(FIGURES[id], evidence).axes


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


def test_the_page_shows_every_figure_and_every_verdict_and_what_stands_in(evidence, tmp_path):
    page = check_page(LANGUAGE, evidence, tmp_path)
    assert f"Not the paper's text: {SENTENCE}" in visible(page)
    real = replace(evidence, tables={**evidence.tables, "corpora": make_corpora(stand_in=False)})
    assert "Not the paper's text" not in visible(render_page(LANGUAGE, real, dict.fromkeys(FIGURES, b"")))


def test_losses_are_means_over_seeds_in_the_colour_of_their_corpus(evidence):
    panels = panels_of(evidence, "learning")[:3]
    for axes, gamma in zip(panels, GAMMAS, strict=True):
        for corpus in ("prontoqa", "stories"):
            for end in ("train", "test"):
                here = evidence.curves[(evidence.curves["gamma"] == gamma)]
                here = here[here["set"] == f"{corpus}_{end}"].groupby("step")["loss"].mean()
                assert drawn(axes, here, CORPUS_COLOURS[corpus])
        for corpus, entropy in zip(("prontoqa", "stories"), ENTROPIES, strict=True):
            assert drawn(axes, [entropy, entropy], CORPUS_COLOURS[corpus])
        steps = reading(evidence, "corpus_loss", "early_step", gamma)["value"].tolist()
        assert [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "^"] == steps
    assert 0 < panels[0].get_ylim()[1] <= 1.08 * 1.5 * max(ENTROPIES)


def test_delta_is_relative_to_prontoqa(evidence):
    curves, raw, fair = panels_of(evidence, "learning")[3:]
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
    figure = draw(FIGURES["token_cosines"], evidence)
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


def test_ranks_are_beside_the_untrained_models(evidence):
    ratio, shares, weights = panels_of(evidence, "embedding_rank")
    for group in (*CORPUS_COLOURS, "all"):
        assert drawn(ratio, reading(evidence, "embedding_rank", f"participation_ratio_{group}", 0.8)["value"])
    assert drawn(shares, reading(evidence, "embedding_rank", "share_3_all", 0.5)["value"])
    table = reading(evidence, "weight_rank", "stable_rank_W_OV", 0.3, layer=0)
    assert drawn(weights, table["value"] / table["untrained"])


def test_geometries_stand_beside_their_null(evidence):
    panels = panels_of(evidence, "next_token")
    for axes, group in zip(panels, ("prontoqa", "stories", "all"), strict=True):
        for stage in ("init", "early", "final"):
            assert drawn(axes, reading(evidence, "next_token", f"spearman_{group}", 0.3, stage)["value"])
        assert drawn(axes, [0.1] * 2)


def test_skills_are_those_of_the_last_step_by_hops(evidence):
    panels = np.array(panels_of(evidence, "skills")).reshape(2, 3)
    table = evidence.tables["skills"]
    for row, kinds in zip(panels, (list(KINDS)[:2], list(KINDS)[2:]), strict=True):
        for axes, gamma in zip(row, GAMMAS, strict=True):
            assert drawn(axes, [0.5, 0.5]) == ("answer_two_way" in kinds)
            for kind in kinds:
                here = table[(table["gamma"] == gamma) & (table["accuracy_of"] == kind) & (table["step"] == LAST)]
                assert drawn(axes, here.groupby("hops")["accuracy"].mean())
