"""The flags of every command, as dataclasses: what the command line offers is what the Python objects hold."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional
from tyro.constructors import PrimitiveConstructorSpec

from rb_interp.study.config import StudyConfig
from rb_interp.study.language_config import LANGUAGE, LanguageConfig
from rb_interp.tasks import AnchorTask

ANCHOR = "anchor"
"""The study of one part, whose every setting is a flag."""
COMBINATIONS = PrimitiveConstructorSpec(
    nargs="*",
    metavar="A,B",
    instance_from_str=lambda words: tuple(tuple(int(part) for part in word.split(",")) for word in words),
    is_instance=lambda value: isinstance(value, tuple),
    str_from_instance=lambda value: [",".join(map(str, combination)) for combination in value],
)
"""How anchor combinations are written on the command line: ``--masked 11,13 13,11``."""


@dataclass(frozen=True)
class TaskFlags(AnchorTask):
    masked: Annotated[tuple[tuple[int, ...], ...], COMBINATIONS] = AnchorTask.masked


TaskFlags.__doc__ = AnchorTask.__doc__


@dataclass(frozen=True)
class StudyFlags(StudyConfig):
    task: TaskFlags = field(default_factory=TaskFlags)

    @staticmethod
    def of(config: StudyConfig) -> StudyFlags:
        return StudyFlags(**{**shallow(config), "task": TaskFlags(**shallow(config.task))})

    @property
    def config(self) -> StudyConfig:
        return StudyConfig(**{**shallow(self), "task": AnchorTask(**shallow(self.task))})


StudyFlags.__doc__ = StudyConfig.__doc__


def shallow(config: Any) -> dict[str, Any]:
    """Fields of a dataclass by name, inner dataclasses as they are."""
    return {f.name: getattr(config, f.name) for f in fields(config)}


@dataclass(frozen=True)
class Sweep:
    """What to run. --study, --config and --preset set what the other flags start from."""

    sweep: OmitArgPrefixes[StudyFlags]
    study: str = ANCHOR
    """anchor (the Transformer on the anchor task), language (GPT-2 on PrOntoQA and TinyStories; --study language --help
    shows its flags), emb-mlp (Emb-MLP, and theory beside measurement) or labels (label distributions). The last two
    have several parts; they take their settings from --preset or --config."""
    out: Path | None = None
    """Run folder; by default runs/ and the preset's name. An existing run of the same configuration is continued."""
    config: Path | None = None
    """TOML file with a preset and what differs from it."""


@dataclass(frozen=True)
class Reproduce(Sweep):
    """Train the gamma sweep, probe it, judge the claims, and write report.html."""


@dataclass(frozen=True)
class Train(Sweep):
    """Train the gamma sweep only (does not need transformer_lens)."""


@dataclass(frozen=True)
class LanguageSweep:
    """What to run: language models. --config and --preset set what the other flags start from."""

    sweep: OmitArgPrefixes[LanguageConfig]
    study: str = LANGUAGE
    """language."""
    out: Path | None = None
    """Run folder; by default runs/ and the study's and the preset's name. An existing run of the same configuration is
    continued."""
    config: Path | None = None
    """TOML file with study = "language", a preset and what differs from it."""


@dataclass(frozen=True)
class ReproduceLanguage(LanguageSweep):
    """Train language models over the gamma sweep, probe them, judge the claims, and write report.html."""


@dataclass(frozen=True)
class TrainLanguage(LanguageSweep):
    """Train language models over the gamma sweep only (does not need transformer_lens)."""


@dataclass(frozen=True)
class Parts:
    """What to run: a study of several parts. Its settings come from --preset, or from --config."""

    study: str
    """emb-mlp or labels."""
    seeds: tuple[int, ...]
    """Seeds of every part."""
    preset: str = "quick"
    """Sizes: smoke, quick or paper."""
    out: Path | None = None
    """Folder; by default runs/ and the study's and the preset's name. An existing one of the same configuration is
    continued."""
    config: Path | None = None
    """TOML file with a study, a preset, and a table for what differs in each part."""


@dataclass(frozen=True)
class ReproduceParts(Parts):
    """Train every part of a study, measure, judge the claims, and write report.html."""


@dataclass(frozen=True)
class TrainParts(Parts):
    """Train every part of a study only (does not need transformer_lens)."""


@dataclass(frozen=True)
class Probe:
    """Probe a finished run and judge the claims."""

    run: Positional[Path]
    """Run folder."""


@dataclass(frozen=True)
class Patch:
    """Patch one member: what does each component carry at each role, where two inputs differ in key or anchors?"""

    run: Positional[Path]
    """Run folder."""
    gamma: float = 0.8
    """Initialisation rate of the member."""
    seed: int | None = None
    """Seed of the member; the run's first by default."""
    stage: str = "final"
    """init, half, matched, final, or a step that was kept."""
    change: str = "key"
    """What clean and corrupted inputs differ in: key, anchors or both."""
    rows: str = "rsn_train"
    """Set of the clean inputs: mem, rsn_train or rsn_test."""
    pairs: int = 64
    """Pairs of inputs."""
    components: tuple[str, ...] = ()
    """Such as resid_pre attn_out mlp_out q k v z pattern; all but pattern and resid_mid by default."""
    roles: tuple[str, ...] = ()
    """Such as key first_anchor last_anchor anchor noise last."""
    metric: str = "logit_diff"
    """logit_diff or probability."""
    out: Path | None = None
    """CSV file to write the table to, with intervals and placebos."""


@dataclass(frozen=True)
class Ablate:
    """Ablate components of all members: how much accuracy does each set lose without each?"""

    run: Positional[Path]
    """Run folder."""
    sites: tuple[str, ...] = ()
    """Such as attn_out.0 or z.1.0@key; the output of each sublayer by default."""
    gammas: tuple[float, ...] = ()
    """Initialisation rates of the members; all by default."""
    stage: str = "final"
    """init, half, matched, final, or a step that was kept."""
    methods: tuple[str, ...] = ("zero", "mean", "resample")
    """What stands in the component's place."""
    n: int = 300
    """Inputs of each set, at most."""
    out: Path | None = None
    """CSV file to write the table of all members to."""


@dataclass(frozen=True)
class Calibrate:
    """Measure again how often the mechanism probes mislead, on models whose mechanism is known."""

    out: Path = Path("calibration")
    """Folder for the two tables; what is in it already is continued."""


@dataclass(frozen=True)
class Report:
    """Draw the figures of a probed run and write report.html and report.json."""

    run: Positional[Path]
    """Run folder."""


@dataclass(frozen=True)
class Info:
    """Say what a run folder holds: configuration, members, checkpoints, verdicts."""

    run: Positional[Path]
    """Run folder."""


@dataclass(frozen=True)
class Init:
    """Print each parameter's shape, d_in, intended and measured standard deviation."""

    sweep: OmitArgPrefixes[StudyFlags]
    gamma: float = 0.8
    """Initialisation rate."""
    seed: int = 0
    """Seed of the draws."""
    config: Path | None = None
    """TOML file with a preset and what differs from it."""


@dataclass(frozen=True)
class InitLanguage:
    """Print each parameter's shape, d_in, intended and measured standard deviation, of a language model."""

    sweep: OmitArgPrefixes[LanguageConfig]
    study: str = LANGUAGE
    """language."""
    gamma: float = 0.8
    """Initialisation rate."""
    seed: int = 0
    """Seed of the draws."""
    config: Path | None = None
    """TOML file with study = "language", a preset and what differs from it."""
