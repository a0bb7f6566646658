"""What the words of this study's report mean, in the order in which a reader meets them."""

from rb_interp.studies.addition_and_scan.config import HIGH, LOW

GLOSSARY: dict[str, str] = {
    "block": "Sums whose operands both lie in a range of their own, in the middle. None of them is trained.",
    "composites": (
        "Commands with the verb jump and at least one other word. In training jump occurs alone, in no other command."
    ),
    "seen_test": "Rows that are like those trained on and were not trained: other sums outside the block, other "
    "commands without jump.",
    "exact match": (
        "Share of commands whose whole sequence of actions is right, its end "
        "included, each token being the most likely one (greedy decoding)."
    ),
    "small, middle, large": "The three numbers of rows of commands that are trained on.",
    "low, high": f"The two weight decays, {LOW:g} and {HIGH:g}.",
    "contrast": (
        "A difference in the share of right answers on the held-out set between two members of the same seed. The "
        "claims change γ and weight decay together; the other contrasts change one of them."
    ),
}
