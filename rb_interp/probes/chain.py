r"""Does a model answer PrOntoQA's questions, and does it write the chain?

`chain_accuracy` (paper 2, Fig. 7; chance 50 %). Each example is read once with its gold text, "Q:
.. A: " + chain + answer, after the end-of-text token that precedes every document. With x_t the
gold token at position t and arg max taken over the whole vocabulary given x_<t:

    answer           share of examples whose answer's first token is the arg max                       [0, 1]
    answer_two_way   the same between the first tokens of "True" and "False" alone; chance .5          [0, 1]
    premise, rule, conclusion    share of sentences of that kind all of whose tokens are the arg max   [0, 1]
    step             the same over all sentences of the chains                                         [0, 1]
    chain            share of examples all of whose sentences are right, which is how greedy decoding
                     from the question would begin: a prefix of arg maxes is the gold prefix           [0, 1]
    loss_question, loss_chain, loss_answer    mean loss of the tokens of that part, nats a token             >= 0

Examples whose query asks for a chain alone have no answer: there ``answer`` is the decision to stop,
the end-of-text token behind the chain, and answer_two_way is nan. ``chain`` does not ask for it: a
model may write on.

Most tokens of an example are its context, whose rules are drawn at random: reasoning lowers
loss_chain alone.

How it can mislead. A model that follows the rules reads 1 everywhere. One that knows the templates
alone is right on most *tokens* of a chain and on no ``chain``: ``premise`` is a copy of the
context's last sentence and ``conclusion`` the second half of the rule just written, so induction
gets both. ``rule`` needs a choice between two rules of the context; one that always walks up the
hierarchy reads (h - 1) / h on ``rule`` at h hops and 0 on ``chain``. An *untrained* model reads 0,
and for answer_two_way about .5, as does one that always says "True": read the p-value. With the
gold chain in view the answer is a comparison of two sentences; ``chain`` is the honest number. It
falls with the hops, so compare equal hops. Examples longer than the context are left out, the ones
of many hops: see left_out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import TextError
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes.activations import check_rows, logits_of
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.text.prontoqa import Example, step_kinds

KINDS = ("premise", "rule", "conclusion")
"""Kinds of sentences of a chain."""
PARTS = ("question", "chain", "answer")
"""Parts of an example whose losses are read."""
BATCH = 16
"""Examples of one pass: more fill the memory with logits and gain nothing."""
UNDEFINED = "no example that fits into the context has such a sentence."


@dataclass(frozen=True, eq=False)
class Encoded:
    """One example in tokens.

    Attributes:
        tokens: the end-of-text token, then the example; one more behind a chain without an answer.
        sentences: first and last position (exclusive) of each sentence of the chain in ``tokens``.
        kinds: premise, rule or conclusion for each sentence.
        answer: position of the answer's first token.
        true: whether the answer is True; None without an answer.
        hops: steps of the chain.
    """

    tokens: Int[np.ndarray, " pos"]
    sentences: tuple[tuple[int, int], ...]
    kinds: tuple[str, ...]
    answer: int
    true: bool | None
    hops: int


@dataclass(frozen=True, eq=False, repr=False)
class ChainInputs(Inputs):
    """Examples in tokens, made by `chain_inputs`: rows are filled up with 0 behind their end.

    Attributes:
        labels: first token of each answer.
        examples: each example, and the positions of the sentences of its chain.
        answer_tokens: first tokens of "True" and "False"; end-of-text where no example has either.
    """

    examples: tuple[Encoded, ...] = ()
    answer_tokens: tuple[int, int] = (0, 1)

    def take(self, rows: np.ndarray) -> ChainInputs:
        """A selection of examples, by indices or a boolean mask."""
        examples = tuple(self.examples[row] for row in np.arange(len(self))[rows])
        labels = super().take(rows).labels
        return replace(self, tokens=self.tokens[rows], labels=labels, examples=examples)


class ExampleOutcome(NamedTuple):
    """What a model got right on one example.

    Attributes:
        right: answer, sentence or chain -> whether each of that kind is right.
        losses: summed losses (nats) of each of PARTS, and numbers of tokens.
    """

    example: Encoded
    right: dict[str, list[bool]]
    losses: Float[np.ndarray, "part 2"]


@checked
def chain_inputs(examples: Sequence[Example], tokenizer: Any) -> ChainInputs:
    """Examples in tokens, for `chain_accuracy`.

    Args:
        examples: such as ``text_data().examples``.
        tokenizer: has ``encode(text)``, a list of token ids, and ``end``, the id of the end-of-text
            token.

    Raises TextError if the tokenizer joins the end of one sentence with the next, or its first
    tokens of "True" and "False" are the same.
    """
    true = false = tokenizer.end
    if not examples or any(example.answer for example in examples):
        true, false = (int(tokenizer.encode(word)[0]) for word in (" True", " False"))
        if true == false:
            raise TextError(
                f"'True' and 'False' begin with the same token ({true}) in this tokenizer, so that "
                f"no token decides between them; use a larger d_vocab."
            )
    encoded = tuple(encode(example, tokenizer) for example in examples)
    labels = [int(example.tokens[example.answer]) for example in encoded]
    return ChainInputs(
        _padded(encoded),
        np.array(labels, dtype=np.int64),
        examples=encoded,
        answer_tokens=(true, false),
    )


def encode(example: Example, tokenizer: Any) -> Encoded:
    """One example in tokens.

    Raises TextError if the tokenizer joins the end of a sentence with the next.
    """
    sentences = [f" {sentence}" for sentence in example.chain_of_thought]
    pieces = []
    for part in (example.prompt, *sentences, f" {example.answer}".rstrip()):
        pieces.append(list(tokenizer.encode(part)))
    piece_tokens = [token for piece in pieces for token in piece]
    if piece_tokens != list(tokenizer.encode(example.text)):
        raise TextError(
            f"this tokenizer joins the end of one sentence with the next in "
            f"{example.text[-40:]!r}, so no sentence can be judged alone; use one that splits "
            f"before spaces, as GPT-2's does."
        )
    ends = (1 + np.cumsum([len(piece) for piece in pieces])).tolist()
    last = [] if example.answer else [tokenizer.end]
    return Encoded(
        np.array([tokenizer.end, *piece_tokens, *last], dtype=np.int64),
        sentences=tuple(pairwise(ends[:-1])),
        kinds=step_kinds(example),
        answer=ends[-2],
        true=example.answer == "True" if example.answer else None,
        hops=example.hops,
    )


def _padded(examples: Sequence[Encoded]) -> Int[np.ndarray, "row pos"]:
    """All examples as rows, filled up behind their end, which a causal model does not see."""
    longest = max([len(example.tokens) for example in examples], default=1)
    rows = np.zeros((len(examples), longest), dtype=np.int64)
    for row, example in zip(rows, examples, strict=True):
        row[: len(example.tokens)] = example.tokens
    return rows


@checked
@single_threaded
def chain_accuracy(
    model: ActivationSource,
    inputs: ChainInputs,
    *,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """How often a model answers PrOntoQA's questions and writes each sentence of the chain.

    Values as in the module's table, and left_out, the examples longer than the context. Null of
    answer_two_way: answers permuted over examples. ``n`` counts the examples that were read. The
    table ``skills`` has the columns hops, accuracy_of (a value's name), accuracy and n, the
    examples or sentences of that number of hops.

    Args:
        model: a model, or arrays (``from_arrays``).
        inputs: ``chain_inputs(examples, tokenizer)``.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of the null, 0 for none, and their seed.

    Raises TextError if no example fits into the context.
    """
    check_rows(inputs, "chain_accuracy")

    def measure(source: ActivationSource) -> Measurement:
        outcomes = chain_outcomes(source, inputs)
        measurement = accuracies(outcomes)
        left_out = float(len(inputs.examples) - len(outcomes))
        return measurement._replace(values={**measurement.values, "left_out": left_out})

    return read_model("chain", model, measure, untrained, n_null, seed, UNDEFINED)


def accuracies(outcomes: Sequence[ExampleOutcome]) -> Measurement:
    """The values of `chain_accuracy`, read from what a model got right."""
    values = {}
    for name, right in _by_kind(outcomes).items():
        values[name] = float(np.mean(right)) if right else math.nan
    losses, tokens = np.sum([outcome.losses for outcome in outcomes], 0).T
    for part, mean in zip(PARTS, losses / tokens, strict=True):
        values[f"loss_{part}"] = float(mean)

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng = np.random.default_rng(seed)
        answered = [outcome for outcome in outcomes if outcome.example.true is not None]
        if not answered:
            return {}
        true = np.array([outcome.example.true for outcome in answered])
        right = np.array([outcome.right["answer_two_way"][0] for outcome in answered])
        says_true = true == right
        permuted = rng.permuted(np.tile(true, (n_null, 1)), axis=1)
        draws = (permuted == says_true).mean(1)
        return {"answer_two_way": Null("answers permuted over examples", draws)}

    def tables(seed: int) -> dict[str, pd.DataFrame]:
        by_hops: dict[int, list[ExampleOutcome]] = {}
        for outcome in outcomes:
            by_hops.setdefault(outcome.example.hops, []).append(outcome)
        rows = []
        for hops in sorted(by_hops):
            for name, right in _by_kind(by_hops[hops]).items():
                if right:
                    accuracy = float(np.mean(right))
                    row = {"hops": hops, "accuracy_of": name, "accuracy": accuracy, "n": len(right)}
                    rows.append(row)
        return {"skills": pd.DataFrame(rows)}

    return Measurement(values, draw_nulls, n=len(outcomes), tables=tables)


def _by_kind(outcomes: Sequence[ExampleOutcome]) -> dict[str, list[bool]]:
    by_kind = {}
    for name in outcomes[0].right:
        by_kind[name] = [right for outcome in outcomes for right in outcome.right[name]]
    return by_kind


def chain_outcomes(model: ActivationSource, inputs: ChainInputs) -> list[ExampleOutcome]:
    """Run the examples that fit into the context, and judge every sentence and the answer.

    Each is read with its gold text. Raises TextError if none fits.
    """
    lengths = np.array([len(example.tokens) - 1 for example in inputs.examples])
    n_ctx = model_of(model).cfg.n_ctx
    if not (lengths <= n_ctx).any():
        raise TextError(
            f"none of {len(lengths)} examples fits into this model's context of {n_ctx} tokens "
            f"(the shortest has {min(lengths, default=0)} tokens); give examples of fewer hops or "
            f"a model of a longer context."
        )
    by_length = np.argsort(lengths, kind="stable")
    order = by_length[lengths[by_length] <= n_ctx].tolist()
    of_arrays = getattr(model_of(model), "arrays", {}).get("logits")  # of all examples
    outcomes = {}
    for start in range(0, len(order), BATCH):  # of like length, so that little is filled up
        numbers = order[start : start + BATCH]
        rows = torch.from_numpy(_padded([inputs.examples[number] for number in numbers]))
        gold = rows[:, 1:]
        if of_arrays is None:
            logits = logits_of(model, rows[:, :-1])
        else:
            logits = of_arrays[numbers, : rows.shape[1] - 1]
        right = logits.argmax(-1) == gold  # at t, the token of position t + 1; losses likewise
        losses = F.cross_entropy(logits.float().swapaxes(1, 2), gold, reduction="none").double()
        for row, number in enumerate(numbers):
            example = inputs.examples[number]
            true, false = logits[row, example.answer - 1, list(inputs.answer_tokens)].tolist()
            right_by_kind = judge(example, right[row].tolist(), true > false)
            ends = [example.sentences[0][0] - 1, example.answer - 1]
            parts = losses[row, : len(example.tokens) - 1].tensor_split(ends)
            sums = np.array([[float(part.sum()), len(part)] for part in parts])
            outcomes[number] = ExampleOutcome(example, right_by_kind, sums)
    return [outcomes[number] for number in sorted(outcomes)]


def judge(example: Encoded, right: Sequence[bool], says_true: bool) -> dict[str, list[bool]]:
    """Whether each answer, sentence and chain of an example is right.

    Args:
        right: whether the arg max at each position is the next token.
        says_true: whether "True" is more likely than "False".
    """
    steps = [all(right[first - 1 : last - 1]) for first, last in example.sentences]
    right_by_kind = {
        "answer": [right[example.answer - 1]],
        "answer_two_way": [] if example.true is None else [says_true == example.true],
        "chain": [all(steps)],
        "step": steps,
    }
    for kind in KINDS:
        right_by_kind[kind] = []
    for step, kind in zip(steps, example.kinds, strict=True):
        right_by_kind[kind].append(step)
    return right_by_kind


def written_chains(
    model: ActivationSource, examples: Sequence[Example], tokenizer: Any
) -> list[str]:
    """What a model writes behind the prompt of each example, greedily, until it ends the text or
    its context is full.

    Args:
        model: a model. examples: whose prompts it continues. tokenizer: as for `chain_inputs`.
    """
    n_ctx = model_of(model).cfg.n_ctx
    texts = []
    for example in examples:
        tokens = [tokenizer.end, *tokenizer.encode(example.prompt)]
        n_prompt = len(tokens)
        while len(tokens) <= n_ctx:
            logits = logits_of(model, torch.tensor([tokens]))[0, -1]
            token = int(logits.argmax())
            if token == tokenizer.end:
                break
            tokens.append(token)
        texts.append(tokenizer.decode(tokens[n_prompt:]).strip())
    return texts
