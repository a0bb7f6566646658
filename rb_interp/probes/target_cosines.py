"""Are vectors parallel where they stand for the same thing, and only there? (Paper 2, Fig. 4.)

Row r has a vector v_r, one activation at one position, and a target t_r, such as its right answer. Over the pairs of
rows (r, s) that are compared:

    equal        mean cos(v_r, v_s) where t_r = t_s                              [-1, 1]
    different    the same where t_r differs from t_s                             [-1, 1]
    difference   equal - different                                               [-2, 2]

``centred_equal``, ``centred_different`` and ``centred_difference`` are the same of v_r less the mean over the rows that
are centred together, all of them by default.

How it can mislead. Where the vector is a function of the target alone, with unrelated directions for its values, equal
reads 1 and different 0. Where every row has a direction of its own, both read the same. Both are near 1 in an untrained
model whose rows end in the same token, since the residual stream is that token's embedding there: equal alone says
nothing, and difference or the centred values tell the two cases apart. Where vectors lie on a line by the target's
value, near targets are parallel too, so different depends on which targets are compared. A loud direction that has
nothing to do with the target hides all others. In a post-norm model ``hook_resid_mid`` is the residual stream after the
attention and its LayerNorm; in a pre-norm model LayerNorm follows only behind it, and a cosine does not see its scale.
Cosines of values (``hook_v``) depend on the basis in which W_V and W_O are written, which no logit does.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from rb_interp.errors import ModelError
from rb_interp.models.protocol import hooked
from rb_interp.probes.capturing import capture
from rb_interp.probes.check import check_labels, check_rows, occupied, undefined
from rb_interp.probes.source import Source
from rb_interp.probes.vectors import cosines
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import selected
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

NAME = "cosines_by_target"
UNDEFINED = "no pair of rows has equal targets, or none has different ones, or a vector is zero."
"""Why a value is NaN."""


@typed
@few_threads
def cosines_by_target(
    model: Source,
    inputs: Inputs,
    *,
    hook: str,
    role: str | None = None,
    targets: Int[np.ndarray, " row"] | None = None,
    pairs: Int[np.ndarray, "pair 2"] | None = None,
    within: Int[np.ndarray, " row"] | None = None,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Mean cosine of activations of rows with equal targets and of rows with different ones, in [-1, 1].

    Values as in the module's table; NaN where no pair is of its kind. Null of ``difference``: targets permuted over
    rows. Arrays: cosines and centred_cosines ``[pair]``. n is the number of rows.

    Args:
        model: a model, or the cache of these rows that ``captured`` gives.
        inputs: rows, with the role that is asked for.
        hook: full name of a hook whose activation is ``[row, pos, ...]``; all axes behind these two are one vector.
        role: whose position is read, the first one where it has several; None for the last position.
        targets: what each row stands for; the rows' labels where None.
        pairs: numbers of the rows that are compared, two a pair; None for every pair of distinct rows. The cosines of
            all rows are made at once, 8 bytes for each pair of rows.
        within: a number for each row; rows with the same number are centred together. None: all rows.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of the null (0 for none), and the seed of the draws.

    Raises:
        ModelError: for a hook that is not there or whose activation has no positions, for missing targets, and for
            targets or ``within`` of other rows.
        RolesError: for a role that is not there, and for pairs of rows that are not there.

    Source: paper 2, Fig. 4.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.sample("rsn_train", 50))
    >>> reading = cosines_by_target(model, rows, hook="blocks.1.hook_resid_mid", n_null=0)
    >>> reading.values["difference"] == reading.values["equal"] - reading.values["different"]
    True
    """
    hooked(model, NAME, caches=True)
    check_rows(inputs, NAME)
    targets = check_labels(inputs, NAME) if targets is None else targets
    within = np.zeros(len(inputs), dtype=np.int64) if within is None else within
    for name, numbers in (("targets", targets), ("numbers in within", within)):
        if len(numbers) != len(inputs):
            raise ModelError(f"{NAME} got {len(inputs)} rows and {len(numbers)} {name}; give one for each row.")
    if pairs is None:
        pairs = np.stack(np.triu_indices(len(inputs), 1), 1)
    pairs = selected(pairs.reshape(-1), len(inputs)).reshape(-1, 2)

    def read(source: Source) -> tuple[dict[str, float], Float[np.ndarray, " pair"], Float[np.ndarray, " pair"]]:
        return _values(position_vectors(source, inputs, hook, role), _equal(targets, pairs), pairs, within)

    values, compared, centred = read(model)
    draws = permutations(n_null, len(targets), np.random.default_rng(seed))
    null = np.array([means_by_target(compared, _equal(targets[order], pairs))["difference"] for order in draws])
    before = {} if untrained is None else read(untrained)[0]
    return Reading(
        NAME,
        values,
        untrained=before,
        nulls={"difference": Null("targets permuted over rows", null)} if n_null else {},
        arrays={"cosines": compared, "centred_cosines": centred},
        n=len(inputs),
        notes=undefined(values, model, UNDEFINED, before, untrained),
    )


def position_vectors(model: Source, inputs: Inputs, hook: str, role: str | None = None) -> Float[np.ndarray, "row d"]:
    """An activation at one position of each row in float64, as one vector a row.

    Args:
        model: a model, or activations of these rows. inputs: rows. hook: whose activation is ``[row, pos, ...]``.
        role: whose position is read, the first one where it has several; None for the last position.

    Raises ModelError for an activation without positions, RolesError for a role that is not there.
    """
    length = inputs.tokens.shape[1]
    at = np.full(len(inputs), length - 1)
    if role is not None:
        at = occupied(inputs.roles.position(role, NAME), role, NAME)[:, 0]
    found = capture(model, inputs.tokens, [hook])[hook]
    if found.ndim < 3 or found.shape[1] != length:
        raise ModelError(
            f"{NAME} got the hook '{hook}', whose activation has the shape {list(found.shape)}; expected "
            f"[row, pos, ...] with {length} positions."
        )
    return found[torch.arange(len(at)), torch.as_tensor(at)].flatten(1).double().numpy()


def means_by_target(cosines: Float[np.ndarray, " pair"], equal: Bool[np.ndarray, " pair"]) -> dict[str, float]:
    """Mean cosine of pairs with equal and with different targets, and the difference; NaN without such a pair.

    >>> means_by_target(np.array([1.0, 0.5, 0.0]), np.array([True, False, False]))
    {'equal': 1.0, 'different': 0.25, 'difference': 0.75}
    """
    same, other = (float(cosines[which].mean()) if which.any() else float("nan") for which in (equal, ~equal))
    return {"equal": same, "different": other, "difference": same - other}


def _values(
    vectors: Float[np.ndarray, "row d"],
    equal: Bool[np.ndarray, " pair"],
    pairs: Int[np.ndarray, "pair 2"],
    within: Int[np.ndarray, " row"],
) -> tuple[dict[str, float], Float[np.ndarray, " pair"], Float[np.ndarray, " pair"]]:
    """The values, and the raw and the centred cosine of every pair."""
    _, group = np.unique(within, return_inverse=True)
    means = np.zeros((group.max() + 1, vectors.shape[1]))
    np.add.at(means, group, vectors)
    centred = vectors - (means / np.bincount(group)[:, None])[group]
    raw, inner = (cosines(each)[pairs[:, 0], pairs[:, 1]] for each in (vectors, centred))
    found = {f"centred_{name}": value for name, value in means_by_target(inner, equal).items()}
    return {**means_by_target(raw, equal), **found}, raw, inner


def _equal(targets: Int[np.ndarray, " row"], pairs: Int[np.ndarray, "pair 2"]) -> Bool[np.ndarray, " pair"]:
    return targets[pairs[:, 0]] == targets[pairs[:, 1]]
