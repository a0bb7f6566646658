"""Estimates by hand, the presets within their limits, and nothing written where a run is refused."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from own_studies import ONE, One

from rb_interp.errors import ConfigError
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters
from rb_interp.runs import limits
from rb_interp.runs.estimate import BASE, CPU, GIB, GPU, Sizes, disk, estimate, on_device, on_host, seconds
from rb_interp.runs.registry import names, study
from rb_interp.runs.run import Run

TINY = Sizes(
    members=6, gammas=3, n_layers=1, n_heads=1, d_model=2, d_head=1, d_mlp=3, d_vocab=10, length=4, steps=9,
    batch_size=5, micro_batch=0, eval_every=3, eval_rows=7, n_checkpoints=1, keep_at=0, stages=1, n_sets=2, data=100,
    data_bytes=1000, data_seconds=0.5, data_seeds=2, threads=2, architecture="emb_mlp", norm="none", tied=False,
    next=False, adamw=True, drift=False, dtype="float32", gpu=False,
)  # fmt: skip
P = 10 * 2 + 2 * 3 + 3 * 10
"""Parameters of TINY."""


def test_an_estimate_by_hand():
    assert (TINY.n_parameters, TINY.evaluations, TINY.rows) == (P, 4, 5)
    curves = 4 * (400 + 6 * 2 * 110 + 16 * 2)
    assert on_host(TINY) == 6 * P * 4 * 6 + 2 * 1000 + curves
    # Six members at once, each with 14 rows of an evaluation or 5 of a step: positions, hidden units, logits.
    step = 5 * (1.5 * 4 * (4 * 2 + 2 * 3) + 12 * 10)
    copies = 2 * 1 * 100 * 8 * 4  # two groups, one seed each
    assert TINY.together == 6
    assert on_device(replace(TINY, eval_rows=1)) == 4 * P * 4 * 6 + 6 * step + copies
    # Checkpoints: 0, 9 and one between; a stage of each member, with two siblings; the state twice.
    assert disk(TINY) == P * 4 * 6 * (3 + 3 + 6) + 4 * 6 * 2 * 32
    forward = 2 * (2 * 3 + 3 * 10)
    one = 3 * forward * 5 / CPU.flops + P * 4 * 8 / CPU.memory + CPU.overhead
    assert math.isclose(seconds(TINY), 6 * (9 * one + 4 * forward * 7 * 2 / CPU.flops) / 2 + 2 * 0.5)


@pytest.mark.parametrize("preset", ["smoke", "quick", "paper"])
@pytest.mark.parametrize("name", names())
def test_presets_are_within_the_limits(name, preset):
    config = study(name).preset(preset)
    found = estimate(config, gpu=False)
    for sweep, sizes in zip(config.sweeps.values(), found.sweeps.values(), strict=True):
        listed = parameters(sweep.model, sweep.task.d_vocab, sweep.task.length)
        assert sizes.n_parameters == sum(math.prod(parameter.shape) for parameter in listed)
    on_gpu = estimate(config, gpu=True)
    assert on_gpu.seconds < limits.LONG_ON_GPU
    assert on_gpu.gpu_memory < 139 * GIB
    if preset != "paper":
        assert sum(seconds(replace(s, threads=1)) for s in found.sweeps.values()) < limits.LONG_ON_CPU
        assert found.memory < 4 * GIB


@pytest.mark.parametrize("norm", ["none", "pre", "post"])
@pytest.mark.parametrize("tied", [False, True])
def test_parameters_are_counted_without_listing_them(norm, tied):
    model = ModelConfig(n_layers=3, n_heads=2, norm=norm, tied=tied, train_biases=tied)
    (sizes,) = estimate(One(model=model), gpu=False).sweeps.values()
    listed = parameters(model, One().task.d_vocab, One().task.length)
    assert sizes.n_parameters == sum(math.prod(parameter.shape) for parameter in listed)


MANY = {"steps": 2000, "n_checkpoints": 100}


def changed(**changes):
    base = One(seeds=(0, 1), gammas=(0.8,))
    return replace(base, **{part: replace(getattr(base, part), **inner) for part, inner in changes.items()})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (changed(model={"d_model": 400_000}), r"needs about \d+ GiB of memory for 2 members, most of it for model.d_m"),
        (changed(model={"d_model": 400_000}), r"=400,000; this machine has 8 GiB. Reduce that.$"),
        (changed(task={"n_sequences": 10**9}), "most of it for the rows of the task"),
        (changed(train={"steps": 99_999_999, "eval_every": 1}), "most of it for train.steps=99,999,999; this machine"),
        (
            changed(model={"d_mlp": 200_000}),
            r"checkpoints need about .*model.d_mlp=200,000; the disk of .* has 0.1 GiB",
        ),
        (
            changed(model={"d_mlp": 500}, train={"steps": 99_999_999, "eval_every": 10_000}),
            r"take \d+ hours here, at about [\d,]+ steps of a me",
        ),
        (changed(train={"device": "meta"}), "device='meta' cannot be computed on here; use auto"),
    ],
)
def test_what_is_too_much_is_refused_before_anything_is_written(config, message, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "machine_memory", lambda: 8 * GIB)
    monkeypatch.setattr(limits, "disk_free", lambda folder: 0.1 * GIB)
    monkeypatch.setattr(limits.os, "cpu_count", lambda: 2)
    with pytest.raises(ConfigError, match=message):
        Run.start(tmp_path / "run", ONE, config)
    assert not list(tmp_path.iterdir())


def test_long_work_is_asked_for_once(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "LONG_ON_CPU", 0.0)
    with pytest.raises(ConfigError, match=r"pass --yes \(yes=True in Python\) to do it, or reduce that"):
        Run.start(tmp_path / "run", ONE, One(seeds=(0,)))
    Run.start(tmp_path / "run", ONE, One(seeds=(0,)), yes=True)
    assert Run.start(tmp_path / "run", ONE, One(seeds=(0,))).config.seeds == (0,)
    with pytest.raises(ConfigError, match="would take"):
        ONE.run(config=One(seeds=(1,)), out=tmp_path / "other", progress=False)
    assert not (tmp_path / "other").exists()


def test_the_estimate_knows_the_gpu_of_torch():
    from rb_interp.runs.estimate import no_gpu

    assert not (no_gpu() and torch.cuda.is_available())


def test_limits_of_the_process_count_as_those_of_the_machine():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert 0 < limits.machine_memory() < 2**60
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (3 * GIB, before[1]))
        assert limits.machine_memory() == 3 * GIB
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def test_free_space_is_unknown_where_the_current_folder_is_gone(tmp_path, monkeypatch):
    assert 0 < limits.disk_free(tmp_path / "not" / "there") < math.inf
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert limits.disk_free(Path("run")) == math.inf


def test_deeper_models_and_predictions_of_every_token_by_hand():
    position = 3 * 2 + 5 * 1 + 2 * 4 + 2 * 3  # d_model, heads, their patterns over 4 tokens, d_mlp
    deep = replace(TINY, architecture="transformer", n_layers=2, eval_rows=1)
    weights, copies = 4 * deep.n_parameters * 4 * 6, 2 * 1 * 100 * 8 * 4
    step = 5 * (1.5 * 4 * (4 * (3 * 2 + position) + position) + 12 * 10)  # the last layer at the last token alone
    assert on_device(deep) == weights + 6 * step + copies
    every = replace(deep, next=True, micro_batch=2)
    assert (every.rows_at_once, every.together) == (2, 2)  # a member on each thread
    assert on_device(every) == weights + 2 * 2 * 4 * (1.5 * 4 * (2 + 2 * position) + 12 * 10) + 6 * 100 * 8 * 4 * 2
    # Without moments to keep: weights and gradients; the state twice.
    plain = replace(TINY, adamw=False)
    assert on_device(TINY) - on_device(plain) == 2 * P * 4 * 6
    assert on_host(TINY) - on_host(plain) == disk(TINY) - disk(plain) == 4 * P * 4 * 6


def test_on_a_gpu_all_members_share_a_step_and_the_machine_holds_no_model():
    gpu, rate, forward = replace(TINY, gpu=True, threads=1), GPU["float32"], 2 * (2 * 3 + 3 * 10)
    one = 3 * forward * 5 / rate.flops + P * 4 * 8 / rate.memory
    read = forward * 7 * 2 / rate.flops
    assert math.isclose(seconds(gpu), 9 * (6 * one + rate.overhead) + 4 * 6 * read + 2 * 0.5)
    on_gpu, on_cpu = estimate(One(), gpu=True), estimate(One(), gpu=False)
    (there,), (here,) = on_gpu.sweeps.values(), on_cpu.sweeps.values()
    assert (on_gpu.memory, on_gpu.gpu_memory) == (BASE + on_host(there), on_device(there))
    assert (on_cpu.memory, on_cpu.gpu_memory) == (BASE + on_host(here) + on_device(here), 0)


def test_rows_are_drawn_once_for_each_seed_of_data():
    (own,), (shared,) = (estimate(One(data_seed=seed), gpu=False).sweeps.values() for seed in (None, 3))
    assert (own.data_seeds, shared.data_seeds, own.members, shared.members) == (8, 1, 16, 16)


def test_long_work_is_told_with_its_rate_and_long_drawing_beforehand(tmp_path, monkeypatch, capsys):
    found = limits.check_affordable(One(), tmp_path)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(limits, "SILENT", -1.0)
    limits.check_affordable(One(), tmp_path)
    assert capsys.readouterr().err.startswith("drawing the rows of all seeds: ")
    monkeypatch.setattr(limits, "LONG_ON_CPU", 0.0)
    rate = round(found.steps / found.seconds)
    assert rate > 1
    with pytest.raises(ConfigError, match=f" at about {rate:,} steps of a member a second"):
        limits.check_affordable(One(), tmp_path)


@pytest.mark.parametrize(("text", "limit"), [(f"{GIB // 1024}\n", GIB // 1024), ("max\n", None)])
def test_limits_of_the_group_of_processes_count(text, limit, tmp_path, monkeypatch):
    whole = limits.machine_memory()
    (tmp_path / "memory.max").write_text(text)
    monkeypatch.setattr(limits, "Path", lambda _: tmp_path / "memory.max")
    assert limits.machine_memory() == limit if limit else limits.machine_memory() >= whole


@pytest.mark.parametrize("name", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_each_limit_of_the_process_counts(name, monkeypatch):
    resource = pytest.importorskip("resource")
    which, none = getattr(resource, name), resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda asked: (2**20 if asked == which else none, none))
    assert limits.machine_memory() == 2**20
