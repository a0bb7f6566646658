"""What is read of every member: learning order, geometry, Fourier concentration, and the need of
L0's attention."""

from functools import partial

import numpy as np

from rb_interp.interventions import ablation
from rb_interp.probes import Null, Reading, geometry
from rb_interp.runs import MemberModels, StudyResult, readings_table
from rb_interp.statistics.learning_order import bias_index, fraction_left
from rb_interp.tasks import Inputs


def concentration(embedding: np.ndarray) -> float:
    """Share of the numbers' variance in its two strongest frequencies, in (0, 1]: 1 where they lie
    on two circles."""
    power = (np.abs(np.fft.rfft(embedding, axis=0)[1:]) ** 2).sum(1)
    return float(np.sort(power)[-2:].sum() / power.sum())


def fourier(model, inputs, *, untrained, n_null=200, seed=0) -> Reading:
    """`concentration` of the embedding of the numbers, beside numbers in a random order."""
    numbers, rng = inputs.roles.group("number", "fourier"), np.random.default_rng(seed)
    found, before = (m.W_E[numbers].detach().cpu().numpy() for m in (model, untrained))
    null = Null(
        "numbers permuted", np.array([concentration(rng.permutation(found)) for _ in range(n_null)])
    )
    values, first = ({"top_2": concentration(embedding)} for embedding in (found, before))
    return Reading("fourier", values, untrained=first, nulls={"top_2": null})


def attention_needed(model, inputs, *, untrained, layer=0) -> Reading:
    """Accuracy lost when L0's attention gives its mean, beside what it gives on b + a in place of a
    + b."""
    other = Inputs(inputs.tokens[:, [1, 0, 2]].copy(), inputs.labels, inputs.roles)
    found = [
        ablation(m, inputs, f"attn_out.{layer}", control=other).summary()
        for m in (model, untrained)
    ]
    values, first = (
        {name: row[name] for name in ("effect", "control", "difference")} for row in found
    )
    return Reading("attention_needed", values, layer, untrained=first, n=len(inputs))


def order(curves, d_vocab: int) -> Reading:
    """Bias index of one member's curves, positive where the rule is learned before its exceptions;
    final accuracies."""
    areas = [
        fraction_left(curves[curves["set"] == name]["loss"], d_vocab).mean()
        for name in ("exceptions", "rule")
    ]
    final = (
        curves[curves["step"] == curves["step"].max()]
        .set_index("set")["accuracy"]
        .add_prefix("acc_")
        .to_dict()
    )
    return Reading("order", {"bias": bias_index(*areas), **final}, untrained={"bias": 0.0})


def measure(run, progress: bool = True) -> StudyResult:
    """Every reading of every member, at the end of training."""
    sweep, found, curves = run.sweep(), [], run.curves.set_index(["gamma", "seed"])
    models = MemberModels(sweep)
    for member in sweep.members:
        step, data = models.load(member, "final").step, sweep.dataset(member.seed)
        inputs = data.inputs(data.sample("rule", 500))
        probes = (partial(geometry, ordered=("number",)), fourier, attention_needed)
        readings = [probe(models.model, inputs, untrained=models.untrained) for probe in probes]
        readings.append(order(curves.loc[(member.gamma, member.seed)], sweep.config.task.d_vocab))
        place = {
            "gamma": member.gamma,
            "seed": member.seed,
            "stage": "final",
            "step": step,
            "set": "",
        }
        found += [{**place, **row} for reading in readings for row in reading.rows()]
    return StudyResult(readings_table(found))
