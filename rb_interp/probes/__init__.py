"""What a trained model computes: one mechanism a file, each a Reading beside its untrained twin and its null."""

from rb_interp.probes.capture import capture
from rb_interp.probes.carrying import carrying
from rb_interp.probes.chain import chain_accuracy
from rb_interp.probes.circuit import name_circuit
from rb_interp.probes.composition import composition
from rb_interp.probes.corpus_loss import corpus_loss, corpus_loss_table
from rb_interp.probes.embedding_rank import embedding_rank, weight_rank
from rb_interp.probes.geometry import geometry
from rb_interp.probes.label_range import label_range
from rb_interp.probes.learning_order import learning_order
from rb_interp.probes.lemma_1 import lemma_1
from rb_interp.probes.next_token import next_token
from rb_interp.probes.reading import Null, Reading
from rb_interp.probes.routing import routing
from rb_interp.probes.scan import scan
from rb_interp.probes.token_similarity import token_similarity
from rb_interp.probes.token_typing import token_table, typical_tokens
from rb_interp.probes.uniformity import uniformity
from rb_interp.probes.value_alignment import value_alignment

__all__ = [
    "Null",
    "Reading",
    "capture",
    "carrying",
    "chain_accuracy",
    "composition",
    "corpus_loss",
    "corpus_loss_table",
    "embedding_rank",
    "geometry",
    "label_range",
    "learning_order",
    "lemma_1",
    "name_circuit",
    "next_token",
    "routing",
    "scan",
    "token_similarity",
    "token_table",
    "typical_tokens",
    "uniformity",
    "value_alignment",
    "weight_rank",
]
