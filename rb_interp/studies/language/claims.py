"""The claims of paper 1 about language (Figs. 1 and 7), as data: GPT-2 on PrOntoQA and TinyStories, mixed 1:1.

Delta L = (L_stories - L_prontoqa) / L_prontoqa is the paper's metric, here its mean over the evaluations of training.
PrOntoQA is templated, so that its loss is the lower one with any initialisation: G1 alone says little, and G1n divides
each loss by its corpus's unigram entropy first. What the paper claims of initialisation is G2. Criteria were written
down before the runs.
"""

from __future__ import annotations

from rb_interp.claims.criterion import Claim, Condition, Term
from rb_interp.settings import LARGE, MIDDLE, SMALL

PAPER_COSINES = {"prontoqa": 0.123, "stories": 0.531}
"""Mean cosine of the embeddings of each corpus's tokens early in training, as Fig. 7B reports it."""


def _loss(quantity: str, label: str, gamma: float = SMALL) -> Term:
    return Term("corpus_loss", quantity, gamma, "final", label=label)


def _delta(gamma: float) -> Term:
    return _loss("delta_loss", "Delta L", gamma)


def _cosine(quantity: str, label: str) -> Term:
    return Term("token_similarity", quantity, SMALL, "early", label=label)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "G1",
        "With small initialisation the loss on PrOntoQA is below that on TinyStories.",
        "Fig. 1",
        (Condition(_loss("delta_loss", "Delta L, mean over training"), ">", 0.0),),
        context=(_loss("delta_loss_test", "Delta L on held-out text, mean over training"),),
    ),
    Claim(
        "G1n",
        "With small initialisation the loss on PrOntoQA is below that on TinyStories, each per unigram entropy.",
        "control",
        (
            Condition(
                _loss("delta_loss_per_entropy", "Delta L of losses per unigram entropy, mean over training"), ">", 0.0
            ),
        ),
        context=(_loss("delta_loss_per_entropy_test", "the same on held-out text"),),
    ),
    Claim(
        "G2",
        "The smaller the initialisation, the further the loss on PrOntoQA is below that on TinyStories.",
        "Fig. 7A",
        (Condition(_delta(SMALL), ">", 0.0, _delta(MIDDLE)), Condition(_delta(MIDDLE), ">", 0.0, _delta(LARGE))),
        context=tuple(
            _loss("delta_loss", f"Delta L, mean over training, gamma {gamma:g}", gamma)
            for gamma in (SMALL, MIDDLE, LARGE)
        ),
    ),
    Claim(
        "G3",
        "Early in training the embeddings of PrOntoQA's tokens are less alike than those of TinyStories' tokens.",
        "Fig. 7B",
        (Condition(_cosine("difference", "mean cos between PrOntoQA tokens - between TinyStories tokens"), "<", 0.0),),
        context=(
            _cosine("cos_prontoqa", f"mean cos between PrOntoQA tokens (paper: {PAPER_COSINES['prontoqa']:g})"),
            _cosine("cos_stories", f"mean cos between TinyStories tokens (paper: {PAPER_COSINES['stories']:g})"),
            _cosine("difference_control", "the difference, TinyStories tokens matched to PrOntoQA's in frequency"),
            _cosine("difference_counterpart", "the difference, PrOntoQA tokens matched to TinyStories' in frequency"),
            _cosine("difference_centred", "the difference, embeddings centred over both corpora's tokens"),
        ),
    ),
)
