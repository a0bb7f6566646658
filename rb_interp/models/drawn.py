"""Which initialisation this package has drawn into which model: kept beside the models, and not in them.

A model is remembered as long as it lives. Its state dict, its copies and its files know nothing of it.

How it can mislead. It is what was drawn last into this very module, whatever has been done to the weights since.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from torch import nn

from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import Rule


class Drawn(NamedTuple):
    """What the standard deviations of a draw followed: a rule, and gamma where the rule needs one."""

    rule: ModelConfig | Rule
    gamma: float | None


_DRAWN: WeakKeyDictionary[nn.Module, Drawn] = WeakKeyDictionary()


def remember(model: Any, rule: ModelConfig | Rule, gamma: float | None) -> None:
    """Keep what was drawn into a model; it takes the place of what was drawn before."""
    _DRAWN[model] = Drawn(rule, gamma)


def drawn_into(model: Any) -> Drawn | None:
    """What was drawn last into this module as a whole; None where this package has drawn nothing.

    >>> layer = nn.Linear(3, 3)
    >>> remember(layer, Rule(), 0.5)
    >>> drawn_into(layer).gamma, drawn_into(nn.Linear(3, 3))
    (0.5, None)
    """
    return _DRAWN.get(model)
