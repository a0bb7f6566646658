"""Whether a sequence of actions is what a command orders, told without the generator of
``grammar``.

It reads a command as text, by one pattern, and carries it out. It knows the words, and none of the
generator's rules.
"""

from __future__ import annotations

import re

from rb_interp.errors import TaskError
from rb_interp.studies.addition_and_scan.scan import VERBS

_PHRASE = r"(\w+)( left| right)?( twice| thrice)?"
COMMAND = re.compile(rf"{_PHRASE}(?:( and | after ){_PHRASE})?")


def is_right(command: str, actions: str) -> bool:
    """Whether actions are what a command orders, in order and no more; words have one space between
    them.

    Raises TaskError for what is no command.

    >>> is_right("jump left twice", "TURN_LEFT JUMP TURN_LEFT JUMP"), is_right("walk after jump", "WALK JUMP")
    (True, False)
    """
    return carried_out(command) == actions.split(" ")


def carried_out(command: str) -> list[str]:
    """The actions that a command orders; TaskError for what is no command."""
    parts = COMMAND.fullmatch(command)
    if parts is None or not {parts[1], parts[5] or parts[1]} <= set(VERBS):
        raise TaskError(
            f"'{command}' is no command; expected one or two phrases such as 'walk left twice', "
            f"with 'and' or 'after' "
            f"between them and verbs of {', '.join(VERBS)}."
        )
    done: list[str] = []
    order = (1, 5) if parts[4] == " and " else (5, 1)
    for verb in order:
        if parts[verb] is None:
            continue
        turn, times = parts[verb + 1], parts[verb + 2]
        left = 3 if times == " thrice" else 2 if times == " twice" else 1
        while left:
            if turn is not None:
                done.append(f"TURN_{turn.strip().upper()}")
            done.append(parts[verb].upper())
            left -= 1
    return done
