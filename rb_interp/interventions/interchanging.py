r"""Does a site carry the key, or the sum?  (claim M9: L1's attention brings the key, L0's the sum)

Interchange intervention: run a base input with a site's activation taken from a source input, role to role. If the site
carries the key and nothing else of the source reaches the answer, the answer becomes

    key: z_source + (sum of the anchors)_base            sum: z_base + (sum of the anchors)_source

The two circuits of the anchor task carry them at different sites, CARRIERS. In average-then-key the last position gets
the sum from L0's attention and the key from the last layer's. In key-to-anchors L0's attention brings the key
to the anchors' positions, whose own embeddings bring the sum: there the anchors' embedding is taken from the source
while L0's attention is held as it was at all positions, so that the anchors reach the last one through later
layers alone. An embedding holds its position too, so these pairs share it.

The control takes the same sites from the same row with its noise redrawn: key, anchors, position and answer are the
same, so a site that carries only key or sum changes nothing.

How it can mislead. M9 asks for .90 each, control at most .10. An untrained model answers almost nothing rightly and has
no pairs (nan). A site that carries the whole answer moves it to z_source + sum_source, and counts as 0. A high share
says that the site suffices to carry key or sum. A low share may mean that another site carries it too, since that site
keeps the base's value. The share also falls where the two sites add a constant that depends on the position: at the
quick sizes members of the paper's circuit often miss by 1 when source and base have their key at different positions,
and seldom when it is the same one (``same_position``). Pairs are of inputs answered rightly, so read the accuracy
beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from rb_interp.errors import ModelError, TaskError, nearest
from rb_interp.interventions.answers import AnswerAt, answer_logits, answers_of
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.hooking import Sites, interchange_edits, last_logits, parse_sites, together
from rb_interp.interventions.metrics import Answers, Measured, labels_of, measure, metric_of
from rb_interp.interventions.sites import Edit
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.probes.capturing import Tokens
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.dataset import AnchorDataset
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["KeyAndSum", "interchange", "key_and_sum"]


REDRAWN = "noise redrawn"


class Carrier(NamedTuple):
    """Where a circuit carries the key and where the sum; ``{last}`` stands for the last layer.

    ``probe`` names its readings. ``hold`` stays as in the base while the sum is taken from the source.
    ``same_position``: the site also holds the position, so that source and base must have their key at the same one.
    """

    probe: str
    key: str
    sum: str
    hold: tuple[str, ...] = ()
    same_position: bool = False


CARRIERS = {
    "average-then-key": Carrier("interchange", "attn_out.{last}@last", "attn_out.0@last"),
    "key-to-anchors": Carrier(
        "interchange_carried", "attn_out.0@anchor", "resid_pre.0@anchor", ("attn_out.0",), same_position=True
    ),
}
"""Circuit name -> its carriers."""


@typed
@few_threads
def interchange(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sites: Sites,
    predicted: Int[np.ndarray, " row"],
    *,
    control: Inputs,
    hold: Sites = (),
    metric: Measured | None = None,
    answer_at: AnswerAt = None,
) -> Effect:
    """Share of base inputs whose answer becomes the predicted one when sites are taken from the source, in [0, 1].

    With a metric, what it rises by instead (after less before), where the clean rows are the source with the predicted
    answers, and the corrupted ones the base: ``logit_diff`` is the logit of the predicted answer less the base's.

    Args:
        base, source, control: as many rows each; ``control`` has the base's key, anchors and position, and other noise.
        sites: what is taken, all together. hold: sites that keep their base value meanwhile.
        predicted: the answer that each base input should get.
        metric: a name or a function, see ``interventions.metrics``. answer_at: where the answer is read, by default at
            the last position.

    The control is 1 where taking the sites from ``control`` changes the answer at all; with a metric, what it rises by.

    Raises ModelError where rows do not match, and for a site that there is not.
    """
    hooked(model, "interchange")
    if len(predicted) != len(base):
        raise ModelError(f"got {len(predicted)} predicted answers for {len(base)} inputs; give one for each input.")
    taken, kept = parse_sites(sites), parse_sites(hold)
    held = interchange_edits(model, base, base, kept)
    edits = [(), *([*held, *interchange_edits(model, base, rows, taken)] for rows in (source, control))]
    before, after, other = (answer_logits(model, base, some, answer_at, "interchange") for some in edits)
    place = together(taken, model) + (f"; held: {together(kept, model)}" if kept else "")
    if metric is None:
        moved = (after.argmax(1).numpy() == predicted) * 1.0
        changed = (other.argmax(1) != before.argmax(1)).numpy() * 1.0
        return Effect("interchange", place, "moved_as_predicted", moved, changed[None], REDRAWN)
    known, there = metric_of(metric), answer_logits(model, source, (), answer_at, "interchange")
    pair = (
        Answers(there, labels_of(predicted, there.shape[1])),
        answers_of(base, before, known, "interchange", known.needs > 1),
    )
    start, end, aside = (measure(known, logits, *pair, "interchange").numpy() for logits in (before, after, other))
    quantity = f"{known.name}_change"
    return Effect("interchange", place, quantity, end - start, (aside - start)[None], REDRAWN)


def check_reasoning(data: AnchorDataset, set: str, asker: str) -> None:
    """Raise TaskError where the answer of a row of the set is not key + sum."""
    other = n_other_answers(data, set)
    if other:
        raise TaskError(
            f"set='{set}': {asker} needs rows whose answer is key + sum, and {other} of its {len(data.rows(set))} rows "
            f"have another; give another set, such as 'rsn_train', of a task whose reasoning is key + sum."
        )


def n_other_answers(data: AnchorDataset, set: str) -> int:
    """Rows of a set whose answer is not key + sum."""
    rows = data.rows(set)
    key, total = _key_sum(data, rows)
    return int(np.count_nonzero(key + total != data.labels[rows]))


def most_likely(model: HookedModel, tokens: Tokens, edits: Sequence[Edit] = ()) -> Int[np.ndarray, " row"]:
    """The most likely answer at the last position of each row, under edits."""
    return last_logits(model, tokens, edits).argmax(1).numpy()


@dataclass(frozen=True)
class KeyAndSum:
    """Interchange of the key and of the sum at the sites where a circuit carries them.

    Attributes:
        circuit: whose sites. key, sum: effects on the same pairs, each with its control.
        probe: name of the reading.
    """

    circuit: str
    key: Effect
    sum: Effect
    probe: str = "interchange"

    @property
    def control(self) -> float:
        """The larger of the two controls' shares of changed answers, in [0, 1]; nan without pairs."""
        return max(_share(self.key.control), _share(self.sum.control))

    @property
    def n(self) -> int:
        """Pairs of inputs."""
        return len(self.key.values)

    def reading(self) -> Reading:
        """``key``, ``sum`` and ``control`` as one Reading."""
        values = {"key": _share(self.key.values), "sum": _share(self.sum.values), "control": self.control}
        notes = {} if self.n else dict.fromkeys(values, "no pair of inputs is answered rightly.")
        return Reading(self.probe, values, n=self.n, notes=notes)


@typed
@few_threads
def key_and_sum(
    model: HookedModel,
    data: AnchorDataset,
    *,
    circuit: str = "average-then-key",
    n: int = 200,
    set: str = "rsn_train",
    same_position: bool | None = None,
    other_answers: bool = False,
    seed: int = 0,
) -> KeyAndSum:
    """Does the answer follow a key, and a sum, taken from another input where the circuit carries them?  (claim M9)

    Up to ``n`` pairs of inputs that the model answers rightly, with different keys and different sums of anchors; no
    row is in two pairs. A model that has no such pair gets nan and n = 0. All answers asked for lie in the vocabulary.

    Args:
        circuit: whose sites, one of CARRIERS; the reading is named ``interchange`` for the paper's circuit and
            ``interchange_carried`` for the other.
        set: whose answers are key + sum, such as the reasoning sets.
        same_position: whether the pairs share their key's position; by default only where the circuit's sites hold
            it. Pairs that share it where they need not are another question, and their reading is named so.
        other_answers: take rows whose answer is another too, as of a task whose labels were shuffled on purpose.

    Raises ModelError for an unknown circuit, TaskError for rows whose answer is not key + sum.
    """
    if circuit not in CARRIERS:
        raise ModelError(f"no circuit '{circuit}' has carriers; {nearest(circuit, CARRIERS)}")
    if not other_answers:
        check_reasoning(data, set, "key_and_sum")
    carrier = CARRIERS[circuit]
    key_at, sum_at, *hold = (
        text.format(last=model.cfg.n_layers - 1) for text in (carrier.key, carrier.sum, *carrier.hold)
    )
    shared = carrier.same_position if same_position is None else same_position
    probe = carrier.probe
    if shared != carrier.same_position:
        probe += "_same_position" if shared else "_any_position"
    base_rows, source_rows = _pairs(model, data, n, set, shared, seed)
    if not len(base_rows):
        places = key_at, sum_at + (f"; held: {' + '.join(hold)}" if hold else "")
        none = [
            Effect("interchange", at, "moved_as_predicted", np.zeros(0), np.zeros((1, 0)), REDRAWN) for at in places
        ]
        return KeyAndSum(circuit, none[0], none[1], probe)
    base, source = data.inputs(base_rows), data.inputs(source_rows)
    control = data.task.counterfactual(data, base_rows, "noise", seed)
    (base_key, base_sum), (source_key, source_sum) = (_key_sum(data, at) for at in (base_rows, source_rows))
    return KeyAndSum(
        circuit,
        interchange(model, base, source, key_at, source_key + base_sum, control=control),
        interchange(model, base, source, sum_at, base_key + source_sum, control=control, hold=hold),
        probe,
    )


def _pairs(
    model: HookedModel, data: AnchorDataset, n: int, set: str, same_position: bool, seed: int
) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Base and source rows, answered rightly, of different key and sum; every row in one pair at most."""
    rng = np.random.default_rng([data.seed, seed, 8])
    found = rng.permutation(data.rows(set))[: 5 * n]
    found = found[most_likely(model, data.tokens[found]) == data.labels[found]] if len(found) else found
    if same_position:
        found = found[np.argsort(data.key_position[found], kind="stable")]
    found = found[: len(found) // 2 * 2].reshape(-1, 2)
    (key, total), (other_key, other_total) = (_key_sum(data, at) for at in found.T)
    fits = (key != other_key) & (total != other_total)
    if same_position:
        fits &= np.equal(*data.key_position[found].T)
    chosen = rng.permutation(found[fits])[:n]
    return chosen[:, 0], chosen[:, 1]


def _key_sum(data: AnchorDataset, rows: Int[np.ndarray, " row"]) -> tuple[np.ndarray, np.ndarray]:
    """Key and sum of the anchors of each row."""
    return data.tokens[rows, data.key_position[rows]], data.tokens[rows[:, None], data.anchor_positions[rows]].sum(1)


def _share(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else float("nan")
