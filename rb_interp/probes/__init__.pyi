from ._attention import attention, attention_by_role, attention_to_key, uniformity
from ._probe import Null, Reading, scan
from .activations import capture, captured, from_arrays
from .embeddings import geometry, lattice
from .labels import cosines_by_target, label_range, variance_explained
from .language import chain_accuracy, chain_inputs, embedding_rank, next_token
from .tokens import token_similarity, token_table, typical_tokens
from .values import value_alignment
from .weights import condensation, weight_rank, weight_spectra

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
