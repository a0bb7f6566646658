"""Which readings of the probes depend on the basis in which the weights are written, and not on the function.

A gauge copy has other weights and the same logits (``models.gauge``). What differs between a model and its copies says
nothing of what the model computes. CHANGED_BY names, for every probe, the gauges that change its readings, in one
family of models at least; every other gauge leaves them as they are, and a test compares both with exact copies.
Readings of one head go with their head when heads change places.

How it can mislead. A reading that no gauge changes can still be about weights that do nothing. One that a gauge changes
can still be reproducible: training begins in a basis that the initialisation does not single out, so that members of
one scheme are comparable with each other, but not with a model that was trained or stored in another way. The gauges
are those of ``models.gauge``; others may exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

Changes = Mapping[str, tuple[str, ...]]
"""Quantity, with ``*`` for any text -> the gauges that change it; the first that fits counts."""

NEVER: Changes = {"*": ()}
_EMBEDDING = ("embedding_shift",)

CHANGED_BY: Mapping[str, Changes] = {
    "uniformity": NEVER,
    "attention_by_role": NEVER,
    "attention": NEVER,
    "attention_to_key": NEVER,
    "value_alignment": {
        "ov_*_raw": ("embedding_shift", "mean_shift"),
        "ov_*": ("mean_shift",),
        "*_raw": ("value_basis", "embedding_shift"),
        "*": ("value_basis",),
    },
    "variance_explained": {"resid_pre.0:*": (), "*": ("mean_shift",)},
    "cosines_by_target": {
        "centred_*": ("value_basis", "mean_shift"),
        "*": ("value_basis", "value_bias", "mean_shift"),
    },
    "geometry": {
        "abs_cos_random": (),
        "cos_*": _EMBEDDING,
        "abs_cos*": _EMBEDDING,
        "order_rho": _EMBEDDING,
        "theory": _EMBEDDING,
        "*": (),
    },
    "label_range": NEVER,
    "token_similarity": {"*_centred": (), "cos_*": _EMBEDDING, "difference*": _EMBEDDING, "*": ()},
    "embedding_rank": NEVER,
    "weight_rank": {
        "stable_rank_W_OV": ("mean_shift",),
        "stable_rank_W_in": ("mlp_scale",),
        "stable_rank_W_out": ("mlp_scale", "mean_shift"),
        "*": (),
    },
    "weight_spectra": {
        "*_W_Q": ("query_key_basis",),
        "*_W_K": ("query_key_basis",),
        "*_W_V": ("value_basis",),
        "*_W_O": ("value_basis", "mean_shift"),
        "*_W_in": ("mlp_scale",),
        "*_W_out": ("mlp_scale", "mean_shift"),
    },
    "condensation": {
        "*_W_Q": ("query_key_basis",),
        "*_W_K": ("query_key_basis",),
        "*_W_V": ("value_basis", "value_rotation"),
        "*_W_O": ("value_basis", "rotation", "mean_shift"),
        "*_W_in": (),
        "*_W_out": ("mlp_scale", "rotation", "mean_shift"),
    },
    "lattice": NEVER,
    "next_token": {"spearman_centred_*": (), "spearman_*": _EMBEDDING, "pearson_*": _EMBEDDING, "*": ()},
    "chain_accuracy": NEVER,
    "chain": NEVER,
}
"""Probe, and the name of its readings where that is another (``chain``)."""


def changed_by(reading: str, quantity: str, table: Mapping[str, Changes] = CHANGED_BY) -> tuple[str, ...]:
    """The gauges that change a reading; every other one that is exact for the model leaves it as it is.

    >>> changed_by("token_similarity", "cos_stories"), changed_by("token_similarity", "cos_stories_centred")
    (('embedding_shift',), ())
    """
    changes = table[reading]
    return next(changes[pattern] for pattern in changes if fnmatchcase(quantity, pattern))


def markdown(table: Mapping[str, Changes]) -> str:
    """The table of docs/probes.md: readings with the same changes share a row."""
    shared: dict[tuple[tuple[str, tuple[str, ...]], ...], list[str]] = {}
    for reading, changes in table.items():
        shared.setdefault(tuple(changes.items()), []).append(f"`{reading}`")
    lines = ["| reading | quantity | changed by |", "|---|---|---|"]
    for changes, readings in shared.items():
        for number, (pattern, gauges) in enumerate(changes):
            quantity = f"`{pattern}`" if pattern != "*" else "all" if number == 0 else "the rest"
            lines.append(f"| {', '.join(readings)} | {quantity} | {', '.join(gauges) or 'none'} |")
    return "\n".join(lines) + "\n"
