"""How often p <= .05 where nothing is to be found: random models at three gammas, roles, labels and
tokens at random.

``python tests/probes/test_null_calibration.py 40`` prints what the table of docs/probes.md is made
of (minutes).
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lens_models import lens_model

from rb_interp import probes, scale_init
from rb_interp.tasks import Inputs, Roles

GAMMAS = (0.3, 0.5, 0.8)
ROWS, LENGTH, VOCAB = 50, 12, 120


def untrained(gamma: float, seed: int) -> Any:
    sizes = {
        "n_layers": 2,
        "d_model": 64,
        "d_head": 16,
        "d_mlp": 128,
        "n_ctx": LENGTH,
        "d_vocab": VOCAB,
    }
    model = lens_model("gpt2", seed, **sizes)
    scale_init(model, gamma, seed=seed)
    return model


def by_rows(gamma: float, seed: int, n_null: int = 99) -> pd.DataFrame:
    """The heads of one model: attention from the end, and between roles that overlap."""
    rng, end = np.random.default_rng([seed, 7]), np.full((ROWS, 1), LENGTH - 1)
    order = rng.permuted(np.tile(np.arange(LENGTH - 1), (ROWS, 1)), axis=1)
    roles = Roles({"thing": order[:, :2], "key": order[:, :1], "anchor": order[:, 2:4], "end": end})
    inputs = Inputs(rng.integers(0, VOCAB, (ROWS, LENGTH)), rng.integers(0, 5, ROWS), roles)
    model, options = untrained(gamma, seed), {"n_null": n_null, "seed": seed}
    looks: dict[str, Any] = {"query": ("end", "anchor"), "to": "thing"}
    tables = [probes.scan(probes.attention, model, inputs, **looks, **options)]
    tables += [
        probes.scan(one, model, inputs, **options)
        for one in (probes.attention_by_role, probes.attention_to_key)
    ]
    return pd.concat(tables)


def by_tokens(gamma: float, seed: int, n_null: int = 99) -> pd.DataFrame:
    """The other probes of one model, each once for a layer or the whole."""
    rng, options = np.random.default_rng([seed, 8]), {"n_null": n_null, "seed": seed}
    first, second = np.split(rng.permutation(VOCAB)[:20], 2)
    groups = {"first": np.sort(first), "second": np.sort(second)}
    named: dict[str, Any] = {
        "groups": groups,
        "clusters": ("first", "second"),
        "ordered": ("first", "second"),
    }
    inputs = Inputs(rng.integers(0, VOCAB, (ROWS, LENGTH)), rng.integers(0, 5, ROWS))
    counts = np.zeros((2, VOCAB), dtype=int)
    counts[0, :40], counts[1, 40:] = rng.integers(100, 999, 40), rng.integers(100, 999, VOCAB - 40)
    model, hook = untrained(gamma, seed), "blocks.1.hook_attn_out"
    every = [
        probes.uniformity(model, inputs, layer=1, **options),
        probes.value_alignment(
            model, inputs, groups=groups, contrast=("first", "second"), **options
        ),
        probes.variance_explained(
            model, inputs, layer=1, groupings={"labels": inputs.labels}, **options
        ),
        probes.cosines_by_target(model, inputs, hook=hook, **options),
        probes.geometry(model, inputs, **named, **options),
        probes.lattice(model, tokens=groups["first"], **options),
        probes.head_circuits(model, layer=1, **options),
        probes.condensation(model, matrices=("W_Q", "W_in"), **options),
        probes.embedding_rank(model, counts=counts, **options),
        probes.token_similarity(model, counts=counts, n_draws=0, **options),
        probes.next_token(model, inputs, counts=counts, **options),
    ]
    return pd.concat([one.to_frame() for one in every])


def shares(tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Share of p <= .05 and their number, by probe, quantity and null."""
    table = pd.concat(tables).dropna(subset="p_value")
    table = table.assign(small=table.p_value <= 0.05).groupby(["probe", "quantity", "null"]).small
    return table.agg(["mean", "size"])


@pytest.mark.wide
@pytest.mark.lens
def test_roles_that_mean_nothing_are_called_significant_in_five_of_a_hundred_heads():
    """64 heads; p <= .05 in more than ten of them has a chance of 1 in 2,000. At gamma .3 drawn
    attention had .22."""
    table = shares([by_rows(0.3, seed) for seed in range(8)]).loc["attention"]
    assert table["size"].tolist() == [64] * 4
    assert table["mean"].max() <= 10 / 64


@pytest.mark.slow
@pytest.mark.lens
@pytest.mark.parametrize("gamma", GAMMAS)
def test_p_of_attention_is_calibrated_over_1000_heads(gamma):
    table = shares([by_rows(gamma, seed) for seed in range(125)]).loc["attention"]
    assert table["size"].tolist() == [1000] * 4
    assert 0.03 <= table["mean"].min() <= table["mean"].max() <= 0.07


if __name__ == "__main__":
    import sys

    warnings.simplefilter("ignore")
    columns = {}
    for gamma in GAMMAS:
        tables = [
            shares([of(gamma, seed) for seed in range(int(sys.argv[1]))])
            for of in (by_rows, by_tokens)
        ]
        columns[gamma], sizes = pd.concat(tables)["mean"].round(3), pd.concat(tables)["size"]
    print(pd.DataFrame(columns).assign(n=sizes).to_string())
