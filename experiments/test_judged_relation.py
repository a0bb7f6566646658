"""PrOntoQA without its chain: rows against the verifier, P3, and what is trained again."""

import judged_relation
import numpy as np
import pandas as pd
import pytest
from judged_relation import CELLS, JudgedRelation, main, sizes, verdict

from rb_interp.text import verify, word_tokenizer
from rb_interp.text.documents import Documents
from rb_interp.text.settings import TextSettings

TASK = JudgedRelation(n_sequences=60, n_test=40)


def test_the_answer_alone_is_read_in_trees_that_were_not_trained():
    data = TASK.dataset(seed=3)
    examples = Documents(TextSettings(hops=TASK.hops), "prontoqa", seed=3).take(0, 100)
    texts = [f"{example.prompt} {example.answer}" for example in examples]
    tokenizer = word_tokenizer(texts, TASK.d_vocab)
    for name, first in (("test", 0), ("seen", 40)):
        rows = data.rows(name)
        assert len(rows) == 40
        for row, example in zip(rows, examples[first : first + 40], strict=True):
            [place] = np.flatnonzero(data.labels[row] >= 0)
            read = tokenizer.decode(data.tokens[row, 1 : place + 1])
            assert read == example.prompt
            answer = tokenizer.decode(data.labels[row, [place]])
            assert answer == f" {verify(example).label}"
    for row, text in zip(data.rows("train"), texts[40:], strict=True):
        labels = data.labels[row][data.labels[row] >= 0]
        assert tokenizer.decode(labels) == text + "<|endoftext|>"
    assert len({*texts}) == 100


def test_the_rows_of_a_smaller_number_are_among_those_of_a_larger_one():
    small = JudgedRelation(n_sequences=30, n_test=40).dataset(seed=3)
    large = TASK.dataset(seed=3)
    for name in ("train", "test"):
        first = large.tokens[large.rows(name)][: len(small.rows(name))]
        np.testing.assert_array_equal(small.tokens[small.rows(name)], first)


@pytest.mark.parametrize(
    ("differences", "outcome"),
    [((0.1, 0.1), "HOLDS"), ((-0.1, -0.1), "FAILS"), ((0.1, -0.1), "FAILS")],
)
def test_p3_asks_for_a_difference_at_both_numbers_of_rows(differences, outcome):
    rows = []
    for n, difference in zip(sizes("smoke"), differences, strict=True):
        for (gamma, decay), right in zip(CELLS, (0.5 + difference, 0.5), strict=True):
            rows += [(n, decay, gamma, seed, 0.0, 1.0, right) for seed in range(8)]
    columns = ["n_sequences", "weight_decay", "gamma", "seed", "loss", "seen", "test"]
    assert verdict("smoke", pd.DataFrame(rows, columns=columns))["outcome"].to_list() == [outcome]


def test_a_member_that_diverged_is_no_loser():
    """Its answers are wrong, and a difference to them says nothing."""
    rows = []
    for n in sizes("smoke"):
        for (gamma, decay), right, loss in zip(CELLS, (0.5, 0.0), (1.0, np.nan), strict=True):
            rows += [(n, decay, gamma, seed, loss, 1.0, right) for seed in range(8)]
    columns = ["n_sequences", "weight_decay", "gamma", "seed", "loss", "seen", "test"]
    (found,) = verdict("smoke", pd.DataFrame(rows, columns=columns)).itertuples()
    assert (found.outcome, found.n_meeting) == ("FAILS", 0)


def test_members_that_are_there_are_not_trained_again(tmp_path, monkeypatch):
    trained = []

    def train_cell(preset, n, cell, seeds):
        trained.append((n, cell, tuple(seeds)))
        place = {"n_sequences": n, "weight_decay": cell[1], "gamma": cell[0], "seed": seeds}
        return pd.DataFrame({**place, "loss": 1.0, "seen": 1.0, "test": cell[0]})

    monkeypatch.setattr(judged_relation, "RESULTS", tmp_path)
    monkeypatch.setattr(judged_relation, "train_cell", train_cell)
    main("smoke", "0")
    assert [(n, cell) for n, cell, _ in trained[:4]] == [
        (n, cell) for cell in CELLS for n in sizes("smoke")
    ]
    assert len(trained) == 8
    main("smoke", "0", "1")
    assert {seeds for _, _, seeds in trained[8:]} == {(1,)}
    assert len(trained) == 16
    members = pd.read_csv(tmp_path / "judged_relation_smoke.csv")
    assert len(members) == len(members.drop_duplicates()) == 16


@pytest.mark.trains
def test_a_cell_is_read_at_its_last_step():
    found = judged_relation.train_cell("smoke", 40, CELLS[0], [0, 1])
    assert found["seed"].to_list() == [0, 1]
    assert found[["seen", "test"]].stack().between(0, 1).all()
    assert found["loss"].between(1, 4.7).all()
