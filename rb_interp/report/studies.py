"""Title, question and claim families of each study."""

from __future__ import annotations

from rb_interp.errors import ConfigError, nearest

PAPER = (
    "Each claim below is a sentence of “An Analysis for Reasoning Bias of Language Models with Small Initialization” "
    "(arXiv 2502.04375), with a criterion that was fixed before these runs."
)
STUDIES = {
    "anchor": (
        "Anchor study: is the rule learned before the table?",
        "Does a small initialisation make a transformer learn a rule before it learns a table, and through which "
        f"circuit? {PAPER}",
    ),
    "emb-mlp": (
        "Emb-MLP study: does the theory predict what training does?",
        "The paper explains why a small initialisation prefers the rule with models that are simple enough for "
        "theory: the labels that a token sees tell how its embedding first moves. Is that how it moves, and for how "
        f"long? {PAPER}",
    ),
    "labels": (
        "Label study: does the distribution of labels decide what is learned first?",
        "By the paper's account a token's embedding first learns which labels stand beside it. Then a table whose "
        "labels tell something of their input must be learned sooner, and outputs must keep to the labels of their "
        f"tokens before any table is known. {PAPER}",
    ),
    "language": (
        "Language study: is the text that needs reasoning learned before stories?",
        "A GPT-2 learns two texts at once: PrOntoQA, questions answered by a chain of deductions, and TinyStories. "
        "Does it learn PrOntoQA sooner, the more so the smaller its initialisation, and do the embeddings show it? "
        f"{PAPER}",
    ),
}
FAMILIES = {
    "A": "Learning order",
    "B": "Learning order, Emb-MLP",
    "E": "Embedding",
    "G": "Language",
    "I": "Initialisation",
    "M": "Mechanism",
    "R": "Label distributions",
    "T": "Theory against measurement",
}


def title_of(study: str) -> str:
    """Heading of a study's report. Raises ConfigError for an unknown study.

    >>> title_of("emb-mlp")
    'Emb-MLP study: does the theory predict what training does?'
    """
    return _words(study)[0]


def question_of(study: str) -> str:
    """What a study asks, in a few sentences. Raises ConfigError for an unknown study."""
    return _words(study)[1]


def _words(study: str) -> tuple[str, str]:
    if study not in STUDIES:
        raise ConfigError(f"there is no report of a study '{study}'; {nearest(study, STUDIES)}")
    return STUDIES[study]


def family_of(claim: str) -> str:
    """Family of a claim by the letter of its id.

    >>> family_of("T3"), family_of("X1")
    ('Theory against measurement', 'Other')
    """
    return FAMILIES.get(claim[:1], "Other")
