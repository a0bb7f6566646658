"""What the words of the language study's report mean, in the order in which a reader meets them."""

from rb_interp.figures.numbers import two_digits
from rb_interp.probes.token_typing import MIN_COUNT, MIN_RATIO
from rb_interp.report.glossary import shared
from rb_interp.studies.language.answer import BY_CHANCE
from rb_interp.studies.language.words import EARLY

GLOSSARY: dict[str, str] = {
    "PrOntoQA, TinyStories": (
        "PrOntoQA: questions about made-up kinds of things, each answered by a written chain of deductions and then by "
        "True or False; n hops are n deductions. TinyStories: short stories in a child's words. One model learns "
        "both, mixed 1:1, by predicting each next token."
    ),
    "seed, member": (
        "A seed fixes the text, order of batches and the standard normal draws, for all γ alike. A member is one "
        "model: one γ and one seed."
    ),
    "ΔL": (
        "(L_stories − L_PrOntoQA) / L_PrOntoQA, where L is the loss in nats per token: 0 where both are equal, 1 where "
        "stories cost twice as much. The claims are about its mean over all evaluations, on text trained on."
    ),
    "unigram entropy": (
        "What a model that knows only how often each token occurs would lose on a corpus, in nats per token. With each "
        "loss divided by it, how varied the words are no longer counts; that phrases repeat still does."
    ),
    "stages": (f"init: step 0, the untrained model. {EARLY}. final: the last step."),
    "typical, matched": (
        f"A token is typical of a corpus with at least {MIN_COUNT} occurrences there and a smoothed frequency at least "
        f"{MIN_RATIO:g} times "
        "that in the other. Matched, in two directions, since an embedding moves the more, the more often its token "
        "occurs: for each typical token of PrOntoQA another one of the stories, alike in frequency, each used once; "
        "and for each typical token of the stories that is as frequent as PrOntoQA's the nearest of PrOntoQA's, which "
        "may serve several times. Most of the stories' are rarer than all of PrOntoQA's and have no match."
    ),
    "interval over tokens": (
        "Tokens of one model are drawn anew, with replacement, and the number is taken again: 95 % of the draws lie "
        "between its ends, which are means over seeds. It says how far other tokens of the same kind would move the "
        "number. The interval over seeds holds the tokens fixed, which seeds share for the most part."
    ),
    "centred": "Less the mean of both corpora's typical tokens, so that a direction shared by all does not count.",
    "P^s, u": "P^s: how often each token follows token s in the training text. u: the uniform distribution.",
    **shared("TV"),
    "answer, step, chain": (
        "Each is asked with the right text before it. A step of a chain is right where each of its tokens is the "
        "model's likeliest; a chain where all its steps are. An answer counts among all tokens, or True against False "
        f"alone, where guessing gives {two_digits(BY_CHANCE)}."
    ),
}
