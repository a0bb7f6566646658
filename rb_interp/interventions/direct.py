r"""Direct effects: what each part of a model writes into the answer itself, past all later layers.

At the answer's position the stream is a sum of parts c, and the metric reads it along a direction u
of the unembedding's input. With the scale sigma of each norm held as it is in the row, all is linear:

    LayerNorm    ((c - mean c) / sigma) . (w * u)       RMSNorm    (c / sigma) . (w * u)
    no norm      c . u                                  post-norm  c passes every later LayerNorm
    head         c = z W_O                              neuron     c = its activation times its W_out

    metric = sum of the parts' effects + biases

``biases`` are those of norms and unembedding, and b_O or b_out of sublayers that are split. No
weight need be folded; folding moves what value biases write from heads into ``biases``. The logits
are those before a soft cap.

``logit_diff`` is here the answer's logit less the mean logit of the answers of all rows. The null of
p reads what a part writes in each row along the direction of another row, drawn by permutation; p is
two-sided, about the mean of the draws, and 1 where all rows ask for the same tokens.

Source: direct logit attribution (Elhage et al., 2021, transformer-circuits.pub; Wang et al., 2022,
arXiv:2211.00593). TransformerLens's ``direct_logit_attribution`` and ``logit_attrs`` give the same
numbers where weights are folded, and leave out the weight of the last norm where they are not.

How it can mislead. A part that writes the answer reads large, with a small p; a part that does not,
and an untrained model's, reads near 0 with any p. An effect of 0 does not say that a part does
nothing: it may act through later layers, so patch to know. Two parts that undo each other both read
large. With ``logit`` a part that favours every answer alike reads large, and only p tells. Neurons
are named for their size in these rows, so their p is too small. A part that is taken away changes
sigma as well.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ArgumentError, ModelError
from rb_interp.interventions.matrix import Matrix
from rb_interp.interventions.metrics import (
    AnswerAt,
    Answers,
    Metric,
    MetricLike,
    answer_positions,
    measure,
)
from rb_interp.interventions.paired_run import Activations, PairedRun
from rb_interp.interventions.sites import EMBEDDINGS, Site, components_of
from rb_interp.models.protocol import HookedModel
from rb_interp.models.structure import (
    device_of,
    evaluation,
    fixed_norm,
    is_rounding,
    soft_capped,
    unembedded,
)
from rb_interp.statistics.nulls import permutations
from rb_interp.tasks.inputs import Inputs

__all__ = ["direct_effect"]

By = Literal["component", "head", "neuron"]
SPLITS = {
    "head": ("attn_out", "z", "attn", "W_O", "b_O"),
    "neuron": ("mlp_out", "mlp_post", "mlp", "W_out", "b_out"),
}
"""Unit -> the sublayer that is a sum of such units, their activation, their module, and its weight
and bias."""
READ = (*EMBEDDINGS, "attn_out", "mlp_out", "resid_post")
"""What is written into the stream, and the stream after a layer."""
TIE = 1e-7
"""Draws that are less extreme than the effect by this share of it are ties, which count."""
Vectors = Float[Tensor, "row d_model"]


@checked
@single_threaded
def direct_effect(
    model: HookedModel,
    inputs: Inputs,
    *,
    by: By = "component",
    metric: MetricLike = "logit_diff",
    answer_at: AnswerAt = None,
    control: Inputs | None = None,
    n_neurons: int = 20,
    n_draws: int = 100,
    seed: int = 0,
) -> Matrix:
    """What each part writes into the answer at its position, in the metric's unit, mean over rows.

    The matrix has one axis, ``site``: parts by their names, such as ``attn_out.0`` or ``z.0.1``, and
    ``biases``. Its ``patched`` is ``[site, row]`` and sums to ``clean``, the metric of each row.

    Args:
        model: any model with TransformerLens's hooks whose logits are such a sum.
        inputs: rows, with labels if the metric asks for them.
        by: ``component`` (embeddings, attn_out and mlp_out of each layer), ``head``, or ``neuron``
            (those of the largest mean effect, and all ``other neurons`` together).
        metric: ``logit_diff``, ``logit``, one of these for tokens, or a function that is linear in
            the logits, see ``interventions.metrics``.
        answer_at: where the answer is read, by default at the last position.
        control: as many rows with other answers, such as ``counterfactual``: what their parts write
            into the answers of ``inputs``; or None for no control.
        n_neurons: how many neurons are named, or all if the model has fewer.
        n_draws: draws of other rows' answers, 0 for no p; p cannot be below 1 / (1 + draws).
        seed: seed of the draws.

    Raises:
        ModelError: the metric is not linear, the logits are no sum of parts, the rows have one
            answer alone and no tokens are named, or the control has the rows' answers.
        ArgumentError: the model has no neurons, or none is to be named.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("memoriser")  # neurons of L1 write the answers
    >>> model, data = known.model(), known.task.dataset(seed=0)
    >>> matrix = direct_effect(model, data.inputs(data.sample("rsn_train", 20)))
    >>> matrix.to_frame().query("p_value < 0.05").site.tolist()
    ['mlp_out.1']
    """
    if isinstance(metric, str) and metric == "logit_diff":
        name = "logit_diff from the mean answer"
        metric = Metric(name, _above_all_answers, worse=-1, needs=1)
    if control is not None and np.array_equal(control.labels, inputs.labels):  # pyright: ignore
        raise ModelError(
            "got a control with the answers of the rows that are read, so it is like the effect and "
            "no control; give rows with other answers, such as the task's counterfactual."
        )
    with torch.inference_mode(False):
        Site("resid_post", 0).check(model)
        hooks = {}
        for layer in range(model.cfg.n_layers):
            for name in components_of(model, layer):
                if name in (*READ, *SPLITS.get(by, ())):
                    hooks[Site(name, layer).hook] = layer
        pair = PairedRun(model, metric, answer_at, inputs, control=control, hooks=[*hooks])
        streams = []
        for rows, activations in zip([inputs, *pair.sources], pair.activations, strict=True):
            streams.append(Stream(model, by, activations, answer_positions(answer_at, rows)))
        stream = streams[0]
        vectors, constant = answer_direction(pair, stream)
        effects = [of_rows.effects(vectors, constant) for of_rows in streams]
        null = np.empty((len(effects[0]), n_draws))
        rng = np.random.default_rng([seed, 12])
        for number, order in enumerate(permutations(n_draws, len(inputs), rng)):
            null[:, number] = stream.effects(vectors[order], constant[order]).mean(1)
    names = stream.names
    if by == "neuron":
        is_named = largest_neurons(names, effects[0], n_neurons)
        names = [*np.array(names)[is_named].tolist(), "other neurons"]
        null, *effects = [
            np.concatenate([table[is_named], table[~is_named].sum(0, keepdims=True)])
            for table in (null, *effects)
        ]
    p_values = None
    if n_draws:
        middle = (null.sum(1) + effects[0].mean(1)) / (1 + n_draws)
        rounding = TIE * np.abs(effects[0]).mean(1).max()
        distance = np.abs(effects[0].mean(1) - middle) - rounding
        is_extreme = np.abs(null.T - middle) >= distance
        p_values = (1 + is_extreme.sum(0)) / (1 + n_draws)
    return Matrix(
        {"site": names},
        pair.metric.name,
        pair.of(stream.logits),
        np.zeros(len(inputs)),
        effects[0],
        effects[1] if control is not None else None,
        pair.all_notes(names_roles=False),
        "direct",
        "direct effects",
        pair.answered,
        p_values=p_values,
    )


class Stream:
    """The stream at the answer as an affine map of what is written into it, in float64 on the CPU.

    Attributes:
        parts: what each site writes, ``[row, 1, d_model]``, or the activations of its units, ``[row,
            unit, k]``; leaves of the graph.
        names: of the units of all parts, and ``biases``.
        final: what the unembedding reads, with its graph.
        logits: those before a soft cap, ``[row, d_vocab]``.
    """

    def __init__(
        self, model: HookedModel, by: By, activations: Activations, positions: Int[Tensor, " row"]
    ) -> None:
        self.model = model
        self.split: tuple[str, ...] = SPLITS.get(by, ("",))
        rows = torch.arange(len(positions))
        self.read = {hook: value[rows, positions] for hook, value in activations.items()}
        self.like = self.read["blocks.0.hook_resid_post"].to(device_of(model))
        self.parts: list[Tensor] = []
        self.names: list[str] = []
        with torch.enable_grad(), evaluation(model):
            stream = self._written("embed", 0) + self._written("pos_embed", 0)
            for layer in range(model.cfg.n_layers):
                stream = self._after_layer(stream, layer)
            self.final = self._normalised(stream, getattr(model, "ln_final", None))
            self.logits = unembedded(model, self.final.detach(), self.like.dtype).detach()
        self.names.append("biases")

    def effects(
        self, vectors: Vectors, constant: Float[Tensor, " row"]
    ) -> Float[np.ndarray, "part row"]:
        """What each part adds to ``vectors . final + constant``, in the order of the names."""
        gradients = torch.autograd.grad(self.final, self.parts, vectors, retain_graph=True)
        products = [(a * b).sum(-1) for a, b in zip(gradients, self.parts, strict=True)]
        effects = torch.cat(products, 1)
        biases = (vectors * self.final).sum(1) + constant - effects.sum(1)
        return torch.cat([effects, biases[:, None]], 1).T.detach().numpy()

    def check(self, total: Tensor, actual: Tensor, subject: str) -> None:
        """Raise ModelError if a sum is not what the model computes."""
        if not is_rounding(total - actual, actual):
            raise ModelError(
                f"{subject} of this {type(self.model).__name__} is no sum of what is written there, "
                f"with LayerNorm, RMSNorm or none behind it; read by='component', or patch, as "
                f"patching_matrix does."
            )

    def _after_layer(self, stream: Tensor, layer: int) -> Tensor:
        """The stream after a layer that adds to it, or that normalises each sum."""
        after = self.read[Site("resid_post", layer).hook]
        block = self.model.blocks[layer]
        written = [self._written(name, layer) for name in ("attn_out", "mlp_out")]
        total = stream + written[0] + written[1]
        if not is_rounding(total - after, after):
            total = self._normalised(stream + written[0], getattr(block, "ln1", None))
            total = self._normalised(total + written[1], getattr(block, "ln2", None))
        self.check(total, after, f"the stream after L{layer}")
        return total

    def _normalised(self, stream: Tensor, norm: nn.Module | None) -> Tensor:
        """The stream after a norm with its scale fixed."""
        if norm is None:
            return stream
        return fixed_norm(norm, stream.detach().to(self.like))(stream)

    def _written(self, component: str, layer: int) -> Tensor:
        """What a site writes into the stream, from its parts; 0 if the model has it not."""
        site = Site(component, layer)
        if site.hook not in self.read:
            return torch.zeros(1)
        out = self.read[site.hook]
        if component != self.split[0]:
            self.parts.append(out.double()[:, None].requires_grad_())
            self.names.append(str(site))
            return self.parts[-1][:, 0]
        _, unit, part, weight_name, bias_name = self.split
        unit_site = Site(unit, layer)
        if unit_site.hook not in self.read:
            raise ModelError(f"this model has no hook for '{unit_site}'; read by='component'.")
        activation = self.read[unit_site.hook].double()
        units = activation.reshape(*activation.shape[:2], -1).requires_grad_()
        self.parts.append(units)
        self.names += [str(Site(unit, layer, unit=number)) for number in range(units.shape[1])]
        module = getattr(self.model.blocks[layer], part)
        missing = torch.zeros(units[0].numel(), out.shape[1])
        weight = getattr(module, weight_name, missing).detach().cpu().double()
        written = torch.einsum("ruk,ukd->rd", units, weight.reshape(*units.shape[1:], -1))
        bias = getattr(module, bias_name, None)
        if bias is not None:
            written = written + bias.detach().cpu()
        self.check(written, out, f"'{site}'")
        return written


def answer_direction(pair: PairedRun, stream: Stream) -> tuple[Vectors, Float[Tensor, " row"]]:
    """Vectors and a constant for each row, with the metric ``vectors . final + constant``.

    Raises:
        ModelError: the metric is not linear, or the unembedding does not give the model's logits.
    """
    logits = soft_capped(pair.model, stream.logits)
    if logits is not stream.logits:
        pair.notes["cap"] = "the model caps its logits; these numbers are of those before the cap."
    stream.check(logits, pair.base_logits, "the unembedding")
    x = stream.final.detach().requires_grad_()
    with torch.enable_grad(), evaluation(pair.model):
        metric, constant = (
            measure(pair.metric, unembedded(pair.model, y, stream.logits.dtype), *pair.answers)
            for y in (x, 0 * x)
        )
    vectors = torch.nan * x
    if metric.requires_grad:
        (vectors,) = torch.autograd.grad(metric.sum(), x)
    products = (vectors * x).detach()
    scale = products.abs().sum(1) + constant.abs()
    if not is_rounding(products.sum(1) + constant - metric, scale.to(stream.logits.dtype)):
        raise ModelError(
            f"direct_effect got the metric '{pair.metric.name}', which is not linear in the logits; "
            f"'logit_diff' and 'logit' are, and both of tokens that you name, such as "
            f"rb_interp.interventions.metrics.logit_diff(a, b)."
        )
    return vectors, constant.detach()


def largest_neurons(names: list[str], effects: np.ndarray, n_neurons: int) -> np.ndarray:
    """Whether a part is no neuron, or one of those of the largest mean effect.

    Raises:
        ArgumentError: there are no neurons, or none is to be named.
    """
    neurons = np.flatnonzero([name.startswith("mlp_post") for name in names])
    if not len(neurons) or n_neurons < 1:
        raise ArgumentError(
            f"direct_effect got by='neuron' and n_neurons={n_neurons}; this model has "
            f"{len(neurons)} neurons, and at least 1 is named."
        )
    size = np.abs(effects[neurons].mean(1))
    is_named = np.ones(len(names), dtype=bool)
    is_named[neurons[np.argsort(size)[:-n_neurons]]] = False
    return is_named


def _above_all_answers(logits: Tensor, clean: Answers, _: Any) -> Float[Tensor, " row"]:
    """The answer's logit less the mean logit of the answers of all rows."""
    labels = clean.labels
    if labels is None or (labels == labels[0]).all():
        raise ModelError(
            "logit_diff compares the answers of the rows, and these have labels of one answer or "
            "none; use 'logit', or name two tokens: metrics.logit_diff(a, b)."
        )
    of_answers = logits.double()[:, labels]
    return of_answers.diagonal() - of_answers.mean(1)
