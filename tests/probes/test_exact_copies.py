"""What docs/probes.md says of other weights with the same logits: these readings change, and all
others stay."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np
import pytest
import torch

from experiments.copies import gauge_copy, gauges_of
from rb_interp import interventions, probes
from rb_interp.interventions.edits import most_likely
from rb_interp.interventions.subspaces import token_basis
from rb_interp.models import ModelConfig
from rb_interp.models.build import lens_model
from rb_interp.models.protocol import write_weights
from rb_interp.models.schemes import parameters
from rb_interp.probes.weights import MATRICES
from rb_interp.tasks import AnchorTask, Inputs

TASK = AnchorTask(
    length=7,
    keys=(21, 30),
    memory_anchors=(1, 5),
    reasoning_anchors=(11, 15),
    d_vocab=80,
    n_sequences=200,
)
COUNTS = np.zeros((2, TASK.d_vocab), dtype=np.int64)
"""How often each token stands in two corpora: 25 tokens of the first, 45 of the second, 10 of
both."""
COUNTS[0, :25], COUNTS[1, 25:70], COUNTS[:, 70:] = (
    np.arange(900, 400, -20),
    np.arange(1200, 300, -20),
    500,
)
CHANGED = {
    "value_basis": [
        *(
            "value_alignment: [!o]*",
            "weight_spectra: *_W_[VO]",
            "condensation: *_W_[VO]",
            "cosines_by_target: *",
        ),
        "subspace: control",
    ],
    "value_rotation": ["condensation: *_W_V"],
    "value_bias": ["cosines_by_target: [!c]*"],
    "query_key_basis": ["weight_spectra: *_W_[QK]", "condensation: *_W_[QK]"],
    "mlp_scale": [
        *(
            "weight_rank: *_W_in",
            "weight_rank: *_W_out",
            "weight_spectra: *_W_in",
            "weight_spectra: *_W_out",
        ),
        "condensation: *_W_out",
    ],
    "embedding_shift": [
        *("geometry: cos_*", "geometry: abs_cos*", "token_similarity: *", "value_alignment: *_raw"),
        *("next_token: spearman_[!c]*", "next_token: pearson_[!c]*"),
    ],
    "rotation": ["condensation: *_W_O", "condensation: *_W_out", "subspace: control"],
    "coordinates": ["subspace: control"],
    "mean_shift": [
        *(
            "value_alignment: ov_*",
            "variance_explained: *",
            "weight_rank: *_W_OV",
            "weight_rank: *_W_out",
        ),
        *(
            "weight_spectra: *_W_O",
            "weight_spectra: *_W_out",
            "condensation: *_W_O",
            "condensation: *_W_out",
        ),
    ],
    "norm_gain": [
        *(
            "value_alignment: *",
            "geometry: *",
            "subspace: effect",
            "subspace: control",
            "weight_rank: *_W_QK",
        ),
        *(
            "weight_rank: *_W_OV",
            "weight_rank: *_W_in",
            "weight_spectra: *_W_[QKV]",
            "weight_spectra: *_W_in",
        ),
        *("condensation: *_W_[QKV]", "condensation: *_W_in"),
    ],
}
"""Gauge -> readings that may change, at least one of each pattern does; all others are equal to
1e-6."""
NEVER = ("token_similarity: *_centred", "variance_explained: resid_pre.0*")


def readings(model, data) -> dict[str, np.ndarray]:
    """Readings of many probes, and of each kind of intervention; right answers are the model's
    own."""
    given = data.inputs(data.sample("rsn_train", 24))
    changed = np.roll(given.tokens, 1, 0)
    changed[:, -1] = given.tokens[:, -1]
    given, other = (
        Inputs(rows, most_likely(model, rows), given.roles) for rows in (given.tokens, changed)
    )
    asked = [
        *((probe, given, {"layer": 0}) for probe in (probes.uniformity, probes.attention_to_key)),
        *(
            (probe, given, {"layer": 0})
            for probe in (probes.attention_by_role, probes.value_alignment)
        ),
        *((probe, None, {"layer": 0}) for probe in (probes.weight_rank, probes.weight_spectra)),
        (probes.condensation, None, {"layer": 0, "matrices": MATRICES}),
        (probes.head_circuits, None, {"layer": 1, "head": 1}),
        (probes.variance_explained, given, {}),
        (probes.geometry, given, {}),
        (probes.token_similarity, None, {"counts": COUNTS, "n_draws": 0}),
        (probes.lattice, None, {"tokens": np.arange(21, 31)}),
        (probes.embedding_rank, None, {"counts": COUNTS}),
        (probes.next_token, given, {"counts": COUNTS}),
        (
            probes.cosines_by_target,
            given,
            {"hook": "blocks.1.attn.hook_v", "targets": np.arange(24) % 2},
        ),
    ]
    found = {}
    for probe, inputs, options in asked:
        values = probe(model, inputs, n_null=0, **options).values
        found |= {f"{probe.__name__}: {name}": value for name, value in values.items()}
    shares = interventions.routes(model, given, {"row": other}).values
    found |= {f"routes: {name}": share for name, share in shares.items()}
    found["ablation: "] = interventions.ablation(model, given, "attn_out.0", metric="loss").values
    found["patching: "] = interventions.patching_matrix(
        model, given, other, metric="loss", components=("resid_mid", "pattern", "z")
    ).values
    found["one site: "] = interventions.patching_effect(
        model, given, other, "attn_out.1", metric="loss"
    ).values
    edited = interventions.subspace_effect(
        model, given, token_basis(model, given, "reasoning_anchor"), head=0, n_draws=2
    )
    return {name: np.asarray(value) for name, value in found.items()} | {
        "subspace: effect": edited.values,
        "subspace: control": edited.control,
    }


@pytest.mark.parametrize("norm", ["none", "pre"])
def test_readings_change_as_the_page_says_and_not_otherwise(norm):
    config, rng = (
        ModelConfig(norm=norm, n_heads=2, d_model=16, d_head=6, d_mlp=24),
        np.random.default_rng(0),
    )
    drawn = {
        p.name: 0.3 * rng.standard_normal(p.shape)
        for p in parameters(config, TASK.d_vocab, TASK.length)
    }
    weights = {
        name: torch.from_numpy(weight + name.endswith(".w")) for name, weight in drawn.items()
    }
    data, model = (
        TASK.dataset(0),
        lens_model(config, TASK.d_vocab, TASK.length, weights, torch.float64),
    )
    before = readings(model, data)
    assert before["routes: row:rows"] >= 3
    for name in gauges_of(config) if norm == "none" else ["mean_shift", "norm_gain"]:
        write_weights(model, gauge_copy(weights, name, config))
        after, patterns = readings(model, data), CHANGED.get(name, [])
        changed = {
            p
            for p, value in before.items()
            if not np.allclose(value, after[p], 1e-6, 1e-6, equal_nan=True)
        }
        seen = {
            place: [pattern for pattern in patterns if fnmatchcase(place, pattern)]
            for place in changed
        }
        assert not [
            place
            for place in changed
            if not seen[place] or any(fnmatchcase(place, n) for n in NEVER)
        ], name
        assert {pattern for found in seen.values() for pattern in found} == {*patterns}, name
