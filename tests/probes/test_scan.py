"""A scan reads a model once for all layers and heads, and adjusts p over its heads."""

import numpy as np
import pandas as pd
import pytest
import torch
from lens_models import lens_model
from probe_cases import CASES, INPUTS, LAYERS, PLACE

from rb_interp import probes
from rb_interp.statistics.reading import Null


@pytest.fixture(scope="module")
def pair():
    return tuple(lens_model("gpt2", seed, n_layers=LAYERS) for seed in (0, 1))


def test_a_scan_adjusts_p_over_its_heads_for_each_quantity(pair, monkeypatch):
    """By hand: the i-th smallest of n becomes the least of n p_j / j over j >= i; NaN does not
    count."""
    given = iter([0.01, 0.04, np.nan, 0.03])
    monkeypatch.setattr(Null, "_p_value", lambda null, value: next(given))
    found = probes.scan(probes.uniformity, pair[0], INPUTS, layers=[0], n_null=5)
    assert found.columns.get_loc("p_adjusted") == found.columns.get_loc("p_value") + 1
    np.testing.assert_allclose(found.p_adjusted[found.quantity == "tv"], [0.03, 0.04, np.nan, 0.04])
    assert found.p_adjusted[found.quantity != "tv"].isna().all()  # without a null


def passes(model, work):
    """How often a model runs through its first block while something is done."""
    seen, block = [], model.blocks[0]
    forward = block.forward
    block.forward = lambda *args, **options: (
        seen.append(1) or forward(*args, **options)
    )  # a note would name a hook
    found = work()
    del block.forward
    return len(seen), found


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].keys() >= PLACE.keys()])
def test_a_scan_takes_one_pass_and_gives_the_numbers_of_single_calls(name, pair):
    """Of the model, of the untrained one too, and of a cache; heads and layers in any order."""
    (model, untrained), probe = pair, getattr(probes, name)
    options = {
        "n_null": 5,
        **{key: value for key, value in CASES[name].items() if key not in PLACE},
    }
    count, found = passes(
        model, lambda: probes.scan(probe, model, INPUTS, untrained=untrained, **options)
    )
    assert count <= 1
    single = [
        probe(model, INPUTS, layer=layer, head=2, untrained=untrained, **options)
        .to_frame()
        .assign(layer=layer, head=2)  # a reading of the embedding has none of its own
        for layer in range(2)
    ]
    assert len(found) == 8 * len(single[0])
    of_heads = found[found["head"] == 2].drop(columns="p_adjusted").reset_index(drop=True)
    pd.testing.assert_frame_equal(of_heads, pd.concat(single, ignore_index=True), check_exact=True)
    backwards = probes.scan(
        probe, model, INPUTS, layers=[1, 0], heads=[2], untrained=untrained, **options
    )
    backwards = backwards.drop(columns="p_adjusted")
    pd.testing.assert_frame_equal(
        backwards, pd.concat(single[::-1], ignore_index=True), check_exact=True
    )
    with torch.no_grad():
        cache = model.run_with_cache(torch.from_numpy(INPUTS.tokens))[1]
    again = passes(model, lambda: probes.scan(probe, cache, INPUTS, untrained=untrained, **options))
    assert again[0] == (
        name in ("value_alignment", "geometry")
    )  # they see tokens through LayerNorm, one row a token
    pd.testing.assert_frame_equal(again[1], found, check_exact=True)


def test_a_scan_without_room_takes_more_passes_and_gives_the_same(monkeypatch):
    from rb_interp.probes import _scan

    model = lens_model("gpt2")
    once = probes.scan(probes.uniformity, model, INPUTS, n_null=5)
    monkeypatch.setattr(_scan, "CAPTURE_BYTES", 1)
    count, found = passes(model, lambda: probes.scan(probes.uniformity, model, INPUTS, n_null=5))
    assert count == 4
    assert found.equals(once)


def test_all_probes_are_among_the_cases_or_read_text():
    named = [
        name
        for name in probes.__all__
        if "n_null" in getattr(getattr(probes, name), "__annotations__", {})
    ]
    assert set(named) == {*CASES, "chain_accuracy"}
