"""Null distributions: what a quantity reads where the mechanism is absent by construction.

Every function draws all its samples in one vectorised call and takes the generator to draw from, so nothing global
is touched. 200 draws at the sizes of a small transformer cost milliseconds.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigvalsh_tridiagonal

from rb_interp.errors import ArgumentError
from rb_interp.typed import typed


@typed
def random_directions(n_draws: int, dim: int, rng: np.random.Generator) -> Float[np.ndarray, "draw dim"]:
    """Unit vectors, uniform on the sphere.

    The mean absolute cosine with any fixed vector is Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)), about sqrt(2 / (pi d)).

    >>> np.linalg.norm(random_directions(2, 5, np.random.default_rng(0)), axis=1).round(12).tolist()
    [1.0, 1.0]
    """
    draws = rng.standard_normal((n_draws, dim))
    return draws / np.linalg.norm(draws, axis=1, keepdims=True)


@typed
def random_subspaces(n_draws: int, dim: int, k: int, rng: np.random.Generator) -> Float[np.ndarray, "draw dim k"]:
    """Orthonormal bases of k-dimensional subspaces, uniform (Haar); k is at most dim.

    A fixed vector has the share k / dim of its squared norm inside, on average.

    >>> basis = random_subspaces(1, 5, 2, np.random.default_rng(0))[0]
    >>> bool(np.allclose(basis.T @ basis, np.eye(2)))
    True
    """
    _check_at_most("random_subspaces", "k", k, dim)
    return np.linalg.qr(rng.standard_normal((n_draws, dim, k)))[0]


def _check_at_most(asker: str, name: str, given: int, most: int) -> None:
    if given > most:
        raise ArgumentError(f"{asker} got {name}={given}; matrices of these sizes allow {name}=1 to {name}={most}.")


@typed
def dirichlet_rows(n_draws: int, length: int, rng: np.random.Generator) -> Float[np.ndarray, "draw length"]:
    """Probability vectors, uniform on the simplex (Dirichlet(1, ..., 1)).

    Their total variation distance from the uniform vector has mean (1 - 1/length)^length: each entry is
    Beta(1, length - 1).

    >>> dirichlet_rows(2, 3, np.random.default_rng(0)).sum(1).round(12).tolist()
    [1.0, 1.0]
    """
    draws = rng.standard_exponential((n_draws, length))
    return draws / draws.sum(1, keepdims=True)


@typed
def permutations(n_draws: int, n: int, rng: np.random.Generator) -> Int[np.ndarray, "draw n"]:
    """Independent random permutations of 0..n-1, one a row.

    >>> sorted(permutations(3, 4, np.random.default_rng(0))[1].tolist())
    [0, 1, 2, 3]
    """
    return rng.permuted(np.tile(np.arange(n), (n_draws, 1)), axis=1)


@typed
def gaussian_singular_values(
    n_draws: int, rows: int, columns: int, rng: np.random.Generator, top: int = 2
) -> Float[np.ndarray, "draw top"]:
    """Leading singular values, largest first, of matrices of independent standard normals.

    Drawn without the matrices: a Gaussian matrix reduces to a bidiagonal one of independent chi variables
    (Dumitriu and Edelman, "Matrix models for beta ensembles", 2002). `top` is at most min(rows, columns).

    >>> values = gaussian_singular_values(1, 64, 32, np.random.default_rng(0))[0]
    >>> bool(values[0] > values[1] > 0)
    True
    """
    n, m = max(rows, columns), min(rows, columns)
    _check_at_most("gaussian_singular_values", "top", top, m)
    diagonal = np.sqrt(rng.chisquare(np.arange(n, n - m, -1), (n_draws, m)))
    below = np.sqrt(rng.chisquare(np.arange(m - 1, 0, -1), (n_draws, m - 1)))
    main = diagonal**2
    main[:, 1:] += below**2
    side = diagonal[:, :-1] * below
    window = (m - top, m - 1)
    squared = [eigvalsh_tridiagonal(d, e, select="i", select_range=window) for d, e in zip(main, side, strict=True)]
    return np.sqrt(np.maximum(np.array(squared).reshape(n_draws, top), 0))[:, ::-1]


@typed
def gaussian_product_singular_values(
    n_draws: int, outer: int, inner: int, rng: np.random.Generator, top: int = 2
) -> Float[np.ndarray, "draw top"]:
    """Leading singular values, largest first, of A B with A [outer, inner] and B [inner, outer] of standard normals.

    A and B^T have QR decompositions, so A B has the singular values of R_A R_B^T. R of a Gaussian matrix that is not
    wide has independent entries: chi variables on the diagonal and normals above it (Bartlett). `top` is at most the
    smaller size.

    >>> values = gaussian_product_singular_values(1, 64, 32, np.random.default_rng(0))[0]
    >>> bool(values[0] > values[1] > 0)
    True
    """
    _check_at_most("gaussian_product_singular_values", "top", top, min(outer, inner))
    if inner > outer:
        R = rng.standard_normal((2, n_draws, outer, inner))
    else:
        R = np.triu(rng.standard_normal((2, n_draws, inner, inner)), 1)
        R += np.sqrt(rng.chisquare(np.arange(outer, outer - inner, -1), (2, n_draws, inner)))[..., None] * np.eye(inner)
    return np.linalg.svd(R[0] @ R[1].swapaxes(1, 2), compute_uv=False)[:, :top]
