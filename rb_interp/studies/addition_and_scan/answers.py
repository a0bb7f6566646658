"""Whether whole answers are right.

    right(row) = 1  if the most likely token is the answer's at each of its positions, else 0

The share of rows that are right is accuracy where an answer is one token, and exact match where it is a sequence. A
sequence is read with the right answer before each of its tokens (teacher forcing). That is the same as exact match
under greedy decoding: up to the first wrong token both put the same tokens into the model, and a wrong token is wrong
in both.

How it can mislead. An untrained model reads about 1 / d_vocab on addition and 0 on commands. A model that memorised its
training rows reads 1 on ``train`` and about 0 elsewhere, so the held-out sets are read beside ``seen_test``: where that
is low, nothing general was learned, and the held-out share says nothing of what kind of rule was.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Int

from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capturing import as_rows, evaluation, passes
from rb_interp.statistics.reading import Reading
from rb_interp.tasks.dataset import Dataset
from rb_interp.tasks.roles import selected
from rb_interp.torch_threads import few_threads

NO_ROWS = "there is no row to read."
"""Why a share is NaN."""


@few_threads
def answers(
    model: HookedModel, data: Dataset, rows: Int[np.ndarray, " row"], *, untrained: HookedModel | None = None
) -> Reading:
    """Share of rows whose whole answer is right, ``right``, in [0, 1]; NaN without rows.

    Args:
        model: any model that reads the dataset's tokens. data: whose labels are the answers. rows: which are read.
        untrained: the same model at step 0, read beside it; None for no comparison.

    Raises RolesError for rows that are not there.
    """
    rows = selected(rows, len(data))
    tokens, labels = data.tokens[rows], data.labels[rows]
    values = {"right": _share(model, tokens, labels)}
    before = {} if untrained is None else {"right": _share(untrained, tokens, labels)}
    return Reading("answers", values, untrained=before, n=len(rows), notes={} if len(rows) else {"right": NO_ROWS})


def _share(model: HookedModel, tokens: np.ndarray, labels: np.ndarray) -> float:
    return float(right(model, tokens, labels).mean()) if len(tokens) else float("nan")


def right(
    model: HookedModel, tokens: Int[np.ndarray, "row pos"], labels: Int[np.ndarray, "row ..."]
) -> Bool[np.ndarray, " row"]:
    """Which rows a model answers rightly, all of the answer.

    Args:
        labels: ``[row]``, the answer at the last position; or ``[row, pos]``, the next token of the answer at each
            position, -1 where there is none.
    """
    found = predicted(model, tokens)
    if labels.ndim == 1:
        return found[:, -1] == labels
    return ((found == labels) | (labels < 0)).all(1)


def predicted(model: HookedModel, tokens: Int[np.ndarray, "row pos"]) -> Int[np.ndarray, "row pos"]:
    """The most likely next token at every position."""
    inputs, device = as_rows(tokens), next(model.parameters()).device
    with torch.no_grad(), evaluation(model):
        parts = [model(rows.to(device)).argmax(-1).cpu() for rows in inputs.split(passes(model, inputs))]
    return torch.cat(parts).numpy()
