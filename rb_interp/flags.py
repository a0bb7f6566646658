"""The flags of every command, as dataclasses: what the command line offers is what the Python objects hold."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from tyro.conf import AvoidSubcommands, OmitArgPrefixes, Positional, arg
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructTypeInfo,
)

if TYPE_CHECKING:
    from rb_interp.runs.config import StudyConfig

DESCRIPTIONS = {
    "reproduce": "Train a study's models, probe them, judge the claims, and write report.html.",
    "train": "Train a study's models only (does not need transformer_lens).",
}
REGISTRY = ConstructorRegistry()


COMBINATIONS = tuple[tuple[int, ...], ...]
WRITTEN = PrimitiveConstructorSpec(
    nargs="*",
    metavar="A,B",
    instance_from_str=lambda words: tuple(tuple(int(number) for number in word.split(",")) for word in words),
    is_instance=lambda value: isinstance(value, tuple),
    str_from_instance=lambda value: [",".join(map(str, combination)) for combination in value],
)
"""How lists of lists of whole numbers are written on the command line: ``--masked 11,13 13,11``."""


@REGISTRY.struct_rule
def combinations(info: StructTypeInfo) -> StructConstructorSpec | None:
    """Dataclasses with fields of the type COMBINATIONS, which have no form of their own on the command line."""
    if not isinstance(info.type, type) or not is_dataclass(info.type):
        return None
    hints = get_type_hints(info.type, include_extras=True)
    found = {name: Annotated[COMBINATIONS, WRITTEN] for name, hint in hints.items() if hint == COMBINATIONS}
    if not found:
        return None
    held = {name: getattr(info.type, name) for name in found}
    body = {"__annotations__": found, "__doc__": info.type.__doc__, **held}
    same: Any = type(info.type.__name__, (info.type,), body)
    same = dataclass(frozen=True)(same)
    default = same(**shallow(info.default)) if is_dataclass(info.default) else info.default
    spec = ConstructorRegistry.get_struct_spec(StructTypeInfo.make(same, default, False))
    return replace(spec, instantiate=info.type) if isinstance(spec, StructConstructorSpec) else None


def shallow(config: Any) -> dict[str, Any]:
    """Fields of a dataclass by name, inner dataclasses as they are."""
    return {field.name: getattr(config, field.name) for field in fields(config)}


def study_command(name: str, study: str, start: StudyConfig) -> tuple[type, Any]:
    """The flags of a command on a study, and their defaults: every setting of the study's configuration is a flag.

    Args:
        name: key of DESCRIPTIONS. study: its name. start: the configuration that the flags change.
    """
    settings: Any = AvoidSubcommands[Annotated[type(start), arg(name="")]]  # a sweep may be None in a preset
    if "" in start.sweeps:
        settings = OmitArgPrefixes[settings]
    flags: list[tuple[str, Any, Any]] = [
        ("settings", settings, start),
        ("study", Positional[Annotated[str, arg(help="Study; 'rb-interp studies' lists them.")]], study),
        ("config", Annotated[Path | None, arg(help="TOML file with a preset and what differs from it.")], None),
    ]
    words = "Run folder; by default runs/ and the names of study and preset. A run of the same settings continues."
    flags.append(("out", Annotated[Path | None, arg(help=words)], None))
    if name == "reproduce":
        words = "Add seeds until no claim about them is OPEN, up to 20 seeds."
        flags.append(("until_decided", Annotated[bool, arg(help=words)], False))
    made = make_dataclass(name.title(), [(field, kind) for field, kind, _ in flags], frozen=True)
    made.__doc__ = DESCRIPTIONS[name]
    return made, made(**{field: default for field, _, default in flags})


def without_study(name: str) -> type:
    """A command on a study as it stands in the list of commands, where no study is loaded: without flags."""
    return make_dataclass(name.title(), (), namespace={"__doc__": DESCRIPTIONS[name]})


@dataclass(frozen=True)
class Probe:
    """Probe a finished run and judge the claims."""

    run: Positional[Path]
    """Run folder."""


@dataclass(frozen=True)
class Patch:
    """Patch one member: what does each component carry at each role, where two inputs differ in one thing?"""

    run: Positional[Path]
    """Run folder."""
    gamma: float = 0.8
    """Initialisation rate of the member."""
    seed: int | None = None
    """Seed of the member; the run's first by default."""
    stage: str = "final"
    """init, final, a stage of the study such as half, or a step that was kept."""
    sweep: str = ""
    """Sweep, in a study of several."""
    corrupt: str = "key"
    """What clean and corrupted inputs differ in, such as key, anchors or both."""
    set: str | None = None
    """Set of the clean inputs, such as mem, rsn_train or rsn_test; by default the last that the task trains on."""
    pairs: int = 64
    """Pairs of inputs."""
    components: tuple[str, ...] = ()
    """Such as resid_pre attn_out mlp_out q k v z pattern; all but pattern and resid_mid by default."""
    roles: tuple[str, ...] = ()
    """Such as key first_anchor last_anchor anchor noise last."""
    metric: str = "logit_diff"
    """logit_diff or probability."""
    out: Path | None = None
    """CSV file to write the table to, with intervals and control."""


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
    """init, final, a stage of the study such as half, or a step that was kept."""
    sweep: str = ""
    """Sweep, in a study of several."""
    methods: tuple[str, ...] = ("zero", "mean", "resample")
    """What stands in the component's place."""
    n: int = 300
    """Inputs of each set, at most."""
    out: Path | None = None
    """CSV file to write the table of all members to."""


@dataclass(frozen=True)
class Report:
    """Draw the figures of a probed run and write report.html and report.json."""

    run: Positional[Path]
    """Run folder."""
    out: Path | None = None
    """Folder to write them to; by default the run folder."""


@dataclass(frozen=True)
class Info:
    """Say what a run folder holds: configuration, members, checkpoints, verdicts."""

    run: Positional[Path]
    """Run folder."""


@dataclass(frozen=True)
class Studies:
    """List the studies that are installed, with their question and cost."""


ON_RUNS: dict[str, type] = {
    **{"probe": Probe, "patch": Patch, "ablate": Ablate},
    **{"report": Report, "info": Info, "studies": Studies},
}
"""Commands whose flags are the same for every study."""
