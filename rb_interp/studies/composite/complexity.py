"""How complex a member is (paper 2, Sec. 5.3, Figs. 5, 10, 12 and 13): neurons, matrices and items.

    weight_spectra       participation ratio and stable rank of every matrix of every layer
    condensation         cosines of the neurons of every matrix of every layer
    lattice              the items' embeddings: order, steps, participation ratio

How they can mislead. The numbers of single factors depend on the basis of their weights, see
``probes.weight_spectra``. An eigenvalue that shrinks starts above half of its final value: its step
is 0. Eigenvalues are sorted at each evaluation, so two that cross are told apart by size alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pandas as pd

from rb_interp.models.protocol import HookedModel
from rb_interp.probes._lattice import lattice
from rb_interp.probes.embeddings import spearman
from rb_interp.probes.weights import condensation, layer_matrices, weight_spectra
from rb_interp.runs.results import frame
from rb_interp.statistics.intervals import Auc, stratified_auc
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.config import MAX_RATIO, MIDDLE, N_MATRICES, SMALL
from rb_interp.studies.composite.phase import INFERENTIAL, SYMMETRIC, MemberReading
from rb_interp.studies.composite.task import CompositeDataset
from rb_interp.training.member_group import Member

LEADING = 5
"""Eigenvalues of the items' covariance that are followed, the ones that end largest."""
HALF = 0.5


def read_complexity(
    model: HookedModel, data: CompositeDataset, untrained: HookedModel, n_null: int = 50
) -> list[Reading]:
    """Spectra and condensation of every matrix, layer by layer, and the layout of the items.

    Arrays: those of `lattice`, and the cosines of L0's W_Q neurons with their groups.
    """
    readings = []
    for layer in range(model.cfg.n_layers):
        spectra = weight_spectra(model, layer=layer, untrained=untrained)
        readings.append(replace(spectra, arrays={}))
        matrices = tuple(layer_matrices(model, layer))
        cosines = condensation(
            model, layer=layer, untrained=untrained, n_null=n_null, matrices=matrices
        )
        arrays = {}
        if layer == 0:
            for name in ("cosines_W_Q", "group_W_Q"):
                arrays[name] = np.float32(cosines.arrays[name])
        readings.append(replace(cosines, arrays=arrays))
    items = data.task.tokens("key")
    readings.append(lattice(model, untrained=untrained, tokens=items, n_null=n_null))
    return readings


def growth(eigenvalues: pd.DataFrame) -> pd.DataFrame:
    """Final value and step of half of it, for each member's five eigenvalues that end largest.

    ``half_step`` is NaN if an evaluation is not known.
    """
    rows = []
    leading = eigenvalues.loc[eigenvalues["rank"] <= LEADING].sort_values("step", kind="stable")
    for place, curve in leading.groupby(["gamma", "seed", "rank"], sort=False):
        values = curve["eigenvalue"].to_numpy()
        half_step = np.nan
        if np.isfinite(values).all():
            half_step = curve["step"].iloc[np.argmax(values >= HALF * values[-1])]
        rows.append((*cast(tuple, place), values[-1], half_step))
    return frame(rows, "gamma seed rank:int final half_step")


def growth_order(eigenvalues: pd.DataFrame) -> Iterator[MemberReading]:
    """Readings ``eigenvalue_growth``, one a member of the table ``eigenvalues``.

    ``order``: Spearman(rank, step) over the five eigenvalues of the items' covariance that end
    largest, rank 1 the largest, step the first evaluation at half of the final value or above.
    """
    for place, member in growth(eigenvalues).groupby(["gamma", "seed"], sort=False):
        order = np.nan
        if len(member) == LEADING:
            order = spearman(member["rank"].to_numpy(), member["half_step"].to_numpy())
        reading = Reading("eigenvalue_growth", {"order": order}, n=len(member))
        yield *cast(tuple, place), "", reading


def complexity_contrast(
    readings: pd.DataFrame, members: Sequence[Member]
) -> Iterator[MemberReading]:
    """Readings ``complexity_contrast``, one a seed with members at both gammas.

    ``matrices_lower``: of the 12 matrices of two layers, those whose participation ratio at gamma
    .8 is at most .7 times that at .5; 0 if a member of the two diverged.
    """
    spectra = readings.loc[readings["probe"] == "weight_spectra"]
    ratios = spectra.loc[spectra["quantity"].str.startswith("participation_")]
    for seed in dict.fromkeys(member.seed for member in members):
        if not {Member(SMALL, seed), Member(MIDDLE, seed)} <= set(members):
            continue
        small = _by_matrix(ratios, SMALL, seed)
        middle = _by_matrix(ratios, MIDDLE, seed)
        if {len(small), len(middle)} <= {0, N_MATRICES}:
            lower = (small / middle <= MAX_RATIO).sum().to_dict()
            values = {"matrices_lower": float(lower["value"])}
            before = {"matrices_lower": float(lower["untrained"])}
            reading = Reading("complexity_contrast", values, untrained=before, n=N_MATRICES)
            yield np.nan, seed, "", reading


def _by_matrix(ratios: pd.DataFrame, gamma: float, seed: int) -> pd.DataFrame:
    """Participation ratios of a member, trained and untrained, by layer and matrix."""
    member = ratios.loc[np.isclose(ratios["gamma"], gamma) & (ratios["seed"] == seed)]
    return member.set_index(["layer", "quantity"])[["value", "untrained"]]


def phase_by_complexity(readings: pd.DataFrame, phases: pd.DataFrame) -> Iterator[MemberReading]:
    """The reading ``phase_by_complexity``, the number of K8; none if no gamma has both phases.

    ``auc``: the chance that an inferential member has a lower participation ratio of L0's W_Q than
    a symmetric one of the same gamma, with the ends ``auc:low`` and ``auc:high`` of its interval,
    see ``statistics.intervals``.
    """
    spectra = readings.loc[(readings["probe"] == "weight_spectra") & (readings["layer"] == 0)]
    ratios = spectra.loc[spectra["quantity"] == "participation_W_Q"]
    ratios = ratios[["gamma", "seed", "value", "untrained"]]
    members = phases[["gamma", "seed", "phase"]].merge(ratios).dropna()
    now = _auc(members, "value")
    if now.n_pairs:
        values = {"auc": now.value, "auc:low": now.low, "auc:high": now.high}
        before = {"auc": _auc(members, "untrained").value}
        reading = Reading("phase_by_complexity", values, untrained=before, n=now.n_pairs)
        yield np.nan, 0, "", reading


def _auc(members: pd.DataFrame, column: str) -> Auc:
    """How well a number tells inferential from symmetric members of the same gamma."""
    groups = []
    for _, same_gamma in members.groupby("gamma"):
        values = same_gamma.set_index("phase")[column]
        inferential = values[values.index == INFERENTIAL].tolist()
        groups.append((inferential, values[values.index == SYMMETRIC].tolist()))
    return stratified_auc(groups)


def eigenvalue_table(spectra: pd.DataFrame, members: Sequence[Member]) -> pd.DataFrame:
    """The table ``eigenvalues``: those of the items of the given members, stored in training."""
    items = spectra.loc[spectra["group"] == "items"]
    known = set(members)
    places = zip(items["gamma"], items["seed"], strict=True)
    selected = [Member(gamma, seed) in known for gamma, seed in places]
    items = items.loc[np.array(selected, dtype=bool)]
    return frame(items, "gamma seed step rank:int eigenvalue")
