"""Dimensions and cosines of vectors, known and random."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rb_interp.probes.embeddings import (
    gaussian_participations,
    participation,
    principal_components,
)


def test_gaussian_participations_are_those_of_gaussian_vectors():
    rng, n = np.random.default_rng(0), 400
    for tokens, d_model in ((12, 30), (30, 12)):
        drawn = gaussian_participations(n, tokens, d_model, rng)
        made = np.array([participation(rng.standard_normal((tokens, d_model))) for _ in range(n)])
        error = math.sqrt((drawn.var() + made.var()) / n)
        assert abs(drawn.mean() - made.mean()) < 4 * error
        assert drawn.std() == pytest.approx(made.std(), rel=0.15)
    assert np.isnan(gaussian_participations(3, 1, 5, rng)).all()


def test_participation_of_a_known_spectrum() -> None:
    spectrum = np.array([4.0, 2.0, 1.0])
    points = np.concatenate([np.diag(spectrum), -np.diag(spectrum)]) + 7
    assert participation(points) == pytest.approx((16 + 4 + 1) ** 2 / (16**2 + 4**2 + 1))
    scores, explained = principal_components(points)
    np.testing.assert_allclose(explained, np.array([16, 4, 1]) / 21)
    np.testing.assert_allclose(np.abs(scores[:3]), np.diag(spectrum), atol=1e-12)
    assert scores[0, 0] == pytest.approx(-4)  # the first row lies on the negative side
