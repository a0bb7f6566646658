"""The circuit that a member learned, named by attention and by cause, and its members' answers.

Thresholds were fixed beforehand. By attention:

    average-then-key   L0 averages when the rule is half learned (TV from 1/i <= .20 at stage
                       ``half``), and in L1 the last position looks at the key at the end
                       (>= .50): paper 1, Fig. 6
    key-to-anchors     L0 carries the key to the last anchor (>= .50 at the end), and in L1
                       the last position looks at the anchors (>= .50): paper 2, Fig. 3,
                       "inferential"
    mixed              neither of the two, or both
    none               accuracy on rsn_train < .50 at the end: nothing was learned that could be named

All on rsn_train inputs. Readings used: uniformity/tv (half, L0), attention_by_role/key and
attention_by_role/anchors (final, L1), attention_to_key/key_from_last_anchor (final, L0),
learning_order/acc_rsn_train (final). These are the layers of the claims, whatever the depth. Where
several heads of a layer were read, the one that shows the most counts: lowest TV, highest attention.

By cause: ``interventions.circuit_by_cause``, from the shares that ``routes`` reads at the end.
Whatever is grouped by circuit is grouped by this name.

How it can mislead. A name by attention sums up where the model looks, not what it uses: a model
whose attention is decorative gets the other circuit's name, and a head that writes nothing counts.
An untrained model at small initialisation averages perfectly and is ``none`` for its accuracy
alone; one that memorised and fails on the held-out rule can still be named, so read acc_rsn_test
beside it. Attention may be uniform at ``half`` and no longer at the end, so the stages belong to
the name. Where the last token is an anchor, looking at oneself is looking at an anchor.

Are two circuits two mechanisms? `measure_equivalence` compares the answers of their members to the
same rows, some of them unlike any that the members learned. At gamma .8, final, on rows of
`tasks.batteries`. With d_ab the share of rows that members a and b answer differently (argmax), a
seed's reading ``equivalence/<battery>`` is its mean over partners of other circuits less its mean
over partners of its own; NaN if it has no partner of one kind. The permutation test over members
and the means over pairs are those of `statistics.disagreement`. Members named ``none`` take no
part, since they learned nothing. ``mixed`` counts as a circuit like the others.

How that can mislead. Untrained models read about 0 too, at or near the bound of Q1, since their
later circuit says nothing of their answers: read the accuracy beside it. A circuit whose members
all fail on a battery, each in its own way, has a disagreement within itself that is as large as
that with others. Its seeds then read about 0, although the other circuit answers rightly: look at
the means of each circuit. ``mixed`` means that no rule fits; two such members need share nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from rb_interp.claims.claim import Term
from rb_interp.claims.samples import TermIndex, address
from rb_interp.errors import RunError
from rb_interp.interventions.circuits import (
    ACCURACY_MIN,
    CAUSE_RULES,
    CIRCUIT_RULES,
    SHARES,
    circuit_by_cause,
)
from rb_interp.interventions.edits import most_likely
from rb_interp.runs import Circuit
from rb_interp.runs.measurement import MemberModels, map_members
from rb_interp.runs.results import StudyResult, frame, readings_table
from rb_interp.runs.run import Run
from rb_interp.settings import SMALL
from rb_interp.statistics.disagreement import (
    between_less_within,
    disagreement,
    excess_disagreement,
    pair_means,
)
from rb_interp.statistics.reading import Reading
from rb_interp.tasks import Battery, batteries
from rb_interp.training.member_group import Member

TV_MAX = 0.20
"""L0 averages: mean total variation distance from 1/i at most this."""
KEY_MIN = 0.50
"""The last position fetches the key: at least this share of L1's attention."""
ANCHORS_MIN = 0.50
"""The last position reads the anchors: at least this share of L1's attention, over all anchors."""
CARRY_MIN = 0.50
"""L0 carries the key: at least this attention from the last anchor's position to the key."""

RULES = {
    "average-then-key": (
        f"L0's TV from 1/i at half <= {TV_MAX:.2f}, and L1's attention from the last "
        f"position to the key at the end >= {KEY_MIN:.2f}"
    ),
    "key-to-anchors": (
        f"L0's attention from the last anchor to the key >= {CARRY_MIN:.2f}, and L1's "
        f"attention from the last position to the anchors >= {ANCHORS_MIN:.2f}, both at the end"
    ),
    "mixed": "neither of the two, or both",
    "none": f"final accuracy on rsn_train < {ACCURACY_MIN:.2f}",
}
"""The names by attention and their rules in words."""
CIRCUITS = tuple(RULES)


SOURCES = {
    "tv_half": Term("uniformity", "tv", None, "half", "rsn_train", layer=0),
    "key_attention": Term("attention_by_role", "key", None, "final", "rsn_train", layer=1),
    "anchor_attention": Term("attention_by_role", "anchors", None, "final", "rsn_train", layer=1),
    "carry": Term("attention_to_key", "key_from_last_anchor", None, "final", "rsn_train", layer=0),
    "accuracy": Term("learning_order", "acc_rsn_train", None, "final"),
}
"""The numbers of the name by attention, of every gamma and head."""
ROUTES = {
    column: Term("routes", quantity, None, "final", "rsn_train")
    for column, quantity in SHARES.items()
}
"""The shares of the name by cause."""


def name_circuit(
    *, tv_half: float, key_attention: float, anchor_attention: float, carry: float, accuracy: float
) -> str:
    """Name the circuit of one member by attention, from five numbers in [0, 1].

    A nan meets no threshold.

    >>> keys = {"key_attention": 0.9, "anchor_attention": 0.05, "carry": 0.3}
    >>> name_circuit(tv_half=0.05, **keys, accuracy=1.0)
    'average-then-key'
    >>> anchors = {"key_attention": 0.1, "anchor_attention": 0.8, "carry": 0.9}
    >>> name_circuit(tv_half=0.6, **anchors, accuracy=1.0)
    'key-to-anchors'
    """
    if not accuracy >= ACCURACY_MIN:
        return "none"
    average_then_key = tv_half <= TV_MAX and key_attention >= KEY_MIN
    key_to_anchors = carry >= CARRY_MIN and anchor_attention >= ANCHORS_MIN
    if average_then_key == key_to_anchors:
        return "mixed"
    return "average-then-key" if average_then_key else "key-to-anchors"


def circuit_table(readings: pd.DataFrame) -> pd.DataFrame:
    """One row per member with final readings: its two names, and their numbers.

    ``circuit`` is the name by attention, ``cause`` the name by cause.

    Raises RunError if a member lacks one of the readings.
    """
    rows = []
    for _, member in readings.groupby(["gamma", "seed"], sort=True):
        if "final" not in member["stage"].to_list():
            continue
        numbers = {column: _number(member, quantity) for column, quantity in SOURCES.items()}
        shares = {column: _number(member, quantity) for column, quantity in ROUTES.items()}
        by_route = {SHARES[column]: share for column, share in shares.items()}
        row = {"gamma": member["gamma"].iloc[0], "seed": member["seed"].iloc[0]}
        row["circuit"] = name_circuit(**numbers)
        row["cause"] = circuit_by_cause(by_route, numbers["accuracy"])
        rows.append({**row, **numbers, **shares})
    columns = ["gamma", "seed", "circuit", "cause", *SOURCES, *ROUTES]
    return pd.DataFrame(rows, columns=columns)


def circuits(measured: StudyResult) -> dict[tuple[float, int], Circuit]:
    """Gamma and seed of a member -> its circuit by cause, with the shares of its rule."""
    members = {}
    for row in measured.tables["circuits"].to_dict("records"):
        shares = {SHARES[column]: float(row[column]) for column in ROUTES}
        member = (float(row["gamma"]), int(row["seed"]))
        members[member] = circuit_of(shares, float(row["accuracy"]))
    return members


def circuit_of(shares: Mapping[str, float], accuracy: float) -> Circuit:
    """The circuit by cause; its shares are the two of its rule, or all six if no rule fits.

    Args:
        shares, accuracy: as of ``circuit_by_cause``.

    >>> shares = {"key:from_key": 0.97, "anchors:L0_at_last": 0.8, "key:from_anchors": 0.1}
    >>> circuit_of(shares, accuracy=1.0).shares
    {'key:from_key': 0.97, 'anchors:L0_at_last': 0.8}
    """
    name = circuit_by_cause(shares, accuracy)
    columns = CIRCUIT_RULES[name].shares if name in CIRCUIT_RULES else ROUTES
    numbers = {SHARES[column]: float(shares.get(SHARES[column], np.nan)) for column in columns}
    return Circuit(name, "cause", CAUSE_RULES[name], numbers)


def circuit_of_seed(circuits: pd.DataFrame) -> dict[int, str]:
    """Seed -> circuit, by cause, of its member at gamma .8; seeds ascending."""
    members = circuits.query("abs(gamma - @SMALL) < 1e-9").sort_values("seed")
    return {int(row["seed"]): str(row["cause"]) for row in members.to_dict("records")}


def _number(member: pd.DataFrame, term: Term) -> float:
    """The number of a member, of the head that shows the most; RunError if it was not read."""
    term = replace(term, gamma=member["gamma"].iloc[0])
    rows = TermIndex(member).rows(term)
    if not len(rows):
        raise RunError(
            f"no circuit name: the readings lack {address(term)} of seed "
            f"{member['seed'].iloc[0]}. Run probe '{term.probe}' there first."
        )
    values = member["value"].to_numpy(dtype=np.float64)[rows]
    return float(values.min() if term.quantity == "tv" else values.max())


AnswersBySeed = Mapping[int, Int[np.ndarray, " row"]]
"""Seed -> answer of its member to each row of one battery."""
ByBattery = dict[str, dict[int, np.ndarray]]

COLUMNS = {
    "disagreement": (
        "battery:str gamma seed_a:int seed_b:int circuit_a:str circuit_b:str disagreement n"
    ),
    "disagreement_means": ("battery:str gamma circuit_a:str circuit_b:str mean smallest largest n"),
    "equivalence": (
        "battery:str gamma groups:str within between difference p_value n_relabelings:int "
        "exact:bool n_members:int"
    ),
    "battery_accuracy": "battery:str gamma seed circuit:str accuracy second_accuracy n",
}
"""Table -> its columns."""


def measure_equivalence(run: Run, circuits: pd.DataFrame, progress: bool = True) -> StudyResult:
    """Let every member at gamma .8 answer the battery, trained and untrained.

    The tables are empty if the run has no such member.
    """
    sweep = run.sweep()
    members = [member for member in sweep.sound_members if member.gamma == SMALL]
    battery = batteries(sweep.config.task) if members else {}

    def answer(models: MemberModels, member: Member) -> tuple[dict, dict]:
        models.load(member, "final")
        tokens = {name: rows.inputs.tokens for name, rows in battery.items()}
        now = {name: most_likely(models.model, tokens[name]) for name in battery}
        return now, {name: most_likely(models.untrained, tokens[name]) for name in battery}

    results = map_members(sweep, members, answer, progress=progress, desc="battery")
    answers: ByBattery = {name: {} for name in battery}
    untrained: ByBattery = {name: {} for name in battery}
    for member, (now, before) in zip(members, results, strict=True):
        for name in battery:
            answers[name][member.seed] = now[name]
            untrained[name][member.seed] = before[name]
    names = circuit_of_seed(circuits)
    return compare(battery, answers, untrained, names, sweep.config.train.steps)


def compare(
    battery: Mapping[str, Battery],
    answers: Mapping[str, AnswersBySeed],
    untrained: Mapping[str, AnswersBySeed],
    names: Mapping[int, str],
    step: int,
) -> StudyResult:
    """Readings and tables of answers.

    Args:
        battery: rows by name. answers, untrained: by the same names, of the members at the end and
            at step 0.
        names: seed -> circuit. step: the last one.
    """
    rows: dict[str, list[tuple]] = {table: [] for table in COLUMNS}
    readings = []
    for name, kind in battery.items():
        n = len(kind.inputs)
        seeds = [seed for seed in answers[name] if names[seed] != "none"]
        groups = [names[seed] for seed in seeds]
        now = _disagreement(answers[name], seeds)
        before = _disagreement(untrained[name], seeds)
        for a, b in combinations(range(len(seeds)), 2):
            pair = (seeds[a], seeds[b], groups[a], groups[b], now[a, b], n)
            rows["disagreement"].append((name, SMALL, *pair))
        for names_of_pairs, pairs in pair_means(now, groups).items():
            spread = (pairs.mean(), pairs.min(), pairs.max(), len(pairs))
            rows["disagreement_means"].append((name, SMALL, *names_of_pairs, *spread))
        counts = ", ".join(f"{group} {groups.count(group)}" for group in sorted({*groups}))
        test = between_less_within(now, groups)
        rows["equivalence"].append((name, SMALL, counts, *test, len(groups)))
        for seed, answer in answers[name].items():
            accuracy = (answer == kind.inputs.labels).mean()
            second = np.nan if kind.second is None else (answer == kind.second).mean()
            rows["battery_accuracy"].append((name, SMALL, seed, names[seed], accuracy, second, n))
        excess = dict(zip(seeds, excess_disagreement(now, groups), strict=True))
        start = dict(zip(seeds, excess_disagreement(before, groups), strict=True))
        for seed in answers[name]:
            values = {name: excess.get(seed, np.nan)}
            at_start = {name: start.get(seed, np.nan)}
            reading = Reading("equivalence", values, untrained=at_start, n=n)
            readings += reading.rows(gamma=SMALL, seed=seed, stage="final", step=step, set="")
    tables = {table: frame(rows[table], columns) for table, columns in COLUMNS.items()}
    return StudyResult(readings_table(readings), tables)


def _disagreement(
    answers: AnswersBySeed, seeds: Sequence[int]
) -> Float[np.ndarray, "member member"]:
    """Disagreement of the members of some seeds."""
    if not seeds:
        return np.zeros((0, 0))
    return disagreement(np.array([answers[seed] for seed in seeds]))
