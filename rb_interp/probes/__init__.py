"""What a trained model computes: one mechanism a file, each gives a Reading with its null and the untrained model's."""

from rb_interp.probes.alignment import value_alignment
from rb_interp.probes.answer_ranges import label_range
from rb_interp.probes.arrays import from_arrays
from rb_interp.probes.averaging import uniformity
from rb_interp.probes.between_roles import attention
from rb_interp.probes.by_role import attention_by_role
from rb_interp.probes.capturing import capture, captured
from rb_interp.probes.chain import chain_accuracy, chain_inputs
from rb_interp.probes.corpus_cosines import token_similarity
from rb_interp.probes.embedding_geometry import geometry
from rb_interp.probes.explained_variance import variance_explained
from rb_interp.probes.followers import next_token
from rb_interp.probes.neuron_groups import condensation
from rb_interp.probes.number_lattice import lattice
from rb_interp.probes.ranks import embedding_rank, weight_rank
from rb_interp.probes.scanning import scan
from rb_interp.probes.spectra import weight_spectra
from rb_interp.probes.target_cosines import cosines_by_target
from rb_interp.probes.to_key import attention_to_key
from rb_interp.probes.token_typing import token_table, typical_tokens
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
