"""One PrOntoQA example: a context, a query, a chain of thought and the answer (Saparov & He 2023)."""

from __future__ import annotations

from dataclasses import dataclass

from rb_interp.typed import typed


@typed
@dataclass(frozen=True)
class Example:
    """A question that a chain of deductions answers.

    Attributes:
        question: the context: its rules, then the premise, one space between sentences.
        query: ``"True or false: "`` and the statement asked about.
        chain_of_thought: the 2 hops + 1 sentences of the proof: the premise, then a rule and its conclusion a hop.
        answer: ``"True"`` or ``"False"``.
        hops: number of rules that the proof uses, at least 1.

    >>> example = Example(
    ...     "Each wumpus is not hot. Rompuses are hot. Rompuses are impuses. Max is a rompus.",
    ...     "True or false: Max is hot.",
    ...     ("Max is a rompus.", "Rompuses are hot.", "Max is hot."), "True", 1)
    >>> example.prompt.splitlines()[1]
    'A:'
    >>> example.text.removeprefix(example.prompt)
    ' Max is a rompus. Rompuses are hot. Max is hot. True'
    """

    question: str
    query: str
    chain_of_thought: tuple[str, ...]
    answer: str
    hops: int

    @property
    def prompt(self) -> str:
        """What a model is shown before it reasons: the question, the query and ``A:``."""
        return f"Q: {self.question} {self.query}\nA:"

    @property
    def text(self) -> str:
        """The whole document that a model is trained on: prompt, chain of thought and answer, as in the original."""
        return f"{self.prompt} {' '.join(self.chain_of_thought)} {self.answer}"
