"""Training of one model of any shape, the plain way: the peer that the stacked trainer is measured against."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from tqdm import tqdm

from rb_interp.models.protocol import HookedModel
from rb_interp.tasks.dataset import Dataset, Task
from rb_interp.training.batches import Batches
from rb_interp.training.config import TrainConfig, evaluation_steps, learning_rate
from rb_interp.training.member_group import make_optimiser
from rb_interp.typed import typed

if TYPE_CHECKING:
    import pandas as pd


@typed
def train_model(
    model: HookedModel, task: Task, train: TrainConfig | None = None, *, seed: int = 0, progress: bool = True
) -> pd.DataFrame:
    """Train any TransformerLens model on a task, in place, and return its learning curves.

    Data and batch order are those that ``train_members`` uses for the same seed; only parameters with
    ``requires_grad`` change. The loss is read at the last position.

    Args:
        model: is changed in place. task: what it is trained on.
        train: schedule and optimiser; by default ``TrainConfig()``.
        seed: of the data and of the batch order. progress: whether a progress bar is shown.

    Returns:
        A table of step, set, loss (nats) and accuracy. The loss is NaN from where training diverges.
    """
    train = train or TrainConfig()
    parameters = [p for p in model.parameters() if p.requires_grad]
    device = parameters[0].device
    optimiser = make_optimiser(parameters, train)
    data = task.dataset(seed)
    batches = Batches(task, [data], train, device)
    marks, rows = set(evaluation_steps(train)), []
    for step in tqdm(range(train.steps + 1), disable=not progress, unit="step", desc="training one model"):
        if step in marks:
            rows += [{"step": step, **row} for row in evaluate_model(model, data, train.eval_rows)]
        if step == train.steps:
            break
        tokens, labels = batches.at(step)
        loss = F.cross_entropy(model(tokens[0])[:, -1], labels[0])
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if train.clip > 0:
            torch.nn.utils.clip_grad_norm_(parameters, train.clip)
        optimiser.param_groups[0]["lr"] = learning_rate(step, train)
        optimiser.step()
    import pandas as pd

    return pd.DataFrame(rows)


@torch.no_grad()
def evaluate_model(model: HookedModel, data: Dataset, n_rows: int = 1000) -> list[dict]:
    """Loss (nats) and accuracy of a model on up to ``n_rows`` fixed rows of each set that has any."""
    device, found = next(model.parameters()).device, []
    for name in data.sets:
        chosen = data.sample(name, n_rows)
        if len(chosen) == 0:
            continue
        logits = model(torch.from_numpy(data.tokens[chosen]).to(device))[:, -1].cpu()
        labels = torch.from_numpy(data.labels[chosen])
        right = float(np.mean((logits.argmax(-1) == labels).numpy()))
        found.append({"set": name, "loss": float(F.cross_entropy(logits, labels)), "accuracy": right})
    return found
