"""What the words and letters of a report mean, in the order in which a reader meets them."""

from __future__ import annotations

from rb_interp.errors import ConfigError, nearest

GLOSSARY = {
    "tier": (
        "Which preset the runs follow: smoke (seconds), quick (minutes), paper (the paper's sizes), or custom where "
        "task, model or training differ from the preset."
    ),
    "γ, initialisation rate": (
        "Every weight matrix starts with standard deviation (input dimension)^−γ. A larger γ is a smaller "
        "initialisation; 0.5 is the usual one."
    ),
    "key, anchors, noise": (
        "A key stands immediately before its anchors, anywhere in the sequence; the other tokens are noise. The "
        "label depends on key and anchors alone."
    ),
    "memory, reasoning": (
        "Memory: the label of a key with its anchors is drawn once at random, a table to be learned. Reasoning: the "
        "label is key plus sum of anchors, a rule. mem, rsn_train and rsn_test are memory inputs, reasoning inputs "
        "that are trained on, and reasoning inputs whose anchors never occur together in training."
    ),
    "seed, member": (
        "A seed fixes data, label table, order of batches and the standard normal draws, for all γ alike. A member "
        "is one model: one γ and one seed."
    ),
    "stages": (
        "init: step 0, the untrained twin. half: the first evaluation at which the loss on rsn_train is at most "
        "half of ln d_vocab (the last one where that never happens). matched: the step at which the γ = 0.8 member "
        "of the same seed reaches half. final: the last step."
    ),
    "B, B_test": (
        "Bias index (A_mem − A_rsn) / (A_mem + A_rsn), where A is the mean over training of the loss divided by ln "
        "d_vocab (at most 1). Positive: reasoning is learned before memory. B uses rsn_train, B_test rsn_test."
    ),
    "TV": (
        "Total variation distance of a row of attention from 1/i on each of the first i positions: 0 is an exact "
        "average, 1 the largest distance."
    ),
    "u1, s1, s2": (
        "Leading left singular vector of layer 1's W_V (in the residual stream, x W_V) and its two largest singular "
        "values."
    ),
    "centred": (
        "Less the mean over all anchors and keys in use, so that a direction shared by all tokens does not count."
    ),
    "share of variance": (
        "How much of a component's output at the last position a grouping of inputs explains: omega squared, 1 at "
        "most, about 0 where it explains nothing."
    ),
    "untrained twin": (
        "The same member at step 0. A claim that it already meets is marked, since training has then shown nothing."
    ),
    "interval": (
        "95 %: Student t for a mean over seeds, Clopper-Pearson for a share. With few seeds it may reach beyond the "
        "values that are possible."
    ),
    "HOLDS, FAILS, UNDECIDED": (
        "HOLDS: the whole interval is on the claimed side and at least 80 % of the seeds meet the criterion "
        "themselves. FAILS: the whole interval is on the other side and at most 20 % do. Otherwise, or with fewer "
        "than 5 seeds, UNDECIDED. A claim of several parts holds when all hold and fails when any fails."
    ),
    "effect, placebo": (
        "Effect: what an intervention on a model changes, mean over inputs. Placebo: what an intervention of the same "
        "form and size changes that leaves alone what the mechanism is said to need (a random direction, a noise "
        "token, the same input with other noise). An effect no larger than its placebo shows nothing."
    ),
    "nats lost, accuracy lost": (
        "Cross entropy of the right answer after an intervention less that before, in nats; accuracy before less that "
        "after. Negative: the model got better."
    ),
    "interchange": (
        "A component's output is taken from another input. If it carries the key (or the sum), the answer must become "
        "the one with the other input's key (or sum): the predicted answer."
    ),
    "ablation": (
        "A component's output is set to zero, to its mean over inputs, or to its value on another input (resample). "
        "What is lost without it, it was needed for; that does not say what it computes."
    ),
    "recovered": (
        "Share of the logit difference between two inputs that comes back when one component, at one role's positions, "
        "is taken from the other input: 0 none, 1 all. Below 0 or above 1 where other components undo or exceed it."
    ),
    "calibrated": (
        "Whether the error rates of the probe behind a claim have been measured on models whose mechanism is known and "
        "are good enough: a true-positive rate of at least .95 and a false-positive rate of at most .05. Where they "
        "are known and missed, the verdict is withheld (UNDECIDED). Losses, contrasts and geometry need none."
    ),
    "true- and false-positive rate": (
        "Of perturbed copies of hand-written models: the share of those with the mechanism of which the probe says so, "
        "and of those without it of which it says so all the same. With Clopper-Pearson intervals."
    ),
}

SHARED = (
    *("tier", "γ, initialisation rate", "memory, reasoning", "seed, member"),
    *("B, B_test", "untrained twin", "interval", "HOLDS, FAILS, UNDECIDED"),
)
"""Words of the anchor study that mean the same in every study."""

EMB_MLP = {
    "parts": (
        "sweep: Emb-MLP trained with AdamW. descent: Emb-MLP trained with plain gradient descent. one_layer: the "
        "one-layer model trained with plain gradient descent. All have the same seeds."
    ),
    "key, anchors": "An input is a key followed by its anchors, without noise. The label depends on all of them.",
    "Emb-MLP": (
        "The embeddings of all tokens are summed and go through one hidden layer (Definition 1): no attention, no "
        "positions, so the order of tokens cannot be seen."
    ),
    "one-layer model": (
        "One layer of attention and MLP with residual connections, without LayerNorm, positions and unembedding: the "
        "residual stream is as wide as the vocabulary and is the output (Definition 2, Eq. 9)."
    ),
    "plain gradient descent": (
        "Every step uses all training rows and moves each weight by learning rate times gradient: no momentum, no "
        "rescaling as in AdamW, no clipping, no weight decay. The theory is about this."
    ),
    "f": (
        "Share of the loss that is left: the loss on rsn_train over ln d_vocab, the loss of a uniform guess, at most 1."
    ),
    "stages": (
        "init: step 0, the untrained twin. leaving: the first evaluation with f < .99, where learning begins (the "
        "last one where that never happens). early, late: 5 % and 90 % of the steps. half: the first evaluation with "
        "f at most one half. final: the last step."
    ),
    "u, P^s, r_s": (
        "u = 1/d_vocab. P^s: how often each label stands beside token s. r_s: how often s occurs per training row; a "
        "token that stands twice in a row counts twice."
    ),
    "drift": (
        "How far a token's embedding has moved since step 0. Predicted: learning rate times the sum over steps of r_s "
        "(P^s − u) W, where W is the product of the transposed weights behind the embedding (Eqs. 5, 10 and 11)."
    ),
    "each step, step 0, population": (
        "Three predictions of the drift. Each step: with the weights W as they are at each step, and P^s counted in "
        "the training rows. Step 0: W stays as it was drawn, so nothing of the training is used. Population: P^s as "
        "Eqs. 7 and 8 have it for infinitely many rows."
    ),
    "positions": (
        "For the one-layer model: as each step, and it also knows how often each token stands at the last position, "
        "where the residual connection carries it."
    ),
    "R², cosine": (
        "Of predicted and measured drift, over all tokens of a group and all coordinates, centred over the group. R² "
        "is 1 where they are equal, 0 where every token is given the group's mean drift, and has no lower bound. The "
        "cosine forgives a wrong length."
    ),
    "permuted": (
        "Mean R² of predictions exchanged among memory anchors and among reasoning anchors: what is known of a kind "
        "as a whole. Only what exceeds it is about single tokens."
    ),
}

LABELS = {
    "parts": (
        "keys: memory labels drawn from all keys (mem1). near_sum: drawn from the integers within the sum of the "
        "anchors around the key (mem2). ranges: groups of memory anchors, each with a label range of its own. All "
        "have the same seeds, and keys and near_sum the same reasoning rows."
    ),
    "A": "Area under a loss curve: the mean over training of the loss divided by ln d_vocab (at most 1).",
    "before_memory": (
        "The stage at the last evaluation with memory accuracy at most .20: no table has been learned yet."
    ),
    "inside": (
        "Probability that the output gives to the labels of the input's own group, mean over the group's inputs."
    ),
    "pooled": ("What a model would reach that knows how often each label occurs in memory as a whole, and no group."),
}

LANGUAGE = {
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
    "stages": (
        "init: step 0, the untrained twin. early: the first evaluation at which the training loss, mean of both "
        "corpora, is at most 80 % of its start (the last one where that never happens). final: the last step."
    ),
    "typical, matched": (
        "A token is typical of a corpus with at least 20 occurrences there and a smoothed frequency at least 10 times "
        "that in the other. Matched: for each typical token of PrOntoQA another one of the stories, alike in "
        "frequency, since an embedding moves the more, the more often its token occurs."
    ),
    "centred": "Less the mean of both corpora's typical tokens, so that a direction shared by all does not count.",
    "P^s, u": "P^s: how often each token follows token s in the training text. u: the uniform distribution.",
    "TV": (
        "Total variation distance of a row of attention from 1/i on each of the first i positions: 0 is an exact "
        "average, 1 the largest distance."
    ),
    "answer, step, chain": (
        "Each is asked with the right text before it. A step of a chain is right where each of its tokens is the "
        "model's likeliest; a chain where all its steps are. An answer counts among all tokens, or True against False "
        "alone, where guessing gives .50."
    ),
}

LANGUAGE_SHARED = ("tier", "γ, initialisation rate", "untrained twin", "interval", "HOLDS, FAILS, UNDECIDED")

STUDIES = {
    "anchor": GLOSSARY,
    "emb-mlp": {**{term: GLOSSARY[term] for term in SHARED}, **EMB_MLP},
    "labels": {**{term: GLOSSARY[term] for term in SHARED if term != "B, B_test"}, **LABELS},
    "language": {**{term: GLOSSARY[term] for term in LANGUAGE_SHARED}, **LANGUAGE},
}


def glossary_of(study: str) -> dict[str, str]:
    """Words and their meanings for the report of a study. Raises ConfigError for an unknown study."""
    if study not in STUDIES:
        raise ConfigError(f"there is no glossary of a study '{study}'; {nearest(study, STUDIES)}")
    return dict(STUDIES[study])
