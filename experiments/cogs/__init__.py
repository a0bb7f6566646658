"""Sentences: does a small initialisation with a large weight decay carry rules of grammar to what
was held out?"""

from pathlib import Path

from rb_interp.runs import Study

COGS = Study(
    name="cogs",
    title="Sentences: do rules carry over to what was held out?",
    question=(
        "Sentences are answered with their logical forms, and four rules are held out. Does a "
        "small initialisation "
        "with a large weight decay answer them better than a large initialisation with a small "
        "one? The claim is a "
        "sentence of “Initialization is Critical to Whether Transformers Fit Composite Functions "
        "by Reasoning or "
        "Memorizing” (arXiv 2405.05409), with a criterion that was fixed before these runs."
    ),
    cost={"paper": "days on one GPU; no other preset can decide the claim"},
    config="cogs.study:CogsConfig",
    measure="cogs.study:measure",
    claims="cogs.study:CLAIMS",
    figures="cogs.report:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
    glossary="cogs.report:GLOSSARY",
)
