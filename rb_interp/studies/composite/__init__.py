"""Composite functions of two anchors: is an unseen pair inferred, or answered as its mirror?

The study of paper 2, "Initialization is Critical to Whether Transformers Fit Composite Functions by
Reasoning or Memorizing" (arXiv 2405.05409).
"""

from pathlib import Path

from rb_interp.runs import Study

COMPOSITE = Study(
    name="composite",
    title=(
        "Composite study: is an unseen pair of anchors answered by inference, or as its mirror was "
        "trained?"
    ),
    question=(
        "Two anchors in a row shift a key. One pair is trained with another shift than the sum of "
        "its anchors, and its mirror is never trained. Does the initialisation decide how that "
        "mirror is answered, and by which flow of information? Each claim is a sentence of "
        "“Initialization is Critical to Whether Transformers Fit Composite Functions by Reasoning "
        "or Memorizing” (arXiv 2405.05409), with a criterion that was fixed before these runs."
    ),
    cost={
        "smoke": "about a minute",
        "quick": "8 to 20 minutes on two CPU cores",
        "paper": "by count four hours a member on two CPU cores",
    },
    config=f"{__name__}.config:CompositeConfig",
    measure=f"{__name__}.measure:measure",
    tables={
        "phases": "gamma seed",
        "answers": "gamma seed difference",
        "by_position": "gamma seed position",
        "eigenvalues": "gamma seed step rank",
    },
    claims=f"{__name__}.claims:CLAIMS",
    figures=f"{__name__}.figures:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
    quantities=Path(__file__).with_name("quantities.toml"),
    calibration=f"{__name__}.claims:calibration",
    circuits=f"{__name__}.flow:circuits",
)
