"""A step on static tensors takes the steps of torch's own AdamW, and can be recorded and repeated."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.tasks import AnchorTask
from rb_interp.text.task import TextTask
from rb_interp.training import captured
from rb_interp.training.captured import WARM_UP, Replayed
from rb_interp.training.config import TrainConfig, learning_rate
from rb_interp.training.member_group import LastGroup, Member, NextGroup
from rb_interp.training.members import train_members
from rb_interp.training.store import REPLAYS, CheckpointStore
from rb_interp.training.updates import flat

pytestmark = [pytest.mark.trains, pytest.mark.wide]

TASK, MODEL = AnchorTask.preset("smoke"), ModelConfig(d_model=12, d_head=6, d_mlp=20)
TRAIN = TrainConfig(steps=70, dtype="float64", batch_size=48, eval_rows=20, lr=1e-2, warmup=7)
MEMBERS = [Member(0.3, 0, 3e-2, 0.1), Member(0.8, 1), Member(0.5, 0, 1e-3, 0.0)]
SMALL = TextTask(sequences=6, held_out=2, answers=2, d_vocab=300, n_ctx=80)
GPT2 = ModelConfig(n_heads=2, d_model=16, d_head=8, d_mlp=32, act="gelu_new", norm="pre", tied=True)


class Recorded:
    """A CUDA graph's stand-in for a CPU: operations are recorded once, with every number of
    Python's as it was then, and repeated on the same tensors.

    Unlike a CUDA graph's, its recording computes, so what it writes on is put back."""

    def __init__(self, function, written):
        before = [tensor.clone() for tensor in written]
        self.graph = make_fx(lambda: function())()
        for tensor, values in zip(written, before, strict=True):
            tensor.detach().copy_(values)

    def replay(self):
        self.graph()


def group_of(train=TRAIN, members=MEMBERS, static=True, **model):
    return LastGroup(members, replace(MODEL, **model), TASK, train, static=static)


def record(group):
    """Let a group take its steps as on a GPU, with a recording in place of the CUDA graph."""
    replayed = Replayed(group.static, group.device, required=True)
    replayed._warm_up = lambda: (group.static(), setattr(replayed, "calls", replayed.calls + 1))
    update, static = group.update, group.static
    written = [update.weights, *update.flat_moments.values(), static.index, static.batch]
    written += (getattr(group, "drift", None) and group.drift.sums.values()) or []
    replayed._record = lambda: setattr(replayed, "graph", Recorded(static, written))
    group.replayed = replayed
    return replayed


def torch_adamw(group, steps):
    """Let torch.optim.AdamW move each member of a group by itself, each clipped by itself."""
    train, optimisers = group.train, []
    for index, member in enumerate(group.members):
        pieces = [weight.detach()[index] for weight in group.trained.values()]
        decay = train.weight_decay if member.weight_decay is None else member.weight_decay
        settings = {"eps": train.eps, "betas": train.betas, "weight_decay": decay}
        optimisers.append(torch.optim.AdamW(pieces, foreach=False, **settings))
    for group.step in range(steps):
        gradients = group.gradients()
        for index, (optimiser, rate) in enumerate(zip(optimisers, group.rates, strict=True)):
            of_member = [gradient[index : index + 1] for gradient in gradients]
            norm = torch.linalg.vector_norm(flat(of_member))
            [settings] = optimiser.param_groups
            settings["lr"] = learning_rate(group.step, train, rate)
            for piece, gradient in zip(settings["params"], of_member, strict=True):
                piece.grad = gradient[0] * (train.clip / (norm + 1e-6)).clamp(max=1.0)
            optimiser.step()


def assert_equal(group, other):
    state = other.state()
    for name, value in group.state().items():
        assert torch.equal(value, state[name]), name


@pytest.mark.parametrize(
    ("norm", "dtype"),
    [("none", "float64"), ("pre", "float64"), ("post", "float64"), ("post", "float32")],
)
def test_static_and_recorded_steps_are_those_of_torchs_adamw_to_the_bit(norm, dtype):
    train = replace(TRAIN, dtype=dtype)
    static, recorded = (group_of(train, norm=norm) for _ in range(2))
    plain = group_of(train, norm=norm, static=False)
    replayed = record(recorded)
    static.advance(70)
    torch_adamw(plain, 70)
    for steps in (1, 1, 25, 43):  # over the end of an epoch
        recorded.advance(steps)
    assert_equal(static, recorded)
    assert replayed.replays == 70 - WARM_UP
    for name, weight in plain.weights.items():
        assert torch.equal(static.weights[name], weight), name
    start = group_of(train, norm=norm).weights["embed.W_E"]
    assert (static.weights["embed.W_E"] - start).abs().amax() > 1e-2


@pytest.mark.parametrize(
    ("changes", "model"),
    [
        ({"optimiser": "sgd", "weight_decay": 0.1}, {}),
        ({"optimiser": "momentum", "weight_decay": 0.1}, {}),
        ({"clip": 0.0, "batch_size": 3000, "schedule": "constant"}, {}),
        ({"track_drift": True}, {"architecture": "emb_mlp", "act": "tanh", "n_layers": 1}),
    ],
)
def test_other_steps_are_recorded_too_and_agree_with_the_fused_optimiser(changes, model):
    train = replace(TRAIN, **changes)
    static, recorded = (group_of(train, **model) for _ in range(2))
    fused = group_of(train, static=False, **model)
    record(recorded)
    for group in (static, recorded, fused):
        group.advance(6)
    assert_equal(static, recorded)
    state = fused.state()
    for name, value in static.state().items():
        torch.testing.assert_close(value, state[name], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("optimiser", ["adamw", "momentum", "sgd"])
def test_training_goes_on_from_a_state_with_either_update(optimiser):
    train = replace(TRAIN, optimiser=optimiser)
    whole, stopped = group_of(train), group_of(train)
    whole.advance(20)
    stopped.advance(12)
    static, recorded, fused = group_of(train), group_of(train), group_of(train, static=False)
    record(recorded)
    for group in (static, recorded, fused):
        group.load_state(stopped.state(), 12)
        group.advance(8)
    for group in (static, recorded):
        assert_equal(whole, group)
    state = fused.state()
    for name, value in whole.state().items():
        torch.testing.assert_close(value, state[name], rtol=1e-8, atol=1e-10)


def test_a_language_step_is_recorded_where_rows_have_one_length():
    train = replace(TRAIN, batch_size=4, micro_batch=3)
    members = [Member(0.8, 1), Member(0.3, 0)]
    static, recorded = (NextGroup(members, GPT2, SMALL, train, static=True) for _ in range(2))
    record(recorded)
    for group in (static, recorded):
        group.advance(12)
    assert_equal(static, recorded)
    padded = NextGroup(members, GPT2, replace(SMALL, layout="padded", n_ctx=300), train)
    assert (static.length, padded.length) == (80, None)
    padded.device = torch.device("cuda")
    assert padded.why_single_steps() == "the lengths of its rows differ from batch to batch"


def test_a_graph_that_is_asked_for_and_cannot_be_is_refused():
    expected = "cuda_graph='on': a CUDA graph needs a GPU, and this is a cpu; set 'auto'."
    with pytest.raises(ConfigError) as error:
        group_of(replace(TRAIN, cuda_graph="on"), static=False)
    assert str(error.value) == expected


def test_replays_are_counted_over_calls_and_a_recorded_run_ends_with_the_same_bits(
    tmp_path, monkeypatch
):
    train = replace(TRAIN, steps=20, schedule="constant", eval_every=10, workers=1, n_checkpoints=1)
    prepare = LastGroup._prepare_steps

    def train_in(name, steps):
        store = CheckpointStore(tmp_path / name, "x")
        settings = replace(train, steps=steps)
        train_members(
            TASK, [0.3, 0.8], [0, 1], config=MODEL, train=settings, store=store, progress=False
        )
        return store.read("state").tensors

    def prepare_recorded(group, settings, static):
        prepare(group, settings, True)
        record(group)

    assert REPLAYS not in train_in("fused", 20)
    monkeypatch.setattr(LastGroup, "_prepare_steps", prepare_recorded)
    whole = train_in("whole", 20)
    train_in("stopped", 10)
    again = train_in("stopped", 20)
    assert whole.pop(REPLAYS).tolist() == [20 - WARM_UP] * 4
    assert again.pop(REPLAYS).tolist() == [20 - 2 * WARM_UP] * 4
    for name, value in whole.items():
        assert torch.equal(value, again[name]), name


class Graph:
    """A CUDA graph that counts."""

    def replay(self):
        calls.append("replay")

    def pool(self):
        return "pool"


calls = []


@pytest.fixture
def a_gpu(monkeypatch):
    """What a graph needs of a GPU, without one."""
    stream = SimpleNamespace(wait_stream=lambda other: calls.append("wait"))
    monkeypatch.setattr(captured, "recording_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(
        torch.cuda, "graph", lambda graph, pool, stream: nullcontext(calls.append(pool))
    )
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    calls.clear()


def test_a_function_warms_up_is_recorded_once_and_replayed(a_gpu):
    replayed = Replayed(lambda: calls.append("call"), torch.device("cuda"), required=True)
    for _ in range(6):
        replayed()
    assert calls == ["wait", "call", "wait"] * WARM_UP + [None, "call"] + ["replay"] * 3
    assert replayed.replays == 3
    other = Replayed(lambda: None, torch.device("cuda"), required=True)
    for _ in range(WARM_UP + 1):
        other()
    assert calls[-2:] == ["pool", "replay"]
    del replayed, other
    assert not captured.GRAPHS


def test_where_recording_fails_steps_are_taken_one_by_one(a_gpu, capsys):
    def function():
        calls.append("call")
        if calls[-2] is None:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    replayed = Replayed(function, torch.device("cuda"), required=False)
    for _ in range(6):
        replayed()
    assert calls.count("call") == 6 + 1
    assert replayed.replays == 0
    assert capsys.readouterr().err == (
        "Single steps: the step could not be recorded in a CUDA graph (operation not permitted when "
        "stream is capturing).\n"
    )
    calls.clear()
    required = Replayed(function, torch.device("cuda"), required=True)
    with pytest.raises(ConfigError, match="cuda_graph='on': the step could not be recorded"):
        [required() for _ in range(6)]
