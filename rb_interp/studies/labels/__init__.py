"""The label study: what the distribution of memory labels decides, with everything else the same
(paper 1, Fig. 8)."""

from pathlib import Path

from rb_interp.runs import Study

LABELS = Study(
    name="labels",
    title="Label study: does the distribution of labels decide what is learned first?",
    question=(
        "By the paper's account a token's embedding first learns which labels stand beside it. "
        "Then a table whose "
        "labels tell something of their input must be learned sooner, and outputs must keep to the "
        "labels of their "
        "tokens before any table is known. Each claim is a sentence of “An Analysis for Reasoning "
        "Bias of "
        "Language Models with Small Initialization” (arXiv 2502.04375), with a criterion that was "
        "fixed before these "
        "runs."
    ),
    cost={"smoke": "about a minute", "quick": "about seven minutes on two slow CPU cores"},
    config=f"{__name__}.config:LabelsConfig",
    measure=f"{__name__}.measure:measure",
    tables={"in_range": "sweep gamma seed step group", "outputs": "gamma seed group label"},
    claims=f"{__name__}.config:CLAIMS",
    figures=f"{__name__}.figures:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
    quantities=Path(__file__).with_name("quantities.toml"),
)
