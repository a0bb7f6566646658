"""A subclass of AnchorTask with labels of its own is another task, with counterfactual answers of
its own."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from rb_interp.errors import TaskError
from rb_interp.tasks import AnchorTask, Dataset, fingerprint


class Doubled(AnchorTask):
    """Reasoning answers are key + 2 a_1 + a_2."""

    def answers(self, data, rows, tokens):
        labels = super().answers(data, rows, tokens)
        first = np.take_along_axis(tokens, data.anchor_positions[rows, :1], 1)[:, 0]
        return np.where(data.set[rows] == 0, labels, labels + first)


class Relabelled(AnchorTask):
    """Changes the labels and does not say by which rule."""

    def dataset(self, seed):
        data = super().dataset(seed)
        return replace(data, labels=(data.labels + 1) % self.d_vocab)


def test_a_subclass_has_its_own_labels_and_counterfactual_answers():
    task = Doubled()
    data, plain = task.dataset(2), AnchorTask().dataset(2)
    np.testing.assert_array_equal(data.tokens, plain.tokens)
    for name in ("rsn_train", "rsn_test"):
        rows = data.sample(name, 100)
        for change in ("key", "both", "noise"):
            other = task.counterfactual(data, rows, change)
            key = np.take_along_axis(other.tokens, other.roles.position("key"), 1)[:, 0]
            first, second = np.take_along_axis(other.tokens, other.roles.position("anchor"), 1).T
            np.testing.assert_array_equal(other.labels, key + 2 * first + second)
            assert ((other.labels == data.labels[rows]) == (change == "noise")).all()
    memory = data.rows("mem")
    np.testing.assert_array_equal(data.labels[memory], plain.labels[memory])


@pytest.mark.parametrize("change", ["key", "noise"])
def test_labels_without_a_rule_have_no_counterfactual(change):
    data = Relabelled().dataset(0)
    with pytest.raises(
        TaskError,
        match=r"30 of 30 labels are not what .*Relabelled.answers gives.* override answers",
    ):
        data.task.counterfactual(data, data.sample("rsn_train", 30), change)


def test_noise_is_drawn_until_the_answer_is_the_same():
    class Noisy(AnchorTask):
        def answers(self, data, rows, tokens):
            return super().answers(data, rows, tokens) + tokens.sum(1) % 2

    data = Noisy().dataset(0)
    rows = data.sample("rsn_train", 50)
    other = data.task.counterfactual(data, rows, "noise")
    np.testing.assert_array_equal(other.labels, data.labels[rows])
    np.testing.assert_array_equal(other.tokens.sum(1) % 2, data.tokens[rows].sum(1) % 2)
    assert (other.tokens != data.tokens[rows]).any(1).all()


def test_a_fingerprint_is_of_class_and_settings():
    plain = AnchorTask()
    others = [Doubled(), Relabelled(), replace(plain, masked=()), replace(plain, length=6)]
    assert len({task.fingerprint() for task in [plain, *others]}) == 5
    assert plain.fingerprint() == AnchorTask(q=2, masked=((11, 13), (13, 11))).fingerprint()

    @dataclass(frozen=True)
    class Other:
        inner: AnchorTask = plain
        table: tuple = (1.5, None, {"a": (True,)})
        rows: np.ndarray = field(default_factory=lambda: np.arange(3))
        seen: list = field(default_factory=list, compare=False)

    assert (
        fingerprint(Other())
        == fingerprint(Other(seen=[1]))
        != fingerprint(Other(rows=np.arange(4)))
    )
    assert fingerprint(Other()) != fingerprint(Other(inner=Doubled()))
    with pytest.raises(
        TaskError, match=r"the setting 'table' is a function, which is no plain data; give numbers"
    ):
        fingerprint(replace(Other(), table=(lambda: 0,)))
    with pytest.raises(TaskError, match="no instance of a dataclass; write a fingerprint"):
        fingerprint("task")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"positions": {"key": np.zeros((2, 1))}},
            r"toy: numbers of rows differ .*'set': 3, \"positions\['key'\]\": 2",
        ),
        (
            {"set": np.array([0, 1, 2])},
            r"set holds 0 to 2; expected indices into sets=\('seen', 'new'\)",
        ),
        ({"train_sets": ("sen",)}, "there is no set 'sen'; did you mean 'seen'"),
    ],
)
def test_a_dataset_that_contradicts_itself_says_where(changes, message):
    good = {"labels": np.zeros(3, int), "set": np.array([0, 0, 1]), "train_sets": ("seen",)}
    with pytest.raises(TaskError, match=message):
        Dataset(0, np.zeros((3, 2), int), sets=("seen", "new"), name="toy", **{**good, **changes})
