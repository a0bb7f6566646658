"""Language models: what is trained is what TransformerLens runs, losses are per corpus, runs
continue bit for bit."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.text.settings import TEXT_SETS
from rb_interp.text.task import TextTask, text_data
from rb_interp.text.tokens import Rows
from rb_interp.training.config import TrainConfig
from rb_interp.training.member_group import Member, NextGroup
from rb_interp.training.members import train_members
from rb_interp.training.store import CheckpointStore, step_name

pytestmark = pytest.mark.trains

SMALL = TextTask(sequences=6, held_out=2, answers=2, d_vocab=300, n_ctx=80)
GPT2 = ModelConfig(
    n_layers=2,
    n_heads=2,
    d_model=16,
    d_head=8,
    d_mlp=32,
    act="gelu_new",
    norm="pre",
    train_biases=True,
    tied=True,
)
TRAIN = TrainConfig(
    steps=12,
    batch_size=4,
    lr=1e-2,
    dtype="float64",
    eval_every=3,
    eval_rows=2,
    n_checkpoints=1,
    stages=("early",),
)


@pytest.fixture(scope="module")
def texts():
    return {seed: SMALL.text(seed) for seed in (0, 1)}


ONE = (Member(0.8, 1),)


class Planted(TextTask):
    """A task on texts that are there already."""

    def text(self, seed):
        return self.texts[seed]


def task_of(texts):
    task = Planted(**vars(next(iter(texts.values())).config))
    object.__setattr__(task, "texts", texts)
    return task


def group_of(texts, model=GPT2, train=TRAIN, members=ONE):
    return NextGroup(members, model, task_of(texts), train)


def weights_of(group, member=0):
    return {name: weight[member].detach() for name, weight in group.weights.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied": False, "scheme": "fan_in_fixed_embedding"},
        {"norm": "none", "n_heads": 1, "d_head": 16},
    ],
)
def test_an_exported_language_model_equals_the_trainer(texts, changes):
    model = replace(GPT2, **changes)
    group = group_of(texts, model)
    group.advance(3)
    exported = lens_model(model, texts[1].tokenizer.d_vocab, 80, weights_of(group), torch.float64)
    rows = texts[1].rows("stories_train")
    tokens = torch.from_numpy(rows.tokens[:2].astype(np.int64))
    with torch.no_grad():
        logits = exported(tokens[:, :-1])
    expected, ours = group._read(tokens[None, :, :-1], tokens[None, :, 1:])
    torch.testing.assert_close(logits, ours[0].detach(), rtol=0, atol=1e-10)
    by_hand = cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    torch.testing.assert_close(by_hand, expected[0].detach().flatten(), rtol=0, atol=1e-10)
    same = torch.equal(exported.W_U, exported.W_E.T)
    assert same == model.tied


def test_losses_are_of_each_corpus_alone(texts):
    """Rows of token 7 alone as PrOntoQA, of token 9 as stories: a model that always says 7 knows
    the one."""
    text, n_ctx = texts[0], 80

    def rows(n):
        tokens = np.repeat(np.array([7, 9], dtype=np.int32), n)[:, None] * np.ones(
            (1, n_ctx + 1), dtype=np.int32
        )
        lengths = np.concatenate([np.full(n, n_ctx + 1), np.full(n, 5)])
        return Rows(tokens, np.repeat(np.array([0, 1], dtype=np.int8), n), lengths)

    toy = replace(text, train=rows(6), test=rows(2))
    group = group_of({0: toy}, replace(GPT2, tied=False, norm="none"), members=[Member(0.8, 0)])
    with torch.no_grad():
        for weight in group.weights.values():
            weight.zero_()
        group.weights["unembed.b_U"][0, 7] = 3.0
    found = dict(zip(TEXT_SETS, group.evaluate()[0], strict=True))
    total = np.log(np.exp(3.0) + text.tokenizer.d_vocab - 1)
    for kind in ("train", "test"):
        np.testing.assert_allclose(found[f"prontoqa_{kind}"], [total - 3, 1.0])
        np.testing.assert_allclose(found[f"stories_{kind}"], [total, 0.0])
    # Every batch has as many rows of one as of the other, of which the stories fill 4 of 80
    # targets.
    tokens, labels = group.batches.of_step(5)
    assert tokens[0, :, 0].tolist() == [7, 7, 9, 9]
    assert (labels[0] >= 0).sum(1).tolist() == [80, 80, 4, 4]
    gradient = group.gradients()[list(group.trained).index("unembed.b_U")][0]
    share = 80 / 84
    said = np.exp(3.0 - total)
    np.testing.assert_allclose(gradient[7], said - share, atol=1e-12)
    np.testing.assert_allclose(gradient[9], np.exp(-total) - (1 - share), atol=1e-12)


def test_trimming_padded_rows_changes_no_loss_and_no_gradient(texts, monkeypatch):
    config = replace(SMALL, layout="padded", n_ctx=300)
    padded = {0: text_data(config, 0)}
    lengths = padded[0].train.lengths
    assert lengths.min() < 200 < lengths.max()

    def read():
        group = group_of(padded, members=[Member(0.8, 0)], train=replace(TRAIN, micro_batch=1))
        return group.evaluate(), group.gradients()

    trimmed = read()
    monkeypatch.setattr("rb_interp.training.member_group.TRIM", 300)
    whole = read()
    np.testing.assert_allclose(trimmed[0], whole[0], rtol=1e-12)
    for one, other in zip(trimmed[1], whole[1], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_gradients_add_up_over_micro_batches(texts):
    whole, pieces = group_of(texts), group_of(texts, train=replace(TRAIN, micro_batch=3))
    for one, other in zip(whole.gradients(), pieces.gradients(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    np.testing.assert_allclose(whole.evaluate(), pieces.evaluate(), atol=1e-12)


def test_bfloat16_products_change_a_loss_by_their_rounding_alone(texts):
    exact, rounded = (
        group_of(texts, train=replace(TRAIN, dtype=dtype)) for dtype in ("float32", "bfloat16")
    )
    assert next(iter(rounded.weights.values())).dtype == torch.float32
    np.testing.assert_allclose(exact.evaluate()[0, :, 0], rounded.evaluate()[0, :, 0], atol=0.02)
    one, other = (torch.cat([g.flatten() for g in group.gradients()]) for group in (exact, rounded))
    assert torch.cosine_similarity(one, other, dim=0) > 0.99
    assert not torch.equal(one, other)


COMPILED = """
import torch
from dataclasses import replace
from rb_interp.text.task import TextTask
from rb_interp.training.member_group import Member, NextGroup
import sys
sys.path.insert(0, sys.argv[1])
from test_member_group import GPT2, SMALL, TRAIN

compiled, task = torch.compile, SMALL
torch.compile = lambda function: compiled(function, backend="aot_eager")
groups = [NextGroup([Member(0.8, 0)], GPT2, task, replace(TRAIN, compile=flag)) for flag in (False, True)]
plain, other = (group.gradients() for group in groups)
print(max((a - b).abs().max().item() for a, b in zip(plain, other, strict=True)))
"""


@pytest.mark.slow
def test_compiling_changes_no_gradient():
    """In a process of its own: the checks of shapes that tests install cannot be compiled."""
    command = [sys.executable, "-c", COMPILED, str(Path(__file__).parent)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(found.stdout) < 1e-12


def test_a_member_in_company_equals_itself_alone(texts):
    members = [Member(0.3, 0), Member(0.8, 1), Member(0.5, 1)]
    company, alone = group_of(texts, members=members), group_of(texts)
    company.advance(12)
    alone.advance(12)
    for name, weight in weights_of(alone).items():
        torch.testing.assert_close(weights_of(company, 1)[name], weight, rtol=0, atol=1e-9)


def test_a_language_run_continues_bit_for_bit(texts, tmp_path):
    class Stopping(CheckpointStore):
        writes = 0

        def write(self, name, *args):
            path = super().write(name, *args)
            Stopping.writes += name == "state"
            if Stopping.writes == 2:
                Stopping.writes += 1
                raise KeyboardInterrupt
            return path

    train = replace(TRAIN, save_every=0.0, dtype="float32")
    whole = train_members(
        task_of(texts),
        [0.5],
        [0, 1],
        config=GPT2,
        train=train,
        store=CheckpointStore(tmp_path / "a", "x"),
        progress=False,
    )
    with pytest.raises(KeyboardInterrupt):
        train_members(
            task_of(texts),
            [0.5],
            [0, 1],
            config=GPT2,
            train=train,
            store=Stopping(tmp_path / "b", "x"),
            progress=False,
        )
    store = CheckpointStore(tmp_path / "b", "x")
    again = train_members(
        task_of(texts), [0.5], [0, 1], config=GPT2, train=train, store=store, progress=False
    )
    for name, value in whole.final.tensors.items():
        assert torch.equal(value, again.final.tensors[name]), name
    np.testing.assert_array_equal(whole.curves.to_frame().loss, again.curves.to_frame().loss)
    assert set(whole.curves.to_frame()["set"]) == set(TEXT_SETS)
    # early: the first evaluation whose training losses, mean of both corpora, are at most 80 % of
    # the first
    pooled = (
        whole.curves.to_frame()
        .query("seed == 1 and set in ('prontoqa_train', 'stories_train')")
        .groupby("step")
        .loss
    )
    below = pooled.mean() <= 0.8 * pooled.mean()[0]
    assert below.any()
    assert store.read("early_gamma0.5_seed1").step == below.idxmax()
    assert "unembed.W_U" not in store.read(step_name(0)).tensors
