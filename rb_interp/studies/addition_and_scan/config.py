"""Configuration and claims of the study of addition and commands: two sweeps of each task and size.

    addition_low, addition_high             addition, weight decay .01 and .1
    scan_small_low, scan_small_high         commands, the smallest number of rows
    scan_middle_low, scan_middle_high
    scan_large_low, scan_large_high

Each has the gammas .3 and .8, so that the two sweeps of a task are a 2 x 2 of initialisation and
weight decay. Paper 2 (arXiv 2405.05409, Figs. 6 and 17a) changes both together, and so do the
criteria, which were written down before the runs. Beside each stands what either of the two does
alone. P3 is in experiments/judged_relation.py, P4 in experiments/cogs.
"""

from dataclasses import field, replace
from typing import Any, ClassVar

from rb_interp.claims import Claim, Condition, Term
from rb_interp.claims.claim import at_least, make_claim
from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.runs.config import StudyConfig, SweepConfig
from rb_interp.settings import LARGE, SMALL, Gammas, ReadRows, differences
from rb_interp.studies.addition_and_scan.addition import AdditionTask
from rb_interp.studies.addition_and_scan.scan import ScanTask
from rb_interp.training.config import TrainConfig

DECAYS = {"low": 0.01, "high": 0.1}
"""Weight decay by the end of a sweep's name."""
SIZES = ("small", "middle", "large")
TASKS = ("addition", *(f"scan_{size}" for size in SIZES))
"""First parts of the sweeps' names."""
HELD_OUT = {task: "block" if task == "addition" else "composites" for task in TASKS}
"""Task -> the set that is held out for the claims."""
ROWS = {"smoke": (100, 200, 400), "quick": (1000, 2000, 4000), "paper": (4000, 8000, 16_000)}
"""Rows of commands that are trained on, at the three sizes."""

_POST = ModelConfig(norm="post")
MODELS = {
    "smoke": replace(_POST, d_model=32, d_head=16, d_mlp=64),
    "quick": replace(_POST, d_model=32, d_head=32, d_mlp=96),
    "paper": replace(_POST, d_model=400, d_head=200, d_mlp=1200),
}
_SMOKE = TrainConfig(
    steps=40,
    batch_size=32,
    lr=3e-3,
    lr_final=1.2e-4,
    warmup=8,
    eval_every=20,
    eval_rows=100,
    n_checkpoints=1,
)
_QUICK = replace(_SMOKE, steps=500, batch_size=64, warmup=100, eval_every=100, eval_rows=200)
_PAPER = TrainConfig(
    steps=40_000,
    batch_size=2048,
    lr=25e-5,
    lr_final=1e-5,
    warmup=2000,
    eval_every=200,
    eval_rows=1000,
    n_checkpoints=4,
    save_every=120.0,
)
TRAINING = {
    "addition": {
        "smoke": _SMOKE,
        "quick": replace(_QUICK, steps=4000, warmup=800),
        "paper": _PAPER,
    },
    "scan": {"smoke": _SMOKE, "quick": _QUICK, "paper": replace(_PAPER, batch_size=256)},
}


class AdditionSweep(SweepConfig):
    """Members that learn to add."""

    gammas: Gammas = (LARGE, SMALL)
    task: AdditionTask = field(default_factory=AdditionTask)


class ScanSweep(SweepConfig):
    """Members that learn what commands order."""

    gammas: Gammas = (LARGE, SMALL)
    task: ScanTask = field(default_factory=ScanTask)


def _sweeps(preset: str) -> dict[str, Any]:
    """The sweeps of a preset."""
    sweeps: dict[str, Any] = {}
    for task in TASKS:
        kind, _, size = task.partition("_")
        for name, decay in DECAYS.items():
            model = MODELS[preset]
            train = replace(TRAINING[kind][preset], weight_decay=decay)
            if kind == "addition":
                sums = AdditionTask.preset(preset)
                sweep = AdditionSweep(task=sums, model=model, train=train)
            else:
                n_sequences = ROWS[preset][SIZES.index(size)]
                commands = replace(ScanTask.preset(preset), n_sequences=n_sequences)
                sweep = ScanSweep(task=commands, model=model, train=train)
            sweeps[f"{task}_{name}"] = sweep
    return sweeps


_DEFAULT = _sweeps("quick")


class AdditionAndScanConfig(StudyConfig):
    """Eight sweeps with the same seeds: each task with weight decay .01 and .1.

    Raises ConfigError if sweeps that are compared differ in more than their names say.

    >>> config = AdditionAndScanConfig.from_preset("quick")
    >>> config.addition_high.train.weight_decay, config.scan_large_low.task.n_sequences
    (0.1, 4000)
    """

    PRESETS: ClassVar[dict] = {
        "smoke": {"seeds": (0, 1), **_sweeps("smoke")},
        "quick": {},
        "paper": _sweeps("paper"),
    }

    addition_low: AdditionSweep = _DEFAULT["addition_low"]
    """Addition."""
    addition_high: AdditionSweep = _DEFAULT["addition_high"]
    """Addition."""
    scan_small_low: ScanSweep = _DEFAULT["scan_small_low"]
    """Commands at the smallest size."""
    scan_small_high: ScanSweep = _DEFAULT["scan_small_high"]
    """Commands at the smallest size."""
    scan_middle_low: ScanSweep = _DEFAULT["scan_middle_low"]
    """Commands at the middle size."""
    scan_middle_high: ScanSweep = _DEFAULT["scan_middle_high"]
    """Commands at the middle size."""
    scan_large_low: ScanSweep = _DEFAULT["scan_large_low"]
    """Commands at the largest size."""
    scan_large_high: ScanSweep = _DEFAULT["scan_large_high"]
    """Commands at the largest size."""
    probe_rows: ReadRows = 2000
    """Rows of each set that answers are read of, at most; the table of sums has at most 100 x
    100."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for task in TASKS:
            check_decay(task, self.sweeps[f"{task}_low"], self.sweeps[f"{task}_high"])
        smallest = self.scan_small_low
        rows = [smallest.task.n_sequences]
        for size in SIZES[1:]:
            sweep = self.sweeps[f"scan_{size}_low"]
            rows.append(sweep.task.n_sequences)
            as_small = replace(sweep.task, n_sequences=rows[0])
            sweep = replace(sweep, task=as_small)
            _check_single_difference(
                "scan_small_low", f"scan_{size}_low", "task.n_sequences", smallest, sweep
            )
        if sorted(set(rows)) != rows:
            raise ConfigError(
                f"n_sequences={rows} of the sizes {', '.join(SIZES)}; expected ascending numbers "
                f"of rows."
            )


def check_decay(task: str, low: SweepConfig, high: SweepConfig) -> None:
    """Raise ConfigError if the two sweeps of a task differ in more than their decays."""
    for name, sweep in {"low": low, "high": high}.items():
        if sweep.train.weight_decay != DECAYS[name]:
            raise ConfigError(
                f"{task}_{name}.train.weight_decay={sweep.train.weight_decay:g}; it is "
                f"{DECAYS[name]:g} by definition."
            )
    train = replace(high.train, weight_decay=low.train.weight_decay)
    _check_single_difference(
        f"{task}_low", f"{task}_high", "train.weight_decay", low, replace(high, train=train)
    )


def _check_single_difference(
    name: str, second_name: str, setting: str, sweep: SweepConfig, second: SweepConfig
) -> None:
    """Raise ConfigError if two sweeps differ, of which a setting was made equal."""
    extra_settings = differences(sweep, second)
    if extra_settings:
        raise ConfigError(
            f"sweeps '{name}' (there) and '{second_name}' (here) are compared and may differ in "
            f"{setting} alone, but also differ in {extra_settings}; change all sweeps of a task alike."
        )


LEARNED = 0.99
_LABELS = {"addition": "addition", **{f"scan_{size}": f"{size} set of commands" for size in SIZES}}
_LOW, _HIGH = (f"weight decay {decay:g}" for decay in DECAYS.values())
ALONE = {
    "gamma_low_decay": f"gamma {SMALL:g} - gamma {LARGE:g} alone, {_LOW}",
    "gamma_high_decay": f"gamma {SMALL:g} - gamma {LARGE:g} alone, {_HIGH}",
    "decay_large_init": f"{_HIGH} - {DECAYS['low']:g} alone, gamma {LARGE:g}",
    "decay_small_init": f"{_HIGH} - {DECAYS['low']:g} alone, gamma {SMALL:g}",
}


COMPARED = (("high", SMALL), ("low", LARGE))
"""Weight decay and gamma of the two members that claims compare."""


def _share(task: str, decay: str, gamma: float, set: str) -> Term:
    """The share of right answers of a member on a set."""
    quantity = "accuracy" if task == "addition" else "exact match"
    return Term(
        "answers",
        "right",
        gamma,
        "final",
        set,
        label=f"{quantity} on {set}",
        sweep=f"{task}_{decay}",
        sweep_label=f"{_LABELS[task]}, weight decay {DECAYS[decay]:g}",
    )


def _conditions(task: str, least: float) -> list[Condition]:
    """The contrast on the held-out set, and the share on the rows that were trained on."""
    better, worse = (_share(task, *cell, HELD_OUT[task]) for cell in COMPARED)
    trained = [at_least(_share(task, *cell, "train"), LEARNED) for cell in COMPARED]
    return [at_least(better, least, worse), *trained]


def _context(task: str) -> list[Term]:
    """What gamma and weight decay do alone, and the two members on seen_test."""
    terms = []
    for name, label in ALONE.items():
        quantity = f"{task}:{name}"
        label = f"{_LABELS[task]}: {label}"
        terms.append(Term("contrast", quantity, None, "final", HELD_OUT[task], label=label))
    for cell in COMPARED:
        terms.append(_share(task, *cell, "seen_test"))
    return terms


CLAIMS: tuple[Claim, ...] = (
    make_claim(
        "P1",
        "With small initialisation and large weight decay, addition carries over to a block of "
        "operands that was held out, better than with large initialisation and small weight decay.",
        "Fig. 17a",
        *_conditions("addition", 0.20),
        context=tuple(_context("addition")),
    ),
    make_claim(
        "P2",
        "With small initialisation and large weight decay, a verb that was only trained alone is "
        "used in commands, better than with large initialisation and small weight decay, at each "
        "of three numbers of rows.",
        "Fig. 6a",
        *(condition for size in SIZES for condition in _conditions(f"scan_{size}", 0.10)),
        context=tuple(term for size in SIZES for term in _context(f"scan_{size}")),
    ),
)
