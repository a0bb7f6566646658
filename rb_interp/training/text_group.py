"""A group of members on text: next-token prediction at every position, on rows of two corpora.

    L = sum over targets of -ln p(next token) / number of targets

Every batch holds as many rows of one corpus as of the other (the 1:1 mix of paper 1, Fig. 1), each in an order that the
member's seed and the epoch fix. What fills up a padded row is no target.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.text.config import CORPORA, TEXT_SETS
from rb_interp.text.data import TextData
from rb_interp.text.rows import Rows
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import Member, MemberGroup
from rb_interp.training.stacked import stacked_logits

Tokens = Int[Tensor, "member row n_ctx_and_1"]
Mask = Bool[Tensor, "member row n_ctx"]
TRIM = 64


class TextGroup(MemberGroup):
    """Members on text.

    Args:
        members: who is in the group. model, train: the shared configuration.
        texts: the text of each member's seed; all with one vocabulary and one length.
        device: where the tensors live.
    """

    def __init__(
        self,
        members: Sequence[Member],
        model: ModelConfig,
        texts: Mapping[int, TextData],
        train: TrainConfig,
        device: torch.device | str = "cpu",
    ) -> None:
        first = texts[members[0].seed]
        super().__init__(members, model, train, first.tokenizer.d_vocab, first.train.n_ctx, device)
        self.batches = TextBatches({seed: texts[seed] for seed in self.seeds}, train, self.device)
        self.loss = torch.compile(self._loss) if train.compile else self._loss

    def gradients(self) -> tuple[Tensor, ...]:
        """Gradients of the current step's batch, in the order of ``trained``, in pieces of ``micro_batch`` rows."""
        tokens, targets = self.batches.at(self.step)
        tokens, targets = trimmed(tokens[self.which_seed], targets[self.which_seed])
        total = targets.sum((1, 2))
        found: list[Tensor] | None = None
        for piece, counted in self._pieces(tokens, targets):
            loss = self.loss(piece, counted, total)
            gradients = torch.autograd.grad(loss, list(self.trained.values()))
            found = list(gradients) if found is None else list(torch._foreach_add(found, gradients))
        assert found is not None
        return tuple(found)

    def _pieces(self, tokens: Tokens, targets: Mask) -> Iterator[tuple[Tokens, Mask]]:
        size = self.train.micro_batch or tokens.shape[1]
        yield from zip(tokens.split(size, 1), targets.split(size, 1), strict=True)

    def _loss(self, tokens: Tokens, targets: Mask, total: Int[Tensor, " member"]) -> Float[Tensor, ""]:
        """The rows' share of each member's mean loss, summed over members."""
        losses, _ = self._read(tokens)
        return ((losses * targets).sum((1, 2)) / total).sum()

    def _read(
        self, tokens: Tokens
    ) -> tuple[Float[Tensor, "member row n_ctx"], Float[Tensor, "member row n_ctx d_vocab"]]:
        """Cross entropy (nats) at every position, and the logits."""
        with self.autocast():
            logits = stacked_logits(self.weights, tokens[:, :, :-1], self.model, every_position=True)
        following = tokens[:, :, 1:]
        flat = logits.flatten(0, 2)
        losses = F.cross_entropy(flat.float() if flat.dtype == torch.bfloat16 else flat, following.flatten(),
                                 reduction="none")  # fmt: skip
        return losses.view(following.shape), logits

    @torch.inference_mode()
    def evaluate(self) -> Float[np.ndarray, "member set 2"]:
        """Mean loss (nats a token) and accuracy of the next token on fixed rows of each set."""
        found = np.full((len(self.members), len(TEXT_SETS), 2), np.nan)
        for index, (rows, counts) in enumerate(self.batches.fixed):
            tokens, targets = rows[self.which_seed], counts[self.which_seed]
            sums = torch.zeros(2, len(self.members), dtype=torch.float64, device=self.device)
            size = self.train.micro_batch or self.train.batch_size
            for piece, counted in map(trimmed, tokens.split(size, 1), targets.split(size, 1)):
                losses, logits = self._read(piece)
                right = (logits.argmax(-1) == piece[:, :, 1:]) & counted
                sums += torch.stack([(losses.double() * counted).sum((1, 2)), right.double().sum((1, 2))])
            found[:, index] = (sums / targets.sum((1, 2))).T.cpu()
        return found


def trimmed(tokens: Tokens, targets: Mask) -> tuple[Int[Tensor, "member row _"], Bool[Tensor, "member row _"]]:
    """Rows without the columns in which none has text, up to a multiple of TRIM so that few lengths occur."""
    longest = int(targets.sum(-1).max())
    length = min(targets.shape[-1], -(-longest // TRIM) * TRIM)
    return tokens[:, :, : length + 1], targets[:, :, :length]


class TextBatches:
    """Training batches and fixed evaluation rows of several seeds' texts; the step alone decides a batch.

    Attributes:
        fixed: for each set of TEXT_SETS, rows ``[seed, row, n_ctx + 1]`` and where their targets count.
    """

    def __init__(self, texts: Mapping[int, TextData], train: TrainConfig, device: torch.device) -> None:
        if train.batch_size % len(CORPORA):
            raise ConfigError(
                f"batch_size={train.batch_size}; half of a batch comes from each corpus, so give an even number."
            )
        self.seeds, self.device, self.epoch = list(texts), device, -1
        self.texts = [texts[seed] for seed in self.seeds]
        of_corpus = [[text.train.of(corpus) for corpus in CORPORA] for text in self.texts]
        self.n_rows = min(len(rows) for each in of_corpus for rows in each)
        self.half = min(train.batch_size // len(CORPORA), self.n_rows)
        every = [np.concatenate([rows[: self.n_rows] for rows in each]) for each in of_corpus]
        self.tokens, self.targets = self._tensors([t.train for t in self.texts], every)
        self.fixed = []
        for name in TEXT_SETS:
            corpus, split = name.split("_")
            rows = [text.train if split == "train" else text.test for text in self.texts]
            chosen = [r.of(corpus)[: train.eval_rows] for r in rows]
            least = min(map(len, chosen))
            self.fixed.append(self._tensors(rows, [c[:least] for c in chosen]))

    def _tensors(self, rows: Sequence[Rows], chosen: Sequence[Int[np.ndarray, " row"]]) -> tuple[Tensor, Tensor]:
        picked = [r.select(c) for r, c in zip(rows, chosen, strict=True)]
        tokens = torch.from_numpy(np.stack([np.array(r.tokens, dtype=np.int64) for r in picked]))
        return tokens.to(self.device), torch.from_numpy(np.stack([r.targets for r in picked])).to(self.device)

    def at(self, step: int) -> tuple[Int[Tensor, "seed row n_ctx_and_1"], Bool[Tensor, "seed row n_ctx"]]:
        """Rows of a step for each seed, and where their targets count; the first half is PrOntoQA."""
        epoch, index = divmod(step, self.n_rows // self.half)
        if epoch != self.epoch:
            self.order = torch.from_numpy(np.stack([self._order(seed, epoch) for seed in self.seeds])).to(self.device)
            self.epoch = epoch
        rows = self.order[:, :, index * self.half : (index + 1) * self.half].flatten(1)
        here = torch.arange(len(self.seeds), device=self.device)[:, None]
        return self.tokens[here, rows], self.targets[here, rows]

    def _order(self, seed: int, epoch: int) -> Int[np.ndarray, "corpus row"]:
        """Row numbers of both corpora, each shuffled for itself; those of the second follow those of the first."""
        rng = np.random.default_rng([seed, 5, epoch])
        return np.stack([rng.permutation(self.n_rows) + number * self.n_rows for number in range(len(CORPORA))])
