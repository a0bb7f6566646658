"""Rows and options with which every probe is called."""

import numpy as np

from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

N, LENGTH, LAYERS = 30, 9, 2
KEY = np.arange(N)[:, None] % 6
INPUTS = Inputs(
    np.random.default_rng(0).integers(0, 30, (N, LENGTH)),
    np.arange(N) % 7,
    Roles(
        {"key": KEY, "anchor": KEY + np.arange(1, 3)},
        {"low": np.arange(6), "high": np.arange(9, 14)},
    ),
)
COUNTS = np.stack(
    [np.r_[np.full(15, 40), np.zeros(15, int)], np.r_[np.zeros(15, int), np.full(15, 50)]]
)
PLACE = {"layer": 1, "head": 2}
CASES = {
    "uniformity": PLACE,
    "attention": {**PLACE, "query": "anchor", "to": ["key", "anchor"]},
    "attention_by_role": PLACE,
    "attention_to_key": PLACE,
    "value_alignment": PLACE,
    "head_circuits": PLACE,
    "variance_explained": PLACE,
    "cosines_by_target": {"hook": "blocks.1.hook_resid_mid", "role": "key"},
    "geometry": PLACE,
    "label_range": {"groups": np.arange(N) % 2, "ranges": [(0, 9), (0, 19)]},
    "lattice": {"tokens": "low"},
    "weight_rank": {"layer": 1},
    "weight_spectra": {"layer": 1},
    "condensation": {"layer": 1, "matrices": ("W_Q", "W_in")},
    "embedding_rank": {"counts": COUNTS},
    "token_similarity": {"counts": COUNTS},
    "next_token": {"counts": COUNTS},
}
