"""What kind of token each target of an example is.

question    the prompt, whose rules are drawn at random
template    the rest of the chain
form        first token of a rule sentence: it goes on, with a rule in this form
rule        object of a rule sentence in a chain of two steps or more, which stands in a rule of the
            prompt and not in the query
object      object of any other rule sentence of the prompt
fact        object of a rule sentence that does not stand in the prompt
stop        the end-of-text token behind a chain without an answer
answer      first token of the answer
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int8

from rb_interp.text.prontoqa import Example
from rb_interp.text.sentences import parse_clause, split_sentences
from rb_interp.text.tokens import Tokenizer

KINDS = ("question", "template", "form", "rule", "object", "fact", "stop", "answer")


def target_kinds(
    examples: Sequence[Example], tokenizer: Tokenizer
) -> list[Int8[np.ndarray, " token"]]:
    """Index into KINDS of each token of examples, and of the end-of-text token behind them.

    >>> from collections import Counter
    >>> from rb_interp.text.classes import generate_classes
    >>> from rb_interp.text.tokens import word_tokenizer
    >>> [example] = generate_classes(1, seed=0, hops=(1,))
    >>> [kinds] = target_kinds([example], word_tokenizer([example.text], 99))
    >>> Counter(KINDS[kind] for kind in kinds)["template"], KINDS[kinds[-1]]
    (14, 'stop')
    """
    all_starts = tokenizer.starts([example.text for example in examples])
    return [_kinds(example, starts) for example, starts in zip(examples, all_starts, strict=True)]


def _kinds(example: Example, starts: Sequence[int]) -> Int8[np.ndarray, " token"]:
    """The kinds of an example's tokens, which begin at characters of its text."""
    position = len(example.prompt)
    kinds = np.full(len(starts) + 1, KINDS.index("template"), dtype=np.int8)
    kinds[: np.searchsorted(starts, position)] = KINDS.index("question")
    marks = {}
    for number, sentence in enumerate(example.chain_of_thought):
        if number % 2:  # a rule, whose conclusion follows
            marks[position + 1] = "form"
            end = position + len(sentence)
            answer = parse_clause(example.chain_of_thought[number + 1]).predicate
            in_query = example.query.endswith(f" {answer}.") or example.hops == 1
            kind = "object" if in_query else "rule"
            if sentence not in split_sentences(example.question):
                kind = "fact"
            marks[end - len(parse_clause(sentence).predicate)] = kind
        position += 1 + len(sentence)
    if example.answer:
        marks[position + 1] = "answer"
    tokens = np.searchsorted(starts, list(marks), side="right") - 1
    kinds[tokens] = [KINDS.index(kind) for kind in marks.values()]
    if not example.answer:
        kinds[-1] = KINDS.index("stop")
    return kinds
