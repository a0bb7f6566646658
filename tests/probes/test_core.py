"""A number that nothing defines has a note, whatever the model and the rows; so has a null that
cannot differ."""

from __future__ import annotations

from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from induction import PREVIOUS, known
from induction import rows as induction_rows
from lens_models import lens_model
from probe_cases import CASES as SCAN_CASES
from probe_cases import INPUTS, LAYERS, PLACE
from test_chain import EXAMPLES, TOKENIZER

import rb_interp as rb
from rb_interp import probes
from rb_interp.errors import ArgumentError, ModelError, RbInterpError, RolesError
from rb_interp.models.protocol import live_parameters
from rb_interp.probes import activations
from rb_interp.statistics.reading import Null
from rb_interp.tasks import Inputs, Roles

COUNTS = np.zeros((2, 200), dtype=int)
COUNTS[0, :40], COUNTS[1, 40:120] = 40, 50
LONE = np.zeros((2, 200), dtype=int)
LONE[0, 30], LONE[1, 31] = 40, 50
RARE = np.where(COUNTS > 0, [[40], [1]], 0)
"""Counts of two corpora, of two that have one token each, and of two of which one is too short."""
CASES: dict[str, list[dict[str, Any]]] = {
    "attention": [{}],
    "attention_by_role": [{}],
    "attention_to_key": [{}],
    "chain_accuracy": [{}],
    "condensation": [{"matrices": ("W_Q", "W_out")}],
    "cosines_by_target": [
        {"hook": "blocks.1.hook_resid_mid"},
        {"hook": "blocks.0.hook_attn_out", "role": "key"},
    ],
    "embedding_rank": [{"counts": COUNTS}, {"counts": LONE}],
    "geometry": [{}, {"groups": {"lone": [5], "two": [5, 6]}, "ordered": ["lone", "two"]}],
    "head_circuits": [{}, {"layer": 1}],
    "label_range": [{"groups": [0], "ranges": [(0, 19)]}],
    "lattice": [{}, {"tokens": [3]}],
    "next_token": [{"counts": COUNTS}, {"counts": LONE}],
    "token_similarity": [
        {"counts": COUNTS, "n_draws": 3},
        {"counts": LONE, "n_draws": 0},
        {"counts": RARE, "n_draws": 3},
    ],
    "uniformity": [{}],
    "value_alignment": [{}, {"groups": {"lone": [5], "same": [5]}, "k": 1}],
    "variance_explained": [{}, {"groupings": {"one group": [0]}}],
    "weight_rank": [{}],
    "weight_spectra": [{}],
}
MODELS = ("trained", "untrained", "zero", "constant embedding", "diverged", "diverged at its end")
PAIRS = [("trained", None), ("trained", "diverged"), *((name, "zero") for name in MODELS)]
WEIGHTS_ALONE = [
    "condensation",
    "embedding_rank",
    "head_circuits",
    "lattice",
    "token_similarity",
    "weight_rank",
    "weight_spectra",
]
DEGENERATE = {
    "one row": lambda rows: rows.take([0]),
    "all equal": lambda rows: rows.take(np.zeros(20, dtype=int)),
    "no key": lambda rows: Inputs(
        rows.tokens, rows.labels, _with(rows.roles, key=np.zeros((len(rows), 0), dtype=int))
    ),
    "key absent in a row": lambda rows: Inputs(
        rows.tokens,
        rows.labels,
        _with(rows.roles, key=np.where(np.arange(len(rows))[:, None] == 3, -1, 2)),
    ),
    "no rows": lambda rows: rows.take(np.zeros(0, dtype=int)),
}


def _with(roles: Roles, **positions: np.ndarray) -> Roles:
    return Roles({**roles.positions, **positions}, {**roles.tokens, "key": roles.tokens["key"]})


@cache
def member():
    return rb.from_pretrained("zoo", member="average-then-key")


@cache
def model(name: str, text: bool = False):
    if name in ("trained", "untrained") and not text:
        return member().model if name == "trained" else member().untrained
    task = SimpleNamespace(d_vocab=TOKENIZER.d_vocab, length=200) if text else rb.AnchorTask()
    made = rb.build_model(task, gamma=0.3 if name == "trained" else 0.8)
    if name in ("trained", "untrained"):
        return made
    live = live_parameters(made)
    with torch.no_grad():
        if name == "constant embedding":
            live["embed.W_E"][:] = live["embed.W_E"][0].clone()
        elif name == "diverged at its end":
            live["unembed.W_U"].fill_(np.nan)
        else:
            for weight in live.values():
                weight.fill_(0.0 if name == "zero" else np.nan)
    return made


def made_for(probe: str, rows: Inputs, options: dict) -> tuple[Inputs, dict]:
    """The rows as a probe takes them, and options with one entry for each row."""
    if probe == "chain_accuracy":
        return probes.chain_inputs(EXAMPLES[:1], TOKENIZER), options
    by_row = {"groups": options.get("groups"), "groupings": options.get("groupings")}
    if by_row["groups"] == [0]:
        return rows, {**options, "groups": np.zeros(len(rows), dtype=int)}
    if by_row["groupings"]:
        return rows, {
            "groupings": {name: np.zeros(len(rows), dtype=int) for name in by_row["groupings"]}
        }
    return rows, options


@pytest.mark.parametrize("probe", CASES)
def test_what_is_not_a_number_has_a_note(probe: str):
    """Or the probe refuses it with an error of its own; nothing else leaves it."""
    every, read = member().inputs("rsn_test", 12), set()
    tried = [("as they are", *pair) for pair in PAIRS]
    tried += [(rows, "trained", "zero") for rows in DEGENERATE if probe not in WEIGHTS_ALONE]
    for (rows, name, untrained), options in product(tried, CASES[probe]):
        now, before = (one and model(one, probe == "chain_accuracy") for one in (name, untrained))
        inputs, options = made_for(probe, DEGENERATE.get(rows, lambda same: same)(every), options)
        try:
            found = getattr(probes, probe)(now, inputs, untrained=before, n_null=3, **options)
        except RbInterpError:
            continue
        read.add(name)
        table = found.to_frame().set_index("quantity")
        silent = table.drop(
            list(found.notes), errors="ignore"
        )  # a note of the roles is of all quantities
        assert np.isfinite(silent.value).all(), (rows, name, untrained)
        assert before is None or np.isfinite(silent.untrained).all(), (rows, name, untrained)
        assert np.isfinite(silent.p_value[silent.null.notna()]).all(), (rows, name, untrained)
    assert {"trained", "untrained", "zero"} <= read


def test_a_note_tells_the_untrained_model_s_reason_from_the_model_s_own():
    found = probes.weight_spectra(model("trained"), untrained=model("zero"))
    assert set(found.notes.values()) == {"of the untrained model: the matrix is zero."}
    assert probes.weight_spectra(model("zero"), untrained=model("zero")).notes == dict.fromkeys(
        found.values, "the matrix is zero."
    )


@pytest.mark.parametrize("probe", ["attention_to_key", "variance_explained", "cosines_by_target"])
def test_a_role_without_a_position_is_refused(probe: str):
    rows = DEGENERATE["no key"](member().inputs("rsn_test", 5))
    options = (
        {"hook": "blocks.0.hook_resid_pre", "role": "key"} if probe == "cosines_by_target" else {}
    )
    with pytest.raises(
        RolesError,
        match=f"{probe} got the role 'key' without a position; give it one or more in each",
    ):
        getattr(probes, probe)(model("trained"), rows, **options)


def test_a_null_that_cannot_differ_has_a_note():
    """Where all rows have the same places, the roles of another row are the row's own."""
    every = induction_rows()
    still = every.take(every.roles.position("first")[:, 0] == 3)
    here = dict(zip(("layer", "head"), PREVIOUS, strict=True))
    look: dict[str, Any] = {**here, "query": "second", "to": "first"}
    found, moving = (probes.attention(known().model, rows, **look) for rows in (still, every))
    table = found.to_frame().set_index("quantity")
    assert dict(table.note) == dict.fromkeys(table.index, "") | dict(found.notes)
    everywhere = probes.scan(probes.attention, known().model, still, query="second", to="first")
    assert set(everywhere.note[everywhere.quantity == "second_to_first"]) == {
        found.notes["second_to_first"]
    }
    with known().model.hooks([("blocks.0.attn.hook_z", lambda z, hook: z)]):
        said = probes.scan(probes.attention, known().model, still, query="second").note
    assert said.str.contains(
        "roles: positions without a role.* hooks: the model carries hooks of yours"
    ).all()
    assert set(table.p_value) == {1}
    assert set(found.notes) == {"second_to_first", "second_to_first_excess"}
    assert found.notes["second_to_first"].startswith(
        "the roles stand at the same positions in every row, so their null"
    )
    assert "second_to_first: the roles stand at the same positions" in found._repr_html_()
    assert moving.notes == probes.attention(known().model, still, n_null=0, **look).notes == {}
    assert set(probes.attention(known().model, every.take([0]), **look).notes) == set(found.notes)


@pytest.mark.parametrize(
    ("probe", "quantities"),
    [
        ("attention_by_role", {"key", "anchors"}),
        ("attention_to_key", {"key_from_anchor_1", "key_from_anchor_2", "key_from_last_anchor"}),
    ],
)
def test_the_anchor_task_s_probes_say_it_too(probe: str, quantities: set):
    every = member().inputs("rsn_test", 100)
    still = every.take(every.roles.position("key")[:, 0] == 2)
    found = getattr(probes, probe)(member().model, still, layer=1)
    assert set(found.notes) == quantities == set(found.nulls)
    assert {null.p_value(found.values[name]) for name, null in found.nulls.items()} == {1.0}
    assert getattr(probes, probe)(member().model, every, layer=1).notes == {}


def test_an_untrained_model_that_is_not_finite_never_looks_like_a_number():
    """TransformerLens 3.9 writes 0 for its attention, so it is refused; a bridge of 4 leaves NaN,
    which has a note."""
    rows = member().inputs("rsn_test", 5)
    try:
        found = probes.attention(model("trained"), rows, untrained=model("diverged"))
    except ModelError as error:
        said = {str(error).removeprefix("got a model whose ")}
    else:
        assert np.isnan(list(found.untrained.values())).all()
        start = "of the untrained model: the model's "
        said = {
            found.notes[name].removeprefix(start) for name in found.values if "_excess" not in name
        }
    assert said == {"weights are not all finite: its training has diverged."}
    with pytest.raises(
        ModelError, match="W_V of L0 is not all finite: the model's training has diverged"
    ):
        probes.value_alignment(model("trained"), rows, untrained=model("diverged"))


@pytest.fixture(scope="module")
def pair():
    return tuple(lens_model("gpt2", seed, n_layers=LAYERS) for seed in (0, 1))


def test_a_scan_adjusts_p_over_its_heads_for_each_quantity(pair, monkeypatch):
    """By hand: the i-th smallest of n becomes the least of n p_j / j over j >= i; NaN does not
    count."""
    given = iter([0.01, 0.04, np.nan, 0.03])
    monkeypatch.setattr(Null, "p_value", lambda null, value: next(given))
    found = probes.scan(probes.uniformity, pair[0], INPUTS, layers=[0], n_null=5)
    assert found.columns.get_loc("p_adjusted") == found.columns.get_loc("p_value") + 1
    np.testing.assert_allclose(found.p_adjusted[found.quantity == "tv"], [0.03, 0.04, np.nan, 0.04])
    assert found.p_adjusted[found.quantity != "tv"].isna().all()  # without a null


def test_a_scan_says_what_it_expects_of_a_probe_of_ones_own(pair):
    def plain(model, inputs, *, layer, head):
        return 1.0

    message = "plain gave 1.0; scan expects a Reading."
    with pytest.raises(ArgumentError, match=message):
        probes.scan(plain, pair[0], INPUTS)
    message = "scan calls plain: .* argument 'untrained'; it takes model, inputs, layer, head."
    with pytest.raises(ArgumentError, match=message):
        probes.scan(plain, pair[0], INPUTS, untrained=pair[1])


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


@pytest.mark.parametrize(
    "name", [name for name in SCAN_CASES if SCAN_CASES[name].keys() >= PLACE.keys()]
)
def test_a_scan_takes_one_pass_and_gives_the_numbers_of_single_calls(name, pair):
    """Of the model, of the untrained one too, and of a cache; heads and layers in any order."""
    (model, untrained), probe = pair, getattr(probes, name)
    options = {
        "n_null": 5,
        **{key: value for key, value in SCAN_CASES[name].items() if key not in PLACE},
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
    model = lens_model("gpt2")
    once = probes.scan(probes.uniformity, model, INPUTS, n_null=5)
    monkeypatch.setattr(activations, "CAPTURE_BYTES", 1)
    count, found = passes(model, lambda: probes.scan(probes.uniformity, model, INPUTS, n_null=5))
    assert count == 4
    assert found.equals(once)


def test_all_probes_are_among_the_cases_or_need_text_or_a_whole_model():
    named = [
        name
        for name in probes.__all__
        if "n_null" in getattr(getattr(probes, name), "__annotations__", {})
    ]
    assert set(named) == {*SCAN_CASES, "chain_accuracy", "logit_lens"}
