r"""What rows stand for: do their vectors tell it, are they parallel where it is the same, is the
output in its range?

`cosines_by_target` (paper 2, Fig. 4): are vectors parallel where they stand for the same thing, and
only there? Row r has a vector v_r, one activation at one position, and a target t_r, such as its
right answer. Over the pairs of rows (r, s) that are compared:

    equal        mean cos(v_r, v_s) where t_r = t_s                              [-1, 1]
    different    the same where t_r differs from t_s                             [-1, 1]
    difference   equal - different                                               [-2, 2]

``centred_equal``, ``centred_different`` and ``centred_difference`` are the same of v_r less the
mean over the rows that are centred together, all of them by default.

How it can mislead. Where the vector is a function of the target alone, with unrelated directions
for its values, equal reads 1 and different 0. Both are near 1 in an untrained model whose rows end
in the same token: read difference or the centred values. Where vectors lie on a line by the
target's value, near targets are parallel too, so different depends on which targets are compared. A
loud direction that has nothing to do with the target hides all others. Cosines of values
(``hook_v``) depend on the basis in which W_V and W_O are written.

`label_range` (paper 1, Fig. 8 right): does a model know a group's range of labels before it knows a
single memory label? Memory anchors stand in groups g, each with a range R_g of labels from which
its labels were drawn. With p(X) the output distribution at the last position:

    inside_g = mean over inputs X of group g of  sum_{i in R_g} p_i(X)            lowest_inside = min_g inside_g
    pooled   = min_g  1/G sum_h |R_g and R_h| / |R_h|      inside_g of a model that knows only the labels of all groups

How it can mislead. A model that knows each group's range reads 1, one that knows only the pooled
labels .52 with the paper's four nested ranges (narrowest first .52, .79, .94, 1: that is why the
lowest counts), and an *untrained* one the width of the narrowest range over d_vocab, .10. A model
that has memorised every label reads 1 as well: the number speaks only together with an ``accuracy``
that is still low. Ranges that share labels can all be met by putting everything on the labels that
they share, so look at the mean outputs.

`variance_explained` (paper 1, section "Second attention module": key + sum of anchors; claim M8):
what does each component write at the last position: the key, the anchor sum, or more? For vectors
x_r (one row each) in k groups, n rows, traces over coordinates:

    SS_total  = sum_r |x_r - mean|^2      SS_between = sum_g n_g |mean_g - mean|^2
    SS_within = SS_total - SS_between     MS_within  = SS_within / (n - k)
    omega^2   = (SS_between - (k - 1) MS_within) / (SS_total + MS_within)

the share of variance that the grouping explains, adjusted for the number of groups (omega squared):
1 where groups fix the vector, about 0 (either sign) where they say nothing. Groupings: ``key``,
``anchor_sum``, each single anchor ``anchor_1`` .. ``anchor_q``, the ordered combination
``anchors``, the pair ``key_and_sum``, or those that the caller gives; and

    interaction = omega^2(key_and_sum) - omega^2(key) - omega^2(anchor_sum)

which is about 0 for f(key) + g(sum) where the two are independent over rows, and near 1 for an
exclusive-or of them.

How it can mislead. Average-then-key reads anchor_sum .98 in the first attention output and key 1.00
in the second; key-to-anchors reads key .95 in the second too, and anchor_sum 0 in the first: the
second number alone does not tell the circuits apart. Keys vary far more than anchor sums (variance
133 against 4), so an output that encodes nothing but the answer z + sum already gives the key .97.
A network that learned no rule (gamma .3) reads .2 and .1, with key_and_sum .4. An untrained one
does not read 0: averaging attention holds key and anchors, so key reads .1 and ``anchors`` .15.
``anchors`` reads about as much as ``anchor_sum`` or more: only where the two agree is the sum what
is written. key_and_sum has nearly as many groups as some hundred rows fill, so it and interaction
are noisy (+-.1) where little is explained. Shares are of variance: one loud direction hides all
others. They show where something is written, not that it is read; patch to know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from rb_interp.errors import ModelError, RolesError, TaskError, shown
from rb_interp.models.arrays import ActivationSource, Arrays, model_of
from rb_interp.models.hooking import hook_points
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import layer_heads
from rb_interp.probes._probe import Found, check_labels, occupied, probe, source
from rb_interp.probes.activations import capture, float64, logits_of
from rb_interp.probes.vectors import cosines
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null
from rb_interp.tasks.inputs import Inputs, selected

NULL_GROUPINGS = ("key", "anchor_sum")
"""Groupings that get a null; the others follow from these two or are read beside them."""
CONSTANT = 1e-12
"""Variance below this share of the mean square is rounding, and counts as none."""
ROUNDING = 1e-6
"""Null sums are taken in float32; draws are raised by this much so that ties count against the
observed value."""
UNDEFINED = "the component does not vary over these rows, or the grouping has one group alone, or one for each row."
Ranges = Sequence[tuple[int, int]] | Sequence[Sequence[int]] | Int[np.ndarray, "group 2"]
"""Lowest and highest label of each group, both inclusive."""
Vectors = Float[np.ndarray, "row d"]
Labels = Int[np.ndarray, " row"]


@probe(
    source,
    "no pair of rows has equal targets, or none has different ones, or a vector is zero.",
    place={},
)
def cosines_by_target(
    model: ActivationSource,
    inputs: Inputs,
    *,
    hook: str,
    role: str | None = None,
    targets: Labels | None = None,
    pairs: Int[np.ndarray, "pair 2"] | None = None,
    within: Labels | None = None,
) -> Found:
    """Mean cosine of activations of rows with equal targets and of rows with different ones, in
    [-1, 1].

    Values as in the module's table; NaN where no pair is of its kind. Null of ``difference``:
    targets permuted over rows. Arrays: cosines and centred_cosines ``[pair]``. n is the number of
    rows.

    Args:
        inputs: rows, with the role that is asked for.
        hook: full name of a hook whose activation is ``[row, pos, ...]``; all axes behind these two
            are one vector.
        role: whose position is read, the first one where it has several; None for the last
            position.
        targets: what each row stands for; the rows' labels where None.
        pairs: numbers of the rows that are compared, two a pair; None for every pair of distinct
            rows.
        within: a number for each row; rows with the same number are centred together. None: all
            rows.

    Raises ModelError for a hook without positions, and for targets or ``within`` that are missing
    or of other rows.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.sample("rsn_train", 50))
    >>> reading = cosines_by_target(model, rows, hook="blocks.1.hook_resid_mid", n_null=0)
    >>> reading.values["difference"] == reading.values["equal"] - reading.values["different"]
    True
    """
    labels, n = (
        check_labels(inputs, "cosines_by_target") if targets is None else targets,
        len(inputs),
    )
    _, group = np.unique(np.zeros(n) if within is None else within, return_inverse=True)
    for name, numbers in (("targets", labels), ("numbers in within", group)):
        if len(numbers) != n:
            raise ModelError(
                f"cosines_by_target got {n} rows and {len(numbers)} {name}; give one for each row."
            )
    chosen = np.stack(np.triu_indices(n, 1), 1) if pairs is None else pairs
    first, second = selected(chosen.reshape(-1), n).reshape(-1, 2).T
    vectors = position_vectors(model, inputs, hook, role)
    means = np.zeros((group.max() + 1, vectors.shape[1]))
    np.add.at(means, group, vectors)
    centred = vectors - (means / np.bincount(group)[:, None])[group]
    raw, inner = (cosines(each)[first, second] for each in (vectors, centred))
    equal = labels[first] == labels[second]
    values = means_by_target(raw, equal)
    values |= {f"centred_{name}": value for name, value in means_by_target(inner, equal).items()}

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        drawn = (labels[order] for order in permutations(n_null, n, np.random.default_rng(seed)))
        draws = [
            means_by_target(raw, other[first] == other[second])["difference"] for other in drawn
        ]
        return {"difference": Null("targets permuted over rows", np.array(draws))}

    return Found(values, nulls, {"cosines": raw, "centred_cosines": inner}, n)


def position_vectors(
    model: ActivationSource, inputs: Inputs, hook: str, role: str | None = None
) -> Vectors:
    """An activation at one position of each row in float64, as one vector a row; ModelError without
    positions."""
    (n, length), at = inputs.tokens.shape, positions_of(inputs, role, "cosines_by_target")
    activation = capture(model, inputs.tokens, [hook])[hook]
    if activation.ndim < 3 or activation.shape[1] != length:
        raise ModelError(
            f"cosines_by_target got the hook '{hook}', whose activation has the shape "
            f"{list(activation.shape)}; "
            f"expected [row, pos, ...] with {length} positions."
        )
    return float64(activation[np.arange(n), at].flatten(1))


def means_by_target(
    cosines: Float[np.ndarray, " pair"], equal: Bool[np.ndarray, " pair"]
) -> dict[str, float]:
    """Mean cosine of pairs with equal and with different targets, and the difference; NaN without
    such a pair."""
    same, other = (
        float(cosines[which].mean()) if which.any() else float("nan") for which in (equal, ~equal)
    )
    return {"equal": same, "different": other, "difference": same - other}


@probe(source, place={})
def label_range(
    model: ActivationSource, inputs: Inputs, *, groups: Labels, ranges: Ranges
) -> Found:
    """How much of its output a model gives to the labels that an input's group can have.

    Values, all in [0, 1]: those of the module's table, ``inside_1`` and so on; ``accuracy`` on
    these inputs. Arrays: ``outputs`` ``[group, d_vocab]`` (mean output distribution), ``inside``
    and ``pooled`` ``[group]``, ``ranges`` ``[group, 2]``. No quantity has a null.

    Args:
        inputs: memory inputs, with the labels that they were trained on.
        groups: which group each input belongs to, counted from 0.
        ranges: the label range of each group.

    Raises TaskError for groups and ranges that do not fit each other.
    """
    ranges, labels = (
        [(int(low), int(high)) for low, high in ranges],
        check_labels(inputs, "label_range"),
    )
    probabilities = float64(
        logits_of(model, inputs.tokens, select=lambda logits: logits[:, -1]).double().softmax(-1)
    )
    d_vocab, numbers = probabilities.shape[1], np.unique(groups)
    within = all(0 <= low <= high < d_vocab for low, high in ranges)
    if (
        not within
        or len(groups) != len(inputs)
        or not np.array_equal(numbers, np.arange(len(ranges)))
    ):
        raise TaskError(
            f"label_range got the groups {numbers.tolist()} and ranges {ranges}; expected a group "
            f"for each row, and "
            f"for each group from 0 a range, with low <= high within 0..{d_vocab - 1}, both "
            f"inclusive."
        )
    outputs, pooled = (
        np.stack([probabilities[groups == at].mean(0) for at in numbers]),
        pooled_inside(ranges),
    )
    inside = np.array(
        [output[low : high + 1].sum() for output, (low, high) in zip(outputs, ranges, strict=True)]
    )
    values = {
        "lowest_inside": float(inside.min()),
        **{f"inside_{group}": float(value) for group, value in enumerate(inside, start=1)},
        "pooled": float(pooled.min()),
        "accuracy": float((probabilities.argmax(1) == labels).mean()),
    }
    arrays = {"outputs": outputs, "inside": inside, "pooled": pooled, "ranges": np.array(ranges)}
    return Found(values, None, arrays, len(inputs))


def pooled_inside(ranges: Ranges) -> Float[np.ndarray, " group"]:
    """Probability of each group's labels, in (0, 1], under those of all groups, each of which is
    uniform on its own."""
    low, high = np.array(ranges).T
    shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low) + 1
    return (shared.clip(0) / (high - low + 1)).mean(1)


@probe(source, UNDEFINED, place={"layer": None, "head": None})
def variance_explained(
    model: ActivationSource,
    inputs: Inputs,
    *,
    layer: int | None,
    head: int | None,
    groupings: Mapping | None = None,
    role: str | None = None,
) -> Found:
    """Share of variance that groupings of the rows explain in each component's output at one
    position.

    Values: ``f"{component}.{layer}:{grouping}"``, at most 1, of these components: resid_pre of L0
    (embedding + position), attn_out and mlp_out of every layer, resid_post of the last. Null: the
    rows' labels permuted, for each of your groupings, or for key and anchor_sum.

    Args:
        inputs: rows, and where no groupings are given roles that name the positions of ``key`` and
            ``anchor``.
        layer: one layer, of which all four components are read; by default the components above.
        head: attn_out is what this head writes (z W_O); by default it is the sum over heads.
        groupings: name -> a label for each row, numbers or texts; by default those of the module.
        role: whose position is read, the first one where it has several; None for the last
            position.

    Raises RolesError for missing roles, and for labels of other rows.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.sample("rsn_train", 100))
    >>> last = {"last token": rows.tokens[:, -1] % 3}
    >>> list(variance_explained(model, rows, layer=1, groupings=last, n_null=0).values)[:2]
    ['resid_pre.1:last token', 'attn_out.1:last token']
    """
    given = row_groupings(inputs) if groupings is None else groupings
    if not given:
        raise RolesError("variance_explained got no grouping; give {name: a label for each row}.")
    labels = {}
    for name, one in given.items():
        if not isinstance(name, str) or np.shape(one) != (len(inputs),):
            raise RolesError(
                f"variance_explained got the grouping {shown(name)} with {shown(np.asarray(one))}; "
                f"expected a name and "
                f"one label for each of {len(inputs)} rows."
            )
        labels[name] = numbered_groups(np.asarray(one))
    outputs, values = position_outputs(model, inputs, layer, head, role), {}
    for component, vectors in outputs.items():
        of = {name: omega_squared(vectors, group) for name, group in labels.items()}
        if {"key_and_sum", "key", "anchor_sum"} <= of.keys():
            of["interaction"] = of["key_and_sum"] - of["key"] - of["anchor_sum"]
        values |= {f"{component}:{name}": share for name, share in of.items()}

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng, drawn = np.random.default_rng(seed), {}
        for name in NULL_GROUPINGS if groupings is None else labels:
            permuted = rng.permuted(np.tile(labels[name], (n_null, 1)), axis=1)
            for component, vectors in outputs.items():
                draws = omega_squared_draws(vectors, permuted, np.float32) + ROUNDING
                drawn[f"{component}:{name}"] = Null("labels permuted", draws)
        return drawn

    return Found(values, nulls, n=len(inputs))


def omega_squared(vectors: Vectors, labels: Labels) -> float:
    """Multivariate omega squared of a grouping: at most 1, about 0 where it says nothing, nan where
    undefined."""
    return float(omega_squared_draws(vectors, numbered_groups(labels)[None])[0])


def omega_squared_draws(
    vectors: Vectors, permuted: Int[np.ndarray, "draw row"], precision: type = np.float64
) -> Float[np.ndarray, " draw"]:
    """The same for many permutations of one grouping, whose groups are numbered from 0; sums are of
    some precision."""
    from scipy.sparse import csr_matrix

    draws, n = permuted.shape
    sizes = np.bincount(permuted[:1].reshape(-1))
    k, centred = len(sizes), vectors - vectors.sum(0) / max(n, 1)
    total = float((centred**2).sum())
    if not total > CONSTANT * float((vectors**2).sum()) or k < 2 or n <= k:
        return np.full(draws, np.nan)
    which = (permuted + k * np.arange(draws)[:, None]).reshape(-1)
    entries = np.ones(draws * n, dtype=precision), (which, np.tile(np.arange(n), draws))
    sums = csr_matrix(entries, shape=(draws * k, n)) @ (centred / math.sqrt(total)).astype(
        precision
    )
    squares = np.einsum("gd,gd->g", sums, sums, dtype=np.float64).reshape(draws, k)
    between = (squares / sizes).sum(1)
    mean_within = np.maximum(1 - between, 0) / (n - k)
    return (between - (k - 1) * mean_within) / (1 + mean_within)


def row_groupings(inputs: Inputs) -> dict[str, Labels]:
    """The label of each row under each grouping of the module, read off tokens and roles."""
    places = [occupied(inputs, role, "variance_explained") for role in ("key", "anchor")]
    key, anchors = (np.take_along_axis(inputs.tokens, at, 1) for at in places)
    total = anchors.sum(1)
    singles = {f"anchor_{j + 1}": anchors[:, j] for j in range(anchors.shape[1])}
    joint = {
        "anchors": numbered_groups(anchors),
        "key_and_sum": numbered_groups(np.stack([key[:, 0], total], 1)),
    }
    return {"key": key[:, 0], "anchor_sum": total, **singles, **joint}


def position_outputs(
    model: ActivationSource,
    inputs: Inputs,
    layer: int | None = None,
    head: int | None = None,
    role: str | None = None,
) -> dict[str, Vectors]:
    """Output of each component at one position, by ``f"{component}.{layer}"``; attn_out is all
    heads' or one head's."""
    hooks = component_hooks(model_of(model), layer, head)
    rows, at = np.arange(len(inputs)), positions_of(inputs, role, "variance_explained")
    select = (lambda activation: activation[:, [-1]]) if role is None else None
    cache = capture(model, inputs.tokens, list(hooks.values()), select=select)
    outputs = {}
    for name, hook in hooks.items():
        outputs[name] = float64(cache[hook][rows, 0 if role is None else at])
        if hook.endswith("hook_z"):
            outputs[name] = outputs[name][:, head] @ float64(
                layer_heads(model, int(name[9:]), "W_O")[head]
            )
    return outputs


def positions_of(inputs: Inputs, role: str | None, probe: str) -> Labels:
    """The position of each row that is read: a role's first one, or the last one of all."""
    n, length = inputs.tokens.shape
    return np.full(n, length - 1) if role is None else occupied(inputs, role, probe)[:, 0]


def component_hooks(
    model: HookedModel, layer: int | None = None, head: int | None = None
) -> dict[str, str]:
    """Component, such as ``attn_out.0`` -> the hook that it is read at, in forward order.

    >>> from rb_interp import AnchorTask, build_model
    >>> list(component_hooks(build_model(AnchorTask(), gamma=0.5), layer=1))
    ['resid_pre.1', 'attn_out.1', 'mlp_out.1', 'resid_post.1']
    """
    layers = range(model.cfg.n_layers) if layer is None else [layer]
    sublayers = ["attn_out"] if getattr(model.cfg, "attn_only", False) else ["attn_out", "mlp_out"]
    between = [(out, at) for at in layers for out in sublayers]
    wanted = [("resid_pre", layers[0]), *between, ("resid_post", layers[-1])]
    hooks = {f"{component}.{at}": f"blocks.{at}.hook_{component}" for component, at in wanted}
    hooks |= {} if head is None else {f"attn_out.{at}": f"blocks.{at}.attn.hook_z" for at in layers}
    if isinstance(model, Arrays):
        return hooks
    points = hook_points(model, hooks.values())  # a layer may lack either sublayer
    return {name: hook for name, hook in hooks.items() if hook in points}


def numbered_groups(labels: Shaped[np.ndarray, "row ..."]) -> Labels:
    """Group numbers 0 to k - 1 of labels, or of rows of labels."""
    return np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
