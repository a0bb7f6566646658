"""One configuration: object, TOML and flags are the same thing, and nothing unknown passes."""

import dataclasses

import pytest

from rb_interp.cli import parse
from rb_interp.errors import ConfigError, RbInterpError
from rb_interp.models.config import MatrixGammas, ModelConfig
from rb_interp.study.config import StudyConfig, from_mapping, load_config

VARIED = StudyConfig.from_preset(
    "smoke",
    gammas=(0.5, 1.0),
    seeds=(7,),
    model=ModelConfig(norm="pre", n_heads=2, gammas=MatrixGammas(qk=0.4)),
)


@pytest.mark.parametrize("config", [VARIED, *(StudyConfig.from_preset(p) for p in ("smoke", "quick", "paper"))])
def test_toml_gives_the_same_study(config, tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(config.to_toml())
    assert load_config(path) == config


def test_flags_give_the_same_study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(VARIED.to_toml())
    assert parse(["reproduce", "--config", str(path)]).sweep.config == VARIED
    flags = "--preset smoke --gammas .5 1 --seeds 7 --norm pre --n-heads 2 --qk .4 --d-model 64 --d-head 32 --d-mlp 128"
    assert parse(["reproduce", *flags.split()]).sweep.config == VARIED
    masked = parse(["train", "--masked", "12,13", "15,11", "--steps", "7"]).sweep.config
    assert masked.task.masked == ((12, 13), (15, 11))
    assert masked.train.steps == 7


def test_every_setting_has_a_flag_with_help(capsys):
    with pytest.raises(SystemExit):
        parse(["reproduce", "--help"])
    page = capsys.readouterr().out
    config = StudyConfig.from_preset()
    inner = (config.task, config.model, config.train)
    names = {f.name for part in (config, *inner) for f in dataclasses.fields(part)} - {"task", "model", "train"}
    assert {name for name in names - {"gammas"} if f"--{name.replace('_', '-')}" not in page} == set()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"sed": 1}, "unknown key 'sed'; did you mean 'seeds'"),
        ({"train": {"stps": 3}}, "unknown key 'train.stps'; did you mean 'steps'"),
        ({"train": {"steps": "many"}}, "'train.steps' is 'many'; expected int"),
        ({"train": {"steps": True}}, "'train.steps' is True; expected int"),
        ({"train": 3}, r"expected a table \[train\]"),
        ({"seeds": [0.5]}, "'seeds' holds 0.5"),
        ({"gammas": []}, "expected at least one"),
        ({"seeds": [1, 1]}, "each named once"),
        ({"seeds": [-1]}, "whole numbers from 0"),
        ({"preset": "quik"}, "did you mean 'quick'"),
        ({"model": {"scheme": "torch_default"}}, "give one gamma"),
        ({"train": {"lr": -1}}, "lr=-1.0; expected 0 or more"),
    ],
)
def test_bad_values_say_what_to_change(data, message):
    with pytest.raises(ConfigError, match=message):
        from_mapping(data)


def test_a_file_that_is_not_toml_is_named(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text("steps = = 3")
    with pytest.raises(ConfigError, match=r"study.toml is not valid TOML: .*line 1"):
        load_config(path)


def test_the_fingerprint_ignores_where_but_not_what():
    base = StudyConfig.from_preset()
    elsewhere = dataclasses.replace(base, train=dataclasses.replace(base.train, device="cuda", workers=7))
    longer = dataclasses.replace(base, train=dataclasses.replace(base.train, steps=6001))
    assert elsewhere.fingerprint == base.fingerprint
    assert longer.fingerprint != base.fingerprint
    assert (base.tier, elsewhere.tier, longer.tier) == ("quick", "quick", "custom")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"preset": 3}, "there is no preset '3'"),
        ({"gammas": [float("nan")]}, "gamma=nan; expected a number of 0 or more"),
        ({"gammas": [float("inf")]}, "gamma=inf"),
        ({"model": {"gammas": {"qk": -1}}}, "gamma=-1.0"),
        ({"task": {"keys": [1]}}, "a value has the wrong shape"),
        ({"task": {"masked": [11, 13]}}, "masked is a list of lists"),
        ({"task": {"memory_share": 0}}, "give a share between 0 and 1"),
        ({"train": {"betas": [1.5, 0.9]}}, "expected two numbers from 0 to 1"),
        ({"train": {"lr": float("nan")}}, "lr=nan; expected 0 or more"),
        ({"n_null": -1}, "n_null=-1; expected at least 0"),
        ({"seeds": [2**40]}, "whole numbers from 0 to"),
    ],
)
def test_values_that_would_fail_late_are_refused_early(data, message):
    with pytest.raises(RbInterpError, match=message):
        from_mapping(data)


def test_settings_that_came_later_leave_old_runs_their_fingerprint():
    """The preset's fingerprint before it had an architecture, an optimiser or stages; run folders carry it."""
    assert StudyConfig.from_preset("quick").fingerprint == "b608acff5d59"
