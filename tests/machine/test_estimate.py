"""Estimates by hand, the presets within their limits, and nothing written where a run is refused."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
from own_studies import ONE, One

from rb_interp.errors import ConfigError
from rb_interp.machine import limits
from rb_interp.machine.estimate import CPU, GIB, Sizes, disk, estimate, on_device, on_host, seconds
from rb_interp.machine.registry import names, study
from rb_interp.machine.run import Run
from rb_interp.models.config import ModelConfig
from rb_interp.models.schemes import parameters

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
