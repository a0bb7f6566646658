"""Addition and commands: is a rule carried over to rows that were held out?

Realistic tasks of paper 2 ("Initialization is Critical to Whether Transformers Fit Composite
Functions by Reasoning or Memorizing", arXiv 2405.05409).
"""

from pathlib import Path

from rb_interp.runs import Study

ADDITION_AND_SCAN = Study(
    name="addition-and-scan",
    title="Addition and commands: does a rule carry over to what was held out?",
    question=(
        "Sums whose operands both lie in a block are held out, and so are all commands that "
        "combine one verb with anything. Does a small initialisation with a large weight decay "
        "answer them better than a large initialisation with a small one? Each claim is a sentence "
        "of “Initialization is Critical to Whether Transformers Fit Composite Functions by "
        "Reasoning or Memorizing” (arXiv 2405.05409), with a criterion that was fixed before these "
        "runs."
    ),
    cost={"smoke": "about a minute", "quick": "about nine minutes on two free CPU cores"},
    config=f"{__name__}.config:AdditionAndScanConfig",
    measure=f"{__name__}.measure:measure",
    claims=f"{__name__}.config:CLAIMS",
    figures=f"{__name__}.figures:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
    quantities=Path(__file__).with_name("quantities.toml"),
)
