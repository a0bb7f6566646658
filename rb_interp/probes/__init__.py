"""What a trained model computes: one mechanism a file, each a Reading beside its untrained twin and its null."""

from rb_interp.probes.capture import capture
from rb_interp.probes.carrying import carrying
from rb_interp.probes.circuit import name_circuit
from rb_interp.probes.composition import composition
from rb_interp.probes.geometry import geometry
from rb_interp.probes.label_range import label_range
from rb_interp.probes.learning_order import learning_order
from rb_interp.probes.lemma_1 import lemma_1
from rb_interp.probes.reading import Null, Reading
from rb_interp.probes.routing import routing
from rb_interp.probes.scan import scan
from rb_interp.probes.uniformity import uniformity
from rb_interp.probes.value_alignment import value_alignment

__all__ = [
    "Null",
    "Reading",
    "capture",
    "carrying",
    "composition",
    "geometry",
    "label_range",
    "learning_order",
    "lemma_1",
    "name_circuit",
    "routing",
    "scan",
    "uniformity",
    "value_alignment",
]
