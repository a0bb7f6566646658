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

The line is the last ordered group. Where none is ordered nothing is said of order or theory. A
value that nothing defines (one token only, zero vectors) is nan.

How it can mislead. A network that learned the rule (gamma .8) reads order_rho -.91 to -.95, theory
.95 to .99, participation 4; one that did not (gamma .3) stays near random vectors, as an untrained
one does: abs_cos_ratio 1, participation 27. Both circuits of the rule order their tokens alike, so
order is no proof of a mechanism. With 5 anchors there are 10 pairs: the null of order_rho has sd
.32, and pc1_reasoning, an absolute value, reads .42 by chance; its perfect 1 has p = .03. The
pooled component may be spent on telling keys from anchors: pc1_key .17 beside own_pc1_key .99 has
been seen. Raw cosines near 1 follow from any shared mean. theory is nearly order_rho again: any
cosine that falls with distance correlates with it.

`lattice` (paper 2, Figs. 5c, 5d, 11, 12 and 16). Tokens s, in ascending order and n of them, with
embeddings w_s less their mean; c_s,t the cosine of s and t:

    cos_k          C(k) = mean of c_s,s+k over all s                    for k = 1 to 10    [-1, 1]
    contrast       mean of C over the steps less mean of C(first - 1) and C(last + 1)      [-2, 2]
    nearest        share of tokens whose nearest token, by cos, is one of the steps away   [0, 1]
    pc_order       max over the first three principal components of |Spearman(score, s)|   [0, 1]
    participation  (sum l)^2 / sum l^2 of the spectrum of their covariance                 [1, min(n - 1, d_model)]
    log_participation     its natural logarithm
    participation_ratio   participation / the untrained model's; nan without an untrained model

``steps`` are 3 and 4 unless others are given: the differences of paper 2's anchors are sums of 3s
and 4s. A token's number is its id.

How it can mislead. Tokens on a line or a circle in order: pc_order near 1, nearest 0, contrast
about 0. A lattice of period 3.5 with a slower change beside it: nearest 1, contrast up to 1. An
untrained model: contrast 0 and nearest near 4 / (n - 1), as their nulls; but pc_order .17 for 80
tokens, since it is the largest of three absolute correlations. contrast > 0 alone says little:
wherever C(k) bends downwards, as on a circle, C(3) and C(4) lie above the mean of C(2) and C(5).
nearest misses a lattice without a slower change, whose tokens are nearest to those a whole period
away, and one beside a large slower change, whose nearest are 1 away. Of equally near tokens the
lowest counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError, RolesError, shown
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.probes import vectors as of_vectors
from rb_interp.probes._probe import Found, embedding, probe, source
from rb_interp.probes.activations import float64
from rb_interp.probes.values import numbered, token_embeddings, token_groups
from rb_interp.probes.vectors import (
    cosines,
    pairs,
    participation,
    principal_components,
    ranks,
    spearman,
)
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null
from rb_interp.tasks.inputs import Inputs, Roles
from rb_interp.theory.theorem_1 import theorem_1_embeddings

TIES = 12
"""Decimals of a cosine that rank it, so that equal cosines tie in spite of rounding."""
SHORT = 16
"""Positions over which normalised embeddings are averaged where no tokens say how long a row is, at
most."""
LAGS, COMPONENTS = 10, 3
RATIO = {
    "participation_ratio": "no untrained model was given, or its own participation is not defined."
}
Vectors = Float[np.ndarray, "token d_model"]


class Laid(NamedTuple):
    """Embeddings by group, groups whose mean cosine is read, numbers of the ordered ones, and the
    line of Theorem 1."""

    vectors: Mapping[str, Vectors]
    alike: Sequence[str]
    ordered: Mapping[str, np.ndarray]
    line: str
    d_vocab: int

    def every(self) -> Vectors:
        """The embeddings of all groups."""
        return np.concatenate(list(self.vectors.values()))

    def theory(self) -> Float[np.ndarray, "n n"] | None:
        """Eq. (14)'s cosines of the line's tokens; None unless all numbers are whole ones, which
        are its labels."""
        if not self.line or not all(
            np.issubdtype(numbers.dtype, np.integer) for numbers in self.ordered.values()
        ):
            return None
        return cosines(theorem_1_embeddings(self.ordered[self.line], self.d_vocab, "reasoning"))

    def leading(self) -> dict[str, np.ndarray]:
        """The ordered groups' scores on the leading component of all tokens, and on that of each
        group."""
        ends = np.cumsum([len(of) for of in self.vectors.values()])[:-1]
        pooled = dict(
            zip(
                self.vectors,
                np.split(principal_components(self.every())[0][:, 0], ends),
                strict=True,
            )
        )
        own = {
            f"own_pc1_{name}": principal_components(self.vectors[name])[0][:, 0]
            for name in self.ordered
        }
        return {f"pc1_{name}": pooled[name] for name in self.ordered} | own


@probe(
    source,
    {
        **RATIO,
        "": "the group has too few different tokens, or their embeddings are zero or all the same.",
    },
    looks=False,
)
def geometry(
    model: ActivationSource,
    inputs: Inputs | None = None,
    *,
    layer: int,
    head: int,
    groups: Mapping | None = None,
    alike: Sequence[str] = (),
    ordered: Sequence[str] = (),
    values: Mapping | None = None,
) -> Found:
    """Read the embedding's geometry.

    Values as in the module's table. Arrays: cos_g_matrix, cos_all_matrix, tokens, group, pca
    [token, 3], explained, theory_cos_matrix, pca_theory [token, 2], pca_theory_tokens,
    pca_theory_group. Nulls: the group's token values permuted (order_rho, pc1_g, own_pc1_g,
    theory), random vectors (the rest).

    Args:
        inputs: their roles name the groups, and their rows give a pre-norm model its length. None
            needs ``groups``.
        layer, head: matter in pre-norm models alone, whose embedding is seen through its LayerNorm.
        groups: name -> token ids, or the name of a group of the roles; by default every group of
            the roles.
        alike: groups whose mean cosine is read; by default all.
        ordered: groups whose token ids are the numbers that they stand for; by default none.
        values: the numbers where they are not the ids, ``{group: a number for each token}``. Such
            groups are ordered.

    Raises RolesError where a token group is missing, and for values of other tokens.
    """
    roles, length = (Roles(), SHORT) if inputs is None else (inputs.roles, inputs.tokens.shape[1])
    named = token_groups(groups, roles, "geometry", (*(values or ()), *alike, *ordered))
    own = {name: np.asarray(numbers) for name, numbers in (values or {}).items()}
    for name, of in own.items():
        if of.shape != named[name].shape or of.dtype.kind not in "iuf" or not np.isfinite(of).all():
            raise RolesError(
                f"geometry got values of the group '{name}' as {shown(of)}; expected a number for "
                f"each of its "
                f"{len(named[name])} tokens."
            )
    numbers = {name: own.get(name, named[name]) for name in (*ordered, *own)}
    read, (used, group) = model_of(model), numbered(named)
    every = token_embeddings(model, used, min(length, read.cfg.n_ctx), layer, head)
    vectors = {name: every[group == number] for number, name in enumerate(named)}
    laid = Laid(vectors, alike or list(named), numbers, next(reversed(numbers), ""), len(read.W_E))
    return Found(
        _values(laid),
        lambda n_null, seed: _nulls(laid, n_null, np.random.default_rng(seed)),
        lambda: {"tokens": used, "group": group, **_arrays(laid, named)},
    )


def _values(laid: Laid) -> dict[str, float]:
    """Every quantity of the module's table (participation_ratio: nan)."""
    every, theory = laid.every(), laid.theory()
    abs_cos, by_chance = (
        of_vectors.mean_off_diagonal(np.abs(cosines(every))),
        of_vectors.expected_abs_cos(every.shape[1]),
    )
    values = {
        f"cos_{name}": of_vectors.mean_off_diagonal(cosines(laid.vectors[name]))
        for name in laid.alike
    }
    values |= {
        "abs_cos": abs_cos,
        "abs_cos_random": by_chance,
        "abs_cos_ratio": abs_cos / by_chance,
    }
    along = pairs(cosines(laid.vectors[laid.line])) if laid.line else np.zeros(0)
    if laid.ordered:
        numbers = laid.ordered[laid.line]
        values["order_rho"] = spearman(pairs(np.abs(numbers[:, None] - numbers)), along.round(TIES))
        for name, scores in laid.leading().items():
            values[name] = abs(spearman(laid.ordered[name.partition("pc1_")[2]], scores))
    values |= {"participation": participation(every), "participation_ratio": math.nan}
    return (
        values if theory is None else {**values, "theory": of_vectors.pearson(pairs(theory), along)}
    )


def _nulls(laid: Laid, n_null: int, rng: np.random.Generator) -> dict[str, Null]:
    every, nulls = laid.every(), _order_nulls(laid, n_null, rng) if laid.ordered else {}
    vectors = rng.standard_normal((n_null, *every.shape), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    gram = (vectors @ vectors.swapaxes(1, 2)).astype(np.float64)

    def mean_pairs(matrices: Float[np.ndarray, "draw n n"]) -> Float[np.ndarray, " draw"]:
        return pairs(matrices).mean(1) if matrices.shape[-1] > 1 else np.full(len(matrices), np.nan)

    draws = {"abs_cos": mean_pairs(np.abs(gram))}
    draws["abs_cos_ratio"] = draws["abs_cos"] / of_vectors.expected_abs_cos(every.shape[1])
    sizes = {name: len(laid.vectors[name]) for name in laid.alike}
    draws |= {f"cos_{name}": mean_pairs(gram[:, :n, :n]) for name, n in sizes.items()}
    nulls |= {name: Null("random vectors", of) for name, of in draws.items()}
    spread = Null("random vectors", of_vectors.gram_participations(gram), "less")
    return {**nulls, "participation": spread, "participation_ratio": spread}


def _order_nulls(laid: Laid, n_null: int, rng: np.random.Generator) -> dict[str, Null]:
    line, real, said = (
        laid.ordered[laid.line],
        pairs(cosines(laid.vectors[laid.line])),
        "token values permuted",
    )
    orders = permutations(n_null, len(line), rng)

    def draws(matrix: Float[np.ndarray, "n n"], of: np.ndarray) -> Float[np.ndarray, " draw"]:
        return of_vectors.row_correlations(
            pairs(matrix[orders[:, :, None], orders[:, None, :]]), of
        )

    distance, theory = of_vectors.ranked_pairs(np.abs(line[:, None] - line)), laid.theory()
    nulls = {"order_rho": Null(said, draws(distance, ranks(real.round(TIES))), "less")}
    if theory is not None:
        nulls["theory"] = Null(said, draws(theory, real))
    shuffled = {
        of: rng.permuted(np.tile(ranks(number), (n_null, 1)), axis=1)
        for of, number in laid.ordered.items()
    }
    for name, scores in laid.leading().items():
        drawn = of_vectors.row_correlations(shuffled[name.partition("pc1_")[2]], ranks(scores))
        nulls[name] = Null(said, np.abs(drawn))
    return nulls


def _arrays(laid: Laid, named: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What Fig. 5 draws: cosine matrices, principal components, and Theorem 1's counterparts."""
    scores, explained = principal_components(laid.every())
    arrays = {f"cos_{name}_matrix": cosines(laid.vectors[name]) for name in laid.alike}
    arrays |= {
        "cos_all_matrix": cosines(laid.every()),
        "pca": _columns(scores, 3),
        "explained": explained,
    }
    if (theory := laid.theory()) is not None:
        ideal = [
            theorem_1_embeddings(numbers, laid.d_vocab, "reasoning" if name == laid.line else "key")
            for name, numbers in laid.ordered.items()
        ]
        arrays["theory_cos_matrix"] = theory
        arrays["pca_theory"] = _columns(principal_components(np.concatenate(ideal))[0], 2)
        arrays["pca_theory_tokens"], group = numbered({name: named[name] for name in laid.ordered})
        arrays["pca_theory_group"] = np.array([list(named).index(name) for name in laid.ordered])[
            group
        ]
    return arrays


def _columns(scores: Float[np.ndarray, "token component"], n: int) -> Float[np.ndarray, "token n"]:
    """The first n columns; zeros where there are fewer."""
    return np.pad(scores[:, :n], ((0, 0), (0, max(0, n - scores.shape[1]))))


@probe(
    embedding,
    {**RATIO, "": "the tokens are too few, or their embeddings are zero or all the same."},
    place={},
)
def lattice(
    W_E: Tensor, inputs: Inputs | None = None, *, tokens: Any = "key", steps: Sequence[int] = (3, 4)
) -> Found:
    """Order of some tokens' embeddings: by distance, by principal component, and how many
    directions they use.

    Values as in the module's table; nan for what fewer tokens than it needs leave undefined. Nulls:
    tokens permuted, and independent Gaussian vectors (participation). Arrays: tokens, and pca
    ``[token, 3]``, scores on the first three components.

    Args:
        inputs: their roles give the tokens of a role; not needed where ``tokens`` are ids.
        tokens: token ids, or the name of a group of the roles.
        steps: the distances that ``contrast`` and ``nearest`` ask about, from 2.

    Raises RolesError for a group of tokens that is not there, ModelError for tokens that the model
    does not have.
    """
    roles, d_vocab = Roles() if inputs is None else inputs.roles, len(W_E)
    ids = np.unique(token_groups({"tokens": tokens}, roles, "lattice")["tokens"])
    if not len(ids) or not 0 <= ids[0] <= ids[-1] < d_vocab:
        got = f"tokens from {ids[0]} to {ids[-1]}" if len(ids) else "no tokens"
        raise ModelError(
            f"lattice got {got}; give some of this model's tokens, 0 to {d_vocab - 1}."
        )
    vectors = float64(W_E[ids])
    cos = cosines(vectors - vectors.mean(0)).round(TIES)
    scores, spread = principal_components(vectors)[0][:, :COMPONENTS], participation(vectors)

    def nulls(n_null: int, seed: int) -> dict[str, Null]:
        rng = np.random.default_rng(seed)
        orders = permutations(n_null, len(ids), rng)
        drawn = [
            _laid_out(cos[np.ix_(order, order)], scores[order], ids, steps) for order in orders
        ]
        permuted = {
            name: Null("tokens permuted", np.array([one[name] for one in drawn]))
            for name in drawn[0]
        }
        gaussian = of_vectors.gaussian_participations(n_null, len(ids), vectors.shape[1], rng)
        return permuted | {"participation": Null("random vectors", gaussian, "less")}

    values = {**_laid_out(cos, scores, ids, steps), "participation": spread}
    values |= {
        "log_participation": math.log(spread) if spread > 0 else math.nan,
        "participation_ratio": math.nan,
    }
    return Found(values, nulls, {"tokens": ids, "pca": _columns(scores, COMPONENTS)})


def token_vectors(model: ActivationSource, ids: Int[np.ndarray, " token"]) -> Vectors:
    """Rows of W_E in float64."""
    return float64(model_of(model).W_E.detach()[ids])


def _laid_out(
    cos: Float[np.ndarray, "token token"],
    scores: Float[np.ndarray, "token component"],
    ids: Int[np.ndarray, " token"],
    steps: Sequence[int],
) -> dict[str, float]:
    """C(k), contrast, nearest and pc_order from cosines and principal components of tokens with the
    given numbers."""

    def mean(values: np.ndarray) -> float:
        return float(values.mean()) if values.size else math.nan

    apart = np.abs(ids[:, None] - ids)
    by_lag = {
        lag: mean(cos[np.triu(apart == lag)]) for lag in range(1, max(LAGS, max(steps) + 1) + 1)
    }
    within, beside = (
        np.array([by_lag[k] for k in lags]) for lags in (steps, (min(steps) - 1, max(steps) + 1))
    )
    others = np.where(np.eye(len(cos), dtype=bool), -np.inf, cos)
    away = apart[np.arange(len(ids)), others.argmax(1)]
    known = len(ids) > 1 and np.isfinite(cos).all()
    order = [abs(spearman(ids, one)) for one in scores.T]
    return {
        **{f"cos_{lag}": by_lag[lag] for lag in range(1, LAGS + 1)},
        "contrast": mean(within) - mean(beside),
        "nearest": float(np.isin(away, steps).mean()) if known else math.nan,
        "pc_order": max(filter(math.isfinite, order), default=math.nan),
    }
