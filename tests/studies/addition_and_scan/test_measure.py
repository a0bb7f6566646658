"""Answers, contrasts and claims on known numbers, and the golden run."""

from itertools import product

import numpy as np
import pytest
import torch
from studies.addition_and_scan.interpreter import is_right

from rb_interp.claims import judge
from rb_interp.models.build import build_model
from rb_interp.models.config import ModelConfig
from rb_interp.runs.results import readings_table
from rb_interp.statistics.reading import Reading
from rb_interp.studies.addition_and_scan.addition import AdditionTask
from rb_interp.studies.addition_and_scan.config import CLAIMS, DECAYS, LARGE, SMALL, TASKS
from rb_interp.studies.addition_and_scan.measure import (
    answers,
    contrasts,
    right,
    table_of_sums,
)
from rb_interp.studies.addition_and_scan.scan import ScanTask
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import train_members

pytestmark = pytest.mark.wide
SCAN = ScanTask(verbs=2, n_sequences=80)
SIZES = ModelConfig(d_model=32, d_head=16, d_mlp=64, norm="post")


@pytest.fixture(scope="module")
def half_trained():
    """A model that answers some of the commands that it was trained on, and not others."""
    from rb_interp.models.build import lens_model

    train = TrainConfig(
        steps=150,
        batch_size=32,
        lr=4e-3,
        lr_final=1e-4,
        eval_every=150,
        eval_rows=20,
        n_checkpoints=0,
    )
    trained = train_members(SCAN, [0.5], [0], config=SIZES, train=train, progress=False)
    return lens_model(SIZES, SCAN.d_vocab, SCAN.length, trained.final.member(0.5, 0))


def greedy(model, task: ScanTask, command: str) -> str:
    """What a model writes behind a command, one most likely token after the other, until it ends or
    has no place."""
    written = [task.words.index(word) for word in (*command.split(), "=>")]
    start = len(written)
    while len(written) <= task.length:
        tokens = torch.tensor([written])
        with torch.no_grad():
            written.append(int(model(tokens)[0, -1].argmax()))
        if written[-1] == 0:
            return task.answer(np.array(written[start:]))
    return task.answer(np.array(written[start:])) + " ..."


def test_exact_match_under_teacher_forcing_is_exact_match_of_a_greedy_decoder(half_trained):
    data = SCAN.dataset(seed=0)
    rows = np.concatenate([data.sample(name, 25) for name in SCAN.sets])
    found = right(half_trained, data.tokens[rows], data.labels[rows])
    commands = [SCAN.command(data.tokens[row]) for row in rows]
    decoded = [is_right(command, greedy(half_trained, SCAN, command)) for command in commands]
    assert found.tolist() == decoded
    assert 0.1 < found.mean() < 0.9  # else the test would show nothing


def test_one_wrong_token_makes_an_answer_wrong_and_what_is_no_answer_plays_no_part(half_trained):
    data = SCAN.dataset(seed=0)
    rows = data.rows("train")
    rows = rows[right(half_trained, data.tokens[rows], data.labels[rows])]
    labels = data.labels[rows].copy()
    first, last = (labels >= 0).argmax(1), labels.shape[1] - 1 - (labels[:, ::-1] >= 0).argmax(1)
    for at in (first, last):
        wrong, here = labels.copy(), np.arange(len(rows))
        wrong[here, at] = (wrong[here, at] + 1) % SCAN.d_vocab
        assert not right(half_trained, data.tokens[rows], wrong).any()
    filled = data.tokens[rows].copy()
    for row, end in zip(filled, last, strict=True):
        row[end + 1 :] = 3
    assert right(half_trained, filled, labels).all()


class Adder(torch.nn.Module):
    """Adds numbers below ten, and is wrong in the block of 4 and 5."""

    def __init__(self, task):
        super().__init__()
        self.task, self.cfg, self.hook_dict = (
            task,
            build_model(task, gamma=0.8, config=SIZES).cfg,
            {},
        )
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, tokens):
        a, b = tokens[:, 0], tokens[:, 2]
        wrong = ((a == 4) | (a == 5)) & ((b == 4) | (b == 5))
        logits = torch.zeros(*tokens.shape, self.task.d_vocab)
        logits[torch.arange(len(tokens)), -1, a + b + wrong.long()] = 1
        return logits


def test_the_table_of_sums_and_the_shares_tell_where_an_adder_is_wrong():
    task = AdditionTask((0, 9), (4, 5))
    data, model = task.dataset(0), Adder(task)
    shares = {name: answers(model, data, data.rows(name)).values["right"] for name in task.sets}
    assert shares == {"train": 1.0, "seen_test": 1.0, "block": 0.0}
    sums = np.ones((10, 10))
    sums[4:6, 4:6] = 0
    np.testing.assert_array_equal(table_of_sums(model, task, data), sums)
    assert np.isnan(answers(model, data, np.array([], dtype=int)).values["right"])


SIZE = {"addition": 0.0, "scan_small": 0.05, "scan_middle": 0.15, "scan_large": 0.25}


def share(task: str, decay: str, gamma: float, seed: int, set: str) -> float:
    """A made-up share of right answers: it rises with gamma, with weight decay and with rows."""
    if set == "train":
        return 1.0 if decay == "low" or seed else 0.985
    if set == "seen_test":
        return 0.9 - 0.01 * seed
    return (
        0.1
        + SIZE[task]
        + 0.4 * (gamma == SMALL)
        + 0.1 * (decay == "high")
        - 0.01 * seed * (gamma == SMALL)
    )


def readings_of(share):
    """Shares of right answers of eight seeds, and their contrasts."""
    rows = []
    for task, decay, gamma, seed in product(TASKS, DECAYS, (LARGE, SMALL), range(8)):
        for set in ("train", "seen_test", "block" if task == "addition" else "composites"):
            reading = Reading(
                "answers", {"right": share(task, decay, gamma, seed, set)}, untrained={"right": 0.0}
            )
            where = {
                "sweep": f"{task}_{decay}",
                "gamma": gamma,
                "seed": seed,
                "stage": "final",
                "step": 100,
                "set": set,
            }
            rows += [{**where, **row} for row in reading.rows()]
    found = readings_table(rows)
    return readings_table(found, contrasts(found))


def test_contrasts_and_verdicts_on_made_up_shares():
    readings = readings_of(share)
    table = readings.query("probe == 'contrast'").set_index(["quantity", "seed"])["value"]
    for seed in range(8):
        assert table["scan_large:both", seed] == pytest.approx(0.5 - 0.01 * seed)
        assert table["addition:gamma_low_decay", seed] == pytest.approx(0.4 - 0.01 * seed)
        assert table["addition:gamma_high_decay", seed] == pytest.approx(0.4 - 0.01 * seed)
        assert table["scan_small:decay_large_init", seed] == pytest.approx(0.1)
        assert table["scan_small:decay_small_init", seed] == pytest.approx(0.1)
    judged = {verdict.id: verdict for verdict in judge(readings, CLAIMS)}
    assert [judged[id].n_meeting for id in ("P1", "P2")] == [7, 7]  # seed 0 did not learn its rows
    assert [len(judged[id].conditions) for id in ("P1", "P2")] == [3, 9]
    alone = [shown for shown in judged["P1"].context if "alone" in shown.statistic]
    assert [round(shown.effect, 3) for shown in alone] == [0.365, 0.365, 0.1, 0.1]
    assert all(shown.n_seeds == 8 for verdict in judged.values() for shown in verdict.context)


def test_a_run_reads_the_members_that_it_trained(smoke_run):
    run = smoke_run("addition-and-scan")
    readings = run.table("readings").set_index(["sweep", "gamma", "seed", "set", "quantity"])[
        "value"
    ]
    for sweep, set in (("addition_high", "block"), ("scan_middle_low", "train")):
        model, data = run.model(sweep=sweep, gamma=0.8, seed=1), run.sweep(sweep).dataset(1)
        own = right(model, data.tokens[data.rows(set)], data.labels[data.rows(set)]).mean()
        assert readings[sweep, 0.8, 1, set, "right"] == own
    read = run.table("readings")
    assert np.isfinite(read.loc[read["probe"] == "answers", ["value", "untrained"]]).all(axis=None)
    assert len(read) == 8 * 4 * 3 + 4 * 5 * 2
    assert not run.table("curves")["loss"].isna().any()
