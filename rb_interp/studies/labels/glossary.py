"""What the words of the label study's report mean, in the order in which a reader meets them."""

from rb_interp.figures.numbers import two_digits
from rb_interp.report.glossary import shared
from rb_interp.tasks.anchor import MEMORY_ACCURACY

GLOSSARY: dict[str, str] = {
    **shared("memory, reasoning"),
    "sweeps": (
        "keys: memory labels drawn from all keys. near_sum: drawn from the integers within the sum of the anchors "
        "around the key. ranges: groups of memory anchors, each with a label range of its own. All have the same "
        "seeds, and keys and near_sum the same reasoning rows."
    ),
    "mem1, mem2": (
        "Names of the two memory mappings that R1 compares: mem1 is memory in the sweep keys, mem2 memory in the sweep "
        "near_sum."
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
