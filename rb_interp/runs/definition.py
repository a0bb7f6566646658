"""What a study is: its question, configuration, measurement, claims, figures and report.

A study is found by its entry point, and its fields load at first use. ``runs.studies`` adds how it
is carried out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rb_interp.arguments import checked
from rb_interp.errors import StudyError, describe, first_line, nearest
from rb_interp.runs.config import StudyConfig, SweepConfig, fingerprint
from rb_interp.settings import read_toml

if TYPE_CHECKING:
    from rb_interp.claims import CausalCheck, Claim, Term
    from rb_interp.figures.kit import Drawing

GROUP = "rb_interp.studies"
"""The group of entry points by which studies are found."""
NEAR = 0.75
"""Likeness from which on an unknown name is taken for a known one, misspelt."""
Lazy = str
"""An object by its place, ``package.module:name``, as in entry points."""


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
        if not isinstance(value, str) or name in ("name", "title", "question"):
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
        sweeps = [named for preset in presets for named in preset.sweeps.items()]
        known_tasks = {type(sweep.task) for _, sweep in sweeps[len(config.sweeps) :]}
        tasks = {type(sweep.task) for sweep in config.sweeps.values()}
        # A task of somebody else's has roles of its own, which are in the names of quantities.
        quantities = self.known_quantities() if tasks <= known_tasks else {}
        for claim in (*map(config.judged, claims), *(check.check for check in checks)):
            subject = f"claim {claim.id} of study '{self.name}'"
            for term in (*claim.terms, *claim.context):
                _check_place(subject, term, sweeps, kind.sibling_stages)
                _check_quantity(subject, term, quantities)


def _check_place(
    subject: str,
    term: Term,
    named_sweeps: Sequence[tuple[str, SweepConfig]],
    sibling_stages: Iterable[str],
) -> None:
    """Raise StudyError for a term about a sweep, gamma, stage or set that no preset has."""
    sweeps = [sweep for name, sweep in named_sweeps if term.sweep in ("", name)]
    if not sweeps:
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


def names() -> list[str]:
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
