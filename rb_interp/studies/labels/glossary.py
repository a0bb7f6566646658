"""What the words of the label study's report mean, in the order in which a reader meets them."""

from rb_interp.figures.numbers import two_digits
from rb_interp.report.glossary import shared
from rb_interp.tasks.anchor import MEMORY_ACCURACY

GLOSSARY: dict[str, str] = {
    **shared(
        "scale",
        "γ, initialisation rate",
        "memory, reasoning",
        "seed, member",
        "untrained model",
        "interval",
        "HOLDS, FAILS, UNDECIDED",
    ),
    "sweeps": (
        "keys: memory labels drawn from all keys (mem1). near_sum: drawn from the integers within the sum of the "
        "anchors around the key (mem2). ranges: groups of memory anchors, each with a label range of its own. All "
        "have the same seeds, and keys and near_sum the same reasoning rows."
    ),
    "A": "Area under a loss curve: the mean over training of the loss divided by ln d_vocab (at most 1).",
    "before_memory": (
        f"The stage at the last evaluation with memory accuracy at most {two_digits(MEMORY_ACCURACY)}: no table has "
        "been learned yet."
    ),
    "inside": (
        "Probability that the output gives to the labels of the input's own group, mean over the group's inputs."
    ),
    "pooled": ("What a model would reach that knows how often each label occurs in memory as a whole, and no group."),
}
