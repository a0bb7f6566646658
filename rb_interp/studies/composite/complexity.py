"""How complex a member is: neurons, matrices and items' embeddings (paper 2, Sec. 5.3, Figs. 5, 10, 12, 13 and 15).

    weight_spectra       participation ratio and stable rank of every matrix of every layer
    condensation         cosines of the neurons of every matrix of every layer
    lattice              the items' embeddings: order, steps, participation ratio
    eigenvalue_growth    `order`: Spearman(rank, step) over the five eigenvalues of the items' covariance that end
                         largest, rank 1 the largest, step the first evaluation at half of the final value or above

Readings of all gammas together, whose gamma is NaN:

    complexity_contrast  `matrices_lower`, one a seed: of the 12 matrices of two layers, those whose participation
                         ratio at gamma .8 is at most .7 times that at .5; 0 where a member of the two diverged
    phase_by_complexity  `auc`: the chance that an inferential member has a lower participation ratio of L0's W_Q than a
                         symmetric one of the same gamma, with the ends `auc:low` and `auc:high` of its interval

K8 is judged on this interval, which holds for any number of members, see ``statistics.groups``. A gamma without both
phases gives no pair.

How it can mislead. The numbers of single factors depend on the basis of their weights, see
``probes.weight_spectra``. An eigenvalue that shrinks starts above half of its final value: its step is 0. Eigenvalues
are sorted at each evaluation, so two that cross are told apart by size alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd

from rb_interp.models.protocol import HookedModel
from rb_interp.probes.embeddings import lattice
from rb_interp.probes.vectors import spearman
from rb_interp.probes.weights import condensation, layer_matrices, weight_spectra
from rb_interp.runs.measured import OVER_SEEDS, frame, over_seeds, readings_table
from rb_interp.statistics.groups import stratified_auc
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.config import MIDDLE, SMALL
from rb_interp.studies.composite.phase import INFERENTIAL, SYMMETRIC
from rb_interp.studies.composite.rows import CompositeDataset
from rb_interp.training.member_group import Member

ITEMS = "items"
"""The items' name among the groups of tokens whose spectrum training keeps."""
LEADING, HALF = 5, 0.5
LOWER = 0.7
"""K2's bound of PR(gamma .8) / PR(gamma .5)."""
TWO_LAYERS = 12
DRAWS = 50
SUMMED = ("participation", "participation_untrained", "stable_rank", "stable_rank_untrained", "condensed",
          "condensed_signed", "condensed_untrained")  # fmt: skip


def read_complexity(
    model: HookedModel, data: CompositeDataset, untrained: HookedModel, n_null: int = DRAWS
) -> list[Reading]:
    """Spectra and condensation of every matrix, layer by layer, and the layout of the items."""
    found = []
    for layer in range(model.cfg.n_layers):
        names = tuple(layer_matrices(model, layer))
        found.append(weight_spectra(model, layer=layer, untrained=untrained))
        found.append(condensation(model, layer=layer, untrained=untrained, n_null=n_null, matrices=names))
    items = data.task.tokens("key")
    return [*found, lattice(model, untrained=untrained, tokens=items, n_null=n_null)]


def matrix_rows(layers: Iterable[Reading]) -> list[dict[str, Any]]:
    """Rows of ``matrices`` for a member: the two readings of every layer, side by side."""
    by_layer: dict[int | None, dict[str, Reading]] = {}
    for reading in layers:
        by_layer.setdefault(reading.layer, {})[reading.probe] = reading
    rows = []
    for layer, found in by_layer.items():
        spectra, cos = found["weight_spectra"], found["condensation"]
        names = [name.removeprefix("participation_") for name in spectra.values if name.startswith("participation_")]
        for name in names:
            numbers = {
                "participation": (spectra, f"participation_{name}"), "stable_rank": (spectra, f"stable_rank_{name}"),
                "condensed": (cos, f"share_abs_{name}"), "condensed_signed": (cos, f"share_{name}"),
                "groups": (cos, f"groups_{name}"),
            }  # fmt: skip
            now = {column: reading.values[quantity] for column, (reading, quantity) in numbers.items()}
            first = {f"{c}_untrained": reading.untrained[q] for c, (reading, q) in numbers.items()}
            rows.append({"layer": layer, "matrix": name, **now, **first})
    return rows


def growth(eigenvalues: pd.DataFrame) -> pd.DataFrame:
    """The table ``growth``: final value and step of half of it, for the five eigenvalues that end largest.

    ``half_step`` is NaN where an evaluation is not known.
    """
    rows = []
    for place, here in eigenvalues.groupby(["gamma", "seed", "rank"], sort=False):
        gamma, seed, rank = cast(tuple, place)
        if rank > LEADING:
            continue
        here = here.sort_values("step")
        values, steps = here["eigenvalue"].to_numpy(), here["step"].to_numpy()
        known = np.isfinite(values).all()
        half = float(steps[np.argmax(values >= HALF * values[-1])]) if known else np.nan
        rows.append({"gamma": gamma, "seed": seed, "rank": rank, "final": values[-1], "half_step": half})
    return frame(rows, "gamma seed rank:int final half_step")


def growth_readings(found: pd.DataFrame, step: int) -> pd.DataFrame:
    """Readings ``eigenvalue_growth``, one a member of the table ``growth``."""
    rows = []
    for member, here in found.groupby(["gamma", "seed"], sort=False):
        gamma, seed = cast(tuple, member)
        steps = here["half_step"].to_numpy()
        order = spearman(here["rank"].to_numpy(), steps) if len(here) == LEADING else np.nan
        place = {"gamma": gamma, "seed": seed, "stage": "final", "step": step, "set": ""}
        rows += [{**place, **row} for row in Reading("eigenvalue_growth", {"order": order}, n=len(here)).rows()]
    return readings_table(rows)


def contrast_readings(matrices: pd.DataFrame, members: Sequence[Member], step: int) -> pd.DataFrame:
    """Readings ``complexity_contrast``, one a seed with members at both gammas.

    Args:
        matrices: the table of that name. members: all of the run, diverged ones included. step: the last one.
    """
    rows = []
    for seed in dict.fromkeys(member.seed for member in members):
        if not {Member(SMALL, seed), Member(MIDDLE, seed)} <= set(members):
            continue
        small, middle = (_of(matrices, gamma, seed) for gamma in (SMALL, MIDDLE))
        if len(small) not in (0, TWO_LAYERS) or len(middle) not in (0, TWO_LAYERS):
            continue
        lower = {
            column: float(np.sum((small[column] / middle[column]).to_numpy() <= LOWER))
            for column in ("participation", "participation_untrained")
        }
        reading = Reading(
            "complexity_contrast",
            {"matrices_lower": lower["participation"]},
            untrained={"matrices_lower": lower["participation_untrained"]},
            n=TWO_LAYERS,
        )
        place = {"gamma": np.nan, "seed": seed, "stage": "final", "step": step, "set": ""}
        rows += [{**place, **row} for row in reading.rows()]
    return readings_table(rows)


def _of(matrices: pd.DataFrame, gamma: float, seed: int) -> pd.DataFrame:
    """The matrices of a member, by layer and name."""
    here = matrices.loc[np.isclose(matrices["gamma"], gamma) & (matrices["seed"] == seed)]
    return here.set_index(["layer", "matrix"])


def by_phase(
    phases: pd.DataFrame, matrices: pd.DataFrame, layer: int, matrix: str, column: str = "participation"
) -> list[tuple[list[float], list[float]]]:
    """Numbers of a matrix of inferential and of symmetric members, for each gamma with both, in the order of seeds."""
    here = matrices.loc[(matrices["layer"] == layer) & (matrices["matrix"] == matrix)]
    numbers = ["participation", "participation_untrained"]
    joined = phases[["gamma", "seed", "phase"]].merge(here[["gamma", "seed", *numbers]]).sort_values("seed")
    joined = joined.loc[np.isfinite(joined[numbers]).all(axis=1)]
    found = []
    for _, members in joined.groupby("gamma", sort=True):
        groups = [members.loc[members["phase"] == phase, column].tolist() for phase in (INFERENTIAL, SYMMETRIC)]
        found += [(groups[0], groups[1])] if all(groups) else []
    return found


def phase_readings(phases: pd.DataFrame, matrices: pd.DataFrame, step: int) -> pd.DataFrame:
    """The reading ``phase_by_complexity``, the number of K8 with its interval; none where no gamma has both phases."""
    now, first = (by_phase(phases, matrices, 0, "W_Q", f"participation{end}") for end in ("", "_untrained"))
    if not now:
        return readings_table([])
    found, before = stratified_auc(now), stratified_auc(first)
    values = {"auc": found.value, "auc:low": found.low, "auc:high": found.high}
    reading = Reading("phase_by_complexity", values, untrained={"auc": before.value}, n=found.n_pairs)
    place = {"gamma": np.nan, "seed": 0, "stage": "final", "step": step, "set": ""}
    return readings_table([{**place, **row} for row in reading.rows()])


def phase_auc(phases: pd.DataFrame, matrices: pd.DataFrame) -> pd.DataFrame:
    """The table ``phase_auc``: for every matrix the chance that an inferential member's participation ratio is lower.

    Over pairs of members of the same gamma; low and high are the interval of ``statistics.groups``.
    """
    rows = []
    names = matrices[["layer", "matrix"]].drop_duplicates()
    for layer, matrix in names.itertuples(index=False):
        now, first = (by_phase(phases, matrices, layer, matrix, f"participation{end}") for end in ("", "_untrained"))
        if now:
            found = stratified_auc(now)
            row = {"layer": layer, "matrix": matrix, "auc": found.value, "low": found.low, "high": found.high}
            row |= {"untrained": stratified_auc(first).value, "n": found.n_pairs, "gammas": len(now)}
            row |= {"inferential": sum(len(a) for a, _ in now), "symmetric": sum(len(b) for _, b in now)}
            rows.append(row)
    return frame(rows, "layer:int matrix:str auc low high untrained n gammas:int inferential:int symmetric:int")


def eigenvalue_table(spectra: pd.DataFrame, members: Sequence[Member]) -> pd.DataFrame:
    """The table ``eigenvalues``: those of the items of the given members, from what training kept."""
    here = spectra.loc[spectra["group"] == ITEMS]
    kept = [Member(gamma, seed) in set(members) for gamma, seed in zip(here["gamma"], here["seed"], strict=True)]
    return frame(here.loc[np.array(kept, dtype=bool)], "gamma seed step rank:int eigenvalue")


def complexity_summaries(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Tables of complexity over members."""
    matrices = over_seeds(tables["matrices"], ["gamma", "layer", "matrix"], list(SUMMED))
    eigenvalues = over_seeds(tables["eigenvalues"], ["gamma", "step", "rank"], ["eigenvalue"])
    return {
        "matrices_summary": frame(matrices, f"gamma layer:int matrix:str quantity {OVER_SEEDS}"),
        "eigenvalues_summary": frame(eigenvalues, f"gamma step rank:int quantity {OVER_SEEDS}"),
        "growth": growth(tables["eigenvalues"]),
        "phase_auc": phase_auc(tables["phases"], tables["matrices"]),
    }


def complexity_arrays(found: Sequence[tuple[Member, Reading]]) -> dict[str, np.ndarray]:
    """What figures draw: items and singular values of every member, neurons of L0's W_Q of each gamma's first member.

    ``singular_values_L0_W_Q`` and so on, descending.
    """
    arrays, drawn = {}, set()
    for member, reading in found:
        prefix = f"{member.gamma}/{member.seed}/final//{reading.probe}"
        if reading.probe == "lattice":
            arrays |= {f"{prefix}/{name}": array for name, array in reading.arrays.items()}
        elif reading.probe == "weight_spectra":
            for name, array in reading.arrays.items():
                kind, _, matrix = name.partition("_values_")
                arrays[f"{prefix}/{kind}_values_L{reading.layer}_{matrix}"] = np.asarray(array, dtype=np.float32)
        elif reading.probe == "condensation" and reading.layer == 0 and member.gamma not in drawn:
            drawn.add(member.gamma)
            names = ("cosines_W_Q", "group_W_Q")
            arrays |= {f"{prefix}/{name}": np.asarray(reading.arrays[name], dtype=np.float32) for name in names}
    return arrays
