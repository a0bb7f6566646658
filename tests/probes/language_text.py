"""Made-up counts and models for the probes of language: two corpora that share only some frequent
tokens."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch

N_PRONTOQA, N_STORIES, N_SHARED = 40, 160, 20
D_VOCAB, D_MODEL = N_PRONTOQA + N_STORIES + N_SHARED, 32
PRONTOQA = np.arange(N_PRONTOQA)
STORIES = np.arange(N_PRONTOQA, N_PRONTOQA + N_STORIES)


def made_counts() -> np.ndarray:
    """PrOntoQA's tokens have 3,000 down to 700 occurrences; a quarter of the stories' as many, the
    others fewer."""
    counts = np.zeros((2, D_VOCAB), dtype=np.int64)
    counts[0, PRONTOQA] = np.linspace(3000, 700, N_PRONTOQA).astype(int)
    counts[1, STORIES[::4]] = counts[0, PRONTOQA]
    counts[1, counts.sum(0) == 0] = 40
    counts[:, N_PRONTOQA + N_STORIES :] = 2000
    return counts


class Embedded:
    """As much of a model as these probes look at: W_E and the size of the vocabulary."""

    def __init__(self, W_E: np.ndarray) -> None:
        self.W_E = torch.nn.Parameter(torch.from_numpy(W_E))
        self.cfg = SimpleNamespace(d_vocab=len(W_E))


def noise(seed: int = 0) -> np.ndarray:
    """Random embeddings, each of length about 1."""
    return np.random.default_rng(seed).standard_normal((D_VOCAB, D_MODEL)) / np.sqrt(D_MODEL)


def frequency_alone(seed: int = 0) -> np.ndarray:
    """Embeddings that moved along one direction with their token's frequency, whatever its
    corpus."""
    direction = np.random.default_rng(99).standard_normal(D_MODEL) / np.sqrt(D_MODEL)
    return noise(seed) + 2 * np.outer(made_counts().sum(0) / 3000, direction)


def p_values(reading) -> dict[str, float]:
    """The p-value of each quantity that has a null, and NaN of the others."""
    return reading.to_frame().set_index("quantity")["p_value"].to_dict()
