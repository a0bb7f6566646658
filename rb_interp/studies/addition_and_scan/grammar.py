"""A grammar of commands and what they order, after SCAN (Lake and Baroni, 2018); our own, and smaller.

    command  ->  phrase  |  phrase and phrase  |  phrase after phrase
    phrase   ->  verb [left | right] [twice | thrice]

A verb orders its action. A turn comes before the action, a repetition repeats both. ``x and y`` orders x and then y,
``x after y`` orders y and then x. The generator here lists all commands with their actions.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

PRIMITIVE = "jump"
VERBS = (PRIMITIVE, "walk", "look", "run", "hop", "sing", "wave", "nod", "spin", "climb", "crawl", "swim")
TURNS = {"left": "TURN_LEFT", "right": "TURN_RIGHT"}
TIMES = {"twice": 2, "thrice": 3}
JOINTS = ("and", "after")
LONGEST_COMMAND, LONGEST_ANSWER = 7, 12
"""Words of the longest command, and actions of the longest answer: two phrases with turn and ``thrice``."""


class Sentence(NamedTuple):
    """A command in words, and the actions that it orders."""

    command: tuple[str, ...]
    actions: tuple[str, ...]


def phrases(verbs: tuple[str, ...]) -> list[Sentence]:
    """All phrases with the given verbs: nine of each.

    >>> [" ".join(phrase.command) for phrase in phrases(("walk",))][:4]
    ['walk', 'walk twice', 'walk thrice', 'walk left']
    """
    found = []
    for verb, turn, times in product(verbs, (None, *TURNS), (None, *TIMES)):
        command = tuple(word for word in (verb, turn, times) if word)
        once = (*((TURNS[turn],) if turn else ()), action(verb))
        found.append(Sentence(command, once * TIMES.get(times or "", 1)))
    return found


def sentences(verbs: tuple[str, ...]) -> list[Sentence]:
    """All commands with the given verbs: 9 v + 2 (9 v)^2 of v verbs.

    >>> [len(sentences(VERBS[:v])) for v in (1, 8)]
    [171, 10440]
    """
    single = phrases(verbs)
    found = list(single)
    for joint, (first, second) in product(JOINTS, product(single, single)):
        actions = first.actions + second.actions if joint == "and" else second.actions + first.actions
        found.append(Sentence((*first.command, joint, *second.command), actions))
    return found


def action(verb: str) -> str:
    """The action that a verb orders."""
    return verb.upper()
