r"""What does each component write at a position: the key, the anchor sum, or more?

`variance_explained` (paper 1, section "Second attention module": key + sum of anchors; claim M8).
For vectors x_r (one row each) in k groups, n rows, traces over coordinates:

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
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import RolesError, describe
from rb_interp.models.arrays import ActivationSource, Arrays, model_of
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import has_mlp, hook_points, layer_heads
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes.activations import capture, check_layer_head, check_rows, float64, occupied
from rb_interp.probes.labels import RowLabels, RowVectors, positions_of
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs

NULL_GROUPINGS = ("key", "anchor_sum")
"""Groupings that get a null; the others follow from these two or are read beside them."""
CONSTANT = 1e-12
"""Variance below this share of the mean square is rounding, and counts as none."""
ROUNDING = 1e-6
"""Null sums are taken in float32; draws are raised by this much so that ties count against the
observed value."""
UNDEFINED = (
    "the component does not vary over these rows, or the grouping has one group alone, or one for "
    "each row."
)


@checked
@single_threaded
def variance_explained(
    model: ActivationSource,
    inputs: Inputs,
    *,
    layer: int | None = None,
    head: int | None = None,
    groupings: Mapping[str, Any] | None = None,
    role: str | None = None,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Share of variance of each component's output at a position that groupings of rows explain.

    Values: ``f"{component}.{layer}:{grouping}"``, at most 1, of these components: resid_pre of L0
    (embedding + position), attn_out and mlp_out of every layer, resid_post of the last. Null: the
    rows' labels permuted, for each of your groupings, or for key and anchor_sum.

    Args:
        model: a model, its activations on these rows (``captured``), or arrays (``from_arrays``).
        inputs: rows, and if no groupings are given roles that name the positions of ``key`` and
            ``anchor``.
        layer: one layer, of which all four components are read; by default the components above.
        head: attn_out is what this head writes (z W_O); by default it is the sum over heads.
        groupings: name -> a label for each row, numbers or texts; by default those of the module.
        role: whose position is read, the first one if it has several; by default the role ``last``.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises ModelError for a layer or head that does not exist, RolesError for missing roles, and for
    labels of other rows.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.sample("rsn_train", 100))
    >>> last = {"last token": rows.tokens[:, -1] % 3}
    >>> list(variance_explained(model, rows, layer=1, groupings=last, n_null=0).values)[:2]
    ['resid_pre.1:last token', 'attn_out.1:last token']
    """
    check_layer_head(model, layer or 0, head, "variance_explained", untrained, caches=True)
    check_rows(inputs, "variance_explained")
    labels = {}
    labels_of = row_groupings(inputs) if groupings is None else groupings
    if not labels_of:
        raise RolesError("variance_explained got no grouping; give {name: a label for each row}.")
    for name, values in labels_of.items():
        if not isinstance(name, str) or np.shape(values) != (len(inputs),):
            raise RolesError(
                f"variance_explained got the grouping {describe(name)} with "
                f"{describe(np.asarray(values))}; expected a name and one label for each of "
                f"{len(inputs)} rows."
            )
        labels[name] = numbered_groups(np.asarray(values))
    with_null: list[str] = list(NULL_GROUPINGS if groupings is None else labels)

    def measure(source: ActivationSource) -> Measurement:
        outputs = position_outputs(source, inputs, layer, head, role)
        return explain(outputs, labels, with_null)._replace(n=len(inputs))

    return read_model(
        "variance_explained", model, measure, untrained, n_null, seed, UNDEFINED, layer, head
    )


def explain(
    outputs: Mapping[str, RowVectors], labels: Mapping[str, RowLabels], with_null: list[str]
) -> Measurement:
    """The values of `variance_explained`, read from each component's vectors, one a row."""
    values = {}
    for component, vectors in outputs.items():
        shares = {name: omega_squared(vectors, group) for name, group in labels.items()}
        if {"key_and_sum", "key", "anchor_sum"} <= shares.keys():
            beyond_key = shares["key_and_sum"] - shares["key"]
            shares["interaction"] = beyond_key - shares["anchor_sum"]
        values |= {f"{component}:{name}": share for name, share in shares.items()}
    return Measurement(values, partial(_nulls, outputs, labels, with_null))


def _nulls(
    outputs: Mapping[str, RowVectors],
    labels: Mapping[str, RowLabels],
    names: list[str],
    n_null: int,
    seed: int,
) -> dict[str, Null]:
    rng = np.random.default_rng(seed)
    nulls = {}
    for name in names:
        permuted = rng.permuted(np.tile(labels[name], (n_null, 1)), axis=1)
        for component, vectors in outputs.items():
            draws = omega_squared_draws(vectors, permuted, np.float32) + ROUNDING
            nulls[f"{component}:{name}"] = Null("labels permuted", draws)
    return nulls


def omega_squared(vectors: RowVectors, labels: RowLabels) -> float:
    """Multivariate omega squared of a grouping, at most 1.

    About 0 if the grouping says nothing, nan if undefined.
    """
    return float(omega_squared_draws(vectors, numbered_groups(labels)[None])[0])


def omega_squared_draws(
    vectors: RowVectors, permuted: Int[np.ndarray, "draw row"], precision: type = np.float64
) -> Float[np.ndarray, " draw"]:
    """The same for many permutations of one grouping.

    Args:
        permuted: the group of each row, counted from 0.
        precision: of the sums.
    """
    from scipy.sparse import csr_matrix

    draws, n = permuted.shape
    sizes = np.bincount(permuted[:1].reshape(-1))
    k = len(sizes)
    centred = vectors - vectors.sum(0) / max(n, 1)
    total = float((centred**2).sum())
    if not total > CONSTANT * float((vectors**2).sum()) or k < 2 or n <= k:
        return np.full(draws, np.nan)
    scaled = (centred / math.sqrt(total)).astype(precision)
    draw_and_group = (permuted + k * np.arange(draws)[:, None]).reshape(-1)
    row = np.tile(np.arange(n), draws)
    ones = np.ones(draws * n, dtype=precision)
    sums = csr_matrix((ones, (draw_and_group, row)), shape=(draws * k, n)) @ scaled
    squares = np.einsum("gd,gd->g", sums, sums, dtype=np.float64).reshape(draws, k)
    between = (squares / sizes).sum(1)
    mean_within = np.maximum(1 - between, 0) / (n - k)
    return (between - (k - 1) * mean_within) / (1 + mean_within)


def row_groupings(inputs: Inputs) -> dict[str, RowLabels]:
    """The label of each row under each grouping of the module, read off tokens and roles."""
    tokens = []
    for role in ("key", "anchor"):
        positions = occupied(inputs, role, "variance_explained")
        tokens.append(np.take_along_axis(inputs.tokens, positions, 1))
    key, anchors = tokens
    total = anchors.sum(1)
    groupings = {"key": key[:, 0], "anchor_sum": total}
    for number in range(anchors.shape[1]):
        groupings[f"anchor_{number + 1}"] = anchors[:, number]
    groupings["anchors"] = numbered_groups(anchors)
    groupings["key_and_sum"] = numbered_groups(np.stack([key[:, 0], total], 1))
    return groupings


def numbered_groups(labels: Shaped[np.ndarray, "row ..."]) -> RowLabels:
    """Group numbers 0 to k - 1 of labels, or of rows of labels."""
    return np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)


def position_outputs(
    model: ActivationSource,
    inputs: Inputs,
    layer: int | None = None,
    head: int | None = None,
    role: str | None = None,
) -> dict[str, RowVectors]:
    """Output of each component at one position, by ``f"{component}.{layer}"``.

    attn_out is all heads' or one head's.
    """
    hooks = component_hooks(model_of(model), layer, head)
    rows = np.arange(len(inputs))
    positions = positions_of(inputs, role, "variance_explained")
    last = None
    if (positions == inputs.tokens.shape[1] - 1).all():
        last = lambda activation: activation[:, [-1]]  # noqa: E731
        positions = np.zeros_like(positions)
    cache = capture(model, inputs.tokens, list(hooks.values()), select=last)
    outputs = {}
    for name, hook in hooks.items():
        vectors = float64(cache[hook][rows, positions])
        if hook.endswith("hook_z"):
            component_layer = int(name.removeprefix("attn_out."))
            W_O = float64(layer_heads(model, component_layer, "W_O")[head])
            vectors = vectors[:, head] @ W_O
        outputs[name] = vectors
    return outputs


def component_hooks(
    model: HookedModel, layer: int | None = None, head: int | None = None
) -> dict[str, str]:
    """Component, such as ``attn_out.0`` -> the hook that it is read at, in forward order.

    >>> from rb_interp import AnchorTask, build_model
    >>> list(component_hooks(build_model(AnchorTask(), gamma=0.5), layer=1))
    ['resid_pre.1', 'attn_out.1', 'mlp_out.1', 'resid_post.1']
    """
    layers = list(range(model.cfg.n_layers)) if layer is None else [layer]
    first = layers[0]
    last = layers[-1]
    hooks = {f"resid_pre.{first}": f"blocks.{first}.hook_resid_pre"}
    for number in layers:
        attention = "hook_attn_out" if head is None else "attn.hook_z"
        hooks[f"attn_out.{number}"] = f"blocks.{number}.{attention}"
        if has_mlp(model):
            hooks[f"mlp_out.{number}"] = f"blocks.{number}.hook_mlp_out"
    hooks[f"resid_post.{last}"] = f"blocks.{last}.hook_resid_post"
    if isinstance(model, Arrays):
        return hooks
    points = hook_points(model, hooks.values())  # a layer may lack either sublayer
    return {name: hook for name, hook in hooks.items() if hook in points}
