r"""Interchange: whether the answer follows what sites have from another input (claim M9).

`interchange` says beforehand what the answer becomes when sites are taken from a source input, role to
role. Its control takes the same sites from the same row with its noise redrawn. Several hypotheses, each
with its prediction, are compared on pairs of rows that tell them apart: each answer counts for the
hypothesis that it follows, for the ``untouched`` one, or for ``other``. Beside them stand, each as the same
shares,

    noise_redrawn      the sites of the control
    self               the row's own: ``untouched`` must be 1
    random_sites       as many sites elsewhere in the same layer, over draws
    random_subspaces   the source's change at the sites, turned at random: of the same size and rank

`key_and_sum` interchanges sites between two inputs. If a site carries the key and
nothing else of the source reaches the answer, the answer becomes

    key: z_source + (sum of the anchors)_base            sum: z_base + (sum of the anchors)_source

The circuits carry them at different sites, CARRIERS. In average-then-key the last position gets the
sum from L0's attention and the key from the last layer's. In key-to-anchors L0's attention brings
the key to the anchors' positions, whose own embeddings bring the sum: there the anchors' embedding
is taken from the source while L0's attention is held as it was, so that the anchors reach the last
position through later layers alone. An embedding holds its position too, so these pairs share it.
The control takes the same sites from the same row with its noise redrawn.

`permuted_number_line` moves the reasoning anchors along a direction u. If they lie on a number line
u, an anchor that is moved along u alone to where another one stands counts as that other one: with
a permutation pi of the anchors,

    E'[a] = E[a] + (E[pi(a)] . u - E[a] . u) u            predicted answer: z + sum of pi(a)

Directions: ``value``, the leading left singular vector of L0's W_V (paper 1, Fig. 6: the one that
the reasoning anchors share); ``component``, the anchors' own first principal component (Fig. 5B);
or any vector. The control moves the anchors by the same permutation along random directions, with a
change of W_E of the same Frobenius norm.

How it can mislead. A high share says that the sites suffice to carry something. A low one may mean
that another site carries it too, since that site keeps the base's value. A hypothesis that explains more
than the others may still explain little, and the right one may not be among them: read ``other``. Random
sites may hold what the given ones hold. M9 asks for .90 each, control at most .10. An untrained model has no pairs
(nan). A site that carries the whole answer moves it to z_source + sum_source, and counts as 0. A
low share may mean that another site carries it too, or that the sites add a constant that depends
on the position: members of the paper's circuit often miss by 1 when source and base have their key
at different positions, and seldom when it is the same one (``same_position``). All layers read an
embedding that was moved, and with LayerNorm all its coordinates change with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int

from rb_interp._threads import single_threaded
from rb_interp.arguments import as_array, checked
from rb_interp.errors import ModelError, TaskError
from rb_interp.interventions.edits import interchange_edits, most_likely, random_edits, replaced
from rb_interp.interventions.effect import REDRAWN, Effect, hypotheses_table
from rb_interp.interventions.metrics import AnswerAt
from rb_interp.interventions.paired_run import PairedRun, equal_rows, telling_pairs
from rb_interp.interventions.sites import Site, Sites, aligned, parse_sites, site_names
from rb_interp.interventions.subspaces import leading
from rb_interp.models.protocol import HookedModel, writable_tensors
from rb_interp.models.structure import caller_hooks
from rb_interp.probes.embeddings import token_vectors
from rb_interp.probes.values import value_matrix
from rb_interp.statistics.nulls import random_directions
from rb_interp.tasks.anchor import AnchorDataset
from rb_interp.tasks.inputs import Inputs

__all__ = ["KeyAndSum", "interchange", "key_and_sum", "permuted_number_line"]

DRAWS = 5
"""Draws of random sites and subspaces, beside several hypotheses."""


@checked
@single_threaded
def interchange(
    model: HookedModel,
    base: Inputs,
    source: Inputs,
    sites: Sites,
    predicted: Int[np.ndarray, " row"] | Mapping[str, Any],
    *,
    control: Inputs,
    hold: Sites = (),
    answer_at: AnswerAt = None,
    seed: int = 0,
) -> Effect:
    """Share of base inputs, in [0, 1], whose answer becomes the predicted one with other sites.

    The sites are taken from the source. An answer is the most likely token of the whole vocabulary.
    The control is 1 if taking the sites from ``control`` changes the answer at all: the stricter
    count. Rows whose answer is the predicted one already are left out, and a note has their number.

    Of several hypotheses, ``hypotheses`` has a table. A pair counts if they all predict different
    answers, none of them the untouched one, and if it shares no row with an earlier pair.

    Args:
        model: any model with TransformerLens's hooks.
        base: the rows that run.
        source: as many rows, from which the sites are taken.
        sites: what is taken, all together.
        predicted: the answer that each base input should get, or hypothesis -> these answers. The
            table has rows ``untouched`` and ``other`` too, so give hypotheses other names.
        control: as many rows with the base's key, anchors and position, and other noise.
        hold: sites that keep their base value meanwhile.
        answer_at: where the answer is read, by default at the last position.
        seed: seed of the random sites and subspaces beside several hypotheses.

    Raises:
        ModelError: the model has no such site, the rows are no pairs, a prediction is no token of
            the model, the control is the base, or no pair tells several hypotheses apart.
        RolesError: the rows have no such role.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> model, data = known.model(), known.task.dataset(seed=0)
    >>> rows = data.sample("rsn_train", 20)
    >>> base, source = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> noise = data.task.counterfactual(data, rows, "noise")
    >>> moved = interchange(model, base, source, "v.1@key", source.labels, control=noise)
    >>> float(moved.values.mean()), float(moved.control.mean())
    (1.0, 0.0)
    >>> hypotheses = {"key": source.labels, "one more": base.labels + 1}
    >>> table = interchange(model, base, source, "v.1@key", hypotheses, control=noise).hypotheses
    >>> table["share"].tolist(), table["explains"].tolist()
    ([1.0, 0.0, 0.0, 0.0], [True, False, False, False])
    """
    several = isinstance(predicted, Mapping)
    hypotheses = predicted if several else {"": predicted}
    predictions = as_array([*hypotheses.values()])
    if predictions.shape != (len(hypotheses), len(base)) or predictions.dtype.kind not in "iu":
        raise ModelError(
            f"got {predictions.shape[-1]} predicted answers for {len(base)} inputs, of type "
            f"{predictions.dtype}; give one token id for each input."
        )
    source_sites = parse_sites(sites)
    aligned(Site("resid_pre", 0), base, source)
    fixed_sites = parse_sites(hold) if hold else []
    pair = PairedRun(model, "kl", answer_at, base, control=control)  # asks for no labels
    hold_edits = interchange_edits(model, base, base, fixed_sites) if fixed_sites else []
    d_vocab = pair.base_logits.shape[1]
    if predictions.size and not 0 <= predictions.min() <= predictions.max() < d_vocab:
        raise ModelError(
            f"got predicted answers from {predictions.min()} to {predictions.max()}; the model answers "
            f"with tokens 0 to {d_vocab - 1}."
        )
    untouched = pair.base_logits.argmax(1).numpy()
    sources = {"share": source, "noise_redrawn": control}
    if several:
        sources["self"] = base
        counts = telling_pairs([untouched, *predictions], base, source)
        reason = "since predictions or the untouched answer agree, or an earlier pair has a row"
        if len(predictions) < 2:
            raise ModelError("got one hypothesis; give two or more, or its answers without a name.")
        if not counts:
            raise ModelError(
                f"no pair of {len(base)} tells {len(predictions)} hypotheses apart, {reason}."
            )
    else:
        counts = np.flatnonzero(untouched != predicted)
        reason = "since their answer is the predicted one already"
    if equal_rows(source, base).all():
        pair.notes["source"] = "its rows are the base rows, so nothing changes."
    pair.note_control(source_sites)
    if len(counts) < len(base):
        pair.notes["rows"] = f"{len(base) - len(counts)} of {len(base)} are left out, {reason}."
    runs = []
    for name, rows in sources.items():
        runs.append((name, interchange_edits(model, base, rows, source_sites)))
    rng = np.random.default_rng([seed, 17])
    for _ in range(DRAWS if several else 0):
        runs += random_edits(model, base, source, source_sites, rng).items()
    answers = defaultdict(list)
    for name, edits in runs:
        logits = pair.run([*hold_edits, *edits])[counts]
        answers[name].append(logits.argmax(1).numpy())
    site = site_names(source_sites, model)
    if fixed_sites:
        site += f"; held: {site_names(fixed_sites, model)}"
    predictions = predictions[:, counts]
    untouched = untouched[counts]
    values = max((predictions == answers["share"]) * 1.0, key=np.sum)
    return Effect(
        "interchange",
        site,
        "moved_as_predicted",
        values,
        (untouched != answers["noise_redrawn"]) * 1.0,
        REDRAWN,
        before=0.0 if len(values) else np.nan,
        after=float(values.mean()) if len(values) else np.nan,
        answered=pair.answered,
        notes=pair.all_notes("@" in site),
        hypotheses=hypotheses_table(hypotheses, predictions, untouched, answers)
        if several
        else pd.DataFrame(),
    )


class Carriers(NamedTuple):
    """Sites of a circuit; ``{last}`` is the last layer."""

    key: str
    """Carries the key."""
    sum: str
    """Carries the sum."""
    hold: str = ""
    """Stays as in the base while the sum is taken."""


CARRIERS = {
    "average-then-key": Carriers("attn_out.{last}@last", "attn_out.0@last"),
    "key-to-anchors": Carriers("attn_out.0@anchor", "resid_pre.0@anchor", hold="attn_out.0"),
}
"""Circuit -> the sites that carry its key and its sum."""


def check_reasoning(data: AnchorDataset, set: str, caller: str) -> None:
    """Raise TaskError if the answer of a row of the set is not key + sum."""
    if n_others := n_other_answers(data, set):
        raise TaskError(
            f"set='{set}': {caller} needs rows whose answer is key + sum, and {n_others} of its "
            f"{len(data.rows(set))} rows have another; give another set, such as 'rsn_train', of a "
            f"task whose reasoning is key + sum."
        )


def n_other_answers(data: AnchorDataset, set: str) -> int:
    """Rows of a set whose answer is not key + sum."""
    rows = data.rows(set)
    return int(np.count_nonzero(sum(_key_sum(data, rows)) != data.labels[rows]))


class KeyAndSum(NamedTuple):
    """Interchange of the key and of the sum on the same pairs, where a circuit carries them."""

    key: Effect
    sum: Effect


@checked
@single_threaded
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
    """Does the answer follow a key, and a sum, taken from another input at a circuit's sites?

    This is claim M9. Pairs are of inputs that the model answers rightly, with different keys and
    different sums of anchors; no row is in two pairs. A model that has no such pair gets NaN and
    n = 0.

    Args:
        model: any model with TransformerLens's hooks.
        data: sequences of the anchor task.
        circuit: whose sites, one of CARRIERS.
        n: pairs, at most.
        set: whose answers are key + sum, such as the reasoning sets.
        same_position: whether the pairs share their key's position; by default only for
            key-to-anchors, whose sites hold it.
        other_answers: take rows whose answer is another too, as of a task whose labels were
            shuffled on purpose.
        seed: seed of the pairs.

    Raises:
        TaskError: an answer of the set is not key + sum.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("averager")
    >>> swapped = key_and_sum(known.model(), known.task.dataset(seed=0), n=20)
    >>> float(swapped.key.values.mean()), float(swapped.sum.values.mean())
    (1.0, 1.0)
    """
    if not other_answers:
        check_reasoning(data, set, "key_and_sum")
    key_site, sum_site, hold = (
        site.format(last=model.cfg.n_layers - 1) for site in CARRIERS[circuit]
    )
    if same_position is None:
        same_position = circuit == "key-to-anchors"
    base_rows, source_rows = _pairs(model, data, n, set, same_position, seed)
    if not len(base_rows):
        sum_site += f"; held: {hold}" if hold else ""
        effects = []
        for site in (key_site, sum_site):
            none = np.zeros((1, 0))
            effects.append(
                Effect("interchange", site, "moved_as_predicted", none[0], none, REDRAWN)
            )
        return KeyAndSum(*effects)
    base = data.inputs(base_rows)
    source = data.inputs(source_rows)
    control = data.task.counterfactual(data, base_rows, "noise", seed)
    base_key, base_sum = _key_sum(data, base_rows)
    source_key, source_sum = _key_sum(data, source_rows)
    key = interchange(model, base, source, key_site, source_key + base_sum, control=control)
    predicted = base_key + source_sum
    return KeyAndSum(
        key, interchange(model, base, source, sum_site, predicted, control=control, hold=hold)
    )


def _pairs(
    model: HookedModel, data: AnchorDataset, n: int, set: str, same_position: bool, seed: int
) -> Int[np.ndarray, "2 pair"]:
    """Base and source rows, answered rightly, of different key and sum; a row is in one pair."""
    rng = np.random.default_rng([data.seed, seed, 8])
    rows = rng.permutation(data.rows(set))[: 5 * n]
    if len(rows):
        rows = rows[most_likely(model, data.tokens[rows]) == data.labels[rows]]
    if same_position:
        rows = rows[np.argsort(data.key_position[rows], kind="stable")]
    pairs = rows[: len(rows) // 2 * 2].reshape(-1, 2)
    base, source = pairs.T
    fits = np.not_equal(_key_sum(data, base), _key_sum(data, source)).all(0)
    if same_position:
        fits &= data.key_position[base] == data.key_position[source]
    return rng.permutation(pairs[fits])[:n].T


def _key_sum(data: AnchorDataset, rows: Int[np.ndarray, " row"]) -> tuple[np.ndarray, np.ndarray]:
    """Key and sum of the anchors of each row."""
    anchors = data.tokens[rows[:, None], data.anchor_positions[rows]]
    return data.tokens[rows, data.key_position[rows]], anchors.sum(1)


@checked
@single_threaded
def permuted_number_line(
    model: HookedModel,
    data: AnchorDataset,
    *,
    set: str = "rsn_train",
    n: int = 300,
    direction: str | Float[np.ndarray, " d_model"] = "value",
    n_draws: int = 20,
    seed: int = 0,
) -> Effect:
    """Share of inputs whose answer becomes z + sum of pi(a), in [0, 1], with the anchors reversed.

    The line of anchors is reversed along a direction. Rows count that are answered rightly and
    whose answer is to change.

    Args:
        model: any model with TransformerLens's hooks and a W_E that can be written.
        data: sequences of the anchor task.
        set: a reasoning set.
        n: rows looked at, at most.
        direction: ``value``, ``component`` or a vector ``[d_model]``, of any length but 0.
        n_draws: draws of the control; p cannot be below 1 / (1 + draws), .048 for 20.
        seed: seed of the draws.

    Raises:
        TaskError: an answer of the set is not key + sum, or a row has no reasoning anchors.
        ModelError: no direction has this name.
    """
    check_reasoning(data, set, "the number line")
    anchors = data.task.tokens("reasoning_anchor")
    rows = data.sample(set, n)
    of_rows = data.tokens[rows[:, None], data.anchor_positions[rows]]
    if not np.isin(of_rows, anchors).all():
        raise TaskError(
            f"set='{set}' has rows without reasoning anchors; give one that has them, such as "
            f"'rsn_train'."
        )
    number = np.arange(len(anchors))
    moves = number[::-1] - number
    change = moves[of_rows - data.task.reasoning_anchors[0]].sum(1)
    is_right = most_likely(model, data.tokens[rows]) == data.labels[rows]
    counts = is_right & (change != 0)
    tokens = data.tokens[rows[counts]]
    predicted = data.labels[rows[counts]] + change[counts]

    vectors = token_vectors(model, anchors)
    name = "a direction"
    if isinstance(direction, str):
        name = f"the {direction} direction"
        if direction == "value":
            direction = leading(value_matrix(model))[:, 0]
        elif direction == "component":
            direction = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)[2][0]
        else:
            raise ModelError(
                f"got direction='{direction}'; expected 'value', 'component' or a vector."
            )
    rng = np.random.default_rng([seed, 13])
    steps = []
    for vector in (np.asarray(direction), *random_directions(n_draws, vectors.shape[1], rng)):
        unit = vector / np.linalg.norm(vector)
        coordinates = vectors @ unit
        steps.append((coordinates[::-1] - coordinates)[:, None] * unit)

    W_E = writable_tensors(model, {"embed.W_E": model.W_E})["embed.W_E"]
    distance = np.linalg.norm(steps[0])
    follows = []
    for step in steps:
        scale = distance / max(np.linalg.norm(step), np.finfo(float).tiny)
        new = W_E.detach().clone()
        new[torch.as_tensor(anchors)] += torch.as_tensor(step * scale).to(W_E)
        with replaced(W_E, new):
            answers = most_likely(model, tokens) if len(tokens) else np.zeros(0)
        follows.append((answers == predicted) * 1.0)
    values, *controls = follows
    return Effect(
        f"anchors permuted along {name}",
        "W_E",
        "moved_as_predicted",
        values,
        np.array(controls),
        "random direction, change of the same norm",
        before=0.0,
        after=values.mean() if len(tokens) else np.nan,
        answered=float(is_right.mean()),
        notes=caller_hooks(model),
    )
