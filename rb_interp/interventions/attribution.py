r"""Attribution patching: a whole patching matrix at once, to first order, as a fast first look.

    m(patched) ~ m(run) + sum over the cell's positions of  dm/da . (a_source - a_run)

with a the activation at a cell and the gradient at the rows that run: two forward passes and one backward pass for all
cells, in place of one pass a cell. It is exact where the metric is linear in the activation, and misses what is not:
a softmax or a probability that is saturated has no gradient, though patching it changes the answer. Integrated
gradients take the mean gradient at ``steps`` points between both kinds of rows, whose embeddings are mixed:

    mean over k of dm/da  at  embed = embed_run + (k - 1/2) / steps (embed_source - embed_run)

The result has the type of the exact matrix, and ``compare=True`` puts the rank correlation with it (Spearman, over all
cells) beside it. benchmarks/README.md has measured ones.

Source: Nanda (2023, attribution patching, neelnanda.io); Syed et al. (2023, arXiv:2310.10348); Kramár et al. (2024,
arXiv:2403.00745), whose corrections for saturated attention and cancelled gradients are not applied here; integrated:
Hanna et al. (2024, arXiv:2403.17806).

How it can mislead. Cells of the residual stream hold all that differs, so their change is large and the first order far
off: read sublayers and heads. Integrated gradients are not always nearer: mixed embeddings are no rows of the task. An
attribution of 0 does not say that a cell does nothing: confirm with the exact cell. Under ``kl`` the gradient is 0 at
the clean rows, so noising needs ``steps``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.answers import AnswerAt, Compared, answer_positions
from rb_interp.interventions.hooking import aligned
from rb_interp.interventions.matrix import Direction, PatchingMatrix, check_control
from rb_interp.interventions.metrics import Measured, measure
from rb_interp.interventions.patching import cells_of, patching_matrix
from rb_interp.interventions.sites import Site, gather_at
from rb_interp.models.generations import resid_mid_is_a_copy
from rb_interp.models.protocol import HookedModel, hooked
from rb_interp.probes.capturing import as_rows, attached, capture, evaluation, passes
from rb_interp.tasks.inputs import Inputs
from rb_interp.torch_threads import few_threads
from rb_interp.typed import typed

__all__ = ["attribution_matrix", "rank_correlation"]

EMBED = "hook_embed"
HELD_VALUES = 2**26
"""Values of the activations whose gradients are held at a time, at most."""


@typed
@few_threads
@torch.inference_mode(False)
def attribution_matrix(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    *,
    components: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    roles: Sequence[str] | None = None,
    head: int | None = None,
    metric: Measured = "logit_diff",
    answer_at: AnswerAt = None,
    direction: Direction = "denoise",
    control: Inputs | None = None,
    steps: int = 0,
    compare: bool = False,
) -> PatchingMatrix:
    """The patching matrix to first order: what each cell would recover if the metric were linear in it.

    The model keeps its weights, gradients, modes and hooks.

    Args:
        steps: 0 takes the gradient at the rows that run; more take the mean of so many on the way to the others.
        compare: whether to compute the exact matrix too; ``rank_correlation`` of the result is then Spearman's.
        metric: a name or a function of torch tensors with a gradient; ``accuracy`` and ``rank`` have none. All others
            are those of ``patching_matrix``.

    Raises:
        ModelError: where rows are no pairs, a name is unknown, the model does not tell clean from corrupted, or the
            metric has no gradient.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.8)
    >>> rows = data.sample("rsn_test", 8)
    >>> pair = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> found = attribution_matrix(model, *pair, compare=True)   # small weights are nearly linear
    >>> found.method, found.rank_correlation > 0.9
    ('attribution', True)
    """
    hooked(model, "attribution_matrix")
    cells = cells_of(model, clean, corrupted, control, components, layers, roles, head)
    for site in cells.groups:
        site.check(model)
    pair = Compared(model, clean, corrupted, metric, "attribution_matrix", answer_at)
    source, base, start = (
        (clean, corrupted, pair.corrupted) if direction == "denoise" else (corrupted, clean, pair.clean)
    )
    check_control(control, source, base, "attribution_matrix")
    attribution = _Attribution(model, base, source, cells.groups, cells.roles, pair, answer_at)
    changes = attribution.run([some for some in (source, control) if some is not None], steps)
    estimates = [cells.placed(start + change) for change in changes]
    found = PatchingMatrix(
        cells.components, cells.layers, cells.roles, pair.metric.name, head, pair.clean, pair.corrupted, estimates[0],
        estimates[1] if control is not None else None, cells.notes, direction,
        f"integrated attribution, {steps} steps" if steps else "attribution",
    )  # fmt: skip
    if not compare:
        return found
    exact = patching_matrix(
        model, clean, corrupted, components=cells.components, layers=cells.layers, roles=cells.roles, head=head,
        metric=pair.metric, answer_at=answer_at, direction=direction,
    )  # fmt: skip
    return replace(found, rank_correlation=rank_correlation(found, exact))


def rank_correlation(first: PatchingMatrix, second: PatchingMatrix) -> float:
    """Spearman's correlation of two matrices of the same cells, over all that both have; nan where one is constant."""
    from scipy.stats import rankdata

    pair = np.stack([first.values.ravel(), second.values.ravel()])
    ranks = rankdata(pair[:, np.isfinite(pair).all(0)], axis=1)
    if ranks.shape[1] < 2 or not ranks.std(1).all():
        return float("nan")
    return float(np.corrcoef(ranks)[0, 1])


class _Attribution:
    """First-order changes of the metric in each row, for all cells."""

    def __init__(
        self,
        model: HookedModel,
        base: Inputs,
        source: Inputs,
        groups: Sequence[Site],
        roles: Sequence[str],
        pair: Compared,
        answer_at: AnswerAt,
    ) -> None:
        self.model, self.base, self.groups, self.roles = model, base, groups, roles
        self.metric, self.answers, self.tokens = pair.metric, pair.answers, as_rows(base.tokens)
        self.device, (n_rows, length) = next(model.parameters()).device, self.tokens.shape
        self.at = answer_positions(answer_at, base.roles, n_rows, length, "attribution_matrix")
        self.hooks = list(dict.fromkeys([EMBED, *(site.hook for site in groups)]))
        self.own, self.source = capture(model, self.tokens, self.hooks), source
        self.known = {id(source): capture(model, source.tokens, self.hooks)}

    def run(self, sources: Sequence[Inputs], steps: int) -> list[Float[np.ndarray, "group role row"]]:
        """The estimated change of each cell with values from each of some rows, from the same gradients."""
        changes = [np.zeros((len(self.groups), len(self.roles), len(self.tokens))) for _ in sources]
        shares = [0.0] if not steps else [(step + 0.5) / steps for step in range(steps)]
        aligned_at = [self._positions(source) for source in sources]
        values = [self.known.get(id(some)) or capture(self.model, some.tokens, self.hooks) for some in sources]
        for rows in torch.arange(len(self.tokens)).split(self._pass_rows()):
            gradients = self._gradients(rows, shares)
            for group, site in enumerate(self.groups):
                place = site.in_hook(self.model)
                for found, there, positions in zip(changes, values, aligned_at, strict=True):
                    for role, (at, source_at) in enumerate(positions):
                        moved = gather_at(place, there[site.hook][rows], source_at[rows])
                        moved = moved - gather_at(place, self.own[site.hook][rows], at[rows])
                        gradient = gather_at(place, gradients[self._reached_by(site)], at[rows])
                        change = (gradient.double() * moved.double()).flatten(1).sum(1)
                        found[group, role, rows.numpy()] = change.numpy()
        return changes

    def _reached_by(self, site: Site) -> str:
        """The hook whose gradient a site has: a copy of resid_mid reaches the MLP alone, attn_out all that it does."""
        if site.component == "resid_mid" and resid_mid_is_a_copy(self.model):
            return Site("attn_out", site.layer).hook
        return site.hook

    def _gradients(self, rows: Int[Tensor, " row"], shares: Sequence[float]) -> dict[str, Tensor]:
        """Mean gradient of each row's metric at every hook, over points on the way to the source."""
        names = list(dict.fromkeys(self._reached_by(site) for site in self.groups))
        total: dict[str, Tensor] = {}
        for share in shares:
            held = self._forward(rows, share, names)
            clean, corrupted = (some.take(rows) for some in self.answers)
            with torch.enable_grad():
                logits = held.pop("logits")
                logits = logits[:, -1] if self.at is None else logits[torch.arange(len(rows)), self.at[rows]]
                value = measure(self.metric, logits.cpu(), clean, corrupted, "attribution_matrix").sum()
            if not value.requires_grad:
                raise ModelError(
                    f"the metric '{self.metric.name}' has no gradient; use one that has, such as logit_diff, or the "
                    f"exact patching_matrix."
                )
            found = torch.autograd.grad(value, [held[name] for name in names], allow_unused=True)
            for name, gradient in zip(names, found, strict=True):
                here = torch.zeros_like(held[name]) if gradient is None else gradient
                total[name] = total.get(name, 0) + here.detach().cpu() / len(shares)
        return total

    def _forward(self, rows: Int[Tensor, " row"], share: float, names: Sequence[str]) -> dict[str, Tensor]:
        """One pass with a graph that begins at the embedding, and the activations at some hooks as it has them."""
        held: dict[str, Tensor] = {}

        def keep(activation: Tensor, hook: object, name: str = "") -> Tensor:
            held[name] = activation.clone()
            return held[name]

        def begin(activation: Tensor, hook: object) -> Tensor:
            moved = self.known[id(self.source)][EMBED][rows] - self.own[EMBED][rows]
            held[EMBED] = (activation.detach() + share * moved.to(activation)).requires_grad_()
            return held[EMBED]

        hooks = [(name, lambda value, hook, name=name: keep(value, hook, name)) for name in names if name != EMBED]
        with (
            torch.enable_grad(),
            evaluation(self.model),
            attached(self.model, [(EMBED, begin), *hooks]),
        ):
            held["logits"] = self.model(self.tokens[rows].to(self.device))
        return held

    def _positions(self, source: Inputs) -> list[tuple[Tensor, Tensor]]:
        """Positions of each role in the rows and in a source."""
        site = next((site for site in self.groups if site.component == "pattern"), self.groups[0])
        n_rows, length = self.tokens.shape
        return [aligned(site.at(role), self.base.roles, source.roles, length, n_rows) for role in self.roles]

    def _pass_rows(self) -> int:
        """Rows of a pass; all of them for a metric that looks at rows together."""
        values = sum(activation[0].numel() for activation in self.own.values())
        most = min(passes(self.model, self.tokens), max(1, HELD_VALUES // values))
        return most if self.metric.by_row else len(self.tokens)
