"""Measure the study of addition and commands, which answers are right at the last step, and draw
it.

    answers     share of rows whose whole answer is right, of every member and set
    contrast    differences between members of the same seed on the set that is held out, by the cells of CONTRASTS:
                ``both`` is what the paper compares, and P1 and P2; the others change gamma or
                weight decay alone

The share is accuracy where an answer is one token, and exact match where it is a sequence. A
sequence is read with the right answer before each of its tokens (teacher forcing). That is the same
as exact match under greedy decoding: up to the first wrong token both put the same tokens into the
model, and a wrong token is wrong in both.

Array of the sweeps of addition: ``sums``, 1 where a member answers a + b rightly and 0 elsewhere,
``[a, b]``, both ascending. Where there are more than 100 operands only every so many are read.

How it can mislead. An untrained model reads about 1 / d_vocab on addition and 0 on commands. A
model that memorised its training rows reads 1 on ``train`` and about 0 elsewhere, so the held-out
sets are read beside ``seen_test``: where that is low, nothing general was learned, and the held-out
share says nothing of what kind of rule was. Where ``both`` is large and one of the others too, the
claim is about that one; a difference that gamma makes at one decay alone belongs to both together.

Figures are by cell of gamma and weight decay, after Figs. 6a and 17a of paper 2.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import cast

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from rb_interp.figures import kit
from rb_interp.figures.evidence import Evidence, MissingEvidenceError
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import as_rows, evaluation, passes
from rb_interp.runs.measured import (
    MemberModels,
    StudyResult,
    arrays_over_seeds,
    measure_members,
    readings_table,
)
from rb_interp.runs.run import Run
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.intervals import mean_text
from rb_interp.statistics.reading import Reading
from rb_interp.studies.addition_and_scan.addition import AdditionTask
from rb_interp.studies.addition_and_scan.config import (
    DECAYS,
    HELD_OUT,
    SIZES,
    TASKS,
    AdditionAndScanConfig,
)
from rb_interp.tasks.dataset import Dataset
from rb_interp.training.member_group import Member

SIDE = 100
"""Operands of the table of sums, at most."""
Cell = tuple[str, float]
CONTRASTS: dict[str, tuple[Cell, Cell]] = {
    "both": (("high", SMALL), ("low", LARGE)),
    "gamma_low_decay": (("low", SMALL), ("low", LARGE)),
    "gamma_high_decay": (("high", SMALL), ("high", LARGE)),
    "decay_large_init": (("high", LARGE), ("low", LARGE)),
    "decay_small_init": (("high", SMALL), ("low", SMALL)),
}
"""Name -> the two cells, (weight decay, gamma), of which the second is subtracted."""


def measure(run: Run, progress: bool = True) -> StudyResult:
    """Read the answers of every member of a finished run.

    Raises RunError where a checkpoint is missing or broken.
    """
    rows = cast(AdditionAndScanConfig, run.config).probe_rows
    found = measure_members(run, partial(read_member, probe_rows=rows), progress=progress)
    readings = readings_table(found.readings, contrasts(found.readings))
    return StudyResult(readings, arrays={**found.arrays, **arrays_over_seeds(found.arrays)})


def read_member(
    models: MemberModels, member: Member, probe_rows: int
) -> Iterator[tuple[str, str, Reading]]:
    """The answers of a member at its last step, of at most so many rows of each set."""
    models.load(member, "final")
    data, task = models.sweep.dataset(member.seed), models.sweep.config.task
    for set in data.sets:
        rows = data.sample(set, probe_rows)
        yield "final", set, answers(models.model, data, rows, untrained=models.untrained)
    if isinstance(task, AdditionTask):
        yield (
            "final",
            "",
            Reading("answers", {}, arrays={"sums": table_of_sums(models.model, task, data)}),
        )


def contrasts(readings: pd.DataFrame, held_out: Mapping[str, str] = HELD_OUT) -> pd.DataFrame:
    """Readings ``contrast`` of every task and seed, ``task:contrast``, of readings ``answers`` of
    all sweeps.

    A seed of which one of the two members has no finite reading has none.
    """
    rows, read = [], readings.loc[readings["probe"] == "answers"]
    for (task, set), (name, cells) in product(held_out.items(), CONTRASTS.items()):
        here = (
            read.query(
                f"sweep == '{task}_{decay}' and set == '{set}' and abs(gamma - {gamma}) < 1e-9"
            )
            for decay, gamma in cells
        )
        first, second = (cell.set_index("seed") for cell in here)
        for seed, difference in (first["value"] - second["value"]).dropna().items():
            place = {
                "gamma": np.nan,
                "seed": seed,
                "stage": "final",
                "step": first.loc[seed, "step"],
                "set": set,
            }
            rows += [
                {**place, **row}
                for row in Reading("contrast", {f"{task}:{name}": difference}).rows()
            ]
    return readings_table(rows)


def answers(
    model: HookedModel,
    data: Dataset,
    rows: Int[np.ndarray, " row"],
    *,
    untrained: HookedModel | None = None,
) -> Reading:
    """Share of rows whose whole answer is right, ``right``, in [0, 1]; NaN without rows.

    Args:
        model: any model that reads the dataset's tokens. data: whose labels are the answers. rows:
            which are read.
        untrained: the same model at step 0, read beside it; None for no comparison.
    """
    values = [
        {
            "right": float(right(one, data.tokens[rows], data.labels[rows]).mean())
            if len(rows)
            else np.nan
        }
        for one in (model, untrained)
        if one is not None
    ]
    return Reading("answers", values[0], untrained=dict(*values[1:]), n=len(rows))


def right(
    model: HookedModel, tokens: Int[np.ndarray, "row pos"], labels: Int[np.ndarray, "row ..."]
) -> Bool[np.ndarray, " row"]:
    """Which rows a model answers rightly: the most likely token is the answer's at each of its
    positions.

    Args:
        labels: ``[row]``, the answer at the last position; or ``[row, pos]``, the next token of the
            answer at each position, -1 where there is none.
    """
    inputs, device = as_rows(tokens), next(model.parameters()).device
    with torch.no_grad(), evaluation(model):
        parts = [
            model(rows.to(device)).argmax(-1).cpu() for rows in inputs.split(passes(model, inputs))
        ]
    found = torch.cat(parts).numpy()
    return found[:, -1] == labels if labels.ndim == 1 else ((found == labels) | (labels < 0)).all(1)


def table_of_sums(model: HookedModel, task: AdditionTask, data: Dataset) -> Bool[np.ndarray, "a b"]:
    """Whether a model answers a + b rightly, for all operands, or every so many where there are
    more than 100."""
    n = task.operands[1] - task.operands[0] + 1
    numbers = np.arange(0, n, -(-n // SIDE))
    rows = (numbers[:, None] * n + numbers).ravel()
    return right(model, data.tokens[rows], data.labels[rows]).reshape(len(numbers), -1)


COLOURS = {LARGE: kit.GAMMA_RAMP(0.0), SMALL: kit.GAMMA_RAMP(1.0)}
MARKERS = {"low": "o", "high": "s"}
CELLS = tuple((decay, gamma) for gamma in (LARGE, SMALL) for decay in DECAYS)
"""Weight decay and gamma."""
SETS = {
    "composites": "jump with other words\n(held out)",
    "seen_test": "other commands without jump\n(not trained)",
    "train": "trained on\n(dashed: what P2 asks for)",
}
LOW, HIGH = DECAYS.values()
LOOKS = {
    "both": ("both", "γ and weight decay together", kit.INK, "D"),
    "gamma_low_decay": (f"γ\nat\n{LOW:g}", f"γ alone ({SMALL:g} less {LARGE:g})", kit.BLUE, "o"),
    "gamma_high_decay": (f"γ\nat\n{HIGH:g}", "", kit.BLUE, "o"),
    "decay_large_init": (
        f"decay\nat\n{LARGE:g}",
        f"weight decay alone ({HIGH:g} less {LOW:g})",
        kit.RED,
        "s",
    ),
    "decay_small_init": (f"decay\nat\n{SMALL:g}", "", kit.RED, "s"),
}
"""Contrast -> tick, words in the legend, colour and marker."""


def cell_text(decay: str, gamma: float) -> str:
    """What a cell is called."""
    return f"γ = {gamma:g}, weight decay {DECAYS[decay]:g}"


def draw_shares(axes: Axes, evidence: Evidence, places: list[tuple[str, str]]) -> None:
    """The share of right answers of every member, cells beside each other around each place of the
    axis.

    ``places``: first part of the sweeps' names, and whose rows. Raises MissingEvidenceError where
    nothing was read.
    """
    named: set[str] = set()
    for place, (task, rows) in enumerate(places):
        for number, (decay, gamma) in enumerate(CELLS):
            sweep = evidence.sweep(f"{task}_{decay}")
            try:
                values = sweep.values("answers", "right", gamma, set=rows)
            except MissingEvidenceError:
                continue
            over, label = (
                sweep.interval("answers", "right", gamma, set=rows),
                cell_text(decay, gamma),
            )
            at, label = place + 0.2 * (number - 1.5), "" if label in named else label
            kit.dots(axes, at, values, over, COLOURS[gamma], MARKERS[decay], 0.04, label)
            named.add(label)
    if not named:
        raise MissingEvidenceError("This run has no readings of answers.")
    axes.set(xlim=(-0.55, len(places) - 0.45), ylim=(-0.03, 1.08))


def draw_commands(evidence: Evidence) -> Figure:
    """Exact match of every member: a panel for each set, numbers of rows from left to right."""
    figure, [axes] = kit.panels(1, len(SETS), 3.1, sharey=True)
    for one, (rows, title) in zip(axes, SETS.items(), strict=True):
        with kit.missing(one):
            draw_shares(one, evidence, [(f"scan_{size}", rows) for size in SIZES])
            sizes = [f"{evidence.sweep(f'scan_{size}_low').task.n_sequences:,}" for size in SIZES]
            one.set_xticks(range(len(SIZES)), sizes)
            one.set(title=title, xlabel="rows trained on")
            if rows == "train":
                kit.threshold(one, evidence, "P2", 1)
    axes[0].set_ylabel("exact match (share of commands)")
    kit.legend(figure, 2)
    return figure


def draw_sums(evidence: Evidence) -> Figure:
    """Share of seeds that answer each sum, a panel for each cell; the held-out block framed (after
    Fig. 17a)."""
    figure, axes = kit.panels(2, 2, 7.0, sharex=True, sharey=True)
    for one, (gamma, decay) in zip(
        axes.flat, ((g, d) for d in DECAYS for g in (LARGE, SMALL)), strict=True
    ):
        with kit.missing(one):
            sweep = evidence.sweep(f"addition_{decay}")
            sums = sweep.mean_array("answers", "sums", gamma, stage="final")
            kit.heat_map(one, sums, low=0, high=1, colours=kit.ATTENTION)
            task: AdditionTask = sweep.task
            (low, high), (first, last) = task.operands, task.block
            every = -(-(high - low + 1) // len(sums))  # operands between two that are shown
            start, side = (first - low) / every - 0.5, (last - first + 1) / every
            one.add_patch(Rectangle((start, start), side, side, fill=False, ec=kit.RED, lw=1.4))
            places = range(0, len(sums), -(-len(sums) // 5))
            one.set_xticks(places, [str(low + every * place) for place in places])
            one.set_yticks(places, [str(low + every * place) for place in places])
            one.set_ylim(-0.5, len(sums) - 0.5)
            block = mean_text(*sweep.spread("answers", "right", gamma, set="block"))
            one.set_title(f"{cell_text(decay, gamma)}\nblock: {block}")
    images = [image for one in axes.flat for image in one.images]
    if images:
        figure.colorbar(
            images[0], ax=axes, shrink=0.5, label="share of seeds that answer a + b rightly"
        )
    axes[0, 0].set_ylabel("first operand a")
    axes[1, 0].set(xlabel="second operand b", ylabel="first operand a")
    kit.legend(figure, 1, [Patch(fc="none", ec=kit.RED, lw=1.4, label="held-out block")])
    return figure


def draw_differences(evidence: Evidence) -> Figure:
    """The contrasts of every task and seed, with mean and interval."""
    figure, [axes] = kit.panels(1, len(TASKS), 3.0, sharey=True)
    for one, task in zip(axes, TASKS, strict=True):
        with kit.missing(one):
            for place, (name, (_, label, colour, marker)) in enumerate(LOOKS.items()):
                where = f"probe == 'contrast' and quantity == '{task}:{name}'"
                rows, means = (
                    table.query(where) for table in (evidence.readings, evidence.summary)
                )
                for over in map(kit.interval_of, means.to_dict("records")):
                    kit.dots(
                        one,
                        place - 0.1,
                        rows.sort_values("seed")["value"],
                        over,
                        colour,
                        marker,
                        0.14,
                        label,
                    )
            kit.zero(one)
            kit.threshold(one, evidence, "P1" if task == "addition" else "P2")
            one.set_xticks(range(len(LOOKS)), [tick for tick, *_ in LOOKS.values()], fontsize=5.5)
            one.set_title(task.replace("scan_", "commands, "))
    axes[0].set_ylabel("difference in the share right (held-out rows)")
    kit.legend(figure, 4)
    return figure


FIGURES = {"commands": draw_commands, "sums": draw_sums, "differences": draw_differences}
