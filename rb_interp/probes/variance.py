"""What does each component write at the last position: the key, the anchor sum, or more? (Paper 1, section
"Second attention module": key + sum of anchors; claim M8.)

For vectors x_r (one row each) in k groups, n rows, traces over coordinates:

    SS_total  = sum_r |x_r - mean|^2      SS_between = sum_g n_g |mean_g - mean|^2
    SS_within = SS_total - SS_between     MS_within  = SS_within / (n - k)
    omega^2   = (SS_between - (k - 1) MS_within) / (SS_total + MS_within)

the share of variance that the grouping explains, adjusted for the number of groups (omega squared): 1 where groups fix
the vector, about 0 (either sign) where they say nothing. Groupings: ``key``, ``anchor_sum``, each single anchor
``anchor_1`` .. ``anchor_q``, the ordered combination ``anchors``, the pair ``key_and_sum``, or those that the caller
gives; and

    interaction = omega^2(key_and_sum) - omega^2(key) - omega^2(anchor_sum)

which is about 0 for f(key) + g(sum) where the two are independent over rows, and near 1 for an exclusive-or of them.
nan, never 0: constant vectors (no variance to explain), one group alone (nothing to compare), a group for every row
(nothing left to estimate the within variance from).

How it can mislead. At the task's quick sizes, final checkpoints: average-then-key reads anchor_sum .98 in the first
attention output and key 1.00 in the second; key-to-anchors reads key .95 in the second too, and anchor_sum 0 in the
first: the second number alone does not tell the circuits apart. Keys vary far more than anchor sums (variance 133
against 4), so an output that encodes nothing but the answer z + sum already gives the key .97. What tells the circuits
apart is the anchor sum in L0. A network that learned no rule (gamma .3) reads .2 and .1, with key_and_sum .4. An
untrained one does not read 0: averaging attention holds key and anchors, so key reads .1 and ``anchors`` .15 there at
small scale. ``anchors`` reads about as much as ``anchor_sum`` or more, since the sum follows from the anchors. Only
where the two agree is the sum what is written. key_and_sum has nearly as many groups as some hundred rows fill, so it
and interaction are noisy (+-.1) where little is explained. Shares are of variance: one loud direction hides all others.
They show where something is written, not that it is read; patch to know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Shaped

from rb_interp.errors import RolesError, shown
from rb_interp.models.protocol import HookedModel
from rb_interp.probes._probe import Found, occupied, probe, source
from rb_interp.probes.capturing import Source, Tokens, capture, float64, layer_heads, model_of
from rb_interp.statistics.reading import Null
from rb_interp.tasks.inputs import Inputs

NULL_GROUPINGS = ("key", "anchor_sum")
"""Groupings that get a null; the others follow from these two or are read beside them."""
CONSTANT = 1e-12
"""Variance below this share of the mean square is rounding, and counts as none."""
ROUNDING = 1e-6
"""Null sums are taken in float32; draws are raised by this much so that ties count against the observed value."""
UNDEFINED = "the component does not vary over these rows, or the grouping has one group alone, or one for each row."


@probe(source, UNDEFINED, place={"layer": None, "head": None})
def variance_explained(
    model: Source, inputs: Inputs, *, layer: int | None, head: int | None,
    groupings: Mapping | None = None, role: str | None = None,
) -> Found:  # fmt: skip
    """Share of variance that groupings of the rows explain in each component's output at one position.

    Values: ``f"{component}.{layer}:{grouping}"``, at most 1, with your groupings, or the module's, and these
    components: resid_pre of L0 (embedding + position), attn_out and mlp_out of every layer, resid_post of the last.
    Null: the rows' labels permuted, for each of your groupings, or for key and anchor_sum.
    Arrays: shares [component, grouping], in the order of the values.

    Args:
        inputs: rows, and where no groupings are given roles that name the positions of ``key`` and ``anchor``.
        layer: one layer, of which all four components are read; by default the components above.
        head: attn_out is what this head writes (z W_O); by default it is the sum over heads.
        groupings: name -> a label for each row, numbers or texts; rows with the same label are a group. By default
            those of the module, which are about a key and its anchors.
        role: whose position is read, the first one where it has several; None for the last position.

    Raises:
        RolesError: for missing roles, for roles of other rows, and for labels of other rows.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.inputs(data.sample("rsn_train", 100))
    >>> last = {"last token": rows.tokens[:, -1] % 3}
    >>> list(variance_explained(model, rows, layer=1, groupings=last, n_null=0).values)[:2]
    ['resid_pre.1:last token', 'attn_out.1:last token']
    """
    labels = row_groupings(inputs) if groupings is None else _own_groupings(groupings, len(inputs))
    at = None if role is None else occupied(inputs, role, "variance_explained")[:, 0]
    outputs = position_outputs(model, inputs.tokens, layer, head, at)
    explained = {component: shares(vectors, labels) for component, vectors in outputs.items()}
    values = {f"{component}:{name}": share for component, of in explained.items() for name, share in of.items()}

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng, drawn = np.random.default_rng(seed), {}
        for name in NULL_GROUPINGS if groupings is None else labels:
            permuted = rng.permuted(np.tile(_numbered(labels[name]), (n_null, 1)), axis=1)
            draws = omega_squared_draws(outputs, permuted)
            drawn |= {f"{component}:{name}": Null("labels permuted", of) for component, of in draws.items()}
        return drawn

    arrays = {"shares": np.array(list(values.values())).reshape(len(outputs), -1)}
    return Found(values, nulls, arrays, len(inputs))


def omega_squared(vectors: Float[np.ndarray, "row d"], labels: Int[np.ndarray, " row"]) -> float:
    """Multivariate omega squared of a grouping: at most 1, about 0 where it says nothing, nan where undefined."""
    centred, total = _centred(vectors)
    group = _numbered(labels)
    n, k = len(group), int(group.max(initial=-1)) + 1
    if not total > 0 or k < 2 or n <= k:
        return math.nan
    sizes = np.bincount(group)
    sums = np.add.reduceat(centred[np.argsort(group, kind="stable")], np.cumsum(sizes) - sizes)
    between = float(((sums**2).sum(1) / sizes).sum())
    return float(_omega_squared(between / total, n, k))


def omega_squared_draws(
    outputs: Mapping[str, Float[np.ndarray, "row d"]], permuted: Int[np.ndarray, "draw row"]
) -> dict[str, Float[np.ndarray, " draw"]]:
    """Omega squared of some vectors for many permutations of one grouping, raised by ROUNDING; nan where it is nan.

    ``permuted`` holds non-negative labels; the closer to 0 .. k - 1, the faster.
    """
    from scipy.sparse import csr_matrix

    draws, n = permuted.shape
    sizes = np.bincount(permuted[:1].reshape(-1))
    k = int(np.count_nonzero(sizes))
    which = (permuted + len(sizes) * np.arange(draws)[:, None]).reshape(-1)
    entries = np.ones(draws * n, dtype=np.float32), (which, np.tile(np.arange(n), draws))
    summing = csr_matrix(entries, shape=(draws * len(sizes), n))

    def omega(vectors: Float[np.ndarray, "row d"]) -> Float[np.ndarray, " draw"]:
        centred, total = _centred(vectors)
        if not total > 0 or k < 2 or n <= k:
            return np.full(draws, np.nan)
        sums = summing @ (centred / math.sqrt(total)).astype(np.float32)
        squares = np.einsum("gd,gd->g", sums, sums, dtype=np.float64).reshape(draws, len(sizes))
        return _omega_squared((squares / np.maximum(sizes, 1)).sum(1), n, k) + ROUNDING

    return {name: omega(vectors) for name, vectors in outputs.items()}


def shares(vectors: Float[np.ndarray, "row d"], groupings: Mapping[str, Int[np.ndarray, " row"]]) -> dict[str, float]:
    """Omega squared of every grouping, and ``interaction`` beyond key and anchor sum where these are among them."""
    of = {name: omega_squared(vectors, labels) for name, labels in groupings.items()}
    if not {"key_and_sum", "key", "anchor_sum"} <= of.keys():
        return of
    return {**of, "interaction": of["key_and_sum"] - of["key"] - of["anchor_sum"]}


def row_groupings(inputs: Inputs) -> dict[str, Int[np.ndarray, " row"]]:
    """The label of each row under each grouping of the module, read off tokens and roles."""
    try:
        places = [occupied(inputs, role, "variance_explained") for role in ("key", "anchor")]
    except RolesError as error:
        raise RolesError(f"{error} Other ways to group rows are given by groupings={{name: labels}}.") from None
    key, anchors = (np.take_along_axis(inputs.tokens, at, 1) for at in places)
    key, total = key[:, 0], anchors.sum(1)
    singles = {f"anchor_{j + 1}": anchors[:, j] for j in range(anchors.shape[1])}
    joint = {"anchors": _numbered(anchors), "key_and_sum": _numbered(np.stack([key, total], 1))}
    return {"key": key, "anchor_sum": total, **singles, **joint}


def _own_groupings(groupings: Mapping, n: int) -> dict[str, Int[np.ndarray, " row"]]:
    """The caller's labels as numbers; RolesError where a grouping has no name, or not one label for each row."""
    result = {}
    for name, given in groupings.items():
        labels = np.asarray(given)
        if not isinstance(name, str) or labels.shape != (n,):
            raise RolesError(
                f"variance_explained got the grouping {shown(name)} with {shown(labels)}; expected a name and one "
                f"label for each of {n} rows."
            )
        result[name] = _numbered(labels)
    if not result:
        raise RolesError("variance_explained got no grouping; give {name: a label for each row}.")
    return result


def position_outputs(
    model: Source, tokens: Tokens, layer: int | None, head: int | None = None, at: Int[np.ndarray, " row"] | None = None
) -> dict[str, Float[np.ndarray, "row d"]]:
    """Output of each component at one position in float64, keyed ``f"{component}.{layer}"``, in forward order.

    attn_out is that of all heads with the output bias, or what one head writes. ``at`` is the last position by default.
    """
    hooks = component_hooks(model_of(model), layer, head)
    keep = (lambda activation: activation[:, -1]) if at is None else None
    cache = capture(model, tokens, list(hooks.values()), keep=keep)
    every = cache if at is None else {hook: value[np.arange(len(at)), at] for hook, value in cache.items()}
    outputs = {name: float64(every[hook]) for name, hook in hooks.items()}
    for name in hooks if head is not None else ():
        component, _, number = name.partition(".")
        if component == "attn_out":
            outputs[name] = outputs[name][:, head] @ float64(layer_heads(model, int(number), "W_O")[head])
    return outputs


def component_hooks(model: HookedModel, layer: int | None = None, head: int | None = None) -> dict[str, str]:
    """Component, such as ``attn_out.0`` -> the hook that it is read at, in forward order.

    >>> from rb_interp import AnchorTask, build_model
    >>> list(component_hooks(build_model(AnchorTask(), gamma=0.5), layer=1))
    ['resid_pre.1', 'attn_out.1', 'mlp_out.1', 'resid_post.1']
    """
    layers = range(model.cfg.n_layers) if layer is None else [layer]
    sublayers = ["attn_out"] if getattr(model.cfg, "attn_only", False) else ["attn_out", "mlp_out"]
    wanted = [("resid_pre", layers[0]), *((out, at) for at in layers for out in sublayers), ("resid_post", layers[-1])]
    hooks = {f"{component}.{at}": f"blocks.{at}.hook_{component}" for component, at in wanted}
    return hooks if head is None else hooks | {f"attn_out.{at}": f"blocks.{at}.attn.hook_z" for at in layers}


def _centred(vectors: Float[np.ndarray, "row d"]) -> tuple[Float[np.ndarray, "row d"], float]:
    vectors = np.asarray(vectors, dtype=np.float64)
    if len(vectors) == 0:
        return vectors, 0.0
    centred = vectors - vectors.mean(0)
    total = float((centred**2).sum())
    return centred, total if total > CONSTANT * float((vectors**2).sum()) else 0.0


def _omega_squared(between: float | np.ndarray, n: int, k: int) -> Any:
    """Omega squared from SS_between as a share of SS_total."""
    mean_within = np.maximum(1 - np.asarray(between), 0) / (n - k)
    return (between - (k - 1) * mean_within) / (1 + mean_within)


def _numbered(labels: Shaped[np.ndarray, "row ..."]) -> Int[np.ndarray, " row"]:
    """Group numbers 0 to k - 1 of labels, or of rows of labels."""
    return np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
