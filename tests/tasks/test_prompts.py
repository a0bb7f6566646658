"""Prompts become the rows of the model's own ``to_tokens``, and roles stand where their words do."""

import re

import numpy as np
import pytest
from probes.lens_models import lens_model
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from rb_interp import Inputs
from rb_interp import interventions as iv
from rb_interp.errors import ArgumentError, RolesError, TextError

pytestmark = pytest.mark.lens
PROMPTS = ["When Mary met John, John gave it to", "Tom met Anna, he gave it to", "John met Mary"]
ANSWERS = [" Tom", " Anna", ","]
PIECE = r" ?Ma|ry| ?\w+|,"


def model_with_tokenizer(folder, side: str):
    """Its tokens are words with the space before them, but for Mary, who is two."""
    pieces = sorted({piece for text in PROMPTS for piece in re.findall(PIECE, text)} | {" Tom"})
    words = {word: i for i, word in enumerate(["<end>", *pieces])}
    backend = Tokenizer(models.WordLevel(words, unk_token="<end>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE), "isolated")
    special = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), "<end>")
    PreTrainedTokenizerFast(tokenizer_object=backend, **special).save_pretrained(folder)
    model = lens_model("gpt2", n_layers=1)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side=side)
    if hasattr(model, "set_tokenizer"):
        model.set_tokenizer(tokenizer, default_padding_side=side)
    else:
        model.tokenizer = tokenizer
        model.cfg.tokenizer_prepends_bos = False
    return model


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_are_the_models_and_roles_stand_at_their_words(tmp_path, side: str) -> None:
    model = model_with_tokenizer(tmp_path, side)
    if side == "left" and hasattr(model, "original_model"):
        pytest.skip("a bridge is given no padding in front")
    roles = {
        "name": ["Mary", "Tom", "John"],
        "verb": "met",
        "it": lambda text: next(re.finditer(r"it|Mary$", text)).span(),
        "first": np.array([1, 1, 1]),
        "end": -1,
    }
    rows = Inputs.from_text(model, PROMPTS, ANSWERS, roles)
    assert rows.tokens.tolist() == model.to_tokens(PROMPTS).tolist()
    before = (model.to_tokens(PROMPTS) != 0).int().argmax(1).numpy() - 1
    expected = {"name": [3, 1, 1], "verb": [4, 2, 2], "it": [9, 7, 4], "first": [1, 1, 1]}
    expected["end"] = expected["last"] = [10, 8, 4]
    for role, positions in expected.items():
        assert rows.roles.position(role).ravel().tolist() == (before + positions).tolist(), role
    assert [rows.vocabulary[label] for label in np.asarray(rows.labels)] == ANSWERS
    span = Inputs.from_text(model, PROMPTS[::2], roles={"her": "Mary"}, spans="her")
    assert span.roles.position("her").tolist() == [
        [2, 3],
        [3 + 6 * (side == "left"), 4 + 6 * (side == "left")],
    ]


def test_answers_are_read_behind_each_prompt_not_behind_its_padding(tmp_path) -> None:
    model = model_with_tokenizer(tmp_path, "right")
    rows = Inputs.from_text(model, PROMPTS, ANSWERS)
    alone = [
        Inputs.from_text(model, [text], [answer])
        for text, answer in zip(PROMPTS, ANSWERS, strict=True)
    ]
    effect = iv.ablation(model, rows, "z.0.0", method="zero", metric="probability")
    each = [iv.ablation(model, row, "z.0.0", method="zero", metric="probability") for row in alone]
    np.testing.assert_allclose(
        effect.values, [value for one in each for value in one.values], rtol=1e-5
    )


def test_a_row_is_shown_in_words(tmp_path, capsys) -> None:
    rows = Inputs.from_text(
        model_with_tokenizer(tmp_path, "right"), PROMPTS, ANSWERS, {"verb": "met"}
    )
    rows.take([1]).show()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:4]] == [
        ["0", "'<end>'"],
        ["1", "'Tom'"],
        ["2", "'", "met'", "verb"],
    ]
    assert lines[-1] == "answer:  Anna"
    assert " met verb" in str(rows)
    assert " Anna" in str(rows)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"roles": {"x": "Tom"}},
            RolesError,
            r"role 'x': row 0 holds 'Tom' 0 times.*\. Its tokens: <end>\|When\| Ma\|ry",
        ),
        ({"roles": {"x": "John"}}, RolesError, "holds 'John' 2 times, .*or begin and end"),
        ({"roles": {"x": "Wh"}}, RolesError, "holds 'Wh' as a part of 'When'"),
        ({"roles": {"x": 11}}, RolesError, "row 0 has no position 11 among its 11 tokens"),
        ({"roles": {"x": ["Mary"]}}, RolesError, "'x' has 1 rows; there are 3 prompts"),
        ({"roles": {"x": lambda text: None}}, RolesError, "row 0 has None, expected a string"),
        (
            {"roles": {"x": ["Mary", "Anna", "met"]}, "spans": ["x"]},
            RolesError,
            r"2 tokens in row 0 and 1 in row 1 \(' Anna'\)",
        ),
        ({"spans": ["lst"]}, RolesError, "spans of 'lst'; did you mean 'last'"),
        ({"roles": {"x": 1.5}}, ArgumentError, "from_text got roles="),
        ({"answers": [" Mary"] * 3}, TextError, r"' Mary' of row 0 is not one token.*to\| Ma\|ry"),
        ({"answers": ["en"] * 3}, TextError, "'en' of row 0 is not one token"),
        (
            {"answers": [" Gregor"] * 3},
            TextError,
            "' Gregor' of row 0 is not .* none that is known",
        ),
        ({"answers": [" Tom"]}, TextError, "1 answers for 3 prompts"),
        ({"prompts": ["met " * 99]}, TextError, "a prompt has 101 tokens; this model reads 12"),
        ({"prompts": []}, TextError, "no prompts"),
        ({"prompts": "met Mary"}, TextError, "one string; give a list"),
    ],
)
def test_words_that_are_not_there_are_refused(
    tmp_path, change: dict, error: type, message: str
) -> None:
    model = model_with_tokenizer(tmp_path, "right")
    with pytest.raises(error, match=message):
        Inputs.from_text(model, **{"prompts": PROMPTS, **change})


def test_a_model_without_a_tokenizer_is_refused() -> None:
    with pytest.raises(TextError, match="without a fast tokenizer"):
        Inputs.from_text(lens_model("gpt2", n_layers=1), PROMPTS)


def test_a_bridge_is_not_given_padding_that_it_would_read(tmp_path) -> None:
    model = model_with_tokenizer(tmp_path, "left")
    if not hasattr(model, "original_model"):
        assert len(Inputs.from_text(model, PROMPTS)) == 3
        model.original_model = None  # as a bridge of TransformerLens 4 has it
    assert len(Inputs.from_text(model, PROMPTS[:1])) == 1
    with pytest.raises(TextError, match="reads padding in front as text"):
        Inputs.from_text(model, PROMPTS)
