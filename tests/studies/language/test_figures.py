"""Figures of the language study draw what its tables say, and its page tells what
stands in for the paper's text."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from drawing import drawn, texts
from report.pages import check_page, visible
from table_columns import check_run

from rb_interp.claims import Term
from rb_interp.figures.kit import CORPUS_COLOURS, GREY, INK, draw
from rb_interp.report.page import render_page
from rb_interp.studies.language import LANGUAGE
from rb_interp.studies.language.config import train_note
from rb_interp.studies.language.figures import FIGURES, NAMED, as_shown

pytestmark = pytest.mark.wide

STAND_IN = "The stories are sentences of a small story grammar, standing in for TinyStories."


def test_the_page_shows_every_figure_and_every_verdict_and_what_stands_in(run, evidence):
    check_run(run)
    page = check_page(LANGUAGE, evidence, lacking=["reasoning"])
    assert f"Not the paper's text: {STAND_IN}" in visible(page)
    real = replace(
        evidence,
        tables={**evidence.tables, "corpora": evidence.tables["corpora"].assign(stand_in="")},
    )
    assert "Not the paper's text" not in visible(
        render_page(LANGUAGE, real, dict.fromkeys(FIGURES, b""))
    )
    assert train_note(run.config) == [STAND_IN]


def panels_of(evidence, id: str) -> list:
    return draw(FIGURES[id], evidence).axes


def reading(evidence, probe, quantity, gamma, stage="final", **rest):
    table = evidence.readings
    here = table[
        (table["probe"] == probe) & (table["quantity"] == quantity) & (table["gamma"] == gamma)
    ]
    here = here[here["stage"] == stage]
    for column, value in rest.items():
        here = here[here[column] == value]
    return here.sort_values("seed")


def test_losses_are_means_over_seeds_in_the_colour_of_their_corpus(evidence):
    panels = panels_of(evidence, "learning")[:3]
    for axes, gamma in zip(panels, evidence.gammas, strict=True):
        for corpus in ("prontoqa", "stories"):
            for end in ("train", "test"):
                here = evidence.curves[(evidence.curves["gamma"] == gamma)]
                here = here[here["set"] == f"{corpus}_{end}"].groupby("step")["loss"].mean()
                assert drawn(axes, here, CORPUS_COLOURS[corpus])
        for corpus, entropy in {
            row["corpus"]: row["entropy"] for row in evidence.records("corpora")
        }.items():
            assert drawn(axes, [entropy] * 2, CORPUS_COLOURS[corpus])
        steps = reading(evidence, "corpus_loss", "early_step", gamma)["value"].tolist()
        assert [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "^"] == steps


def test_delta_is_relative_to_prontoqa(evidence):
    curves, raw, fair = panels_of(evidence, "learning")[3:]
    for gamma in evidence.gammas:
        wide = evidence.curves.query("gamma == @gamma").pivot(
            index=["step", "seed"], columns="set", values="loss"
        )
        expected = (wide["stories_train"] / wide["prontoqa_train"] - 1).unstack()
        assert drawn(curves, expected.mean(axis=1))
        assert drawn(curves, expected[1])
        for axes, name in ((raw, "delta_loss"), (fair, "delta_loss_per_entropy")):
            for end in ("", "_test"):
                values = reading(evidence, "corpus_loss", name + end, gamma)["value"]
                assert drawn(axes, values)
                assert drawn(axes, [values.mean()] * 2)
    by_seed = [
        evidence.values(Term("corpus_loss", "delta_loss", gamma, "final"))[1]
        for gamma in evidence.gammas
    ]
    assert drawn(raw, by_seed)  # the line that joins a seed's rates, which G2 compares
    assert "G1n" in texts(fair.figure)


def test_cosines_are_those_of_early_with_the_tokens_of_their_seed(evidence):
    figure = draw(FIGURES["token_cosines"], evidence)
    table = evidence.tables["tokens"]
    for column, group in enumerate(("prontoqa", "stories", "control")):
        place = "0.8/0/early//token_similarity"
        matrix, tokens = (
            evidence.arrays[f"{place}/{name}"]
            for name in (f"cos_{group}_matrix", f"tokens_{group}")
        )
        whole, named = figure.axes[column], figure.axes[3 + column]
        np.testing.assert_allclose(np.ma.getdata(whole.images[0].get_array()), matrix)
        np.testing.assert_allclose(
            np.ma.getdata(named.images[0].get_array()), matrix[:NAMED, :NAMED]
        )
        words = table[table["seed"] == 0].drop_duplicates("token").set_index("token")["text"]
        shown = [text.get_text() for text in named.get_yticklabels()]
        assert shown == [as_shown(words[token]) for token in tokens[:NAMED]]


def test_rules_and_facts_are_drawn_above_three_chains_as_they_are_written(evidence):
    sets = {"rule": "prontoqa_test", "fact": "stories_test"}
    curves = [evidence.curves.query("set == @set").assign(set=name) for name, set in sets.items()]
    summaries = evidence.tables["curves_summary"]
    kinds = [summaries.query("set == @set").assign(set=name) for name, set in sets.items()]
    prompt = "Q: Each rex is a rompus. Max is a rex. Prove: Max is a rompus.\nA:"
    written = []
    for gamma in evidence.gammas:
        place = {"gamma": gamma, "seed": evidence.seeds[0], "prompt": prompt}
        for example, step in product(range(3), (60, 30, 0)):
            row = {"example": example, "step": step, "right": step > 30}
            written.append({**place, **row, "written": f"Max is {example}, {step}."})
    tables = {"curves_summary": pd.concat(kinds), "chains": pd.DataFrame(written)}
    shown = replace(evidence, curves=pd.concat(curves), tables={**evidence.tables, **tables})
    axes = panels_of(shown, "reasoning")
    for panel, gamma in zip(axes[: len(evidence.gammas)], evidence.gammas, strict=True):
        here = shown.curves[shown.curves["gamma"] == gamma].groupby(["set", "step"])["loss"].mean()
        assert drawn(panel, here["rule"], CORPUS_COLOURS["prontoqa"])
        assert drawn(panel, here["fact"], CORPUS_COLOURS["stories"])
    lines = [(text.get_text(), text.get_color()) for text in axes[-1].texts]
    assert lines == [
        ("Max is a rex. Prove: Max is a rompus.", INK),
        ("step 30, wrong: Max is 2, 30.", GREY),
        ("step 60, right: Max is 2, 60.", INK),
    ]
