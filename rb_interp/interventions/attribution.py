r"""Attribution patching: the whole patching matrix to first order, as a fast first look.

    m(patched) ~ m(run) + sum over the cell's positions of  dm/da . (a_source - a_run)

with a the activation at a cell and the gradient at the rows that run: two forward passes and one
backward pass for all cells. It is exact where the metric is linear in the activation, and misses
what is not: a softmax or a probability that is saturated has no gradient, though patching it
changes the answer.

Source: Nanda (2023, attribution patching, neelnanda.io); Syed et al. (2023, arXiv:2310.10348);
Kramár et al. (2024, arXiv:2403.00745), whose corrections for saturated attention and cancelled
gradients are not applied here.

How it can mislead. Cells of the residual stream hold all that differs, so their change is large and
an attribution far off: read sublayers and heads. An attribution of 0 does not say that a cell does
nothing: confirm with the exact cell. Under ``kl`` the gradient is 0 at the clean rows, and so is an
attribution that noises.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.interventions.cells import Cells, Names, Numbers, PatchedCells
from rb_interp.interventions.edits import gather
from rb_interp.interventions.effect import Direction, Matrix
from rb_interp.interventions.metrics import AnswerAt, MetricLike, answer_positions, measure
from rb_interp.interventions.paired_run import Activations, PairedRun
from rb_interp.interventions.sites import Site
from rb_interp.models.bridges import resid_mid_is_a_copy
from rb_interp.models.hooking import attached, evaluation, hook_points
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import device_of, rows_of_a_pass
from rb_interp.probes.activations import as_rows
from rb_interp.tasks.inputs import Inputs

__all__ = ["attribution_matrix"]

EMBED = "hook_embed"
CAPTURE_VALUES = 2**26
"""Values of the activations whose gradients are held at a time, at most."""


@checked
@single_threaded
def attribution_matrix(
    model: HookedModel,
    clean: Inputs,
    corrupted: Inputs,
    *,
    components: Names = None,
    layers: Numbers = None,
    roles: Names = None,
    head: int | None = None,
    metric: MetricLike = "logit_diff",
    answer_at: AnswerAt = None,
    direction: Direction = "denoise",
    control: Inputs | None = None,
) -> Matrix:
    """The patching matrix to first order: each cell's share if the metric were linear in it.

    The model keeps its weights, gradients, modes and hooks.

    Args:
        model: any model with TransformerLens's hooks.
        clean: rows with labels if the metric asks for them, for instance ``inputs``.
        corrupted: as many rows with different answers, for instance ``counterfactual``.
        components: as in `patching_matrix`.
        layers: by default all.
        roles: by default all that both kinds of rows have, and the last position.
        head: one head, which may share its k and v; by default all of them at once.
        metric: a name or a function of torch tensors with a gradient; ``accuracy`` and ``rank``
            have none.
        answer_at: where the answer is read, by default at the last position.
        direction: ``denoise`` puts clean activations into corrupted rows, ``noise`` corrupted ones
            into clean rows.
        control: rows that differ in noise alone from those that run, or None for no control.

    Raises:
        ModelError: the metric has no gradient, and whatever `patching_matrix` refuses.
        RolesError: the rows have no such role.

    >>> from rb_interp import AnchorTask, build_model
    >>> data, model = AnchorTask().dataset(seed=0), build_model(AnchorTask(), gamma=0.5)
    >>> rows = data.sample("rsn_test", 8)
    >>> clean, corrupted = data.inputs(rows), data.task.counterfactual(data, rows, "key")
    >>> matrix = attribution_matrix(model, clean, corrupted, components=["embed"], layers=[0])
    >>> matrix.to_frame().query("role == 'noise'")["recovered"].tolist()
    [0.0]
    """
    with torch.inference_mode(False):
        rows = (clean, corrupted, direction, control)
        cells = Cells(model, *rows, components, layers, roles, head)
        pair = PairedRun(model, metric, answer_at, *rows, cells.hooks)
        return cells.matrix(pair, attributed_cells(pair, cells), "attribution")


def attributed_cells(pair: PairedRun, cells: Cells) -> PatchedCells:
    """The metric of each row with each cell from each source, to first order."""
    model = pair.model
    tokens = as_rows(pair.base.tokens)
    hooks = [gradient_hook(model, site) for site in cells.groups]
    untouched, *of_sources = pair.activations
    positions = [cells.positions(pair.base, source) for source in pair.sources]
    patched = np.tile(pair.start, (len(of_sources), len(cells.groups), len(cells.roles), 1))
    slope = metric_gradient(pair)
    values_in_a_row = sum(activation[0].numel() for activation in untouched.values())
    rows_in_a_pass = min(rows_of_a_pass(model, tokens), max(1, CAPTURE_VALUES // values_in_a_row))
    for rows in torch.arange(len(tokens)).split(rows_in_a_pass):
        gradients = activation_gradients(pair, rows, hooks, slope[rows])
        for number, activations in enumerate(of_sources):
            for group, site in enumerate(cells.groups):
                gradient = gradients[hooks[group]]
                if gradient is None:
                    continue
                hooked = site.in_hook(model)
                before = untouched[site.hook][rows]
                after = activations[site.hook][rows]
                for role, (base, source) in enumerate(positions[number]):
                    step = gather(hooked, after, source[rows])
                    step = step - gather(hooked, before, base[rows])
                    slopes = gather(hooked, gradient, base[rows])
                    change = (slopes.double() * step.double()).flatten(1).sum(1)
                    patched[number, group, role, rows.numpy()] += change.numpy()
    return patched


def gradient_hook(model: HookedModel, site: Site) -> str:
    """The hook whose gradient is that of a site."""
    if site.component == "resid_mid" and resid_mid_is_a_copy(model):
        # the copy reaches the MLP alone, attn_out all that resid_mid does
        return Site("attn_out", site.layer).hook
    return site.hook


def metric_gradient(pair: PairedRun) -> Float[Tensor, "row d_vocab"]:
    """Gradient of the summed metric at the base rows' logits.

    Raises:
        ModelError: the metric has none.
    """
    logits = pair.base_logits.clone().requires_grad_()
    with torch.enable_grad():
        total = measure(pair.metric, logits, *pair.answers).sum()
    if not total.requires_grad:
        raise ModelError(
            f"the metric '{pair.metric.name}' has no gradient; use one that has, such as "
            f"logit_diff."
        )
    return torch.autograd.grad(total, logits)[0]


def activation_gradients(
    pair: PairedRun,
    rows: Tensor,
    hooks: list[str],
    slope: Float[Tensor, "row d_vocab"],
) -> dict[str, Tensor | None]:
    """Gradient of the metric at each hook in some base rows, on CPU; None if it acts on nothing."""
    answers = answer_positions(pair.answer_at, pair.base)[rows]
    logits, activations = forward_with_graph(pair.model, as_rows(pair.base.tokens)[rows], hooks)
    with torch.enable_grad():
        logits = logits[torch.arange(len(rows)), answers]
    gradients = torch.autograd.grad(
        logits, [*activations.values()], slope.to(logits), allow_unused=True
    )
    result: dict[str, Tensor | None] = {}
    for name, gradient in zip(activations, gradients, strict=True):
        result[name] = None if gradient is None else gradient.cpu()
    return result


def forward_with_graph(
    model: HookedModel, tokens: Tensor, hooks: list[str]
) -> tuple[Tensor, Activations]:
    """Logits and activations of a pass whose graph begins at the embedding.

    In an encoder it begins at the first block. Weights that are frozen, or made in inference mode
    and copied for this pass, give the numbers of others.
    """
    first = EMBED if hook_points(model, [EMBED]) else Site("resid_pre", 0).hook
    activations: Activations = {}

    def store(value: Tensor, hook: Any, name: str) -> Tensor:
        value = value.detach().clone() if name == first else value.clone()
        if not value.requires_grad:
            value.requires_grad_()
        activations[name] = value
        return value

    module = cast(Any, model)
    copies = {}
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if value.is_inference():
            copies[name] = value.clone()
    stores = [(name, partial(store, name=name)) for name in dict.fromkeys([first, *hooks])]
    with torch.enable_grad(), evaluation(model), attached(model, stores):
        given = tokens.to(device_of(model))
        logits = functional_call(module, copies, given) if copies else model(given)
    return logits, {name: activations[name] for name in hooks}
