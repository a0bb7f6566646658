"""The logical form of a sentence, told without the generator of ``sentences``.

It reads the sentence as text, by one pattern, and knows the words of each class and none of the generator's trees.
"""

from __future__ import annotations

import re

from rb_interp.errors import TaskError
from rb_interp.studies.addition_and_scan.sentences import HANDED, HELPED, NAMES, NOUNS, PLACES, SAID, SLEPT


def _any(*words: str) -> str:
    return f"(?:{'|'.join(words)})"


_PLACE = f" {_any('in', 'on', 'beside')} {_any('the', 'a')} {_any(*PLACES)}"
_PHRASE = f"(?:{_any(*NAMES)}|{_any('the', 'a')} {_any(*NOUNS)}(?:{_PLACE})*)"
SENTENCE = re.compile(
    f"(?:(?P<speaker>{_PHRASE}) (?P<said>{_any(*SAID)}) that )?(?:"
    f"(?P<sleeper>{_PHRASE}) (?P<slept>{_any(*SLEPT)})|"
    f"(?P<helper>{_PHRASE}) (?P<helped>{_any(*HELPED)}) (?P<whom>{_PHRASE})|"
    f"(?P<object>{_PHRASE}) was (?P<done>{_any(*HELPED)}) by (?P<doer>{_PHRASE})|"
    f"(?P<giver>{_PHRASE}) (?P<handed>{_any(*HANDED)}) "
    f"(?:(?P<gift>{_PHRASE}) to (?P<taker>{_PHRASE})|(?P<first>{_PHRASE}) (?P<second>{_PHRASE})))"
)
_VERBS = ("slept", "helped", "done", "handed")
_AGENTS, _THEMES = ("sleeper", "helper", "doer", "giver"), ("whom", "object", "gift", "second")
_RECIPIENTS = ("taker", "first")


def is_form_of(sentence: str, form: str) -> bool:
    """Whether a form is that of a sentence, or of a name alone; words have one space between them.

    Raises TaskError for what is no sentence.

    >>> is_form_of("a cat was helped by emma", "HELPED ( AGENT EMMA , THEME A CAT )"), is_form_of("zoe", "EMMA")
    (True, False)
    """
    return form_of(sentence) == form


def form_of(sentence: str) -> str:
    """The logical form of a sentence, or of a name alone; TaskError for what is neither."""
    if sentence in NAMES:
        return sentence.upper()
    found = SENTENCE.fullmatch(sentence)
    if found is None:
        raise TaskError(
            f"'{sentence}' is no sentence; expected one such as 'a cat was helped by emma' or 'emma said that a dog in "
            f"the box slept', with the words of the grammar."
        )
    parts = {name: text for name, text in found.groupdict().items() if text}
    (verb,) = (parts[name] for name in _VERBS if name in parts)
    roles = ((role, parts[name]) for role, names in _BY_ROLE.items() for name in names if name in parts)
    form = f"{verb.upper()} ( {' , '.join(f'{role} {_nested(phrase)}' for role, phrase in roles)} )"
    if "said" in parts:
        form = f"{parts['said'].upper()} ( AGENT {_nested(parts['speaker'])} , THAT {form} )"
    return form


_BY_ROLE = {"AGENT": _AGENTS, "THEME": _THEMES, "RECIPIENT": _RECIPIENTS}


def _nested(phrase: str) -> str:
    """A phrase with each preposition in a bracket, all of which close at its end."""
    opened, count = re.subn(r"\b(in|on|beside)\b", r"( \1", phrase)
    return opened.upper() + " )" * count
