"""Train language models at several initialisation rates on PrOntoQA and stories together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.text.config import TEXT_SETS, TextConfig
from rb_interp.text.data import TextData, text_data
from rb_interp.training.config import TrainConfig
from rb_interp.training.loop import Trained, Training, all_members, resolve_device, torch_settings
from rb_interp.training.member_group import Member
from rb_interp.training.store import Store
from rb_interp.training.text_group import TextGroup

LOGITS_ON_GPU = 4_000_000_000
"""Logits of one pass over all members of a group on a GPU, at most (16 GB as float32)."""


def train_language(
    text: TextConfig | Mapping[int, TextData],
    model: ModelConfig,
    train: TrainConfig,
    gammas: Sequence[float],
    seeds: Sequence[int],
    *,
    store: Store | None = None,
    progress: bool = True,
) -> Trained:
    """Train every gamma with every seed on the next token of a 1:1 mix (paper 1, Figs. 1 and 7).

    The curves have the sets of TEXT_SETS: both corpora, rows that were trained on and rows held out. Checkpoints and
    continuing after a stop are those of ``train_members``; of the stages only ``early`` means something here.

    Args:
        text: what to read and how to cut it, or the text of each seed, ready.

    Raises ConfigError for an empty sweep, an odd batch, another stage or a device that is not there, TextError where
    the text cannot be had, RunError where files cannot be used.
    """
    members = all_members(gammas, seeds)
    other = [stage for stage in train.stages if stage != "early"]
    if other:
        raise ConfigError(f"stages={list(train.stages)}; on text there is only 'early', so leave out {other}.")
    device = resolve_device(train.device)
    texts = {seed: text_data(text, seed) for seed in seeds} if isinstance(text, TextConfig) else dict(text)
    d_vocab = texts[seeds[0]].tokenizer.d_vocab
    with torch_settings(train):
        shares = share_text(members, model, texts, train, device, train.workers or os.cpu_count() or 1)
        return Training(shares, train, TEXT_SETS, d_vocab, store).run(progress)


def share_text(
    members: Sequence[Member],
    model: ModelConfig,
    texts: Mapping[int, TextData],
    train: TrainConfig,
    device: torch.device,
    workers: int,
) -> list[list[TextGroup]]:
    """Groups of each worker: every member alone on CPU, where one fills a core; as many as fit together on a GPU."""
    together = 1 if device.type == "cpu" else members_a_pass(texts[members[0].seed], train)
    shares = np.array_split(np.arange(len(members)), 1 if device.type != "cpu" else min(workers, len(members)))
    return [
        [
            TextGroup([members[i] for i in share[at : at + together]], model, texts, train, device)
            for at in range(0, len(share), together)
        ]
        for share in shares
    ]


def members_a_pass(text: TextData, train: TrainConfig) -> int:
    """How many members share an operation on a GPU, at least one."""
    rows = min(train.micro_batch or train.batch_size, train.batch_size)
    return max(1, LOGITS_ON_GPU // (rows * text.train.n_ctx * text.tokenizer.d_vocab))
