"""Agreement of drifts: identities, scale, the permuted prediction in closed form."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from rb_interp.theory.drift import agreement, permuted_r2

GENERATOR = torch.Generator().manual_seed(0)
M = torch.randn(2, 7, 3, generator=GENERATOR, dtype=torch.float64)
P = M + torch.randn(2, 7, 3, generator=GENERATOR, dtype=torch.float64)
KINDS = np.array(["memory", "memory", "reasoning", "key", "reasoning", "reasoning", "memory"])


@pytest.mark.parametrize("centred", [True, False])
def test_a_prediction_that_is_off_by_a_factor(centred: bool) -> None:
    for factor in (1.0, 2 / 3, 0.0, -1.0):
        cos, r2 = agreement(factor * M, M, centred)
        torch.testing.assert_close(r2, torch.full((2,), 1 - (1 - factor) ** 2, dtype=torch.float64))
        if factor:
            torch.testing.assert_close(cos, torch.full((2,), float(np.sign(factor)), dtype=torch.float64))
        else:
            assert cos.isnan().all()


def test_what_is_common_to_all_tokens_counts_only_uncentred() -> None:
    common = torch.tensor([5.0, 1.0, -2.0], dtype=torch.float64)
    torch.testing.assert_close(agreement(P + common, M - common), agreement(P, M))
    (raw, _), (centred, _) = agreement(P + common, M - common, centred=False), agreement(P, M)
    assert (raw < centred - 0.2).all()


def test_centred_agreement_by_hand() -> None:
    # centred: m = (-1, 1), p = (0 , 0) + (-2, 2) along the first coordinate, nothing measured along the second
    m, p = torch.tensor([[1.0, 4.0], [3.0, 4.0]]), torch.tensor([[0.0, 1.0], [4.0, 3.0]])
    cos, r2 = agreement(p, m)
    assert float(cos) == pytest.approx(4 / (2**0.5 * 10**0.5))
    assert float(r2) == pytest.approx(1 - 4 / 2)


def test_nothing_but_rounding_has_no_direction() -> None:
    constant = torch.ones(7, 3) * torch.tensor([1.0, 2.0, 3.0]) + 2e-7 * torch.randn(7, 3, generator=GENERATOR)
    cos, r2 = agreement(constant, M[0].float())
    assert cos.isnan()
    assert float(r2) == pytest.approx(0, abs=1e-6)
    assert agreement(M[0].float(), constant)[1].isnan()


def test_mean_over_every_permutation() -> None:
    places = [np.flatnonzero(kind == KINDS) for kind in ("memory", "reasoning")]
    found = []
    for first in permutations(places[0]):
        for second in permutations(places[1]):
            order = np.arange(7)
            order[places[0]], order[places[1]] = first, second
            found.append(agreement(P[:, order], M)[1])
    torch.testing.assert_close(permuted_r2(P, M, KINDS), torch.stack(found).mean(0))


def test_tokens_alone_in_their_kind_keep_their_prediction() -> None:
    torch.testing.assert_close(permuted_r2(P, M, np.arange(7)), agreement(P, M)[1])
