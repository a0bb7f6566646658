"""Claims of complexity on planted spectra, eigenvalues and phases."""

from __future__ import annotations

from itertools import product

import pandas as pd
import pytest
import torch
from table_columns import COLUMNS, table_of

from rb_interp.claims import judge
from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.runs.results import readings_table
from rb_interp.statistics.reading import Reading
from rb_interp.studies.composite.claims import CLAIMS
from rb_interp.studies.composite.phase import final_rows
from rb_interp.studies.composite.representation import (
    complexity_contrast,
    growth,
    growth_order,
    phase_by_complexity,
    read_complexity,
)
from rb_interp.studies.composite.task import CompositeTask
from rb_interp.training.member_group import Member

pytestmark = pytest.mark.wide

BY_ID = {claim.id: claim for claim in CLAIMS}
NAMES = ("W_Q", "W_K", "W_V", "W_O", "W_in", "W_out")


def verdict(id: str, several):
    """The verdict on readings, or on those of several members."""
    readings = (
        several
        if isinstance(several, pd.DataFrame)
        else readings_table(final_rows(list(several), 9))
    )
    (found,) = judge(readings, [BY_ID[id]])
    return found


def spectra(numbers) -> pd.DataFrame:
    """Readings ``weight_spectra``: (gamma, seed, layer, matrix, its participation ratio, the
    untrained model's)."""
    return readings_table(
        final_rows(
            [
                (
                    gamma,
                    seed,
                    "",
                    Reading(
                        "weight_spectra",
                        {f"participation_{name}": now},
                        layer,
                        untrained={f"participation_{name}": first},
                    ),
                )
                for gamma, seed, layer, name, now, first in numbers
            ],
            9,
        )
    )


def matrices(participation) -> pd.DataFrame:
    """Spectra of members (gamma, seed), each number given by ``participation(gamma, seed,
    number)``."""
    return spectra(
        (gamma, seed, number // 6, NAMES[number % 6], participation(gamma, seed, number), 20.0)
        for gamma, seed, number in product((0.5, 0.8), range(8), range(12))
    )


MEMBERS = [Member(gamma, seed) for seed in range(8) for gamma in (0.5, 0.8)]


def condensed_queries(at: dict[float, float]) -> pd.DataFrame:
    """Readings of models whose first layer has that share of its queries' neurons on one line, half
    of them reversed.

    Every other layer, and every other matrix, is as it was drawn.
    """
    task, config = (
        CompositeTask.preset("smoke"),
        ModelConfig(d_model=64, d_head=32, d_mlp=16, norm="post"),
    )
    data, rows = task.dataset(0), []
    for gamma, share in at.items():
        models = [build_model(task, gamma=gamma, config=config) for _ in range(2)]
        queries, n = models[0].blocks[0].attn.W_Q.data[0], round(32 * share)
        queries[:, :n] = queries[:, :1] * torch.tensor([1.0, -1.0]).repeat(16)[:n]
        found = read_complexity(models[0], data, models[1], n_null=2)
        rows += final_rows(
            [(gamma, seed, "", reading) for reading in found for seed in range(8)], 9
        )
    return readings_table(rows)


def test_k1_asks_for_neurons_on_one_line_in_the_first_layer_s_queries():
    found = verdict("K1", condensed_queries({0.8: 0.75, 0.5: 0.0}))
    assert (found.outcome, found.untrained) == ("HOLDS", 0)
    assert found.effect == pytest.approx(24 * 23 / (32 * 31), abs=1e-6)
    assert [one.effect for one in found.context] == pytest.approx([24 * 11 / (32 * 31), 0.0])


@pytest.mark.parametrize(("lower", "outcome"), [(10, "HOLDS"), (9, "FAILS")])
def test_k2_counts_matrices_of_a_seed(lower, outcome):
    table = matrices(lambda gamma, seed, number: 10.0 if gamma == 0.8 and number < lower else 14.5)
    found = verdict("K2", complexity_contrast(table, MEMBERS))
    assert (found.outcome, found.effect, found.untrained) == (outcome, lower, 0)


def test_k2_counts_a_diverged_member_as_not_met():
    table = matrices(lambda gamma, seed, number: 1.0 if gamma == 0.8 else 2.0)
    table = table.loc[(table["gamma"] != 0.5) | (table["seed"] != 3)]
    found = verdict("K2", complexity_contrast(table, MEMBERS))
    assert dict(zip(found.seeds, found.met, strict=True)) == {seed: seed != 3 for seed in range(8)}
    assert not list(
        complexity_contrast(table, [member for member in MEMBERS if member.gamma == 0.8])
    )


def eigenvalues(steps, gamma: float = 0.8) -> pd.DataFrame:
    """Five eigenvalues that jump from 0 to 5, 4, ... at the given steps, of eight seeds; and a
    sixth that is small."""
    times = range(0, 60, 10)
    rows = [
        {
            "gamma": gamma,
            "seed": seed,
            "step": t,
            "rank": rank,
            "eigenvalue": (6.0 - rank) * (t >= at),
        }
        for seed, t, (rank, at) in product(range(8), times, enumerate((*steps, 0), 1))
    ]
    return table_of(COLUMNS["composite"]["eigenvalues"], rows)


@pytest.mark.parametrize(
    ("steps", "order", "outcome"),
    [((10, 30, 20, 40, 50), 0.9, "HOLDS"), ((50, 40, 30, 20, 10), -1, "FAILS")],
)
def test_k4_asks_whether_the_largest_eigenvalue_is_the_first(steps, order, outcome):
    assert growth(eigenvalues(steps)).query("seed == 0")["half_step"].to_list() == list(steps)
    found = verdict("K4", growth_order(eigenvalues(steps)))
    assert (found.outcome, found.effect) == (outcome, pytest.approx(order))


def members_of(phases: dict[float, str], numbers) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Spectra and phases: a letter a seed (i, s, m, u), and PR of L0's W_Q by phase, gamma and
    seed."""
    words = {"i": "inferential", "s": "symmetric", "m": "mixed", "u": "unfit"}
    rows = [
        (gamma, seed, words[x]) for gamma, text in phases.items() for seed, x in enumerate(text)
    ]
    found = spectra((g, s, 0, "W_Q", numbers(phase, g, s), 30.0 + s) for g, s, phase in rows)
    return found, pd.DataFrame(rows, columns=["gamma", "seed", "phase"])


def test_k8_compares_members_of_one_gamma_alone():
    """Inferential members have the higher number within each gamma; between gammas they would have
    the lower one."""
    found = members_of(
        {0.5: "ssssi", 0.8: "iiiis"},
        lambda phase, g, s: 100 * (g == 0.5) + 10 * (phase[0] == "i") + s,
    )
    ((*_, reading),) = phase_by_complexity(*found)
    assert (reading.values["auc"], reading.values["auc:low"], reading.n) == (0, 0, 8)
    assert reading.untrained == {"auc": 0.5}


@pytest.mark.parametrize(
    ("inferential", "symmetric", "outcome"), [(3, 5, "HOLDS"), (5, 3, "FAILS"), (5, 5, "FAILS")]
)
def test_k8_by_hand(inferential, symmetric, outcome):
    pr = {"inferential": inferential, "symmetric": symmetric, "mixed": 1, "unfit": 1}
    found = members_of({0.5: "is" * 10 + "mu", 0.8: "is" * 10}, lambda phase, g, s: pr[phase])
    judged = verdict("K8", phase_by_complexity(*found))
    assert (judged.outcome, judged.unit) == (outcome, "interval")
    assert judged.effect == {"HOLDS": 1.0}.get(outcome, 0.5 if inferential == symmetric else 0.0)
