"""Presets of settings: names for settings to start from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from rb_interp.checks import KnownFields, checked
from rb_interp.errors import ConfigError, RbInterpError, nearest

S = TypeVar("S", bound="WithPresets")


class WithPresets(KnownFields):
    """A dataclass of settings with presets; a class that is made from one has them too, as settings of its own class.

    Attributes:
        PRESETS: name -> the fields that differ from the class's defaults. ERROR: what another name raises.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    ERROR: ClassVar[type[RbInterpError]] = ConfigError

    @classmethod
    @checked
    def preset(cls: type[S], name: str) -> S:
        """Settings of a preset: ``smoke`` (seconds), ``quick`` (minutes) or ``paper`` (the paper's sizes).

        Raises the class's ``ERROR`` for another name.
        """
        if name not in cls.PRESETS:
            raise cls.ERROR(f"{cls.__name__} has no preset '{name}'; {nearest(name, cls.PRESETS)}")
        return cls(**cls.PRESETS[name])
