"""Answers and chains of thought: models that know all, planted errors, one that knows nothing, and
greedy decoding."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rb_interp.errors import TextError
from rb_interp.models.build import build_model
from rb_interp.probes.chain import chain_accuracy, chain_inputs, chain_outcomes
from rb_interp.text.prontoqa import generate

EXAMPLES = generate(24, seed=4, hops=(1, 2, 3))


class Words:
    """A tokenizer whose tokens are words with the space before them, and end marks."""

    end = 0

    def __init__(self, texts: list[str], joins: str = "") -> None:
        self.pattern = re.compile(joins + r" ?\w+|\s|[^\w\s]")
        words = sorted({word for text in texts for word in self.pattern.findall(text)})
        self.ids = {word: at for at, word in enumerate(words, start=1)}
        self.d_vocab = len(words) + 1

    def encode(self, text: str) -> list[int]:
        return [self.ids[word] for word in self.pattern.findall(text)]


TOKENIZER = Words([example.text for example in EXAMPLES] + [" True False"])
INPUTS = chain_inputs(EXAMPLES, TOKENIZER)
ENCODED = INPUTS.examples


class Knows(torch.nn.Module):
    """Continues every text that it was told with certainty, all others with token 0, and says
    ``answer`` if given."""

    def __init__(
        self, texts: list[np.ndarray], answer: int | None = None, n_ctx: int = 400
    ) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(1))
        self.cfg, self.hook_dict = SimpleNamespace(d_vocab=TOKENIZER.d_vocab, n_ctx=n_ctx), {}
        self.next = {tuple(text[:at]): text[at] for text in texts for at in range(1, len(text))}
        self.answer = answer

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*tokens.shape, TOKENIZER.d_vocab)
        for row, text in zip(logits, tokens.tolist(), strict=True):
            for at in range(len(text)):
                row[at, self.next.get(tuple(text[: at + 1]), 0)] += 2
                if self.answer is not None:
                    row[at, self.answer] += 1
        return logits + self.bias


def read(model, examples=EXAMPLES, **options):
    return chain_accuracy(model, chain_inputs(examples, TOKENIZER), **options)


def test_places_hold_the_sentences_and_the_answer():
    words = {at: word for word, at in TOKENIZER.ids.items()}
    for example, one in zip(EXAMPLES, ENCODED, strict=True):
        said = ["".join(words[t] for t in one.tokens[first:last]) for first, last in one.sentences]
        assert said == [f" {sentence}" for sentence in example.chain_of_thought]
        assert "".join(words[t] for t in one.tokens[one.answer :]) == f" {example.answer}"
        assert one.tokens.tolist() == [TOKENIZER.end, *TOKENIZER.encode(example.text)]
        assert one.kinds == ("premise", *("rule", "conclusion") * example.hops)


def test_one_that_knows_everything_reads_one_and_an_untrained_one_nothing():
    reading = read(Knows([one.tokens for one in ENCODED]), untrained=Knows([]))
    rows = reading.tables["skills"].to_dict("records")
    assert reading.values == {
        **dict.fromkeys(
            ("answer", "answer_two_way", "chain", "step", "premise", "rule", "conclusion"), 1.0
        ),
        "left_out": 0,
        **{
            f"loss_{part}": pytest.approx(reading.values[f"loss_{part}"])
            for part in ("question", "chain", "answer")
        },
    }
    assert (
        reading.untrained["chain"] == reading.untrained["step"] == reading.untrained["answer"] == 0
    )
    assert (reading.probe, reading.n) == ("chain", 24)
    assert {row["accuracy"] for row in rows} == {1.0}
    counted = {(row["hops"], row["accuracy_of"]): row["n"] for row in rows}
    for hops in (1, 2, 3):
        n = sum(example.hops == hops for example in EXAMPLES)
        assert (counted[hops, "answer"], counted[hops, "rule"], counted[hops, "step"]) == (
            n,
            n * hops,
            n * (2 * hops + 1),
        )


def test_one_wrong_token_costs_its_sentence_and_the_chain_but_not_the_answer():
    """The second rule of a three-hop example, at its last token (the full stop), first token, and
    the one behind it."""
    index = next(at for at, example in enumerate(EXAMPLES) if example.hops == 3)
    first, last = ENCODED[index].sentences[3]
    n_rules = sum(example.hops for example in EXAMPLES)
    for position in (first, last - 1):
        texts = [one.tokens for at, one in enumerate(ENCODED) if at != index]
        model = Knows(texts)
        gold = ENCODED[index].tokens
        model.next |= {tuple(gold[:at]): gold[at] for at in range(1, len(gold)) if at != position}
        reading = read(model)
        rows = reading.tables["skills"].to_dict("records")
        assert reading.values["rule"] == pytest.approx(1 - 1 / n_rules)
        assert reading.values["chain"] == pytest.approx(23 / 24)
        assert (
            reading.values["conclusion"],
            reading.values["premise"],
            reading.values["answer"],
        ) == (1, 1, 1)
        by_hops = {row["hops"]: row["accuracy"] for row in rows if row["accuracy_of"] == "chain"}
        assert (by_hops[1], by_hops[2], by_hops[3]) == (1, 1, pytest.approx(7 / 8))


def test_losses_are_of_each_part_alone():
    """A known token costs ln(e^2 + V - 1) - 2, one of the chain that is not known 2 more."""
    one = ENCODED[0]
    model, place = Knows([one.tokens]), one.sentences[1][0]
    del model.next[tuple(one.tokens[:place])]
    values = read(model, [EXAMPLES[0]]).values
    known = math.log(math.exp(2) + TOKENIZER.d_vocab - 1) - 2
    assert values["loss_question"] == pytest.approx(known, rel=1e-5)
    assert values["loss_answer"] == pytest.approx(known, rel=1e-5)
    assert values["loss_chain"] == pytest.approx(
        known + 2 / (one.answer - one.sentences[0][0]), rel=1e-5
    )


def test_a_wrong_answer_costs_the_answer_alone():
    model, gold = Knows([one.tokens for one in ENCODED[1:]]), ENCODED[0]
    model.next |= {tuple(gold.tokens[:at]): gold.tokens[at] for at in range(1, gold.answer)}
    values = read(model).values
    assert (values["answer"], values["chain"]) == (pytest.approx(23 / 24), 1)


def test_always_saying_true_is_right_as_often_as_true_is_and_not_beyond_its_null():
    reading = read(Knows([], answer=INPUTS.answer_tokens[0]))
    share = np.mean([example.answer == "True" for example in EXAMPLES])
    assert reading.values["answer_two_way"] == pytest.approx(share)
    assert reading.values["answer"] == 0  # token 0 is the arg max
    row = next(row for row in reading.rows() if row["quantity"] == "answer_two_way")
    assert (row["p_value"], row["null_sd"]) == pytest.approx((1, 0))
    knowing = read(Knows([one.tokens for one in ENCODED])).rows()[1]
    assert (knowing["p_value"], round(knowing["null_mean"], 1)) == (1 / 201, 0.5)


def test_an_untrained_model_writes_nothing_and_guesses_answers():
    model = build_model(
        SimpleNamespace(d_vocab=TOKENIZER.d_vocab, length=300), gamma=0.5, norm="pre", d_model=16
    )
    reading = read(model)
    assert reading.values["chain"] == reading.values["rule"] == 0
    assert abs(reading.values["answer_two_way"] - 0.5) < 4 * 0.5 / math.sqrt(24)
    for at, all_at_once in enumerate(chain_outcomes(model, INPUTS)[:6]):  # filling is never seen
        alone = chain_outcomes(model, INPUTS.take(np.array([at])))[0]
        assert all_at_once.right == alone.right
        np.testing.assert_allclose(all_at_once.losses, alone.losses, rtol=1e-5)


def test_chain_is_what_greedy_decoding_writes():
    """A model that knows all texts but one, which it does not continue at one place of its
    chain."""
    few, greedy = INPUTS.take(np.arange(3)), []
    model = Knows([one.tokens for one in few.examples])
    text, place = few.examples[1].tokens, few.examples[1].sentences[2][0] + 1
    del model.next[tuple(text[:place])]
    for one in few.examples:
        text = one.tokens[: one.sentences[0][0]].tolist()
        while len(text) < one.sentences[-1][1]:
            text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
        greedy.append(text == one.tokens[: len(text)].tolist())
    assert (
        [one.right["chain"] == [True] for one in chain_outcomes(model, few)]
        == greedy
        == [True, False, True]
    )


def test_examples_longer_than_the_context_are_left_out_and_counted():
    lengths = np.array([len(one.tokens) - 1 for one in ENCODED])
    n_ctx = int(np.sort(lengths)[12])  # the longest that fits fills the context
    reading = read(Knows([one.tokens for one in ENCODED], n_ctx=n_ctx))
    assert (reading.n, reading.values["left_out"]) == (
        (lengths <= n_ctx).sum(),
        (lengths > n_ctx).sum(),
    )
    assert reading.values["chain"] == 1
    with pytest.raises(
        TextError,
        match=r"none of 24 examples fits .* context of 9 tokens \(the shortest has \d+ tokens\)",
    ):
        read(Knows([], n_ctx=9))


def test_tokenizers_that_cannot_judge_sentences_are_named():
    first = EXAMPLES[0]
    parts = [
        first.text,
        first.prompt,
        *(f" {sentence}" for sentence in first.chain_of_thought),
        " True False",
    ]
    joining = Words(parts, joins=r"\. \w+|")
    with pytest.raises(
        TextError,
        match="this tokenizer joins the end of one sentence with the next in .*; use one that",
    ):
        chain_inputs([first], joining)
    with pytest.raises(
        TextError, match=r"'True' and 'False' begin with the same token \(7\) in this tokenizer"
    ):
        chain_inputs([], SimpleNamespace(end=0, encode=lambda text: [7, len(text)]))
