"""Interventions on models of other shapes than GPT-2's: keys and values that heads share, and what
else they lack."""

from importlib.metadata import version
from itertools import product

import numpy as np
import pytest
import torch
from interventions.rows import read_at
from probes.lens_models import bridged, lens_model, transformers_model
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rb_interp.errors import ModelError
from rb_interp.interventions import (
    ablation,
    blocked_attention,
    forced_average,
    patching_matrix,
    path_patch,
)
from rb_interp.interventions.attribution import COMPONENTS
from rb_interp.interventions.edits import last_logits
from rb_interp.interventions.path import Paths
from rb_interp.interventions.patterns import blocked_edits, row_entropies
from rb_interp.interventions.sites import Site
from rb_interp.interventions.subspaces import with_subspace
from rb_interp.probes.activations import capture
from rb_interp.tasks import Inputs
from rb_interp.tasks.inputs import Roles

pytestmark = pytest.mark.lens

KEY = np.array([[0], [3], [1]])
CLEAN, CORRUPTED = (
    Inputs(
        np.random.default_rng(seed).integers(0, 30, (3, 6)),
        np.arange(3) + seed,
        Roles({"key": KEY}),
    )
    for seed in (0, 1)
)
VALUES, ATTN_OUT = "blocks.1.attn.hook_v", "blocks.0.hook_attn_out"
GROUPED = ("grouped", "Qwen3")


def model_of(kind):
    return bridged(transformers_model(kind)) if kind[0].isupper() else lens_model(kind, n_layers=2)


def run_with(model, inputs, hooks):
    """Logits at the last position under hooks written by hand."""
    with torch.no_grad():
        return model.run_with_hooks(torch.from_numpy(inputs.tokens), fwd_hooks=hooks)[:, -1]


@pytest.mark.parametrize("kind", GROUPED)
def test_a_head_s_keys_and_values_are_those_that_it_shares(kind):
    """Heads 2 and 3 share the second of two, as a hook written by hand changes it."""
    model, heads, rows = model_of(kind), {}, np.arange(3)
    values = capture(model, CLEAN.tokens, [VALUES])[VALUES]
    assert torch.equal(
        read_at(model, CLEAN.tokens, "v.1.3@key", CLEAN.roles)[:, 0], values[rows, KEY[:, 0], 1]
    )
    for head in (1, 2, 3):
        heads[head] = patching_matrix(
            model, CLEAN, CORRUPTED, components=("q", "k", "v"), roles=("key",), head=head
        )

    def from_clean(activation, hook):
        activation[rows, KEY[:, 0], 1] = values[rows, KEY[:, 0], 1]
        return activation

    found = run_with(model, CORRUPTED, [(VALUES, from_clean)]).double().numpy()
    expected = found[rows, CLEAN.labels] - found[rows, CORRUPTED.labels]
    np.testing.assert_allclose(
        heads[3].patched[2, 1, 0], expected, atol=1e-4 * np.abs(expected).max()
    )
    assert np.array_equal(heads[3].patched[1:], heads[2].patched[1:])
    assert not np.allclose(heads[3].patched[1:], heads[1].patched[1:], atol=1e-3)
    assert not np.allclose(heads[3].patched[0], heads[2].patched[0], atol=1e-4)
    assert {name: heads[3].notes[name] for name in "kv"} == dict.fromkeys(
        "kv", "shared with head 2"
    )
    assert ablation(model, CLEAN, "v.1.3@key").site == "v.1.3@key (shared with head 2)"
    assert ablation(model, CLEAN, "z.1.3@key").site == "z.1.3@key"


@pytest.mark.parametrize("kind", GROUPED)
def test_a_subspace_leaves_the_values_that_a_head_shares(kind):
    model, basis = model_of(kind), np.eye(16)
    before = capture(model, CLEAN.tokens, [VALUES])[VALUES]
    logits = last_logits(model, CLEAN.tokens)
    with with_subspace(model, basis, layer=1, head=3):
        after = capture(model, CLEAN.tokens, [VALUES])[VALUES]
    assert torch.equal(after[:, :, 0], before[:, :, 0])
    assert (after[:, :, 1] - after[:1, :1, 1]).abs().max() < 1e-6  # nothing but the bias is left
    assert torch.equal(last_logits(model, CLEAN.tokens), logits)


WITHOUT = {
    "side by side": lambda: model_of("GPTNeoX"),
    "attention alone": lambda: lens_model("gpt2", n_layers=2, attn_only=True),
}


@pytest.mark.parametrize("kind", WITHOUT)
def test_a_matrix_has_the_components_that_the_model_has_and_says_which_it_has_not(kind):
    model = WITHOUT[kind]()
    matrix = patching_matrix(model, CLEAN, CORRUPTED, roles=("all",))
    missing = [name for name in COMPONENTS if name not in matrix.axes["component"]]
    assert missing == (["resid_mid"] if kind == "side by side" else ["resid_mid", "mlp_out"])
    assert {
        name: matrix.notes.get(name) for name in COMPONENTS if name in matrix.notes
    } == dict.fromkeys(missing, "no cells: this model has none.")
    cells = matrix.to_frame().set_index(["component", "layer"])["recovered"]
    assert [cells[name, 1] for name in ("resid_pre", "resid_post")] == pytest.approx(
        [1, 1], abs=1e-4
    )
    clean = capture(model, CLEAN.tokens, [ATTN_OUT])[ATTN_OUT]
    found = (
        run_with(model, CORRUPTED, [(ATTN_OUT, lambda activation, hook: clean)]).double().numpy()
    )
    expected = found[np.arange(3), CLEAN.labels] - found[np.arange(3), CORRUPTED.labels]
    at = matrix.axes["component"].index("attn_out")
    np.testing.assert_allclose(
        matrix.patched[at, 0, 0], expected, atol=1e-4 * np.abs(expected).max()
    )
    with pytest.raises(
        ModelError,
        match=r"site 'resid_mid.0' is not in this model, a .* has there resid_pre, resid",
    ):
        ablation(model, CLEAN, "resid_mid.0")


@pytest.mark.parametrize("kind", WITHOUT)
def test_the_direct_path_to_the_logits_is_what_a_layer_adds_to_the_stream(kind):
    model = WITHOUT[kind]()
    last = "blocks.1.hook_resid_post"
    base, source = (capture(model, rows.tokens, [ATTN_OUT, last]) for rows in (CORRUPTED, CLEAN))
    given = ("frozen", "logit_diff", None, CLEAN, CORRUPTED, None)
    paths = Paths(model, ["attn_out.0"], ["logits"], *given)
    (path,) = paths.logits(0, *paths.senders, paths.receivers)
    with torch.no_grad():
        expected = model.unembed(model.ln_final(base[last] + source[ATTN_OUT] - base[ATTN_OUT]))[
            :, -1
        ]
    torch.testing.assert_close(path, expected, atol=1e-4 * float(expected.abs().max()), rtol=0)
    with pytest.raises(
        ModelError,
        match="not in this model" if kind == "attention alone" else "does not act on the",
    ):
        path_patch(model, CORRUPTED, CLEAN, "attn_out.0", "mlp_out.0")


def padded_left(tmp_path):
    """A model whose tokenizer pads on the left: the mask and positions of a row depend on where its
    padding ends."""
    words = {"<pad>": 0, "<bos>": 1, **{f"w{i}": i for i in range(2, 30)}}
    backend = Tokenizer(WordLevel(words, unk_token="<pad>"))
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", bos_token="<bos>", eos_token="<pad>"
    ).save_pretrained(tmp_path)
    model = lens_model("gpt2", n_layers=2)
    model.set_tokenizer(
        AutoTokenizer.from_pretrained(tmp_path, padding_side="left"), default_padding_side="left"
    )
    return model


@pytest.mark.skipif(version("transformer-lens") >= "4", reason="a bridge is told its mask")
def test_padding_in_front_is_nothing_to_attend_to(tmp_path):
    """Rows with padding read what they do without it; the control blocks what the query attends
    to."""
    model, rng = padded_left(tmp_path), np.random.default_rng(0)
    tokens, labels, at = rng.integers(2, 30, (6, 5)), rng.integers(2, 30, 6), np.ones((6, 1), int)
    rows, padded = (
        Inputs(np.pad(tokens, ((0, 0), (n, 0))), labels, Roles({"key": at + n})) for n in (0, 3)
    )
    entropies, other = (row_entropies(model, some.tokens, layer=1) for some in (rows, padded))
    np.testing.assert_allclose(other[:, 3:], entropies, atol=1e-4)
    for call in (forced_average, blocked_attention):
        own, other = (call(model, some, layer=1) for some in (rows, padded))
        np.testing.assert_allclose(other.values, own.values, atol=1e-4)
        assert {*other.control.round(3).ravel()} == {*own.control.round(3).ravel()}
    with pytest.raises(ModelError, match="rows with padding in front have no pattern in common"):
        forced_average(model, padded, np.zeros(8), layer=1)
    notes = [
        ablation(model, padded, site, metric="loss").notes
        for site in ("attn_out.1", "attn_out.1@key")
    ]
    assert "6 of 6 rows have padding in front, which the mean takes in" in notes[0]["padding"]
    assert "padding" not in notes[1]
    edits = blocked_edits(model, at + 3, np.full((6, 2), [3, 4]), layer=1)
    with pytest.raises(ModelError, match="a query sees nothing but what is blocked"):
        last_logits(model, padded.tokens, edits)


def overridden(tmp_path):
    """A model whose class turns the logits of rows that begin with token 5 around."""
    model = lens_model("gpt2", n_layers=2)

    def forward(self, tokens, **options):
        logits = type(self).__base__.forward(self, tokens, **options)
        return (
            torch.where(tokens[:, :1, None] == 5, -logits, logits) if tokens.ndim == 2 else logits
        )

    model.__class__ = type("Turned", (type(model),), {"forward": forward})
    return model


IN_FORWARD = {
    "padded on the left": padded_left,
    "soft caps": lambda tmp_path: lens_model(
        "gpt2", n_layers=2, output_logits_soft_cap=2.0, attn_scores_soft_cap=0.5
    ),
    "a class of the caller's": overridden,
}


@pytest.mark.skipif(version("transformer-lens") >= "4", reason="runs begin at the tokens")
@pytest.mark.parametrize("kind", IN_FORWARD)
def test_cells_have_what_forward_alone_does_whichever_rows_come_first(kind, tmp_path):
    model, rng, row = IN_FORWARD[kind](tmp_path), np.random.default_rng(0), np.arange(12)
    tokens, labels = rng.integers(2, 30, (12, 8)), rng.integers(2, 30, (2, 12))
    roles = Roles({"at": np.full((12, 1), 5)})
    tokens[4:8, :3], tokens[8:, :2] = 0, 0
    tokens[1::2, 0] = np.where(tokens[1::2, 0], 5, 0)
    other = tokens.copy()
    other[:, 5] = (tokens[:, 5] + 5) % 28 + 2
    for order in (row, row[::-1]):
        clean, corrupted = (
            Inputs(tokens[order], labels[0][order], roles),
            Inputs(other[order], labels[1][order], roles),
        )
        matrix = patching_matrix(
            model,
            clean,
            corrupted,
            roles=("at",),
            components=("resid_pre", "k", "pattern", "z", "resid_post"),
        )
        for number, (name, layer) in enumerate(
            product(matrix.axes["component"], matrix.axes["layer"])
        ):
            hook, axis = Site(name, layer).hook, Site(name, layer).position_axis
            source = capture(model, clean.tokens, [hook])[hook].select(axis, 5)

            def from_clean(activation, hook, axis=axis, source=source):
                activation.select(axis, 5).copy_(source)
                return activation

            found = run_with(model, corrupted, [(hook, from_clean)]).double().numpy()
            expected = found[row, clean.labels] - found[row, corrupted.labels]
            cell = matrix.patched.reshape(-1, 12)[number]
            np.testing.assert_allclose(
                cell, expected, atol=1e-5 * np.abs(expected).max(), err_msg=f"{name} {layer}"
            )
