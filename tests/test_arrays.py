"""Values that hold arrays are compared by what they hold, and shown in a line."""

import ast
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from rb_interp.arrays import alike, brief
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.matrix import PatchingMatrix
from rb_interp.interventions.metrics import metric_of
from rb_interp.interventions.path import PathPatch
from rb_interp.interventions.sites import Site
from rb_interp.runs import study
from rb_interp.statistics.reading import Null, Reading
from rb_interp.tasks import AnchorTask, Dataset, Inputs, Roles
from rb_interp.theory.lemma_1 import FreshAttention

PACKAGE = Path(__file__).parents[1] / "rb_interp"


def some(scale=1.0):
    """One of each kind of value that a caller is given, made anew at each call."""
    rows = scale * np.arange(12.0)
    roles = Roles({"key": np.full((12, 1), int(scale))}, {"key": np.arange(3)}, np.array(["mem"] * 12))
    null = Null("nothing", np.append(rows, np.nan))
    tables = {"skills": pd.DataFrame({"hops": [1, 2], "accuracy": [0.5, scale]})}
    base, source = torch.eye(3)[np.zeros(12, int)] * scale, torch.eye(3)[np.ones(12, int)]
    labels = np.zeros(12, int), np.ones(12, int)
    one_row = np.zeros((1, 3), int), np.zeros(1, int), np.zeros(1, int)
    cells = rows.reshape(1, 2, 2, 3)
    return [
        roles,
        null,
        Inputs(np.arange(24).reshape(12, 2), np.arange(12) * int(scale), roles),
        Reading("p", {"a": np.nan, "b": scale}, 0, nulls={"a": null}, arrays={"pattern": rows}, tables=tables),
        Effect("ablation", "z.0", "recovered", rows, rows[None], "noise redrawn"),
        PatchingMatrix(("z",), (0, 1), ("key", "last"), "probability", None, rows[:3], rows[:3] + 1, cells, None),
        PathPatch(Site("z", 0), Site("v", 1), base, source, base, None, *labels, metric_of("logit_diff")),
        Dataset(int(scale), *one_row, ("a",), ("a",), {"key": np.full((1, 1), int(scale))}),
        FreshAttention(0.5, 0.1, 3, rows),
    ]


@pytest.mark.parametrize("number", range(len(some())), ids=[type(one).__name__ for one in some()])
def test_values_are_compared_by_what_they_hold(number):
    one, again, other = some()[number], some()[number], some(2.0)[number]
    assert one == again
    assert (one != again) is False
    assert hash(one) == hash(again)
    assert one != other
    assert one != 3
    assert one in [other, again]
    assert len({one, again, other}) == 2


@pytest.mark.parametrize("one", some(), ids=lambda one: type(one).__name__)
def test_values_are_shown_in_a_line(one):
    assert "\n" not in repr(one)
    assert len(repr(one)) < 400
    assert one._repr_html_().startswith("<p>")


def test_what_differs_alone_makes_two_values_differ():
    assert alike({"a": [1.0, float("nan")]}, {"a": [1.0, float("nan")]})
    assert not alike({"a": 1}, {"b": 1})
    assert not alike(np.zeros(3), np.zeros((1, 3)))
    assert not alike(np.array([np.nan, 1]), np.array([1, np.nan]))
    assert not alike(None, np.zeros(0))
    assert not alike((1, 2), (1, 2, 3))
    assert alike(torch.ones(2, dtype=torch.bfloat16), np.ones(2))
    assert alike(np.array(["a"]), np.array(["a"]))


def test_a_dataclass_that_inherits_is_compared_in_the_same_way():
    @dataclass(frozen=True)
    class Weighted(Inputs):
        weight: np.ndarray = None

    one, other = (Weighted(np.zeros((2, 2), int), weight=np.full(9, weight)) for weight in (1, 2))
    assert one != other
    assert one != Inputs(np.zeros((2, 2), int))
    assert repr(one) == "Weighted(tokens=int64[2, 2], weight=int64[9])"


def test_names_of_the_caller_stay_in_their_line_and_in_their_cell():
    named = Reading("p\n", {"<b>": 0.5}, 1, 0, n=7)
    assert repr(named) == r"Reading(p\n, L1, head 0, n=7: <b>=0.5)"
    roles = Roles({"<b>": np.array([[1]])}, task="<i>")
    shown = [named, roles, Inputs(np.array([[5, 6]]), np.array([7]), roles), Null("<b>", np.zeros(3))]
    for one in (*shown, Effect("<b>", "z.0", "recovered", np.zeros(3), np.zeros((0, 3)), "")):
        assert "<b>" not in one._repr_html_()
        assert "<i>" not in one._repr_html_()
    assert "<td>6<br><small>&lt;b&gt;</small></td><td>7</td>" in shown[2]._repr_html_()


def test_settings_are_shown_by_what_differs_from_their_preset():
    anchor = study("anchor")
    config = anchor.preset("smoke", seeds=(3,), model=replace(anchor.preset("smoke").model, norm="pre"))
    assert repr(config) == "AnchorConfig(preset='smoke', seeds=[3], model.norm='pre')"
    assert repr(anchor) == "Study(anchor: Anchor study: is the rule learned before the table?)"
    assert {anchor, study("anchor")} == {anchor}
    assert brief({"task": AnchorTask()}) == "{'task': AnchorTask(...)}"


def holds_arrays(node):
    """Whether a class is a public dataclass, compared by its fields, that holds an array, a tensor or a table."""
    fields = [ast.unparse(one.annotation) for one in node.body if isinstance(one, ast.AnnAssign)]
    held = [field for field in fields if any(kind in field for kind in ("ndarray", "Tensor", "DataFrame"))]
    made = any("dataclass" in (text := ast.unparse(one)) and "eq=False" not in text for one in node.decorator_list)
    return made and not node.name.startswith("_") and any(not field.startswith("Callable") for field in held)


def test_every_dataclass_with_arrays_is_compared_by_them():
    """Read from the source: importing every module takes seconds."""
    texts = (path.read_text() for path in PACKAGE.rglob("*.py"))
    trees = [ast.parse(text) for text in texts if "@dataclass" in text]
    classes = [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    bases = {}
    for node in classes:
        bases.setdefault(node.name, set()).update(map(ast.unparse, node.bases))

    def inherits(name):
        return name in ("WithArrays", "WithTable") or any(map(inherits, bases.get(name, ())))

    found = [node.name for node in classes if holds_arrays(node)]
    assert {"Inputs", "Reading", "Effect", "PatchingMatrix"} <= set(found)
    assert [name for name in found if not inherits(name)] == []
