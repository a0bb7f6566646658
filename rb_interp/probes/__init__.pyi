from ._attention import attention, attention_by_role, attention_to_key
from ._core import Null, Reading, scan
from ._geometry import geometry
from ._head_circuits import head_circuits
from ._lattice import lattice
from ._logit_lens import logit_lens
from ._token_similarity import token_similarity
from ._uniformity import uniformity
from .activations import capture, captured, from_arrays
from .chain import chain_accuracy, chain_inputs
from .labels import cosines_by_target, label_range
from .language import embedding_rank, next_token
from .typical import token_table, typical_tokens
from .values import value_alignment
from .variance import variance_explained
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
    "head_circuits",
    "label_range",
    "lattice",
    "logit_lens",
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
