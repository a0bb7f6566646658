"""Every reading on exact gauge copies: what is declared to depend on the basis of weights does, and nothing else."""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
import torch

from rb_interp.interventions.attention import average_beside, forced_average, pattern_of
from rb_interp.interventions.number_line import moves
from rb_interp.interventions.subspace import leading
from rb_interp.models import ModelConfig
from rb_interp.models.build import lens_model
from rb_interp.models.gauge import GAUGES, gauge_copy, gauges_of
from rb_interp.models.generations import write_weights
from rb_interp.models.reference import perturbed, reference
from rb_interp.models.schemes import parameters
from rb_interp.probes.token_typing import token_vectors
from rb_interp.probes.value_alignment import value_matrix
from rb_interp.statistics import random_directions
from rb_interp.studies.anchor import causes
from rb_interp.studies.anchor.checks import INTERVENTIONS
from rb_interp.studies.anchor.gauge_freedom import CHANGED_BY, changed_by, markdown
from rb_interp.studies.anchor.readings import plan
from rb_interp.tasks import AnchorTask

pytestmark = pytest.mark.lens

TASK = AnchorTask(
    length=7, keys=(21, 30), memory_anchors=(1, 5), reasoning_anchors=(11, 15), d_vocab=80, n_sequences=200
)
SAME, OTHER = 1e-6, 1e-5
"""Relative differences up to which a reading is the same, and from which on it is another."""
TABLES = ("ablations", "patching")
Found = dict[tuple[str, str, str], np.ndarray]
"""Reading, quantity, and where it was read -> numbers."""


def random_weights(config: ModelConfig) -> dict[str, torch.Tensor]:
    rng, sizes = np.random.default_rng(0), (TASK.d_vocab, TASK.length)
    return {p.name: torch.from_numpy(0.3 * rng.standard_normal(p.shape)) for p in parameters(config, *sizes)}


def probed(model, data) -> Found:
    """Every probe of the study; heads that were read in one layer, in ascending order of each number."""
    found: dict = {}
    for probe, set, where in plan(model.cfg.n_layers, model.cfg.n_heads):
        inputs = data.inputs(data.sample(set or "rsn_train", 30))
        reading = probe(model, inputs, n_null=0, **where)
        for quantity, value in reading.values.items():
            found.setdefault((reading.probe, quantity, f"{set} {where.get('layer')}"), []).append(value)
    return {place: np.sort(values) for place, values in found.items()}


def intervened(model, data, other, entropies) -> Found:
    """Every intervention of the study, on a model with one head."""
    given, found = causes._inputs(data, "rsn_train"), {}

    def effects() -> Iterator[causes.Found]:
        yield "forced_average", "rsn_train", forced_average(model, given, entropies, n_draws=2)
        yield "forced_average_matched", "rsn_train", average_beside(model, given, [other])
        yield from causes.value_subspaces(model, data)
        yield from causes.swaps(model, data)
        yield from causes.finished_circuit(model, data)

    for name, set, effect in effects():
        found |= {(name, "effect", set): effect.values, (name, "control", set): effect.control}
    found |= number_lines(model, data)
    for name, tables in (("ablations", causes.contributions(model, data)), ("patching", causes.matrices(model, data))):
        for number, table in enumerate(tables):
            found |= {(name, column, str(number)): table[column] for column in table.select_dtypes("number")}
    return {place: np.asarray(values, dtype=float) for place, values in found.items()}


def number_lines(model, data) -> Found:
    """What the number lines move, in units of the anchors' spread: answers of a model written by hand hardly notice."""
    vectors, found = token_vectors(model, data.task.tokens("reasoning_anchor")), {}
    centred, order = vectors - vectors.mean(0), np.arange(len(vectors))[::-1]
    lines = {"number_line": leading(value_matrix(model))[:, 0], "number_line_component": np.linalg.svd(centred)[2][0]}
    for name, line in lines.items():
        change = moves(vectors, order, line)
        other = moves(vectors, order, random_directions(1, len(line), np.random.default_rng(0))[0])
        other *= np.linalg.norm(change) / np.linalg.norm(other)
        for quantity, moved in (("effect", change), ("control", other)):
            found[name, quantity, "moves"] = moved @ moved.T / (centred**2).sum()
    return found


def difference(value: np.ndarray, other: np.ndarray) -> float:
    """Largest difference by the largest number, or by 1; what is not finite must be the same."""
    finite = np.isfinite(value)
    np.testing.assert_array_equal(value[~finite], other[~finite])
    value, other = value[finite], other[finite]
    return float(np.abs(value - other).max(initial=0) / np.abs(value).max(initial=1))


def check(before: Found, after: Found, name: str) -> set[tuple[str, str]]:
    """Fail where a reading changed that may not; return readings and quantities that did change."""
    differences = {place: difference(value, after[place]) for place, value in before.items()}
    for (reading, quantity, at), differs in differences.items():
        if name not in changed_by(reading, quantity):
            assert differs < SAME, (name, reading, quantity, at, differs)
    return {(reading, quantity) for (reading, quantity, _), differs in differences.items() if differs > OTHER}


def declared() -> set[tuple[str, str, str]]:
    return {
        (reading, pattern, name)
        for reading, changes in CHANGED_BY.items()
        for pattern, gauges in changes.items()
        for name in gauges
    }


def seen(changed: dict[str, set[tuple[str, str]]]) -> set[tuple[str, str, str]]:
    """Declarations of which at least one reading was seen to change."""
    found = set()
    for name, places in changed.items():
        for reading, quantity in places:
            pattern = next(pattern for pattern in CHANGED_BY[reading] if fnmatchcase(quantity, pattern))
            found.add((reading, pattern, name))
    return found


def test_probes_change_as_declared_and_not_otherwise():
    data, changed = TASK.dataset(0), {name: set() for name in GAUGES}
    normalised = ("value_basis", "embedding_shift", "coordinates", "mean_shift")
    for norm in ("none", "pre", "post"):
        config = ModelConfig(norm=norm, n_heads=2, d_model=16, d_head=6, d_mlp=24)
        weights = random_weights(config)
        model = lens_model(config, TASK.d_vocab, TASK.length, weights, torch.float64)
        before = probed(model, data)
        for name in gauges_of(config) if norm == "none" else normalised:
            write_weights(model, gauge_copy(weights, name, config))
            changed[name] |= check(before, probed(model, data), name)
    wanted = {(reading, pattern, name) for reading, pattern, name in declared() if reading not in INTERVENTIONS}
    assert seen(changed) == wanted


def test_interventions_change_as_declared_and_not_otherwise(few_interventions, monkeypatch):
    for few, number in (("ROWS", 12), ("PAIRS", 6), ("DRAWS", 2), ("MATCHED_DRAWS", 2)):
        monkeypatch.setattr(causes, few, number)
    known = perturbed(reference("averager", TASK), seed=0)
    data, model = known.task.dataset(0), known.model(torch.float64)
    tokens = causes._inputs(data, "rsn_train").tokens
    other = pattern_of(reference("carrier", TASK).model(torch.float64), tokens)
    changed = {name: set() for name in GAUGES}
    entropies = 0.5 * np.log(np.arange(1, TASK.length + 1))
    before = intervened(model, data, other, entropies)
    assert {reading for reading, *_ in before} == {*INTERVENTIONS, *TABLES}
    wanted, together = {place for place in declared() if place[0] in INTERVENTIONS}, dict(known.weights)
    for name in gauges_of(known.config):
        if name in {gauge for *_, gauge in wanted}:
            write_weights(model, gauge_copy(known.weights, name, known.config))
            changed[name] |= check(before, intervened(model, data, other, entropies), name)
        else:
            together = gauge_copy(together, name, known.config)
    write_weights(model, together)
    assert not check(before, intervened(model, data, other, entropies), "all that change no intervention, together")
    assert seen(changed) == wanted


def test_every_reading_has_its_row_and_the_page_the_same_table():
    read = {"uniformity", "attention_by_role", "attention_to_key", "value_alignment", "variance_explained", "geometry"}
    assert {probe.__name__ for probe, *_ in plan(2, 1)} == read
    assert set(CHANGED_BY) == {*read, *INTERVENTIONS, *TABLES, "learning_order"}
    assert {name for _, _, name in declared()} < set(GAUGES)
    page = (Path(__file__).parents[3] / "docs/probes.md").read_text()
    assert markdown() in page
