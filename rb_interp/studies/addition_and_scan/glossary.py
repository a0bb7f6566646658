"""What the words of this study's report mean, in the order in which a reader meets them."""

from rb_interp.report.glossary import shared

GLOSSARY: dict[str, str] = {
    **shared(
        "scale",
        "γ, initialisation rate",
        "seed, member",
        "untrained model",
        "interval",
        "HOLDS, FAILS, UNDECIDED",
        "median [range]",
    ),
    "block": "Sums whose operands both lie in a range of their own, in the middle. None of them is trained.",
    "composites": (
        "Commands with the verb jump and at least one other word. In training jump occurs alone, in no other command."
    ),
    "seen_test": "Rows that are like those trained on and were not trained: other sums outside the block, other "
    "commands without jump.",
    "exact match": (
        "Share of commands whose whole sequence of actions (of sentences, whose whole logical form) is right, its end "
        "included, each token being the most likely one (greedy decoding)."
    ),
    "small, middle, large": "The three numbers of rows of commands that are trained on.",
    "low, high": "The two weight decays, .01 and .1.",
    "contrast": (
        "A difference in the share of right answers on the held-out set between two members of the same seed. The "
        "claims change γ and weight decay together; the other contrasts change one of them."
    ),
}
