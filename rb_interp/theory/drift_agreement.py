"""How well a predicted drift agrees with the measured one, as vectors over tokens and coordinates.

    cos = <m, p> / (|m| |p|)           R^2 = 1 - |m - p|^2 / |m|^2

for m and p flattened over [token, d_model], both centred over the tokens first: what all tokens do alike is left out.
There is no free scale: R^2 is 1 only where size and direction are both right, 0 for a prediction of no motion, and
negative for one that is worse than none. For a prediction that is c times the truth, R^2 = 1 - (1 - c)^2.

Null. Predictions permuted within a kind of token keep everything but which token of its kind they belong to. The mean
of R^2 over all such permutations has a closed form, since only the inner product changes:

    mean <m, p_pi> = sum over kinds of  n_kind <mean of m, mean of p>      (means over the kind)

How it can mislead. Where kinds differ much and tokens of one kind little, R^2 is high with any order of tokens, and the
excess over the null says more. Memory anchors share one population P^s, so a prediction from populations has no excess
within them.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from rb_interp.typed import typed

ROUNDING = 1e-6
"""Part of a drift's size below which what centring leaves is single precision's rounding."""


@typed
def agreement(
    predicted: Float[Tensor, "*member token d_model"],
    measured: Float[Tensor, "*member token d_model"],
    centred: bool = True,
) -> tuple[Float[Tensor, "*member"], Float[Tensor, "*member"]]:
    """Cosine in [-1, 1] and R^2 in (-inf, 1] over all tokens together.

    The cosine is nan where prediction or measurement holds nothing but rounding (1e-6 of its size before centring), as
    predictions from one label distribution for all tokens do; R^2 is nan where nothing but that was measured.

    >>> m = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    >>> [round(x.item(), 4) for x in agreement(m / 2, m)]
    [1.0, 0.75]
    """
    (p, p_size), (m, m_size) = _sized(predicted, centred), _sized(measured, centred)
    return (p * m).sum((-2, -1)) / (p_size * m_size), 1 - ((m - p) ** 2).sum((-2, -1)) / m_size**2


@typed
def permuted_r2(
    predicted: Float[Tensor, "*member token d_model"],
    measured: Float[Tensor, "*member token d_model"],
    kinds: Shaped[np.ndarray, " token"],
    draws: int = 0,
    seed: int = 0,
    centred: bool = True,
) -> Float[Tensor, "*member"]:
    """Mean R^2 of predictions permuted within each kind of token: over all permutations, or over ``draws`` of them.

    ``kinds`` names the kind of each token, by number or word. The exact mean (``draws=0``) needs no seed. It is
    nan where a prediction or a measurement is, and where nothing but rounding was measured, see `agreement`.

    >>> m = torch.tensor([[1.0], [-1.0]])
    >>> permuted_r2(m, m, np.array(["anchor", "anchor"])).round().item()          # one order gives 1, the other -3
    -1.0
    """
    (p, _), (m, m_size) = _sized(predicted, centred), _sized(measured, centred)
    inner = m @ p.mT
    chance = torch.as_tensor(_chances(kinds, draws, seed), dtype=inner.dtype, device=inner.device)
    product = (inner * chance).sum((-2, -1))
    mm, pp = m_size**2, (p * p).sum((-2, -1))
    return 1 - (mm - 2 * product + pp) / mm


def _chances(kinds: Shaped[np.ndarray, " token"], draws: int, seed: int) -> Float[np.ndarray, "token token"]:
    """How often each token gets each token's prediction: exactly, or among seeded draws."""
    _, kind, sizes = np.unique(kinds, return_inverse=True, return_counts=True)
    kind = kind.reshape(-1)
    if not draws:
        return (kind[:, None] == kind[None, :]) / sizes[kind][:, None]
    orders = np.argsort(np.random.default_rng(seed).random((draws, len(kind))) + kind, axis=1)
    found = np.zeros((len(kind), len(kind)))
    np.add.at(found, (np.broadcast_to(np.argsort(kind, kind="stable"), orders.shape), orders), 1 / draws)
    return found


def _sized(
    drift: Float[Tensor, "*member token d_model"], centred: bool
) -> tuple[Float[Tensor, "*member token d_model"], Float[Tensor, "*member"]]:
    """A drift in double precision, centred over the tokens if wanted, and its norm; nan where only rounding is left."""
    raw = drift.double()
    kept = raw - raw.mean(-2, keepdim=True) if centred else raw
    size = kept.norm(dim=(-2, -1))
    return kept, size.masked_fill(size <= ROUNDING * raw.norm(dim=(-2, -1)), torch.nan)
