# pyright: reportUnnecessaryTypeIgnoreComment=true
"""What type checkers must know of this package's names; pyright reads this file with the package,
nothing runs it.

A line that ends in ``type: ignore`` has a mistake that a checker must find: where it does not,
pyright reports the comment as unnecessary. mypy says the same with ``--strict``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pandas as pd

import rb_interp as rb
from rb_interp._threads import single_threaded
from rb_interp.arguments import checked
from rb_interp.figures.kit import styled

if TYPE_CHECKING:
    from typing_extensions import assert_type


@checked
def half(n: int, *, exact: bool = True) -> float:
    """A decorated function, as all public ones are."""
    return n / 2


@checked
@single_threaded
def twice(n: int) -> float:
    """One with two decorators."""
    return n * 2.0


@checked
@contextmanager
def within(n: int) -> Iterator[str]:
    """A context."""
    yield str(n)


@styled
def drawn(n: int, *, colour: str = "") -> str:
    """A drawing function."""
    return colour * n


def of_decorators() -> None:
    """Decorators keep what a function takes and returns."""
    assert_type(half(3), float)
    assert_type(twice(3), float)
    assert_type(drawn(3, colour="red"), str)
    with within(2) as text:
        assert_type(text, str)
    half("3")  # type: ignore
    half(3, exat=True)  # type: ignore
    twice(3, 4)  # type: ignore
    drawn(3, color="red")  # type: ignore


def of_names() -> None:
    """Names that are not there."""
    print(rb.nonexistent)  # type: ignore
    print(rb.probes.nonexistent)  # type: ignore
    print(rb.interventions.nonexistent)  # type: ignore
    print(rb.models.nonexistent)  # type: ignore
    print(rb.runs.nonexistent)  # type: ignore
    print(rb.statistics.nonexistent)  # type: ignore
    print(rb.claims.nonexistent)  # type: ignore
    print(rb.training.nonexistent)  # type: ignore
    print(rb.tasks.nonexistent)  # type: ignore
    print(rb.text.nonexistent)  # type: ignore


def of_settings() -> None:
    """Settings: an unknown name, and a value of another kind."""
    assert_type(rb.AnchorTask.preset("smoke"), rb.AnchorTask)
    assert_type(rb.ModelConfig(d_model=8), rb.ModelConfig)
    rb.AnchorTask(lenght=9)  # type: ignore
    rb.ModelConfig(d_model="8")  # type: ignore
    rb.TrainConfig(stepps=3)  # type: ignore


def of_rows(mask: Any) -> None:
    """Rows of a dataset, chosen by numbers in a list or an array, or by a mask."""
    task = rb.AnchorTask.preset("smoke")
    data = task.dataset(seed=0)
    assert_type(data.inputs([0, 1]), rb.Inputs)
    assert_type(data.inputs(data.rows("mem")), rb.Inputs)
    assert_type(data.roles([0]), rb.Roles)
    assert_type(data.inputs([0]).take([True]).take(mask), rb.Inputs)
    assert_type(task.counterfactual(data, [0, 1], "key"), rb.Inputs)
    data.inputs("01")  # type: ignore
    data.inputs([0.5])  # type: ignore
    data.inputs([0, 1]).take(0)  # type: ignore


def of_probes(inputs: rb.Inputs) -> None:
    """A model, its readings, and its effects."""
    model = rb.build_model(rb.AnchorTask(), gamma=0.8)
    reading = rb.probes.uniformity(model, inputs, layer=1, untrained=model)
    assert_type(reading, rb.Reading)
    assert_type(reading.values["tv"], float)
    assert_type(reading.to_frame(), pd.DataFrame)
    assert_type(rb.scan(rb.probes.uniformity, model, inputs), pd.DataFrame)
    assert_type(rb.interventions.ablation(model, inputs, "z.0"), rb.interventions.Effect)
    rb.probes.uniformity(model, 3)  # type: ignore
    rb.probes.attention(model, inputs, layer=1, query="last", to=["key", "rest"], n_null=0)
    rb.probes.attention(model, inputs, qurey="last")  # type: ignore
    rb.probes.attention(model, inputs, query=3)  # type: ignore
    rb.probes.attention_by_role(model)  # type: ignore
    rb.probes.attention_to_key(model, inputs, head="0")  # type: ignore
    rb.probes.uniformity(model, inputs, to="key")  # type: ignore
    rb.probes.value_alignment(model, inputs, contrast="low")  # type: ignore
    rb.probes.geometry(model, layers=[0])  # type: ignore
    rb.probes.lattice(model, steps=3)  # type: ignore
    rb.probes.cosines_by_target(model, inputs)  # type: ignore
    rb.probes.label_range(model, inputs, ranges=[(0, 1)])  # type: ignore
    rb.probes.variance_explained(model, inputs, grouping={})  # type: ignore
    rb.probes.weight_rank(model, head=0)  # type: ignore
    rb.probes.weight_spectra(model, layer="0")  # type: ignore
    rb.probes.condensation(model, matrix="W_Q")  # type: ignore
    rb.probes.token_similarity(model)  # type: ignore
    rb.probes.embedding_rank(model, count=None)  # type: ignore
    rb.probes.next_token(model, inputs, counts=3)  # type: ignore
    rb.probes.chain_accuracy(model, inputs)  # type: ignore
    rb.interventions.ablation(model, inputs)  # type: ignore
    print(reading.valeus)  # type: ignore


def of_studies(measure: Callable[[rb.Reading], float]) -> None:
    """A study, its run, and what a run has."""
    run = rb.study("anchor").run(preset="smoke")
    assert_type(run, rb.Run)
    assert_type(run.verdicts, rb.claims.Verdicts)
    assert_type(run.verdicts["A1"], rb.claims.Verdict)
    assert_type(run.verdicts[0], rb.claims.Verdict)
    assert_type(run.table("curves"), pd.DataFrame)
    assert_type(measure(rb.Reading("p", {"a": 1.0})), float)
    with rb.threads(2):
        rb.threads("2")  # type: ignore
    rb.study(3)  # type: ignore
    run.modle(gamma=0.8, seed=0)  # type: ignore
