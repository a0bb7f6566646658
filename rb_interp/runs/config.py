"""What a study is: its configuration, question, measurement, claims, figures and report.

A study's configuration is a `StudyConfig`: the same frozen object is the Python object, the
command's flags and the TOML file. It has one sweep (it is a `SweepConfig` itself), several (its
fields of that type, by name), or none, if it reads tables that others made. A class's
``host_fields`` say where and how something is computed; they belong to no fingerprint. Its
``source_fields`` say where data comes from; they do not change the scale of a run.

A `StudyDefinition` is found by its entry point, and its fields load at first use. ``runs.studies``
adds how it is carried out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from typing_extensions import Self

from rb_interp import settings
from rb_interp.arguments import checked
from rb_interp.errors import ConfigError, StudyError, describe, first_line, nearest
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters
from rb_interp.settings import Gammas, Rate, Seed, Seeds, Settings, read_toml
from rb_interp.training.config import TrainConfig

if TYPE_CHECKING:
    from rb_interp.claims import CausalCheck, Claim, Term
    from rb_interp.figures.kit import Drawing

GROUP = "rb_interp.studies"
"""The group of entry points by which studies are found."""
NEAR = 0.75
"""Likeness from which on an unknown name is taken for a known one, misspelt."""
Lazy = str
"""An object by its place, ``package.module:name``, as in entry points."""
__all__ = ["StudyConfig", "SweepConfig", "fingerprint", "from_mapping"]

DEFAULT_SEEDS = tuple(range(10, 18))
"""Seeds of ``quick`` and ``paper``: they decide claims that were written after seeds 0 to 9 had
been read, too."""


class StudyConfig(Settings):
    """What the configurations of all studies share; a study adds its fields, its PRESETS and its
    checks."""

    PRESETS: ClassVar[dict] = {"quick": {}}
    sibling_stages: ClassVar[Mapping[str, tuple[str, float]]] = {}
    """Further names of stages, name -> (stage, gamma): that stage of the same seed's member."""

    preset: str = "quick"
    """Sizes and schedule to start from."""
    seeds: Seeds = DEFAULT_SEEDS
    """Each fixes data, labels, batch order and normal draws, shared across gammas."""

    def __post_init__(self) -> None:
        self.check_preset(self.preset)
        super().__post_init__()

    @classmethod
    def from_preset(cls, preset: str = "quick", **changes: Any) -> Self:
        """A preset, with fields replaced; ConfigError for an unknown one."""
        cls.check_preset(preset)
        config = settings.overlay(cls(preset=preset), cls.PRESETS[preset], f"preset '{preset}'")
        return replace(config, **changes)

    def adapt_claim(self, claim: Claim) -> Claim:
        """A claim of the study as it is judged in a run of this configuration."""
        return claim

    @property
    def sweeps(self) -> dict[str, SweepConfig]:
        """Its sweeps by name; a single one, or the main one, is called "" and is the configuration
        itself.

        A study may have further sweeps beside its main one. Its figures and its report are then of
        the main one.
        """
        if isinstance(self, SweepConfig):
            return {"": self}
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, SweepConfig)}


class SweepConfig(Settings):
    """One sweep: members trained alike, on one task, at each gamma (and each seed of the study).

    Raises ConfigError for rates that do not fit, and for sizes of the model that contradict the
    task.
    """

    gammas: Gammas = (0.3, 0.5, 0.8)
    """Initialisation rates, std = d_in^-gamma."""
    task: Any = None
    """What is learned, a ``tasks.Task``."""
    model: ModelConfig = ModelConfig()
    """What learns it."""
    train: TrainConfig = TrainConfig()
    """How it is trained."""
    rates: tuple[tuple[Rate, Rate], ...] = ()
    """Learning rates of single gammas, pairs of gamma and rate, in place of ``train.lr``."""
    data_seed: Seed | None = None
    """Seed of data, labels and batch order of every member, whose own seed then fixes its initial
    weights alone. None: each member's own seed fixes both."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(dict(self.rates)) < len(self.rates):
            raise ConfigError(
                f"rates={self.rates}; expected pairs of gamma and learning rate, each gamma once."
            )
        if self.model.scheme == "torch_default" and len(self.gammas) > 1:
            raise ConfigError(
                f"scheme 'torch_default' has no gamma, and gammas={self.gammas}; give one gamma."
            )
        if self.task.predicts == "last" and self.train.micro_batch:
            raise ConfigError("micro_batch is for language models; leave it out.")
        parameters(self.model, self.task.d_vocab, self.task.length)
        known = self.task.stages or {}
        for stage in self.train.stages:
            if stage not in known:
                raise ConfigError(f"the task has no stage '{stage}'; {nearest(stage, known)}")

    def data_seed_of(self, seed: int) -> int:
        """The seed that fixed data, labels and batch order of the members with a seed."""
        return seed if self.data_seed is None else self.data_seed


def sizes(
    task: type[Settings],
    preset: str,
    models: Mapping[str, Any] = ModelConfig.PRESETS,
    training: Mapping[str, Any] = TrainConfig.PRESETS,
) -> dict[str, Any]:
    """What a preset changes of a task's class, of the model and of training."""
    return {"task": task.PRESETS[preset], "model": models[preset], "train": training[preset]}


def from_mapping(
    kind: type[StudyConfig], data: Mapping[str, Any], source: str = "the configuration"
) -> Any:
    """A study's configuration: its preset with what the data changes; ConfigError for what does not
    fit.

    Args:
        data: nested plain data, as of a TOML file; ``preset`` names what it starts from.
        source: where the data comes from, for messages.
    """
    changes = {key: value for key, value in data.items() if key != "study"}
    preset = kind.from_preset(changes.get("preset", "quick"))
    return settings.overlay(preset, changes, source)


def fingerprint(*values: Any) -> str:
    """Twelve hex digits that two configurations share exactly when they describe the same thing."""
    return settings.digest([settings.comparable(value) for value in values])


def stacks(sweeps: Mapping[str, SweepConfig]) -> list[list[str]]:
    """Names of the sweeps that train in one stack: those that differ in learning rate and weight
    decay, at least in one of them, and in no more but their gammas. Sweeps with ``rates`` train by
    themselves.

    >>> from rb_interp.tasks import AnchorTask
    >>> slow = SweepConfig(task=AnchorTask(), train=TrainConfig(lr=1e-4))
    >>> stacks({"": SweepConfig(task=AnchorTask()), "slow": slow, "short": replace(slow, train=TrainConfig(steps=9))})
    [['', 'slow'], ['short']]
    """
    result: dict[Any, list[str]] = {}
    times_taken = Counter[Any]()
    for name, sweep in sweeps.items():
        data = fingerprint(sweep.task, sweep.model, sweep.data_seed)
        stack = (data, replace(sweep.train, lr=1, weight_decay=0))
        setting = (stack, sweep.train.lr, sweep.train.weight_decay)
        times_taken[setting] += 1
        with_rates = name if sweep.rates else ""
        result.setdefault((stack, times_taken[setting], with_rates), []).append(name)
    return list(result.values())


def check_lr(config: StudyConfig) -> None:
    """Raise ConfigError if a learning rate was given that some member would not take.

    Rates of the preset may be of gammas that the sweep does not have: they stay when the gammas are
    replaced.
    """
    base = type(config).from_preset(config.preset).sweeps
    if not base:
        return
    first = next(iter(base.values()))
    settable = {"": config.sweeps[""]} if "" in config.sweeps else config.sweeps
    for name, sweep in settable.items():
        of_preset = base.get(name, first)  # sweeps of other data are all like the first
        prefix = f"{name}." if name else ""
        gammas = set(sweep.gammas)
        with_rate = {gamma for gamma, _ in sweep.rates}
        if sweep.rates != of_preset.rates:
            if not with_rate <= gammas:
                raise ConfigError(
                    f"{prefix}rates={sweep.rates}; the gammas of this sweep are {sweep.gammas} "
                    f"alone."
                )
        elif sweep.train.lr != of_preset.train.lr and with_rate & gammas:
            raise ConfigError(
                f"{prefix}train.lr={sweep.train.lr:g} has no effect at gammas "
                f"{sorted(with_rate & gammas)}: preset '{config.preset}' gives each a learning rate "
                f"of its own. Change {prefix}rates instead."
            )


def scale_of(config: StudyConfig) -> str:
    """The preset's name, or ``custom`` if a table of settings differs from the preset's."""
    preset = type(config).from_preset(config.preset)
    return config.preset if _sizes(config) == _sizes(preset) else "custom"


def _sizes(config: StudyConfig) -> dict[str, Any]:
    """Settings that stand in tables, rates and seeds of data, less where data comes from."""
    parts = ("task", "model", "train", "rates", "data_seed")
    values = settings.comparable(config)
    left_out: set[str] = set()
    for name, sweep in config.sweeps.items():
        left_out.update(getattr(sweep.task, "source_fields", ()))
        if name:
            values[name] = {part: settings.comparable(getattr(sweep, part)) for part in parts}
    sizes = {}
    for key, value in settings.flat(values).items():
        in_table = "." in key or key in parts
        if in_table and key.rpartition(".")[2] not in left_out:
            sizes[key] = value
    return sizes


@dataclass(frozen=True, eq=False)
class StudyDefinition:
    """A question, its configuration, and its measurement, claims, figures and report.

    A field that takes an object also takes its place as text, ``package.module:name``. The object
    is imported when it is used for the first time.

    Attributes:
        name: word on the command line, lower case with dashes.
        title: heading of its report.
        question: what it asks, in a few sentences.
        cost: preset -> its time, in words; presets whose time nobody knows are left out.
        config: a `StudyConfig` class; its ``from_preset`` makes the presets.
        measure: ``measure(run, progress) -> StudyResult``: reads every member of a trained `Run`, once.
        tables: name -> columns that tell the rows of a further table apart, with spaces between.
        claims: what is judged, with criteria fixed in advance.
        quantities: probe -> the quantities that ``measure`` reads of it, with spaces between, or a
            TOML file of such lists; claims are checked against it before training. A name with
            other numbers is known too: they stand for layers, rates and the like. Claims about
            probes that are not in it are not checked.
        figures: name -> ``draw(evidence) -> Figure``.
        report: the Markdown template of its report, see ``report.page``; without one, all figures
            in their order.
        glossary: term -> meaning, below the report, behind those of ``report/glossary.toml``.
        checks: causal checks: interventions that would refute a claim, each with its own verdict.
            Their numbers are in the table ``effects``, which ``measure`` must return then.
        calibration: ``calibration(config) -> Calibration | None``: error rates of the probes for
            these models.
        groups: ``groups(measured) -> Grouping``: which seeds belong together, by an outcome, and
            which claims are judged within each group as well.
        circuits: ``circuits(measured) -> {(gamma, seed): Circuit}``: the circuits of the main
            sweep's members, by name, for members that are shared (`Run.export`).
        train_note: ``train_note(config) -> sentences`` to show before training, for instance about
            stand-ins for data.
    """

    name: str
    title: str
    question: str
    cost: Mapping[str, str]
    config: type[StudyConfig] | Lazy
    measure: Callable[[Any, bool], Any] | Lazy
    tables: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Claim, ...] | Lazy = ()
    figures: Mapping[str, Drawing] | Lazy = field(default_factory=dict)
    report: Path | None = None
    glossary: Mapping[str, str] | Lazy = field(default_factory=dict)
    checks: tuple[CausalCheck, ...] | Lazy = ()
    calibration: Callable[[Any], Any] | Lazy | None = None
    groups: Callable[[Any], Any] | Lazy | None = None
    circuits: Callable[[Any], Mapping[tuple[float, int], Any]] | Lazy | None = None
    train_note: Callable[[Any], list[str]] | Lazy | None = None
    quantities: Mapping[str, str] | Path = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Study({self.name}: {self.title})"

    @checked
    def load(self, name: str) -> Any:
        """A field's object, imported if the field names a place."""
        value = getattr(self, name)
        if not isinstance(value, str):
            return value
        module, _, attribute = value.partition(":")
        return getattr(import_module(module), attribute)

    @checked
    def preset(self, preset: str = "quick", **changes: Any) -> StudyConfig:
        """The configuration of a preset, with fields replaced; ConfigError for an unknown preset or
        field."""
        return self.load("config").from_preset(preset, **changes)

    def folder(self, config: StudyConfig) -> Path:
        """``runs/anchor-quick`` for a preset as it stands; a variation's name ends with its
        fingerprint."""
        name = f"{self.name}-{config.preset}"
        mark = fingerprint(self.name, config)
        if mark != fingerprint(self.name, self.preset(config.preset)):
            name = f"{name}-{mark}"
        return Path("runs") / name

    def known_quantities(self) -> dict[str, list[str]]:
        """Probe -> the quantities that are known to be read of it."""
        if isinstance(self.quantities, Path):
            return read_toml(self.quantities)
        return {probe: names.split() for probe, names in self.quantities.items()}

    def check_claims(self, config: StudyConfig) -> None:
        """Raise StudyError for a claim about what no run of the study can have.

        It is asked before a new run. A study may read stages and sets of its own, so of these only
        a name that nearly is a known one is refused.
        """
        try:
            claims = self.load("claims")
            checks = self.load("checks")
        except StudyError:
            if find_spec("transformer_lens"):
                raise
            return  # they stand with what reads models, and training needs no TransformerLens
        kind = type(config)
        presets = [config, *map(kind.from_preset, kind.PRESETS)]
        sweeps = [entry for preset in presets for entry in preset.sweeps.items()]
        known_tasks = {type(sweep.task) for _, sweep in sweeps[len(config.sweeps) :]}
        tasks = {type(sweep.task) for sweep in config.sweeps.values()}
        # A task of somebody else's has roles of its own, which are in the names of quantities.
        quantities = self.known_quantities() if tasks <= known_tasks else {}
        for claim in (*map(config.adapt_claim, claims), *(check.check for check in checks)):
            subject = f"claim {claim.id} of study '{self.name}'"
            for term in (*claim.terms, *claim.context):
                _check_sources(subject, term, sweeps, kind.sibling_stages)
                _check_quantity(subject, term, quantities)


def _check_sources(
    subject: str,
    term: Term,
    named_sweeps: Sequence[tuple[str, SweepConfig]],
    sibling_stages: Iterable[str],
) -> None:
    """Raise StudyError for a term about a sweep, gamma, stage or set that no preset has."""
    sweeps = [sweep for name, sweep in named_sweeps if term.sweep in ("", name)]
    if term.sweep and not sweeps:
        hint = nearest(term.sweep, dict(named_sweeps))
        raise StudyError(f"{subject} names the sweep '{term.sweep}'; {hint}")
    gammas = sorted({gamma for sweep in sweeps for gamma in sweep.gammas})
    if term.gamma is not None and all(abs(term.gamma - gamma) >= 1e-9 for gamma in gammas):
        raise StudyError(
            f"{subject} is about gamma {term.gamma:g}; no preset trains it, but {gammas}."
        )
    sets = {"train"}
    stages = {"init", "final", *sibling_stages}
    for sweep in sweeps:
        sets.update(sweep.task.sets)
        stages.update(sweep.task.stages or ())
    for kind, name, known in (("stage", term.stage, stages), ("set", term.set, sets)):
        if name and name not in known and get_close_matches(name, known, 1, NEAR):
            raise StudyError(f"{subject} names the {kind} '{name}'; {nearest(name, known)}")


def _check_quantity(subject: str, term: Term, quantities: Mapping[str, Sequence[str]]) -> None:
    """Raise StudyError for a term about a misspelt probe, or an unknown quantity of a known one."""
    known = quantities.get(term.probe)
    if known is None:
        if get_close_matches(term.probe, quantities, 1, NEAR):
            hint = nearest(term.probe, quantities)
            raise StudyError(f"{subject} names the probe '{term.probe}'; {hint}")
        return
    if _without_numbers(term.quantity) not in map(_without_numbers, known):
        raise StudyError(
            f"{subject} names the quantity '{term.quantity}' of the probe '{term.probe}'; "
            f"{nearest(term.quantity, known)} (what the study reads stands in its quantities)"
        )


def _without_numbers(quantity: str) -> str:
    return re.sub(r"\d+", "0", quantity)


def study_names() -> list[str]:
    """Names of all studies that are installed, sorted; no study is imported."""
    return sorted(entry_points(group=GROUP).names)


S = TypeVar("S", bound=StudyDefinition)


def find_study(name: str, kind: type[S] = StudyDefinition) -> S:
    """An installed study by its name; no other study is imported.

    Raises StudyError for an unknown name, and if a study does not load (naming its distribution).
    """
    points = entry_points(group=GROUP)
    if name not in points.names:
        raise StudyError(f"no study '{name}' is installed; {nearest(name, points.names)}")
    point = points[name]
    distribution = point.dist.name if point.dist else "unknown"
    subject = f"study '{name}' of the distribution '{distribution}'"
    try:
        value = point.load()
    except (Exception, SystemExit) as error:  # a plugin may fail in any way
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise StudyError(f"{subject} does not load ({reason}); mend or uninstall it.") from error
    if not isinstance(value, kind) or value.name != name:
        raise StudyError(f"{subject} is {describe(value)}; expected a Study of this name.")
    return value
