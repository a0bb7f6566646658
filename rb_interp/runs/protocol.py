"""What a study is, and which are installed: found by their entry points, and loaded one at a time.

A `Study` is one frozen value. Its fields load at first use, so listing studies imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.errors import StudyError, first_line, nearest, shown
from rb_interp.typed import typed

if TYPE_CHECKING:
    from rb_interp.claims import CausalCheck, Claim
    from rb_interp.figures.style import Drawing
    from rb_interp.runs.config import StudyConfig
    from rb_interp.runs.run import Run

GROUP = "rb_interp.studies"
"""The group of entry points by which studies are found."""
DEFAULT = "anchor"
"""The study that is meant where none is named."""
Lazy = str
"""An object by its place, ``package.module:name``, as in entry points."""


@dataclass(frozen=True, eq=False)
class Study:
    """A question, its configuration, and its measurement, claims, figures and report.

    A field that takes an object also takes its place as text, ``package.module:name``. The object is imported when it
    is used for the first time.

    Attributes:
        name: word on the command line, lower case with dashes.
        title: heading of its report.
        question: what it asks, in a few sentences.
        cost: preset -> its time, in words; presets whose time nobody knows are left out.
        config: a `StudyConfig` class; its ``from_preset`` makes the presets.
        measure: ``measure(run, progress) -> Measured``: reads every member of a trained run, once.
        tables: name -> columns that tell the rows of a further table apart, with spaces between.
        claims: what is judged, with criteria fixed in advance.
        quantities: probe -> the quantities that ``measure`` reads of it, with spaces between; claims are checked
            against it before training. Claims about probes that are not in it are not.
        figures: name -> ``draw(evidence) -> Figure``.
        report: the Markdown template of its report, see ``report.page``; without one, all figures in their order.
        glossary: term -> meaning, below the report, behind those of ``report/glossary.toml``.
        checks: causal checks: interventions that would refute a claim, each with its own verdict. Their numbers are in
            the table ``effects``, which ``measure`` must return then.
        calibration: ``calibration(config) -> Calibration | None``: error rates of the probes for these models.
        groups: ``groups(measured) -> Grouping``: which seeds belong together, by an outcome, and which claims are
            judged within each group as well.
        circuits: ``circuits(measured) -> {(gamma, seed): Circuit}``: the circuits of the main sweep's members, by name,
            for members that are shared (`Run.export`).
        train_note: ``train_note(config) -> sentences`` to show before training, for instance about stand-ins for data.
    """

    name: str
    title: str
    question: str
    cost: Mapping[str, str]
    config: type[StudyConfig] | Lazy
    measure: Callable[[Run, bool], Any] | Lazy
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
    quantities: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Study({self.name}: {self.title})"

    @typed
    def load(self, name: str) -> Any:
        """A field's object, imported where the field names a place."""
        value = getattr(self, name)
        if not isinstance(value, str) or name in ("name", "title", "question"):
            return value
        module, _, attribute = value.partition(":")
        return getattr(import_module(module), attribute)

    @typed
    def preset(self, preset: str = "quick", **changes: Any) -> StudyConfig:
        """The configuration of a preset, with fields replaced; ConfigError for an unknown preset or field."""
        return self.load("config").from_preset(preset, **changes)

    @typed
    def run(
        self,
        *,
        preset: str = "quick",
        config: StudyConfig | None = None,
        out: Path | str | None = None,
        progress: bool = True,
        until_decided: bool = False,
        **changes: Any,
    ) -> Run:
        """Train, measure, judge and report, continuing where an earlier call was stopped; returns the run.

        Args:
            preset: sizes to start from. changes: fields of the configuration to replace, such as ``seeds=(0,)``.
            config: a whole configuration instead of both.
            out: the run folder; by default ``runs/`` and the names of study and preset.
            until_decided: add seeds until no claim about them is OPEN, up to 20 seeds.

        Raises ConfigError for settings that do not fit, RunError for a folder that holds something else.
        """
        from rb_interp.runs.run import Run

        settings = config or self.preset(preset, **changes)
        return Run.start(out or self.folder(settings), self, settings).reproduce(progress, until_decided)

    def check_claims(self, config: StudyConfig) -> None:
        """Raise StudyError for a claim about what no run of the study can have; asked before a new run.

        Sweeps and rates are those of the configuration and of the presets, quantities those that the study declares.
        A study may read stages and sets of its own, so of these only a name that nearly is a known one is refused.
        """
        kind = type(config)
        try:
            found, checks = self.load("claims"), self.load("checks")
        except StudyError:
            if find_spec("transformer_lens"):
                raise
            return  # they stand with what reads models, and training needs no TransformerLens
        presets = [config, *map(kind.from_preset, kind.PRESETS)]
        named = [(name, sweep) for one in presets for name, sweep in one.sweeps.items()]
        claims = [*map(config.judged, found), *(check.check for check in checks)]
        for claim, term in ((one, term) for one in claims for term in (*one.terms, *one.context)):
            where, own = f"claim {claim.id} of study '{self.name}'", [s for n, s in named if term.sweep in ("", n)]
            if not own:
                raise StudyError(f"{where} names the sweep '{term.sweep}'; {nearest(term.sweep, dict(named))}")
            gammas = sorted({gamma for sweep in own for gamma in sweep.gammas})
            if term.gamma is not None and not any(abs(term.gamma - gamma) < 1e-9 for gamma in gammas):
                raise StudyError(f"{where} is about gamma {term.gamma:g}; no preset trains it, but {gammas}.")
            sets = {"train", *(name for sweep in own for name in sweep.task.sets)}
            stages = {"init", "final", *kind.sibling_stages, *(name for s in own for name in s.task.stages or ())}
            for word, name, known in (("stage", term.stage, stages), ("set", term.set, sets)):
                if name and name not in known and get_close_matches(name, known, 1, 0.75):
                    raise StudyError(f"{where} names the {word} '{name}'; {nearest(name, known)}")
            read = self.quantities.get(term.probe, "").split()
            if self.quantities and not read and get_close_matches(term.probe, self.quantities, 1, 0.75):
                raise StudyError(f"{where} names the probe '{term.probe}'; {nearest(term.probe, self.quantities)}")
            if read and term.quantity not in read:
                raise StudyError(f"{where} names the quantity '{term.quantity}'; {nearest(term.quantity, read)}")

    def folder(self, config: StudyConfig) -> Path:
        """``runs/anchor-quick`` for a preset as it stands; a variation gets its fingerprint at the end of the name."""
        from rb_interp.runs.config import fingerprint

        name, mark = f"{self.name}-{config.preset}", fingerprint(self.name, config)
        as_it_stands = mark == fingerprint(self.name, self.preset(config.preset))
        return Path("runs") / (name if as_it_stands else f"{name}-{mark}")


def names() -> list[str]:
    """Names of all studies that are installed, sorted; no study is imported."""
    return sorted(entry_points(group=GROUP).names)


@typed
def study(name: str | Study) -> Study:
    """A study by its name; no other study is imported.

    >>> study("anchor").name
    'anchor'

    Raises:
        StudyError: for an unknown name, and where a study does not load (naming its distribution).
    """
    if isinstance(name, Study):
        raise StudyError(
            f"study got the Study '{name.name}' itself in place of its name; call its run: STUDY.run()"
        )
    points = entry_points(group=GROUP)
    if name not in points.names:
        raise StudyError(f"no study '{name}' is installed; {nearest(name, points.names)}")
    point = points[name]
    told = f"study '{name}' of the distribution '{point.dist.name if point.dist else 'unknown'}'"
    try:
        found = point.load()
    except (Exception, SystemExit) as error:  # a plugin may fail in any way
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise StudyError(f"{told} does not load ({reason}); mend or uninstall it.") from error
    if not isinstance(found, Study) or found.name != name:
        raise StudyError(f"{told} is {shown(found)}; expected a Study of this name.")
    return found


def installed_studies() -> dict[str, Study | StudyError]:
    """Every installed study by its name, or the reason why it does not load."""
    listed: dict[str, Study | StudyError] = {}
    for name in names():
        try:
            listed[name] = study(name)
        except StudyError as error:
            listed[name] = error
    return listed
