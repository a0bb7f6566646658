r"""Where in the stream can the answer be read?

`logit_lens` (nostalgebraist, 2020, "interpreting GPT: the logit lens"). The stream x before L0 and
after each sublayer, at one position of each row, is read as the model reads its last one:

    logits = unembed(norm(x)), with a soft cap if the model has one

    rank          mean over rows of the tokens with a larger logit than the answer           [0, d_vocab)
    probability   mean over rows of the answer's probability                                 [0, 1]
    logit_diff    mean over rows of the answer's logit less the mean logit of all rows' answers

The norm is that before the unembedding. With ``scale="own"`` it takes its statistics from the stream
that it reads. ``scale="final"`` divides by the scale of the last stream, as older versions of
TransformerLens did: a short early stream then looks uniform, even if it points at the answer. A
post-norm model is read without any norm, since its stream is normalised already.

The null gives each row the answer of another row.

How it can mislead. A model that writes the answer in its last MLP reads a rank near half the
vocabulary and a logit_diff of 0 before it, and rank 0 after it; a model of another task reads the
former throughout, with any p, and so does an untrained one, with probability 1/d_vocab. The last
stream is the model's own output. Streams before it may hold the answer in a basis that the
unembedding does not read, so a late rise does not say that the answer is made late (Belrose et al.,
2023, arXiv:2303.08112). An answer that can be read early need not be used: patch to know. Where few
tokens are ever answers, those have small ranks once the stream tells them apart from others: read
logit_diff and p. Ties count as no larger: where all logits are equal the rank is 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import logsumexp
from torch import Tensor, nn

from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.errors import ModelError
from rb_interp.models.arrays import ActivationSource, model_of
from rb_interp.models.protocol import hooked
from rb_interp.models.structure import (
    device_of,
    evaluation,
    fixed_norm,
    has_mlp,
    hook_points,
    is_rounding,
    soft_capped,
    unembedded,
)
from rb_interp.probes._core import Measurement, read_model
from rb_interp.probes.activations import (
    DIVERGED,
    capture,
    check_labels,
    check_rows,
    float64,
    logits_of,
)
from rb_interp.probes.labels import RowLabels, positions_of
from rb_interp.statistics.nulls import permutations
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks.inputs import Inputs

Scale = Literal["own", "final"]
SCALES = {"own": "stream that is read", "final": "last stream"}
"""Whose statistics the norm has."""
ROUNDING = 1e-9
"""Draws that are less than the value by this much are ties, which count against it."""


@checked
@single_threaded
def logit_lens(
    model: ActivationSource,
    inputs: Inputs,
    *,
    role: str | None = None,
    scale: Scale = "own",
    untrained: ActivationSource | None = None,
    n_null: int = 200,
    seed: int = 0,
) -> Reading:
    """Rank, probability and logit difference of the answer, read from the stream of each sublayer.

    Values: ``f"{stream}.{layer}:{quantity}"``, such as ``resid_mid.0:rank``, of resid_pre of L0, and
    resid_mid and resid_post of every layer; quantities as in the module's table. Null: answers
    permuted over rows. Arrays: the values of each row, under the same names.

    Args:
        model: a model, or its activations on these rows (``captured``).
        inputs: rows and their right answers.
        role: whose position is read, the first one if it has several; by default the role ``last``.
        scale: whose statistics the last norm has, ``own`` or ``final``.
        untrained: the same model at step 0, read beside it; None for no comparison.
        n_null, seed: draws of each null, 0 for none, and their seed.

    Raises ModelError for a model whose logits are not the unembedding of its last stream, and for
    rows without labels.

    >>> from rb_interp.models.reference import reference
    >>> known = reference("memoriser")  # L1's MLP writes the answer
    >>> data = known.task.dataset(seed=0)
    >>> reading = logit_lens(known.model(), data.inputs(data.sample("rsn_train", 20)), n_null=0)
    >>> [round(reading.values[f"{name}.1:probability"], 2) for name in ("resid_mid", "resid_post")]
    [0.0, 1.0]
    """
    check_rows(inputs, "logit_lens")
    labels = check_labels(inputs, "logit_lens")
    positions = positions_of(inputs, role, "logit_lens")

    def measure(source: ActivationSource) -> Measurement:
        logits = stream_logits(source, inputs, positions, scale)
        d_vocab = logits["resid_pre.0"].shape[1]
        if labels.max() >= d_vocab:
            raise ModelError(
                f"logit_lens got the label {labels.max()}; the model answers with tokens 0 to "
                f"{d_vocab - 1}."
            )
        return answers_in_streams(logits, labels)

    reading = read_model("logit_lens", model, measure, untrained, n_null, seed)
    note = f"a last norm has the statistics of the {SCALES[scale]}."
    return replace(reading, notes={**reading.notes, "scale": note})


def answers_in_streams(
    logits: Mapping[str, Float[np.ndarray, "row d_vocab"]], labels: RowLabels
) -> Measurement:
    """The values of `logit_lens`, read from the logits of each stream.

    >>> answers_in_streams({"x": np.array([[0.0, 2.0], [1.0, 0.0]])}, np.array([1, 1])).values
    {'x:rank': 0.5, 'x:probability': 0.5748692496739387, 'x:logit_diff': 0.0}
    """
    rows = np.arange(len(labels))
    answers, column = np.unique(labels, return_inverse=True)
    tables = {}
    for stream, of_rows in logits.items():
        of_answers = of_rows[:, answers]
        is_below = [
            np.searchsorted(*row, "right") for row in zip(np.sort(of_rows), of_answers, strict=True)
        ]
        tables[f"{stream}:rank"] = of_rows.shape[1] - np.stack(is_below)
        log_total = logsumexp(of_rows, axis=1, keepdims=True)
        tables[f"{stream}:probability"] = np.exp(of_answers - log_total)
        mean = of_answers[:, column].mean(1, keepdims=True)
        tables[f"{stream}:logit_diff"] = of_answers - mean
    by_row = {name: table[rows, column] for name, table in tables.items()}

    def draw_nulls(n_null: int, seed: int) -> dict[str, Null]:
        orders = permutations(n_null, len(rows), np.random.default_rng(seed))
        nulls = {}
        for name, table in tables.items():
            draws = table[rows, column[orders]].mean(1)
            side = "less" if name.endswith("rank") else "greater"
            size = float(table.max()) if name.endswith("probability") else 1.0
            nulls[name] = Null("answers permuted over rows", draws, side, ROUNDING * size)
        return nulls

    values = {name: float(numbers.mean()) for name, numbers in by_row.items()}
    notes = {}
    if len(answers) == 1:
        notes = dict.fromkeys(
            values, "all rows have the same answer, so p is 1 and logit_diff 0 in any model."
        )
    return Measurement(values, draw_nulls, by_row, len(rows), null_notes=notes)


def stream_logits(
    source: ActivationSource, inputs: Inputs, positions: RowLabels, scale: Scale
) -> dict[str, Float[np.ndarray, "row d_vocab"]]:
    """Logits of each stream at one position of each row, in float64, by the stream's name.

    Raises ModelError if those of the last stream at the last position are not the model's own.
    """
    model = hooked(model_of(source), "logit_lens")
    hooks = {"resid_pre.0": "blocks.0.hook_resid_pre"}
    for layer in range(model.cfg.n_layers):
        middle = f"blocks.{layer}.hook_resid_mid"
        if has_mlp(model) and hook_points(model, [middle]):
            hooks[f"resid_mid.{layer}"] = middle
        hooks[f"resid_post.{layer}"] = f"blocks.{layer}.hook_resid_post"
    names = list(hooks.values())
    is_cache = source is not model
    if not is_cache:
        names.append("logits")
    last_position = inputs.tokens.shape[1] - 1
    columns, column = np.unique([*positions, last_position], return_inverse=True)
    activations = capture(source, inputs.tokens, names, select=lambda value: value[:, columns])
    norm = getattr(model, "ln_final", nn.Identity())

    def read(x: Tensor, scaled_as: Tensor) -> Tensor:
        normal = fixed_norm(norm, scaled_as.to(device_of(model)))(x.double())
        return soft_capped(model, unembedded(model, normal, x.dtype))

    with torch.no_grad(), evaluation(model):
        last = activations[list(hooks.values())[-1]]
        if is_cache:
            actual = logits_of(source, inputs.tokens, select=lambda logits: logits[:, -1])
        else:
            actual = activations["logits"][:, -1]
        if not actual.isfinite().all():
            raise ModelError(f"logit_lens got a model whose {DIVERGED}")
        if not is_rounding(read(last[:, -1], last[:, -1]) - actual, actual):
            raise ModelError(
                f"logit_lens got a {type(model).__name__} whose logits are not the unembedding of its "
                f"last stream behind LayerNorm, RMSNorm or none, or a cache of other rows; patch "
                f"its streams instead."
            )
        at_rows = np.arange(len(positions)), column[:-1]
        logits = {}
        for name, hook in hooks.items():
            x = activations[hook][at_rows]
            scaled_as = x if scale == "own" else last[at_rows]
            logits[name] = float64(read(x, scaled_as))
    return logits
