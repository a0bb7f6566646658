"""Arrays of a run's evidence."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from rb_interp.claims import Term
from rb_interp.figures.evidence import Evidence

pytestmark = pytest.mark.wide


def test_an_array_is_found_by_layer_and_head_and_only_where_one_fits():
    readings = pd.DataFrame({"probe": "attention", "stage": "final", "layer": [0.0, 1.0]})
    arrays = {
        "0.8/3/final/set/attention.L0.H0/pattern": np.zeros(2),
        "0.8/3/final/set/attention.L1.H0/pattern": np.ones(2),
        "0.8/3/final/set/attention/old": np.ones(2),
        "0.8/3/final//geometry/cosines": np.full(2, 3.0),
    }
    found = SimpleNamespace(arrays=arrays, readings=readings)
    found._array_keys = Evidence._array_keys.func(found)

    def array(quantity="pattern", probe="attention", set="set", **site):
        term = Term(probe, quantity, 0.8, "final", set, **site)
        return Evidence._array(found, term, 3)

    assert array(layer=0).tolist() == [0, 0]
    assert array(layer=1, head=0).tolist() == [1, 1]
    assert [array(layer=2), array(layer=1, head=1), array()] == [None] * 3
    assert array("cosines", "geometry", "").tolist() == [3, 3]
    # a key without a layer is of the only layer that was read
    assert array("old", layer=1) is None
    found.readings = readings.iloc[1:]
    assert array("old", layer=1).tolist() == [1, 1]
    assert array("old", layer=0) is None
