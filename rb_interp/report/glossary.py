"""Words that mean the same in the reports of several studies."""

SHARED: dict[str, str] = {
    "scale": (
        "Which preset the runs follow: smoke (seconds), quick (minutes), paper (the paper's sizes), or custom where "
        "task, model or training differ from the preset."
    ),
    "γ, initialisation rate": (
        "Every weight matrix starts with standard deviation (input dimension)^−γ. A larger γ is a smaller "
        "initialisation; 0.5 is the usual one."
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
    "B, B_test": (
        "Bias index (A_mem − A_rsn) / (A_mem + A_rsn), where A is the mean over training of the loss divided by ln "
        "d_vocab (at most 1). Positive: reasoning is learned before memory. B uses rsn_train, B_test rsn_test."
    ),
    "TV": (
        "Total variation distance of a row of attention from 1/i on each of the first i positions: 0 is an exact "
        "average, 1 the largest distance."
    ),
    "untrained model": (
        "The same member at step 0. A claim that at least half of them already meet is marked, since training has "
        "then shown nothing."
    ),
    "interval": (
        "95 %: Student t for a mean over seeds, Clopper-Pearson for a share. With few seeds it may reach beyond the "
        "values that are possible."
    ),
    "HOLDS, FAILS, OPEN, NOT JUDGED": (
        "A seed meets a claim where it meets all its conditions. HOLDS: so many seeds meet it that it cannot well be "
        "half of all seeds or fewer. FAILS: so few meet it that it cannot well be half or more. Either is wrong with "
        "probability 1/40 at most, however many seeds are added. OPEN: neither; the seeds disagree, or are "
        "too few. NOT JUDGED: something else than seeds is missing, and the reason says what: the probe misleads on "
        "models whose mechanism is known, fewer than half of the seeds have learned the mapping or have come to the "
        "stage, the criterion was written after all these seeds had been read, or the run has no such reading. "
        "8 seeds that agree decide, and "
        "fewer never do; a claim about something else than seeds, such as I1 of the anchor study about "
        "initialisations, says what it counts. The evidence that a reason names is how many times better seeds that "
        "mostly meet the claim (or mostly do not) explain the counts than a fair coin; 40 decides."
    ),
    "median [range]": (
        "Median over seeds, with the smallest and the largest seed. A range is no interval: it grows with seeds."
    ),
}


def shared(*terms: str) -> dict[str, str]:
    """Some of these words with their meanings, in the given order.

    >>> list(shared("TV", "interval"))
    ['TV', 'interval']
    """
    return {term: SHARED[term] for term in terms}
