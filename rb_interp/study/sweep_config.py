"""What the configurations of all gamma sweeps share, whatever is learned: preset, rates, seeds, and who equals whom."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from rb_interp.errors import ConfigError, nearest
from rb_interp.models.config import ModelConfig, check_gamma
from rb_interp.toml import to_toml

PRESETS = ("smoke", "quick", "paper")
HOST_FIELDS = ("device", "workers", "save_every", "micro_batch", "compile")
"""Training settings that say where and how a run is computed, not what it is."""
LATER = {
    "task": {"unordered": False, "balanced_keys": False},
    "model": {"architecture": "transformer", "tied": False},
    "train": {"optimiser": "adamw", "keep_at": [], "stages": ["half"], "track_drift": False},
}
"""Settings that came later: at these values a run is what it was without them, and keeps its fingerprint."""


@dataclass(frozen=True)
class SweepConfig:
    """A gamma sweep; what is learned, by which model and how it is trained is added by each kind.

    Attributes:
        preset: sizes and schedule to start from. gammas, seeds: the members, each rate with each seed.
        parts: the fields that make a tier: what is learned, the model, its training.
    """

    parts: ClassVar[tuple[str, ...]] = ()

    preset: str = "quick"
    gammas: tuple[float, ...] = (0.3, 0.5, 0.8)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def check_sweep(self, model: ModelConfig) -> None:
        """Raise ConfigError for an unknown preset, no or repeated members, or rates that a scheme has no use for."""
        if self.preset not in PRESETS:
            raise ConfigError(f"there is no preset '{self.preset}'; {nearest(self.preset, PRESETS)}")
        for name in ("gammas", "seeds"):
            values = getattr(self, name)
            if not values or len(set(values)) != len(values):
                raise ConfigError(f"{name}={list(values)}; expected at least one, each named once.")
        if not 0 <= min(self.seeds) <= max(self.seeds) < 2**31:
            raise ConfigError(f"seeds={list(self.seeds)}; expected whole numbers from 0 to {2**31 - 1}.")
        for gamma in self.gammas:
            check_gamma(gamma)
        if model.scheme == "torch_default" and len(self.gammas) > 1:
            raise ConfigError(
                f"scheme 'torch_default' has no gamma, so the {len(self.gammas)} gammas {list(self.gammas)} would be "
                f"the same model; give one gamma."
            )

    @staticmethod
    def from_preset(preset: str = "quick", **changes: Any) -> Any:
        """A preset, with fields replaced."""
        raise NotImplementedError

    @property
    def plain(self) -> dict[str, Any]:
        """The configuration as nested plain data, in the form of its TOML file."""
        return asdict(self)

    def to_toml(self) -> str:
        """The configuration as a TOML file that gives the same study again."""
        return to_toml(self.plain)

    @property
    def tier(self) -> str:
        """The preset's name, or ``custom`` where what is learned, model or training differ from it."""
        base = self.from_preset(self.preset)
        same = all(comparable(getattr(self, part)) == comparable(getattr(base, part)) for part in self.parts)
        return self.preset if same else "custom"

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits that two configurations share exactly when they describe the same run."""
        text = json.dumps(comparable(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def comparable(config: Any) -> dict:
    """A dataclass as plain data, less what only says where it is computed."""
    data = json.loads(json.dumps(asdict(config)))
    for part in (data, data.get("train", {})):
        for name in HOST_FIELDS:
            part.pop(name, None)
    for name, later in LATER.items():
        for part in (data, data.get(name, {})):
            for key in [key for key, value in later.items() if key in part and part[key] == value]:
                del part[key]
    return data


def flatten(data: dict, prefix: str = "") -> dict[str, Any]:
    """Nested keys joined by dots."""
    flat = {}
    for key, value in data.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
