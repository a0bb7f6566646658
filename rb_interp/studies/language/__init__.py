"""The study of language: is the text that needs reasoning learned before facts or stories? (paper
1, Figs. 1 and 7)"""

from pathlib import Path

from rb_interp.runs import Study

LANGUAGE = Study(
    name="language",
    title="Language study: is the text that needs reasoning learned first?",
    question=(
        "A GPT-2 learns two texts at once: PrOntoQA, questions answered by a chain of deductions, "
        "and TinyStories, or facts of the same form. "
        "Does it learn PrOntoQA sooner, the more so the smaller its initialisation, and do the "
        "embeddings show it? "
        "G1 to G3 are sentences of “An Analysis for Reasoning Bias of Language Models with Small "
        "Initialization” (arXiv 2502.04375), the others are ours; criteria were fixed before these runs."
    ),
    cost={
        "smoke": "about a minute",
        "quick": "about twenty minutes on two CPU cores",
        "stories": "half an hour to three quarters on two CPU cores",
        "paper": "by count an hour a member on one H200",
    },
    config=f"{__name__}.config:LanguageConfig",
    measure=f"{__name__}.measure:measure",
    tables={
        "chains": "gamma seed step example",
        "corpora": "seed corpus",
        "similarity": "gamma seed step",
        "skills": "gamma seed step hops accuracy_of",
        "token_intervals": "gamma seed stage step quantity",
        "tokens": "seed token",
    },
    claims=f"{__name__}.config:CLAIMS",
    figures=f"{__name__}.figures:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
    quantities=Path(__file__).with_name("quantities.toml"),
    train_note=f"{__name__}.config:train_note",
)
