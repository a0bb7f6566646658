"""Every reading on exact gauge copies: what is declared to depend on the basis of weights does, and nothing else."""

import inspect
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
import torch

from rb_interp import probes
from rb_interp.interventions.attention import average_beside, forced_average, pattern_of
from rb_interp.interventions.interchanging import most_likely
from rb_interp.interventions.number_line import moves
from rb_interp.interventions.route_shares import anchor_routes, routes
from rb_interp.interventions.subspace import leading
from rb_interp.models import ModelConfig
from rb_interp.models.build import lens_model
from rb_interp.models.gauge import GAUGES, gauge_copy, gauges_of
from rb_interp.models.generations import write_weights
from rb_interp.models.reference import perturbed, reference
from rb_interp.models.schemes import parameters
from rb_interp.probes.alignment import value_matrix
from rb_interp.probes.chain import ChainInputs, Encoded
from rb_interp.probes.gauge_freedom import markdown
from rb_interp.probes.spectra import MATRICES
from rb_interp.probes.token_typing import token_vectors
from rb_interp.statistics import random_directions
from rb_interp.studies.anchor import causes
from rb_interp.studies.anchor.checks import INTERVENTIONS
from rb_interp.studies.anchor.equivalence import compare
from rb_interp.studies.anchor.gauge_freedom import CHANGED_BY, changed_by
from rb_interp.studies.anchor.readings import plan
from rb_interp.tasks import AnchorTask, Inputs
from rb_interp.tasks.battery import batteries

pytestmark = [pytest.mark.lens, pytest.mark.wide]

TASK = AnchorTask(
    length=7, keys=(21, 30), memory_anchors=(1, 5), reasoning_anchors=(11, 15), d_vocab=80, n_sequences=200
)
SAME, OTHER = 1e-6, 1e-5
"""Relative differences up to which a reading is the same, and from which on it is another."""
TABLES = ("ablations", "patching")
ROWS = 24
BATTERY = batteries(TASK, rows=30)
COUNTS = np.zeros((2, TASK.d_vocab), dtype=np.int64)
"""How often each token stands in two corpora: 25 tokens of the first, 45 of the second, 10 of both."""
COUNTS[0, :25], COUNTS[1, 25:70], COUNTS[:, 70:] = np.arange(900, 400, -20), np.arange(1200, 300, -20), 500
TEXT = np.random.default_rng(1).choice(TASK.d_vocab, (30, 60), p=COUNTS.sum(0) / COUNTS.sum())
VECTORS = ("blocks.1.hook_resid_mid", "blocks.1.attn.hook_v")
Found = dict[tuple[str, str, str], np.ndarray]
"""Reading, quantity, and where it was read -> numbers."""


def random_weights(config: ModelConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    rng, sizes = np.random.default_rng(seed), (TASK.d_vocab, TASK.length)
    drawn = {p.name: torch.from_numpy(0.3 * rng.standard_normal(p.shape)) for p in parameters(config, *sizes)}
    return {name: weight + name.endswith(".w") for name, weight in drawn.items()}  # LayerNorm's own are about 1


def near(weights, others) -> dict[str, torch.Tensor]:
    """Weights of a model that answers some rows differently."""
    return {name: weights[name] + 0.2 * others[name] for name in weights}


def probed(model, data) -> Found:
    """Every probe of the study; heads that were read in one layer, in ascending order of each number."""
    found: dict = {}
    for probe, set, where in plan(model.cfg.n_layers, model.cfg.n_heads):
        inputs = data.inputs(data.sample(set or "rsn_train", 30))
        reading = probe(model, inputs, n_null=0, **where)
        for quantity, value in reading.values.items():
            found.setdefault((reading.probe, quantity, f"{set} {where.get('layer')}"), []).append(value)
    return {place: np.sort(values) for place, values in found.items()}


class Asked:
    """What the readings of a model are asked on; right answers, and the text of chains, are the model's own."""

    def __init__(self, model, others, data) -> None:
        given = data.inputs(data.sample("rsn_train", ROWS))
        other = np.roll(given.tokens, 1, 0)  # another row, but for the last token
        other[:, -1] = given.tokens[:, -1]
        answers, changed = (most_likely(model, tokens) for tokens in (given.tokens, other))
        self.others = others
        self.given, self.changed = Inputs(given.tokens, answers, given.roles), Inputs(other, changed, given.roles)
        self.labelled = Inputs(given.tokens, np.where(np.arange(ROWS) % 2, answers, changed), given.roles)
        self.chains = chains(model)
        self.answers = {
            name: {seed: most_likely(m, rows.inputs.tokens) for seed, m in others.items()}
            for name, rows in BATTERY.items()
        }


def chains(model) -> ChainInputs:
    """Texts that the model itself continues, after some random tokens, and the two answers that it is asked for."""
    texts = np.random.default_rng(2).integers(0, TASK.d_vocab, (12, 8))
    for row, text in enumerate(texts):
        for at in range(1 + row % 6, 8):
            text[at] = most_likely(model, text[None, :at])[0]
    kinds = ("premise", "rule", "conclusion")
    encoded = [Encoded(text, ((3, 5), (5, 6), (6, 7)), kinds, 7, bool(row % 2), 1) for row, text in enumerate(texts)]
    return ChainInputs(texts, texts[:, 7], examples=tuple(encoded), words=(int(texts[0, 7]), int(texts[1, 7])))


def general(model, asked: Asked) -> Found:
    """Probes that no plan of the study has, the routes, and what a member answers beside others."""
    untrained, groups, ranges = asked.others[1], np.arange(ROWS) % 2, [(0, 39), (20, 79)]
    read = [
        (probes.label_range, asked.labelled, {"groups": groups, "ranges": ranges}),
        (probes.token_similarity, None, {"counts": COUNTS, "n_draws": 0}),
        (probes.embedding_rank, None, {"counts": COUNTS, "untrained": untrained}),
        *((probes.weight_rank, None, {"layer": layer}) for layer in range(model.cfg.n_layers)),
        *((probes.weight_spectra, None, {"layer": layer}) for layer in range(model.cfg.n_layers)),
        *((probes.condensation, None, {"layer": layer, "matrices": MATRICES}) for layer in range(model.cfg.n_layers)),
        (probes.lattice, None, {"tokens": np.arange(30, 60), "untrained": untrained}),
        (probes.next_token, Inputs(TEXT), {"counts": COUNTS}),
        (probes.chain_accuracy, asked.chains, {}),
        *((probes.cosines_by_target, asked.given, {"hook": hook, "targets": groups}) for hook in VECTORS),
    ]
    found = {}
    for number, (probe, inputs, options) in enumerate(read):
        reading = probe(model, inputs, n_null=0, **options)
        for name in {probe.__name__, reading.probe}:
            found |= {(name, quantity, str(number)): [value] for quantity, value in reading.values.items()}
    for quantity, value in routes(model, asked.given, {"row": asked.changed}).values.items():
        found["routes", quantity, "row"] = [value]
    answers = {name: {0: most_likely(model, BATTERY[name].inputs.tokens)} | asked.answers[name] for name in BATTERY}
    for row in compare(BATTERY, answers, answers, {0: "a", 1: "a", 2: "b", 3: "b"}, 0).readings:
        found["equivalence", row["quantity"], str(row["seed"])] = [row["value"]]
    return {place: np.array(values) for place, values in found.items()}


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
    shares = anchor_routes(model, data, n=12).values
    found |= {("routes", quantity, "rsn_train"): value for quantity, value in shares.items()}
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


def write_copy(model, weights, tokens) -> None:
    """Give the model the weights of a copy, whose logits must be those that it had."""
    with torch.no_grad():
        before = model(torch.as_tensor(tokens))
        write_weights(model, weights)
        assert (model(torch.as_tensor(tokens)) - before).abs().max() < 1e-10


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
        weights, sizes = random_weights(config), (TASK.d_vocab, TASK.length)
        model = lens_model(config, *sizes, weights, torch.float64)
        others = {seed: near(weights, random_weights(config, seed)) for seed in (1, 2, 3)}
        asked = Asked(model, {s: lens_model(config, *sizes, w, torch.float64) for s, w in others.items()}, data)

        def read(model=model, asked=asked) -> Found:
            return probed(model, data) | general(model, asked)

        before = read()
        assert before["routes", "row:rows", "row"] >= 3
        for name in gauges_of(config) if norm == "none" else normalised:
            write_copy(model, gauge_copy(weights, name, config), asked.given.tokens)
            changed[name] |= check(before, read(), name)
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
    assert {reading for reading, *_ in before} == {*INTERVENTIONS, *TABLES, "routes"}
    wanted, together = {place for place in declared() if place[0] in INTERVENTIONS}, dict(known.weights)
    for name in gauges_of(known.config):
        if name in {gauge for *_, gauge in wanted}:
            write_copy(model, gauge_copy(known.weights, name, known.config), tokens)
            changed[name] |= check(before, intervened(model, data, other, entropies), name)
        else:
            together = gauge_copy(together, name, known.config)
    write_copy(model, together, tokens)
    assert not check(before, intervened(model, data, other, entropies), "all that change no intervention, together")
    assert seen(changed) == wanted


def test_every_reading_has_its_row_and_the_page_the_same_table():
    every = {name: inspect.signature(getattr(probes, name)).return_annotation for name in probes.__all__[2:]}
    read = {name for name, returned in every.items() if returned == "Reading"}
    assert {probe.__name__ for probe, *_ in plan(2, 1)} < read
    others = {"chain", "routes", "equivalence", "learning_order"}
    assert set(CHANGED_BY) == {*read, *INTERVENTIONS, *TABLES, *others}
    assert {name for _, _, name in declared()} < set(GAUGES)
    page = (Path(__file__).parents[3] / "docs/probes.md").read_text()
    assert markdown(CHANGED_BY) in page
