r"""Can a model answer PrOntoQA's questions, and does it write the chain of thought?  (paper 2, Fig. 7; chance 50 %)

Each example is read once with its gold text, "Q: .. A: " + chain + answer, after the end-of-text token that precedes
every document. With x_t the gold token at position t and arg max taken over the whole vocabulary given x_<t:

    answer           share of examples whose answer's first token is the arg max                       [0, 1]
    answer_two_way   the same between the first tokens of "True" and "False" alone; chance .5          [0, 1]
    premise, rule, conclusion    share of sentences of that kind all of whose tokens are the arg max   [0, 1]
    step             the same over all sentences of the chains                                         [0, 1]
    chain            share of examples all of whose sentences are right, which is what greedy decoding
                     from the question would write: a prefix of arg maxes is the gold prefix           [0, 1]
    loss_question, loss_chain, loss_answer    mean loss of the tokens of that part, nats a token             >= 0

Most tokens of an example are its context, whose rules are drawn at random: no reasoning lowers their loss below that
entropy. The loss on PrOntoQA as a whole is therefore mostly loss_question; what reasoning can lower is loss_chain.

How it can mislead. A model that follows the rules reads 1 everywhere. One that knows the templates alone is right on
most *tokens* of a chain and on no ``chain``: ``premise`` is a copy of the context's last sentence and ``conclusion``
the second half of the rule just written, so induction gets both without any deduction. ``rule`` needs a choice, two
rules of the context start with the concept just reached; one that always walks up the hierarchy reads (h - 1) / h on
``rule`` at h hops and 0 on ``chain``. An *untrained* model reads 0, and for answer_two_way about .5, as does one that
always says "True": its null, answers permuted over examples, is as high, so read the p-value. The query's "not" alone
gives .53. With the gold chain in view the answer is a comparison of two sentences; ``chain`` is the honest number, and
falls with the hops where each rule is guessed alike: compare equal hops. Examples longer than the context are left out,
and those are the ones of many hops: see left_out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Int

from rb_interp.errors import TextError, shown
from rb_interp.probes._probe import Found, probe, source
from rb_interp.probes.capturing import Source, logits_of, model_of
from rb_interp.statistics.reading import Null
from rb_interp.tasks.inputs import Inputs
from rb_interp.typed import typed

if TYPE_CHECKING:
    from rb_interp.text.prontoqa import Example

ANSWERS = ("True", "False")
KINDS = ("premise", "rule", "conclusion")
PARTS = ("question", "chain", "answer")
"""Parts of an example whose losses are read."""
TOGETHER = 16
"""Examples of one pass: more fill the memory with logits and gain nothing."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """One example in tokens.

    Attributes:
        tokens: the end-of-text token, then the example.
        sentences: first and last position (exclusive) of each sentence of the chain in ``tokens``.
        kinds: premise, rule or conclusion for each sentence. answer: where the answer begins. true: whether it is True.
    """

    tokens: Int[np.ndarray, " pos"]
    sentences: tuple[tuple[int, int], ...]
    kinds: tuple[str, ...]
    answer: int
    true: bool
    hops: int


@dataclass(frozen=True, eq=False, repr=False)
class ChainInputs(Inputs):
    """Examples in tokens, made by `chain_inputs`: rows are filled up with 0 behind their end.

    Attributes:
        labels: first token of each answer.
        examples: each example, and where the sentences of its chain stand.
        words: first tokens of "True" and "False".
    """

    examples: tuple[Encoded, ...] = ()
    words: tuple[int, int] = (0, 1)

    def take(self, rows: np.ndarray) -> ChainInputs:
        """A selection of examples, by indices or a boolean mask."""
        chosen = tuple(self.examples[row] for row in np.arange(len(self))[rows])
        return replace(self, tokens=self.tokens[rows], labels=super().take(rows).labels, examples=chosen)


class Outcome(NamedTuple):
    """What a model got right on one example.

    Attributes:
        sentences: one entry for each sentence of the chain. answer: by the arg max over the vocabulary.
        says_true: "True" against "False". losses: summed (nats), and numbers of tokens, of each of PARTS.
    """

    example: Encoded
    sentences: list[bool]
    answer: bool
    says_true: bool
    losses: list[float]
    tokens: list[int]


@typed
def chain_inputs(examples: Sequence[Example], tokenizer: Any) -> ChainInputs:
    """Examples in tokens, for `chain_accuracy`.

    Args:
        examples: such as ``text_data().examples``.
        tokenizer: has ``encode(text)``, a list of token ids, and ``end``, the id of the end-of-text token.

    Raises:
        TextError: where the tokenizer joins the end of one sentence with the next, or where its first tokens of "True"
            and "False" are the same.
    """
    if isinstance(tokenizer, type) or not all(hasattr(tokenizer, name) for name in ("encode", "end")):
        raise TextError(f"chain_inputs got tokenizer={shown(tokenizer)}; give one that has encode(text) and end.")
    encoded = tuple(encode_example(example, tokenizer) for example in examples)
    labels = np.array([one.tokens[one.answer] for one in encoded], dtype=np.int64)
    return ChainInputs(_padded(encoded), labels, examples=encoded, words=answer_tokens(tokenizer))


@probe(source, "no example that fits into the context has such a sentence.", name="chain", place={})
def chain_accuracy(model: Source, inputs: ChainInputs) -> Found:
    """How often a model answers PrOntoQA's questions and writes each sentence of the chain, and the same by hops.

    Values as in the module's table, and left_out, the examples longer than the context. Null of answer_two_way: answers
    permuted over examples. ``n`` counts the examples that were read. The table ``skills`` has the columns hops,
    accuracy_of (a value's name), accuracy and n, the examples or sentences of that number of hops.

    Args:
        inputs: ``chain_inputs(examples, tokenizer)``.

    Raises:
        TextError: where no example fits into the context.
        ModelError: for tokens that the model does not know.
    """
    encoded, n_ctx = inputs.examples, model_of(model).cfg.n_ctx
    numbers = [number for number, one in enumerate(encoded) if len(one.tokens) - 1 <= n_ctx]
    if not numbers:
        shortest = min(len(one.tokens) - 1 for one in encoded)
        raise TextError(
            f"none of {len(encoded)} examples fits into this model's context of {n_ctx} tokens (the shortest has "
            f"{shortest} tokens); give examples of fewer hops or a model of a longer context."
        )
    outcomes = chain_outcomes(model, [encoded[number] for number in numbers], inputs.words, numbers)
    rights = _by_kind(outcomes)
    values = {name: float(np.mean(right)) if right else np.nan for name, right in rights.items()}
    losses, tokens = (np.array([getattr(one, name) for one in outcomes]).sum(0) for name in ("losses", "tokens"))
    values |= {f"loss_{part}": float(mean) for part, mean in zip(PARTS, losses / tokens, strict=True)}
    values["left_out"] = float(len(encoded) - len(outcomes))

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        says, true = (np.array(of) for of in zip(*((one.says_true, one.example.true) for one in outcomes), strict=True))
        permuted = np.random.default_rng(seed).permuted(np.tile(true, (n_null, 1)), axis=1)
        return {"answer_two_way": Null("answers permuted over examples", (permuted == says).mean(1))}

    def tables(_: int) -> dict[str, pd.DataFrame]:
        rows = []
        for hops in sorted({one.example.hops for one in outcomes}):
            of = _by_kind([one for one in outcomes if one.example.hops == hops])
            rows += [
                {"hops": hops, "accuracy_of": name, "accuracy": float(np.mean(right)), "n": len(right)}
                for name, right in of.items()
                if right
            ]
        return {"skills": pd.DataFrame(rows)}

    return Found(values, nulls, n=len(outcomes), tables=tables)


def encode_example(example: Example, tokenizer: Any) -> Encoded:
    """Tokens of an example, with the place and kind of each sentence of its chain."""
    from rb_interp.text.prontoqa import step_kinds

    parts = [example.prompt, *(f" {sentence}" for sentence in example.chain_of_thought), f" {example.answer}"]
    pieces = [tokenizer.encode(part) for part in parts]
    joined = [token for piece in pieces for token in piece]
    if joined != list(tokenizer.encode(example.text)):
        raise TextError(
            f"this tokenizer joins the end of one sentence with the next in {example.text[-40:]!r}, so no sentence can "
            f"be judged alone; use one that splits before spaces, as GPT-2's does."
        )
    ends = 1 + np.cumsum([len(piece) for piece in pieces])
    places = tuple((int(first), int(last)) for first, last in pairwise(ends[:-1]))
    tokens = np.array([tokenizer.end, *joined], dtype=np.int64)
    return Encoded(tokens, places, step_kinds(example), int(ends[-2]), example.answer == "True", example.hops)


def answer_tokens(tokenizer: Any) -> tuple[int, int]:
    """First tokens of "True" and "False" after a space; TextError where they are the same."""
    first, second = (int(tokenizer.encode(f" {word}")[0]) for word in ANSWERS)
    if first == second:
        raise TextError(
            f"'True' and 'False' begin with the same token ({first}) in this tokenizer, so that no token decides "
            f"between them; use a larger d_vocab."
        )
    return first, second


def chain_outcomes(
    model: Source, examples: Sequence[Encoded], words: tuple[int, int], numbers: Sequence[int] | None = None
) -> list[Outcome]:
    """Run the examples, each with its gold text, and judge every sentence and the answer.

    ``numbers`` are their rows among the logits of a source that cannot run; by default they are all of its rows.
    """
    of_source = np.arange(len(examples)) if numbers is None else np.array(numbers)
    order = sorted(range(len(examples)), key=lambda index: len(examples[index].tokens))
    outcomes = {}
    for start in range(0, len(order), TOGETHER):  # of like length, so that little is filled up
        at = order[start : start + TOGETHER]
        rows = torch.from_numpy(_padded([examples[index] for index in at]))
        logits, gold = logits_of(model, rows[:, :-1], given=of_source[at]), rows[:, 1:]
        right = (logits.argmax(-1) == gold).numpy()  # at t, the token of position t + 1; losses likewise
        losses = F.cross_entropy(logits.flatten(0, 1).float(), gold.flatten(), reduction="none").view_as(gold).double()
        for row, index in enumerate(at):
            one = examples[index]
            true, false = logits[row, one.answer - 1, list(words)].tolist()
            parts = list(pairwise((0, one.sentences[0][0] - 1, one.answer - 1, len(one.tokens) - 1)))
            outcomes[index] = Outcome(
                one,
                [bool(right[row, first - 1 : last - 1].all()) for first, last in one.sentences],
                bool(right[row, one.answer - 1]),
                true > false,
                [float(losses[row, first:last].sum()) for first, last in parts],
                [last - first for first, last in parts],
            )
    return [outcomes[index] for index in range(len(examples))]


def _by_kind(outcomes: Sequence[Outcome]) -> dict[str, list[bool]]:
    steps = [step for one in outcomes for step in zip(one.example.kinds, one.sentences, strict=True)]
    return {
        "answer": [one.answer for one in outcomes],
        "answer_two_way": [one.says_true == one.example.true for one in outcomes],
        "chain": [all(one.sentences) for one in outcomes],
        "step": [right for _, right in steps],
        **{kind: [right for named, right in steps if named == kind] for kind in KINDS},
    }


def _padded(examples: Sequence[Encoded]) -> Int[np.ndarray, "row pos"]:
    """All examples as rows, filled up behind their end, where a causal model does not look."""
    rows = np.zeros((len(examples), max([len(one.tokens) for one in examples], default=1)), dtype=np.int64)
    for row, one in zip(rows, examples, strict=True):
        row[: len(one.tokens)] = one.tokens
    return rows
