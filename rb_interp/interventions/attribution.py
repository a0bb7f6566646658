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
from itertools import product

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rb_interp.errors import ModelError
from rb_interp.interventions.answers import AnswerAt, Compared, answer_positions
from rb_interp.interventions.hooking import role_positions
from rb_interp.interventions.matrix import Direction, PatchingMatrix, check_control
from rb_interp.interventions.metrics import Measured, measure
from rb_interp.interventions.patching import Cells, cells_of, patching_matrix
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

    Raises ModelError where rows are no pairs, a name is unknown, the model does not tell clean from corrupted, or the
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
    source, base, start = clean, corrupted, pair.corrupted
    if direction == "noise":
        source, base, start = corrupted, clean, pair.clean
    check_control(control, source, base, "attribution_matrix")
    at = answer_positions(answer_at, base.roles, len(base), base.tokens.shape[1], "attribution_matrix")
    sources = [source] if control is None else [source, control]
    patched = [cells.placed(start + change) for change in _changes(model, base, sources, cells, pair, at, steps)]
    found = PatchingMatrix(
        *cells[:3], pair.metric.name, head, pair.clean, pair.corrupted, patched[0], (*patched, None)[1], cells.notes,
        direction, f"integrated attribution, {steps} steps" if steps else "attribution",
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


def _changes(
    model: HookedModel,
    base: Inputs,
    sources: Sequence[Inputs],
    cells: Cells,
    pair: Compared,
    answer_at: Int[Tensor, " row"] | None,
    steps: int,
) -> list[Float[np.ndarray, "group role row"]]:
    """The estimated change of each cell with values from each source, by the gradients on the way to the first."""
    tokens, is_copy = as_rows(base.tokens), resid_mid_is_a_copy(model)
    # a copy of resid_mid reaches the MLP alone, attn_out all that resid_mid does
    reached = [
        Site("attn_out", site.layer).hook if site.component == "resid_mid" and is_copy else site.hook
        for site in cells.groups
    ]
    hooks = [*dict.fromkeys([EMBED, *(site.hook for site in cells.groups)])]
    own, *values = (capture(model, rows.tokens, hooks) for rows in (base, *sources))
    positions = [role_positions(cells.groups, cells.roles, base, source) for source in sources]
    n_values, n_rows = sum(activation[0].numel() for activation in own.values()), len(tokens)
    size = min(passes(model, tokens), max(1, HELD_VALUES // n_values)) if pair.metric.by_row else n_rows
    changes = [np.zeros((len(cells.groups), len(cells.roles), n_rows)) for _ in sources]
    for rows in torch.arange(n_rows).split(size):
        gradients: dict[str, Tensor] = {}
        for share in [(step + 0.5) / steps for step in range(steps)] or [0.0]:
            moved = share * (values[0][EMBED][rows] - own[EMBED][rows])
            held = _forward(model, tokens[rows], moved, [*dict.fromkeys(reached)])
            logits, answers = held.pop("logits"), [some.take(rows) for some in pair.answers]
            with torch.enable_grad():
                logits = logits[:, -1] if answer_at is None else logits[torch.arange(len(rows)), answer_at[rows]]
                value = measure(pair.metric, logits.cpu(), *answers, asker="attribution_matrix").sum()
            if not value.requires_grad:
                raise ModelError(
                    f"the metric '{pair.metric.name}' has no gradient; use one that has, such as logit_diff, or the "
                    f"exact patching_matrix."
                )
            for name, gradient in zip(
                held, torch.autograd.grad(value, [*held.values()], allow_unused=True), strict=True
            ):
                here = torch.zeros_like(held[name]) if gradient is None else gradient
                gradients[name] = gradients.get(name, 0) + here.detach().cpu() / max(1, steps)
        for (number, site), (change, there, at) in product(
            enumerate(cells.groups), zip(changes, values, positions, strict=True)
        ):
            place = site.in_hook(model)
            for role, (here, source_at) in enumerate(at):
                moved = gather_at(place, there[site.hook][rows], source_at[rows])
                moved = moved - gather_at(place, own[site.hook][rows], here[rows])
                gradient = gather_at(place, gradients[reached[number]], here[rows])
                change[number, role, rows.numpy()] = (gradient.double() * moved.double()).flatten(1).sum(1).numpy()
    return changes


def _forward(model: HookedModel, tokens: Tensor, moved: Tensor, names: Sequence[str]) -> dict[str, Tensor]:
    """Logits and some activations of a pass with a graph that begins at the embedding, which is moved."""
    held: dict[str, Tensor] = {}

    def begin(activation: Tensor, hook: object) -> Tensor:
        moved_there = (activation.detach() + moved.to(activation)).requires_grad_()
        return keep(moved_there, EMBED) if EMBED in names else moved_there

    def keep(activation: Tensor, name: str) -> Tensor:
        held[name] = activation.clone() if name != EMBED else activation
        return held[name]

    hooks = [(name, lambda value, hook, name=name: keep(value, name)) for name in names if name != EMBED]
    with torch.enable_grad(), evaluation(model), attached(model, [(EMBED, begin), *hooks]):
        held["logits"] = model(tokens.to(next(model.parameters()).device))
    return held
