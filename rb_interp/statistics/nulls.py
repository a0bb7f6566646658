"""Null distributions: draws of a quantity where the mechanism is absent by construction."""

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigvalsh_tridiagonal

from rb_interp.arguments import checked

__all__ = [
    "dirichlet_rows",
    "gaussian_product_singular_values",
    "gaussian_singular_values",
    "permutations",
    "random_directions",
    "random_subspaces",
]


@checked
def random_directions(
    n_draws: int, dim: int, rng: np.random.Generator
) -> Float[np.ndarray, "draw dim"]:
    """Unit vectors, uniform on the sphere.

    The mean absolute cosine with any fixed vector is Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)), about
    sqrt(2 / (pi d)).

    >>> np.linalg.norm(random_directions(2, 5, np.random.default_rng(0)), axis=1).round(12).tolist()
    [1.0, 1.0]
    """
    draws = rng.standard_normal((n_draws, dim))
    return draws / np.linalg.norm(draws, axis=1, keepdims=True)


@checked
def random_subspaces(
    n_draws: int, dim: int, k: int, rng: np.random.Generator
) -> Float[np.ndarray, "draw dim k"]:
    """Orthonormal bases of k-dimensional subspaces, uniform (Haar); k is at most dim.

    A fixed vector has the share k / dim of its squared norm inside, on average.

    >>> basis = random_subspaces(1, 5, 2, np.random.default_rng(0))[0]
    >>> bool(np.allclose(basis.T @ basis, np.eye(2)))
    True
    """
    return np.linalg.qr(rng.standard_normal((n_draws, dim, k)))[0]


@checked
def dirichlet_rows(
    n_draws: int, length: int, rng: np.random.Generator
) -> Float[np.ndarray, "draw length"]:
    """Probability vectors, uniform on the simplex (Dirichlet(1, ..., 1)).

    Their total variation distance from the uniform vector has mean (1 - 1/length)^length: each
    entry is Beta(1, length - 1).

    >>> dirichlet_rows(2, 3, np.random.default_rng(0)).sum(1).round(12).tolist()
    [1.0, 1.0]
    """
    draws = rng.standard_exponential((n_draws, length))
    return draws / draws.sum(1, keepdims=True)


@checked
def permutations(
    n_draws: int, n: int, rng: np.random.Generator, groups: Int[np.ndarray, " n"] | int = 0
) -> Int[np.ndarray, "draw n"]:
    """Independent random permutations of 0..n-1, one a row, each within the groups.

    >>> sorted(permutations(3, 4, np.random.default_rng(0))[1].tolist())
    [0, 1, 2, 3]
    """
    orders = np.tile(np.arange(n), (n_draws, 1))
    for group in np.unique(groups):
        members = np.flatnonzero(np.broadcast_to(groups, n) == group)
        orders[:, members] = rng.permuted(orders[:, members], axis=1)
    return orders


@checked
def gaussian_singular_values(
    n_draws: int, rows: int, columns: int, rng: np.random.Generator, top: int = 2
) -> Float[np.ndarray, "draw top"]:
    """Leading singular values, largest first, of matrices of independent standard normals.

    Drawn without the matrices: a Gaussian matrix reduces to a bidiagonal one of independent chi
    variables (Dumitriu and Edelman, "Matrix models for beta ensembles", 2002). `top` is at most
    min(rows, columns).

    >>> values = gaussian_singular_values(1, 64, 32, np.random.default_rng(0))[0]
    >>> bool(values[0] > values[1] > 0)
    True
    """
    n = max(rows, columns)
    m = min(rows, columns)
    diagonal = np.sqrt(rng.chisquare(np.arange(n, n - m, -1), (n_draws, m)))
    below = np.sqrt(rng.chisquare(np.arange(m - 1, 0, -1), (n_draws, m - 1)))
    main = diagonal**2
    main[:, 1:] += below**2
    side = diagonal[:, :-1] * below
    window = (m - top, m - 1)
    squares = np.empty((n_draws, top))
    for draw in range(n_draws):
        squares[draw] = eigvalsh_tridiagonal(
            main[draw], side[draw], select="i", select_range=window
        )
    return np.sqrt(np.maximum(squares, 0))[:, ::-1]


@checked
def gaussian_product_singular_values(
    n_draws: int, outer: int, inner: int, rng: np.random.Generator, top: int = 2
) -> Float[np.ndarray, "draw top"]:
    """Leading singular values, largest first, of A B with A [outer, inner] and B [inner, outer] of
    standard normals.

    A and B^T have QR decompositions, so A B has the singular values of R_A R_B^T. R of a Gaussian
    matrix that is not wide has independent entries: chi variables on the diagonal and normals above
    it (Bartlett). `top` is at most the smaller size.

    >>> values = gaussian_product_singular_values(1, 64, 32, np.random.default_rng(0))[0]
    >>> bool(values[0] > values[1] > 0)
    True
    """
    if inner > outer:
        R = rng.standard_normal((2, n_draws, outer, inner))
    else:
        R = np.triu(rng.standard_normal((2, n_draws, inner, inner)), 1)
        degrees = np.arange(outer, outer - inner, -1)
        diagonals = np.sqrt(rng.chisquare(degrees, (2, n_draws, inner)))
        R += diagonals[..., None] * np.eye(inner)
    products = R[0] @ R[1].swapaxes(1, 2)
    return np.linalg.svd(products, compute_uv=False)[:, :top]
