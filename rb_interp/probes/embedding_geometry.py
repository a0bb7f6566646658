"""Geometry of the token embeddings (paper 1, Figs. 4A, 5 and 14; Theorem 1, Eq. 14).

For used tokens s in groups g with vectors w_s, d = d_model: the rows of W_E, and in a pre-norm model what the first
attention reads, the normalised embedding. A model without attention will do (Fig. 4A).

    cos_g            mean of cos(w_s, w_t) over distinct s, t of the group (raw)                   [-1, 1]
    abs_cos          mean |cos| over all distinct used tokens                                      [0, 1]
    abs_cos_random   E|cos| of random vectors = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))             (0, 1]
    abs_cos_ratio    abs_cos / abs_cos_random                                                      > 0, random: 1
    order_rho        Spearman(|s - t|, cos) over pairs of the group ``line``                       [-1, 1]
    pc1_g            |Spearman(leading principal component, s)| within an ordered group, the
                     component taken from all used tokens, centred                                 [0, 1]
    own_pc1_g        the same with each group's own leading component                              [0, 1]
    participation    (sum l)^2 / sum l^2, l the spectrum of the centred covariance                 [1, rank]
    participation_ratio   participation / the untrained model's; nan without an untrained model    > 0
    theory           Pearson(cos, Eq. 14's cos) over pairs of the group ``line``                   [-1, 1]

The anchor study reads cos_g of both kinds of anchors, pc1_g of keys and reasoning anchors, and takes the reasoning
anchors as ``line``. Where no group is ordered nothing is said of order or theory. A value that nothing defines (one
token only, zero vectors) is nan.

How it can mislead. At the task's quick sizes, final checkpoints: a network that learned the rule (gamma .8) reads
order_rho -.91 to -.95, theory .95 to .99, participation 4; one that did not (gamma .3) stays near random vectors, as an
untrained one does: abs_cos_ratio 1, participation 27. Both circuits of the rule order their tokens alike, so order is
no proof of a mechanism. With 5 anchors there are 10 pairs and 60 distinguishable orders: the null of order_rho has sd
.32, and pc1_reasoning, an absolute value, reads .42 by chance; its perfect 1 has p = .03. The pooled component may be
spent on telling keys from anchors: pc1_key .17 beside own_pc1_key .99 has been seen. Raw cosines near 1 follow from any
shared mean. theory is nearly order_rho again: any cosine that falls with distance correlates with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int, Num

from rb_interp.errors import RolesError, nearest, shown
from rb_interp.models.protocol import hooked
from rb_interp.probes.attention_input import token_embeddings
from rb_interp.probes.check import check_inputs, check_layer_head, has_attention, undefined
from rb_interp.probes.groups import Groups, numbered, token_groups
from rb_interp.probes.source import Source, model_of
from rb_interp.probes.vectors import (
    cosines,
    expected_abs_cos,
    mean_off_diagonal,
    pairs,
    participation,
    pearson,
    principal_components,
    ranked_pairs,
    ranks,
    row_correlations,
    spearman,
)
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs
from rb_interp.tasks.roles import Roles
from rb_interp.theory.embeddings import theorem_1_embeddings
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

TIES = 12
"""Decimals of a cosine that rank it, so that equal cosines tie in spite of rounding."""
SHORT = 16
"""Positions over which normalised embeddings are averaged where no tokens say how long a row is, at most."""

UNDEFINED = {
    "participation_ratio": "no untrained model was given, or its own participation is not defined.",
    "": "the group has too few different tokens, or their embeddings are zero or all the same.",
}
"""Why a quantity is NaN."""
Embedding = Float[np.ndarray, "d_vocab d_model"]


@dataclass(frozen=True, eq=False)
class Layout:
    """What a reading of the geometry asks of which group.

    Attributes:
        groups: name -> token ids. alike: groups whose mean cosine is read.
        ordered: groups whose tokens stand for numbers. line: the ordered group that is held against Theorem 1, or
            none. numbers: of an ordered group, those of its tokens; by default their ids.
    """

    groups: Groups
    alike: tuple[str, ...]
    ordered: tuple[str, ...] = ()
    line: str = ""
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in (*self.alike, *self.ordered, *((self.line,) if self.line else ())):
            if name not in self.groups:
                raise RolesError(f"geometry has no group '{name}'; {nearest(name, self.groups)}")

    def of(self, name: str) -> np.ndarray:
        """The numbers of an ordered group's tokens."""
        return self.numbers.get(name, self.groups[name])

    @property
    def has_theory(self) -> bool:
        """Whether Eq. (14) speaks of the numbers: whole ones, which are its labels."""
        return bool(self.line) and all(np.issubdtype(self.of(name).dtype, np.integer) for name in self.ordered)


@typed
@few_threads
def geometry(
    model: Source,
    inputs: Inputs | None = None,
    *,
    layer: int = 0,
    head: int = 0,
    untrained: Source | None = None,
    n_null: int = 200,
    seed: int = 0,
    groups: Mapping | None = None,
    alike: Sequence[str] = (),
    ordered: Sequence[str] = (),
    values: Mapping | None = None,
    line: str = "",
) -> Reading:
    """Read the embedding's geometry.

    Values as in the module's table. Arrays: cos_g_matrix, cos_all_matrix, tokens, group, pca [token, 3], explained,
    theory_cos_matrix, pca_theory [token, 2], pca_theory_tokens, pca_theory_group.

    Args:
        inputs: their roles name the groups, and their rows give a pre-norm model its length. None needs ``groups``.
        layer, head: matter in pre-norm models alone, whose embedding is seen through this head's LayerNorm.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null (0 for none), and the seed of the draws.
        groups: name -> token ids, see ``probes.groups.token_groups``; by default those of the roles.
        alike: groups whose mean cosine is read; by default all.
        ordered: groups whose token ids are the numbers that they stand for. By default none: order_rho, pc1_g,
            own_pc1_g and theory are read of ordered groups alone.
        values: the numbers where they are not the ids: ``{token: number}``, or ``{group: a number for each token}``.
            Groups whose tokens all have one are ordered.
        line: the group that order_rho and theory read; by default the last one that is ordered.

    Raises:
        RolesError: where a token group is missing, and for values of other tokens.
        ModelError: for a layer or head that is not there.
    """
    if inputs is not None:
        check_inputs(inputs, "geometry")
    for given in (model, *(() if untrained is None else (untrained,))):
        hooked(given, "geometry", caches=True)
    if has_attention(model_of(model)):
        check_layer_head(model, layer, head, "geometry", untrained, caches=True)
    roles, length = (Roles(), SHORT) if inputs is None else (inputs.roles, inputs.tokens.shape[1])
    found = token_groups(groups, roles, "geometry")
    numbers = _numbers(values or {}, found)
    by_number = (*ordered, *(name for name in numbers if name not in ordered))
    layout = Layout(found, tuple(alike or found), by_number, line or (by_number[-1] if by_number else ""), numbers)
    embedding = _embedding(model, layout, length, layer, head)
    read, rng = geometry_values(embedding, layout), np.random.default_rng(seed)
    nulls, before = geometry_nulls(embedding, layout, n_null, rng) if n_null else {}, {}
    if untrained is not None:
        before = geometry_values(_embedding(untrained, layout, length, layer, head), layout)
        read["participation_ratio"] = read["participation"] / before["participation"]
        before["participation_ratio"] = 1.0
        if nulls:
            draws = nulls["participation"].draws / before["participation"]
            nulls["participation_ratio"] = Null("random vectors", draws, "less")
    arrays = geometry_arrays(embedding, layout)
    notes = undefined(read, model, UNDEFINED, before, untrained)
    return Reading("geometry", read, untrained=before, nulls=nulls, arrays=arrays, notes=notes)


def geometry_values(W_E: Embedding, layout: Layout) -> dict[str, float]:
    """Every quantity of the module's table from an embedding matrix alone (participation_ratio: nan).

    >>> line = np.outer(np.arange(8.0) - 6, [1, 0]) + [0, 1]   # tokens on a straight line, in order
    >>> groups = {"key": np.arange(3), "memory": np.array([3, 4]), "reasoning": np.array([5, 6, 7])}
    >>> values = geometry_values(line, Layout(groups, ("memory",), ("key", "reasoning"), "reasoning"))
    >>> round(values["pc1_key"], 6), round(values["participation"], 6)
    (1.0, 1.0)
    """
    groups, used = layout.groups, numbered(layout.groups)[0]
    abs_cos = mean_off_diagonal(np.abs(cosines(W_E[used])))
    return {
        **{f"cos_{name}": mean_off_diagonal(cosines(W_E[groups[name]])) for name in layout.alike},
        "abs_cos": abs_cos,
        "abs_cos_random": expected_abs_cos(W_E.shape[1]),
        "abs_cos_ratio": abs_cos / expected_abs_cos(W_E.shape[1]),
        **_order_values(W_E, layout),
        "participation": participation(W_E[used]),
        "participation_ratio": math.nan,
        **_theory_value(W_E, layout),
    }


def _order_values(W_E: Embedding, layout: Layout) -> dict[str, float]:
    """order_rho, pc1_g and own_pc1_g of the ordered groups; nothing without any."""
    if not layout.ordered:
        return {}
    used = numbered(layout.groups)[0]
    along = pairs(cosines(W_E[layout.groups[layout.line]]))
    pooled = dict(zip(used.tolist(), principal_components(W_E[used])[0][:, 0], strict=True))
    found = {"order_rho": spearman(pairs(_distance(layout.of(layout.line))), along.round(TIES))}
    for name in layout.ordered:
        scores = np.array([pooled[token] for token in layout.groups[name].tolist()])
        found[f"pc1_{name}"] = abs(spearman(layout.of(name), scores))
    for name in layout.ordered:
        own = principal_components(W_E[layout.groups[name]])[0][:, 0]
        found[f"own_pc1_{name}"] = abs(spearman(layout.of(name), own))
    return found


def _theory_value(W_E: Embedding, layout: Layout) -> dict[str, float]:
    if not layout.has_theory:
        return {}
    along = pairs(cosines(W_E[layout.groups[layout.line]]))
    return {"theory": pearson(pairs(_theory_cosines(layout.of(layout.line), len(W_E))), along)}


def _numbers(values: Mapping, groups: Groups) -> dict[str, np.ndarray]:
    """The number of each token, by group, of the groups whose tokens all have one."""
    by_group = {name: given for name, given in values.items() if isinstance(name, str)}
    for name in by_group:
        if name not in groups:
            raise RolesError(f"geometry has no group '{name}'; {nearest(name, groups)}")
    by_token = {token: number for token, number in values.items() if not isinstance(token, str)}
    for name, ids in groups.items():
        if name not in by_group and len(ids) and set(ids.tolist()) <= by_token.keys():
            by_group[name] = [by_token[token] for token in ids.tolist()]
    found = {name: np.asarray(given) for name, given in by_group.items()}
    for name, numbers in found.items():
        if numbers.shape != groups[name].shape or numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
            raise RolesError(
                f"geometry got values of the group '{name}' as {shown(numbers)}; expected a number for each of its "
                f"{len(groups[name])} tokens."
            )
    if values and not found:
        raise RolesError(f"geometry got values of no whole group; the groups are {', '.join(groups)}.")
    return found


def geometry_nulls(W_E: Embedding, layout: Layout, n_null: int, rng: np.random.Generator) -> dict[str, Null]:
    """Nulls: the group's token values permuted (order_rho, pc1_*, own_pc1_*, theory), random vectors (the rest)."""
    groups, used = layout.groups, numbered(layout.groups)[0]
    nulls = _order_nulls(W_E, layout, n_null, rng) if layout.ordered else {}
    random = _random_cosines(len(used), W_E.shape[1], n_null, rng)
    abs_cos = _mean_pairs(np.abs(random))
    nulls["abs_cos"] = Null("random vectors", abs_cos)
    nulls["abs_cos_ratio"] = Null("random vectors", abs_cos / expected_abs_cos(W_E.shape[1]))
    for name in layout.alike:
        n = len(groups[name])
        nulls[f"cos_{name}"] = Null("random vectors", _mean_pairs(random[:, :n, :n]))
    nulls["participation"] = Null("random vectors", _participations(random), "less")
    return nulls


def _order_nulls(W_E: Embedding, layout: Layout, n_null: int, rng: np.random.Generator) -> dict[str, Null]:
    groups, permuted = layout.groups, "token values permuted"
    used, line = numbered(groups)[0], layout.of(layout.line)
    real = pairs(cosines(W_E[groups[layout.line]]))
    orders = permutations(n_null, len(line), rng)
    distance = ranked_pairs(_distance(line))
    order_rho = row_correlations(_permuted_pairs(distance, orders), ranks(real.round(TIES)))
    nulls = {"order_rho": Null(permuted, order_rho, "less")}
    if layout.has_theory:
        theory = row_correlations(_permuted_pairs(_theory_cosines(line, len(W_E)), orders), real)
        nulls["theory"] = Null(permuted, theory)
    component = principal_components(W_E[used])[0][:, 0]
    place = {token: at for at, token in enumerate(used.tolist())}
    for name in layout.ordered:
        shuffled = rng.permuted(np.tile(ranks(layout.of(name)), (n_null, 1)), axis=1)
        within = ranks(component[[place[token] for token in groups[name].tolist()]])
        nulls[f"pc1_{name}"] = Null(permuted, np.abs(row_correlations(shuffled, within)))
        own = ranks(principal_components(W_E[groups[name]])[0][:, 0])
        nulls[f"own_pc1_{name}"] = Null(permuted, np.abs(row_correlations(shuffled, own)))
    return nulls


def geometry_arrays(W_E: Embedding, layout: Layout) -> dict[str, np.ndarray]:
    """What Fig. 5 draws: cosine matrices, principal components, and Theorem 1's counterparts."""
    groups, names = layout.groups, list(layout.groups)
    used, group = numbered(groups)
    scores, explained = principal_components(W_E[used])
    found = {
        **{f"cos_{name}_matrix": cosines(W_E[groups[name]]) for name in layout.alike},
        "cos_all_matrix": cosines(W_E[used]),
        "tokens": used,
        "group": group,
        "pca": _columns(scores, 3),
        "explained": explained,
    }
    if not layout.has_theory:
        return found
    kinds = {name: "reasoning" if name == layout.line else "key" for name in layout.ordered}
    ideal = [theorem_1_embeddings(layout.of(name), len(W_E), kind) for name, kind in kinds.items()]
    return {
        **found,
        "theory_cos_matrix": _theory_cosines(layout.of(layout.line), len(W_E)),
        "pca_theory": _columns(principal_components(np.concatenate(ideal))[0], 2),
        "pca_theory_tokens": np.concatenate([groups[name] for name in kinds]),
        "pca_theory_group": np.repeat([names.index(name) for name in kinds], [len(groups[name]) for name in kinds]),
    }


def _embedding(model: Source, layout: Layout, length: int, layer: int, head: int) -> Embedding:
    """W_E, with the used tokens as L0's attention reads them (normalised, in a pre-norm model)."""
    read = model_of(model)
    embedding, used = read.W_E.detach().cpu().double().numpy().copy(), numbered(layout.groups)[0]
    embedding[used] = token_embeddings(model, used, min(length, read.cfg.n_ctx), layer, head)
    return embedding


def _participations(gram: Float[np.ndarray, "draw n n"]) -> Float[np.ndarray, " draw"]:
    """Participation ratio of each set of vectors from their inner products, centred: (tr G)^2 / tr(G^2)."""
    centred = gram - gram.mean(1, keepdims=True) - gram.mean(2, keepdims=True) + gram.mean((1, 2), keepdims=True)
    return np.trace(centred, axis1=1, axis2=2) ** 2 / (centred**2).sum((1, 2))


def _distance(values: Num[np.ndarray, " n"]) -> Num[np.ndarray, "n n"]:
    return np.abs(values[:, None] - values[None, :])


def _theory_cosines(values: Int[np.ndarray, " n"], n_coordinates: int) -> Float[np.ndarray, "n n"]:
    return cosines(theorem_1_embeddings(values, n_coordinates, "reasoning"))


def _columns(scores: Float[np.ndarray, "token component"], n: int) -> Float[np.ndarray, "token n"]:
    padded = np.zeros((len(scores), n))
    padded[:, : min(n, scores.shape[1])] = scores[:, :n]
    return padded


def _permuted_pairs(
    matrix: Float[np.ndarray, "n n"], orders: Int[np.ndarray, "draw n"]
) -> Float[np.ndarray, "draw pair"]:
    return pairs(matrix[orders[:, :, None], orders[:, None, :]])


def _random_cosines(n: int, d_model: int, n_null: int, rng: np.random.Generator) -> Float[np.ndarray, "draw n n"]:
    vectors = rng.standard_normal((n_null, n, d_model), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    return (vectors @ vectors.swapaxes(1, 2)).astype(np.float64)


def _mean_pairs(matrices: Float[np.ndarray, "draw n n"]) -> Float[np.ndarray, " draw"]:
    return pairs(matrices).mean(1) if matrices.shape[-1] > 1 else np.full(len(matrices), np.nan)
