"""What a trained model computes: each probe gives a Reading with its null and the untrained
model's."""

from typing import TYPE_CHECKING

from rb_interp import lazy_names

if TYPE_CHECKING:
    from rb_interp.probes._attention import (
        attention,
        attention_by_role,
        attention_to_key,
        uniformity,
    )
    from rb_interp.probes._probe import scan
    from rb_interp.probes.capturing import capture, captured, from_arrays
    from rb_interp.probes.embeddings import geometry, lattice
    from rb_interp.probes.labels import cosines_by_target, label_range, variance_explained
    from rb_interp.probes.language import chain_accuracy, chain_inputs, embedding_rank, next_token
    from rb_interp.probes.tokens import token_similarity, token_table, typical_tokens
    from rb_interp.probes.values import value_alignment
    from rb_interp.probes.weights import condensation, weight_rank, weight_spectra
    from rb_interp.statistics.reading import Null, Reading

    __all__ = [
        "Null",
        "Reading",
        "attention",
        "attention_by_role",
        "attention_to_key",
        "capture",
        "captured",
        "chain_accuracy",
        "chain_inputs",
        "condensation",
        "cosines_by_target",
        "embedding_rank",
        "from_arrays",
        "geometry",
        "label_range",
        "lattice",
        "next_token",
        "scan",
        "token_similarity",
        "token_table",
        "typical_tokens",
        "uniformity",
        "value_alignment",
        "variance_explained",
        "weight_rank",
        "weight_spectra",
    ]
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
