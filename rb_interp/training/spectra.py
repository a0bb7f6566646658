"""Along training: the spectrum of the covariance of some tokens' embeddings, at every evaluation (paper 2, Fig. 12).

A task names groups of tokens in an attribute ``spectra``: name -> token ids. With X their embeddings, n of them, less
their mean, the leading eigenvalues of X^T X / n are kept beside loss and accuracy. They are sorted at each evaluation,
so one place in the order need not be one direction throughout.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

MOST = 10
"""Eigenvalues that are kept, at most."""


@torch.no_grad()
def leading_eigenvalues(vectors: Float[Tensor, "member token d_model"]) -> Float[np.ndarray, "member rank"]:
    """Leading eigenvalues of each member's covariance, largest first, in float64; NaN where a vector is not finite.

    >>> vectors = torch.tensor([[[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]])
    >>> leading_eigenvalues(vectors).round(6).tolist()
    [[4.5, 0.5]]
    """
    finite = vectors.isfinite().all(-1).all(-1)
    x = torch.where(finite[:, None, None], vectors, 0).double()
    x = x - x.mean(1, keepdim=True)
    gram = x @ x.mT if x.shape[1] < x.shape[2] else x.mT @ x  # both have the same eigenvalues, but for zeros
    found = torch.linalg.eigvalsh(gram / x.shape[1]).flip(-1)[:, :MOST].clamp(min=0)
    return torch.where(finite[:, None], found, torch.nan).cpu().numpy()
