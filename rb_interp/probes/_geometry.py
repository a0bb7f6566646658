r"""Geometry of the token embeddings, and of those that stand for numbers.

`geometry` (paper 1, Figs. 4A, 5 and 14; Theorem 1, Eq. 14). For used tokens s in groups g with
vectors w_s, d = d_model: the rows of W_E, and in a pre-norm model what the first attention reads,
the normalised embedding. A model without attention will do (Fig. 4A).

    cos_g            mean of cos(w_s, w_t) over distinct s, t of the group (raw)                   [-1, 1]
    abs_cos          mean |cos| over all distinct used tokens                                      [0, 1]
    abs_cos_random   E|cos| of random vectors = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2))             (0, 1]
    abs_cos_ratio    abs_cos / abs_cos_random                                                      > 0, random: 1
    order_rho        Spearman(|s - t|, cos) over pairs of the line                                 [-1, 1]
    pc1_g            |Spearman(leading principal component, s)| within an ordered group, the
                     component taken from all used tokens, centred                                 [0, 1]
    own_pc1_g        the same with each group's own leading component                              [0, 1]
    participation    (sum l)^2 / sum l^2, l the spectrum of the centred covariance                 [1, rank]
    participation_ratio   participation / the untrained model's; nan without an untrained model    > 0
    theory           Pearson(cos, Eq. 14's cos) over pairs of the line                             [-1, 1]

The line is the last ordered group. If no group is ordered, nothing is said of order or theory.
A value that nothing defines (one token only, zero vectors) is nan.

How it can mislead. A network that learned the rule (gamma .8) reads order_rho -.91 to -.95, theory
.95 to .99, participation 4; one that did not (gamma .3) stays near random vectors, as an untrained
one does: abs_cos_ratio 1, participation 27. Both circuits of the rule order their tokens alike, so
order is no proof of a mechanism. With 5 anchors there are 10 pairs: the null of order_rho has sd
.32, and pc1_reasoning, an absolute value, reads .42 by chance; its perfect 1 has p = .03. The
pooled component may be spent on telling keys from anchors: pc1_key .17 beside own_pc1_key .99 has
been seen. Raw cosines near 1 follow from any shared mean. theory is nearly order_rho again: any
cosine that falls with distance correlates with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import RolesError, describe
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.models.structure import has_attention
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes.activations import check_layer_head, check_rows
from rb_interp.probes.embeddings import (
    Embeddings,
    cosines,
    expected_abs_cos,
    gram_participations,
    mean_off_diagonal,
    numbered,
    pairs,
    participation,
    pearson,
    principal_components,
    ranked_pairs,
    ranks,
    row_correlations,
    spearman,
    token_embeddings,
    token_groups,
)
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs, Roles
from rb_interp.theory.theorem_1 import theorem_1_embeddings

TIES = 12
"""Decimals of a cosine that rank it, so that equal cosines tie in spite of rounding."""
DEFAULT_LENGTH = 16
"""Positions over which normalised embeddings are averaged if no tokens say how long a row is, at
most."""
PERMUTED = "token values permuted"
RATIO_REASON = {
    "participation_ratio": "no untrained model was given, or its own participation is not defined."
}
REASONS = {
    **RATIO_REASON,
    "": "the group has too few different tokens, or their embeddings are zero or all the same.",
}


class GroupedEmbeddings(NamedTuple):
    """The embeddings of groups of tokens, and the numbers that tokens stand for.

    Attributes:
        vectors: group -> embeddings.
        clusters: groups whose mean cosine is read.
        numbers: ordered group -> number of each token.
        line: the last ordered group, which Theorem 1 is about; empty for none.
        d_vocab: size of the vocabulary.
    """

    vectors: Mapping[str, Embeddings]
    clusters: Sequence[str]
    numbers: Mapping[str, np.ndarray]
    line: str
    d_vocab: int

    def all_vectors(self) -> Embeddings:
        """The embeddings of all groups."""
        return np.concatenate(list(self.vectors.values()))

    def theory_cosines(self) -> Float[np.ndarray, "n n"] | None:
        """Eq. (14)'s cosines of the line's tokens.

        None unless all numbers are whole ones, which are its labels.
        """
        for numbers in self.numbers.values():
            if not np.issubdtype(numbers.dtype, np.integer):
                return None
        if not self.line:
            return None
        return cosines(theorem_1_embeddings(self.numbers[self.line], self.d_vocab, "reasoning"))

    def leading_scores(self) -> dict[str, tuple[str, np.ndarray]]:
        """Quantity -> an ordered group, and its tokens' scores on a leading component.

        pc1 is the component of all tokens, own_pc1 that of the group.
        """
        ends = np.cumsum([len(vectors) for vectors in self.vectors.values()])[:-1]
        scores = np.split(principal_components(self.all_vectors())[0][:, 0], ends)
        pooled = dict(zip(self.vectors, scores, strict=True))
        result = {f"pc1_{name}": (name, pooled[name]) for name in self.numbers}
        for name in self.numbers:
            result[f"own_pc1_{name}"] = name, principal_components(self.vectors[name])[0][:, 0]
        return result


@checked
@single_threaded
def geometry(
    model: ActivationSource,
    inputs: Inputs | None = None,
    *,
    layer: int = 0,
    head: int = 0,
    groups: Mapping[str, Any] | None = None,
    clusters: Sequence[str] = (),
    ordered: Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Read the geometry of token embeddings.

    Values as in the module's table. Arrays: cos_g_matrix, cos_all_matrix, tokens, group, pca
    [token, 3], explained, theory_cos_matrix, pca_theory [token, 2], pca_theory_tokens,
    pca_theory_group. Nulls: the group's token values permuted (order_rho, pc1_g, own_pc1_g,
    theory), random vectors (the rest).

    Args:
        model: a model, its activations on these rows (``captured``), or arrays (``from_arrays``).
        inputs: their roles name the groups, and their rows give a pre-norm model its length. None
            needs ``groups``.
        layer, head: matter in pre-norm models alone, whose embedding is seen through its LayerNorm.
        groups: name -> token ids, or the name of a group of the roles; by default every group of
            the roles.
        clusters: groups whose mean cosine is read; by default all.
        ordered: groups whose token ids are the numbers that they stand for; by default none.
        values: the numbers if they are not the ids, ``{group: a number for each token}``. Such
            groups are ordered.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises ModelError for a layer or head that does not exist, RolesError for a missing token group,
    and for values of other tokens.

    >>> from rb_interp import AnchorTask, build_model
    >>> model = build_model(AnchorTask(), gamma=0.5)
    >>> reading = geometry(model, groups={"low": range(20, 30)}, ordered=["low"], n_null=0)
    >>> list(reading.values)[:3]
    ['cos_low', 'abs_cos', 'abs_cos_random']
    """
    if has_attention(model_of(model)):
        check_layer_head(model, layer, head, "geometry", untrained, caches=True)
    roles = Roles()
    length = DEFAULT_LENGTH
    if inputs is not None:
        check_rows(inputs, "geometry")
        roles = inputs.roles
        length = inputs.tokens.shape[1]
    numbers_of_group = {name: np.asarray(numbers) for name, numbers in (values or {}).items()}
    token_ids = token_groups(groups, roles, "geometry", (*numbers_of_group, *clusters, *ordered))
    for name, numbers in numbers_of_group.items():
        n = len(token_ids[name])
        if (
            numbers.shape != (n,)
            or numbers.dtype.kind not in "iuf"
            or not np.isfinite(numbers).all()
        ):
            raise RolesError(
                f"geometry got values of the group '{name}' as {describe(numbers)}; expected a number "
                f"for each of its {n} tokens."
            )
    numbers = {
        name: numbers_of_group.get(name, token_ids[name]) for name in (*ordered, *numbers_of_group)
    }
    tokens, group = numbered(token_ids)

    def measure(source: ActivationSource) -> Measurement:
        lens = model_of(source)
        all_vectors = token_embeddings(source, tokens, min(length, lens.cfg.n_ctx), layer, head)
        vectors = {name: all_vectors[group == number] for number, name in enumerate(token_ids)}
        line = next(reversed(numbers), "")
        grouped = GroupedEmbeddings(
            vectors, clusters or list(token_ids), numbers, line, len(lens.W_E)
        )
        arrays = {"tokens": tokens, "group": group}
        if source is model:  # nobody sees those of the untrained model
            arrays |= _arrays(grouped, token_ids)
        return Measurement(_values(grouped), partial(_nulls, grouped), arrays)

    reading = read_model("geometry", model, measure, untrained, n_null, seed, REASONS)
    return with_participation_ratios(reading)


def with_participation_ratios(reading: Reading) -> Reading:
    """The same reading with participations, and their nulls, divided by the untrained model's.

    ``participation_ratio`` is NaN, and has no null, without an untrained model.
    """
    values = dict(reading.values)
    untrained = dict(reading.untrained)
    nulls = dict(reading.nulls)
    notes = dict(reading.notes)
    for ratio in values:
        if not ratio.startswith("participation_ratio"):
            continue
        if not untrained:
            nulls.pop(ratio, None)
            continue
        quantity = ratio.replace("_ratio", "")
        values[ratio] = values[quantity] / untrained[quantity]
        if math.isfinite(values[ratio]):
            notes.pop(ratio, None)
        if ratio in nulls:
            nulls[ratio] = replace(nulls[ratio], draws=nulls[ratio].draws / untrained[quantity])
        untrained[ratio] = 1.0
    return replace(reading, values=values, untrained=untrained, nulls=nulls, notes=notes)


def _values(embeddings: GroupedEmbeddings) -> dict[str, float]:
    """Every quantity of the module's table (participation_ratio: nan)."""
    all_vectors = embeddings.all_vectors()
    values = {}
    for name in embeddings.clusters:
        values[f"cos_{name}"] = mean_off_diagonal(cosines(embeddings.vectors[name]))
    values["abs_cos"] = mean_off_diagonal(np.abs(cosines(all_vectors)))
    values["abs_cos_random"] = expected_abs_cos(all_vectors.shape[1])
    values["abs_cos_ratio"] = values["abs_cos"] / values["abs_cos_random"]
    if embeddings.numbers:
        numbers = embeddings.numbers[embeddings.line]
        distance = pairs(np.abs(numbers[:, None] - numbers))
        along = pairs(cosines(embeddings.vectors[embeddings.line]))
        values["order_rho"] = spearman(distance, along.round(TIES))
        for name, (group, scores) in embeddings.leading_scores().items():
            values[name] = abs(spearman(embeddings.numbers[group], scores))
    values["participation"] = participation(all_vectors)
    values["participation_ratio"] = math.nan
    theory = embeddings.theory_cosines()
    if theory is not None:  # of the line too
        values["theory"] = pearson(pairs(theory), along)
    return values


def _nulls(embeddings: GroupedEmbeddings, n_null: int, seed: int) -> dict[str, Null]:
    rng = np.random.default_rng(seed)
    nulls = _order_nulls(embeddings, n_null, rng) if embeddings.numbers else {}
    all_vectors = embeddings.all_vectors()
    vectors = rng.standard_normal((n_null, *all_vectors.shape), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    gram = (vectors @ vectors.swapaxes(1, 2)).astype(np.float64)
    abs_cos = _mean_pairs(np.abs(gram))
    nulls["abs_cos"] = Null("random vectors", abs_cos)
    ratio = abs_cos / expected_abs_cos(all_vectors.shape[1])
    nulls["abs_cos_ratio"] = Null("random vectors", ratio)
    for name in embeddings.clusters:
        n = len(embeddings.vectors[name])
        nulls[f"cos_{name}"] = Null("random vectors", _mean_pairs(gram[:, :n, :n]))
    length = np.linalg.norm(all_vectors, axis=1)
    participations = gram_participations(gram * np.outer(length, length))
    spread = Null("random vectors as long as these", participations, "less")
    return {**nulls, "participation": spread, "participation_ratio": spread}


def _mean_pairs(matrices: Float[np.ndarray, "draw n n"]) -> Float[np.ndarray, " draw"]:
    if matrices.shape[-1] < 2:
        return np.full(len(matrices), np.nan)
    return pairs(matrices).mean(1)


def _order_nulls(
    embeddings: GroupedEmbeddings, n_null: int, rng: np.random.Generator
) -> dict[str, Null]:
    numbers = embeddings.numbers[embeddings.line]
    along = pairs(cosines(embeddings.vectors[embeddings.line]))
    orders = permutations(n_null, len(numbers), rng)

    def draws(matrix: Float[np.ndarray, "n n"], observed: np.ndarray) -> np.ndarray:
        permuted = matrix[orders[:, :, None], orders[:, None, :]]
        return row_correlations(pairs(permuted), observed)

    distance = ranked_pairs(np.abs(numbers[:, None] - numbers))
    nulls = {"order_rho": Null(PERMUTED, draws(distance, ranks(along.round(TIES))), "less")}
    theory = embeddings.theory_cosines()
    if theory is not None:
        nulls["theory"] = Null(PERMUTED, draws(theory, along))
    rank_draws = {}
    for name, values in embeddings.numbers.items():
        rank_draws[name] = rng.permuted(np.tile(ranks(values), (n_null, 1)), axis=1)
    for quantity, (name, scores) in embeddings.leading_scores().items():
        correlations = row_correlations(rank_draws[name], ranks(scores))
        nulls[quantity] = Null(PERMUTED, np.abs(correlations))
    return nulls


def _arrays(
    embeddings: GroupedEmbeddings, token_ids: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What Fig. 5 draws: cosine matrices, principal components, and Theorem 1's counterparts."""
    all_vectors = embeddings.all_vectors()
    scores, explained = principal_components(all_vectors)
    arrays = {
        f"cos_{name}_matrix": cosines(embeddings.vectors[name]) for name in embeddings.clusters
    }
    arrays["cos_all_matrix"] = cosines(all_vectors)
    arrays["pca"] = first_columns(scores, 3)
    arrays["explained"] = explained
    theory = embeddings.theory_cosines()
    if theory is None:
        return arrays
    ideal = []
    for name, numbers in embeddings.numbers.items():
        kind = "reasoning" if name == embeddings.line else "key"
        ideal.append(theorem_1_embeddings(numbers, embeddings.d_vocab, kind))
    ordered = {name: token_ids[name] for name in embeddings.numbers}
    tokens, group = numbered(ordered)
    positions = np.array([list(token_ids).index(name) for name in ordered])
    arrays["theory_cos_matrix"] = theory
    arrays["pca_theory"] = first_columns(principal_components(np.concatenate(ideal))[0], 2)
    arrays["pca_theory_tokens"] = tokens
    arrays["pca_theory_group"] = positions[group]
    return arrays


def first_columns(
    scores: Float[np.ndarray, "token component"], n: int
) -> Float[np.ndarray, "token n"]:
    """The first n columns; zeros in place of missing ones."""
    return np.pad(scores[:, :n], ((0, 0), (0, max(0, n - scores.shape[1]))))
