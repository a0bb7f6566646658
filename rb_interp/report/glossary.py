"""What the words and letters of a report mean, in the order in which a reader meets them."""

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
