"""Emb-MLP and the one-layer model, which are simple enough for theory, and the comparison of theory
and training."""

from pathlib import Path

from rb_interp.runs import Study

EMB_MLP = Study(
    name="emb-mlp",
    title="Emb-MLP study: does the theory predict what training does?",
    question=(
        "The paper explains why a small initialisation prefers the rule with models that are "
        "simple enough for theory: "
        "the labels that a token sees tell how its embedding first moves. Is that how it moves, "
        "and for how long? Each "
        "claim is a sentence of “An Analysis for Reasoning Bias of Language Models with Small "
        "Initialization” "
        "(arXiv 2502.04375), with a criterion that was fixed before these runs."
    ),
    cost={"smoke": "about a minute", "quick": "about nine minutes on two slow CPU cores"},
    config=f"{__name__}.config:EmbMLPConfig",
    measure=f"{__name__}.measure:measure",
    tables={
        "agreement": "sweep gamma seed group prediction metric",
        "drift": "sweep gamma seed step group prediction",
        "exponents": "gamma seed",
        "inner_products": "gamma seed d_model",
        "inner_products_summary": "gamma d_model",
        "label_cosines": "group labels token other",
        "label_cosines_summary": "group labels",
        "label_distributions": "seed token label",
        "lemma_1": "gamma d_model",
        "lemma_1_reached": "d_model",
        "value_flow": "sweep gamma seed step",
    },
    claims=f"{__name__}.config:CLAIMS",
    figures=f"{__name__}.figures:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
    quantities=Path(__file__).with_name("quantities.toml"),
)
