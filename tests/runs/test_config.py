"""One configuration: object and TOML are the same thing, and nothing unknown passes."""

from dataclasses import replace

import pytest
from own_studies import ONE, SMALL, TRAIN, One, Two, start

from rb_interp.errors import ConfigError, RbInterpError, StudyError
from rb_interp.runs.config import check_lr, fingerprint, from_mapping, scale_of, study_names
from rb_interp.runs.run import Run
from rb_interp.runs.studies import study
from rb_interp.settings import differences, read_toml, to_toml
from rb_interp.studies.addition_and_scan.config import AdditionAndScanConfig
from rb_interp.studies.anchor.claims import EQUAL_LOSS
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.studies.composite.config import CompositeConfig
from rb_interp.studies.emb_mlp.config import EmbMLPConfig
from rb_interp.studies.labels.config import LabelsConfig
from rb_interp.studies.language.config import LanguageConfig

KINDS = (
    AnchorConfig,
    EmbMLPConfig,
    LabelsConfig,
    LanguageConfig,
    CompositeConfig,
    AdditionAndScanConfig,
)


def test_presets_have_seeds_that_decide_every_claim():
    """Claims that were written after seeds 0 to 9 had been read, too, and at equal loss those of
    seeds up to 17; crossed-seeds has no claims."""
    for found in (
        study(name) for name in study_names() if name not in ("crossed-seeds", "modular-addition")
    ):
        for preset in ("quick", "paper"):
            few = preset == "quick" and found.name in ("composite-map", "language")
            assert found.preset(preset).seeds == tuple(range(10, 12 if few else 18)), (
                found.name,
                preset,
            )
        assert found.preset("smoke").seeds == (0, 1)
        later = {claim.id for claim in found.load("claims") if claim.first_seed not in (0, 10)}
        assert later == (
            {"A6", "A6m", "A1b", "A4b", "U2b", "M10c"} if found.name == "anchor" else set()
        )
    assert study("anchor").preset("paper-lr1e-4").seeds == tuple(range(18, 26))
    assert {claim.first_seed for claim in EQUAL_LOSS} == {18}


@pytest.mark.parametrize("preset", ["smoke", "paper"])
@pytest.mark.parametrize("kind", KINDS)
def test_toml_gives_the_same_configuration(kind, preset, tmp_path):
    config = kind.from_preset(preset, seeds=(7, 3))
    path = tmp_path / "study.toml"
    path.write_text(to_toml("any", config))
    assert from_mapping(kind, read_toml(path), str(path)) == config
    assert scale_of(config) == preset


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"train": {"stps": 3, "lrr": 1}},
            "did you mean 'steps'.\nthe configuration: unknown key 'train.lrr'",
        ),
        (
            {"train": {"steps": 0, "lr": -1}},
            r"\[train\]: steps=0: .*\nthe configuration, \[train\]: lr=-1: ",
        ),
        (
            {"model": {"gammas": {"qk": -1}}},
            r"^the configuration, \[model.gammas\]: qk=-1: input should be greater",
        ),
        ({"preset": "quik"}, "did you mean 'quick'"),
        (
            {"model": {"scheme": "torch_default"}},
            "^the configuration: scheme 'torch_default' has no gamma",
        ),
    ],
)
def test_bad_values_say_what_to_change(data, message):
    with pytest.raises(RbInterpError, match=message):
        from_mapping(One, data)


def test_one_sweep_of_several_can_be_changed_alone():
    config = from_mapping(Two, {"seeds": [3], "second": {"train": {"steps": 7}}})
    assert (config.seeds, config.first.train, config.second.train.steps) == ((3,), TRAIN, 7)
    assert list(config.sweeps) == ["first", "second"]
    assert scale_of(config) == "custom"
    assert (
        differences(Two(), config)
        == "seeds: [10, 11, 12, 13, 14, 15, 16, 17] there, [3] here; second.train.steps: 20 there, 7 here"
    )


def test_the_fingerprint_ignores_where_but_not_what():
    base = One()
    elsewhere = replace(base, train=replace(base.train, device="cuda", workers=7))
    longer = replace(base, train=replace(base.train, steps=21))
    assert fingerprint(elsewhere) == fingerprint(base) != fingerprint(longer)
    assert (scale_of(base), scale_of(elsewhere), scale_of(longer)) == ("smoke", "smoke", "custom")
    assert scale_of(replace(base, gammas=(0.8,), seeds=(9,), n_null=1)) == "smoke"


def test_a_seed_of_the_data_is_part_of_what_a_run_is(tmp_path):
    base, apart = One(), from_mapping(One, {"preset": "smoke", "data_seed": 5})
    assert (
        len({fingerprint(base), fingerprint(apart), fingerprint(replace(base, data_seed=0))}) == 3
    )
    assert [apart.data_seed_of(2), base.data_seed_of(2), scale_of(apart)] == [5, 2, "custom"]
    assert differences(base, apart) == "data_seed: None there, 5 here"
    (tmp_path / "one.toml").write_text(to_toml("one", apart))
    assert from_mapping(One, read_toml(tmp_path / "one.toml")) == apart
    for name, other in (("anchor", {}), ("composite", {}), ("language", {"fact_counts": (8,)})):
        sweeps = study(name).preset("quick", data_seed=3, **other).sweeps
        assert [sweep.data_seed for sweep in sweeps.values()] == [3, 3]
    with pytest.raises(ConfigError, match="data_seed=-1: input should be"):
        One(data_seed=-1)


def test_a_learning_rate_that_would_change_nothing_is_refused(tmp_path):
    quick = study("anchor").preset("quick")
    slow = replace(quick, train=replace(quick.train, lr=1e-4))
    with pytest.raises(
        ConfigError,
        match=r"train.lr=0.0001 has no effect at gammas \[.*0.3.*\]: preset 'quick' gives each a",
    ):
        Run.start(tmp_path / "run", study("anchor"), slow)
    assert not (tmp_path / "run").exists()
    for changed in (
        replace(slow, rates=()),
        replace(slow, gammas=(0.4, 0.9)),
        replace(slow, rates=((0.3, 1e-4),)),
    ):
        check_lr(changed)
    with pytest.raises(ConfigError, match=r"has no effect at gammas \[.*0.3\)?\]"):
        check_lr(replace(slow, gammas=(0.3, 0.4)))
    check_lr(replace(quick, gammas=(0.5,)))  # the preset's rates are those of other gammas then
    with pytest.raises(
        ConfigError, match=r"rates=.*; the gammas of this sweep are \(.*0.5.* alone"
    ):
        check_lr(replace(quick, rates=((0.5, 0.1), (0.7, 0.2))))
    with pytest.raises(ConfigError, match=r"rates=\(\(0.3, 0.1\), \(0.3, 0.2\)\); expected pairs"):
        replace(quick, rates=((0.3, 0.1), (0.3, 0.2)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sweep": "firts"}, "the sweep 'firts'; known: '' "),
        ({"gamma": 0.08}, r"about gamma 0.08; no preset trains it, but \[0.5, 0.8\]"),
        ({"probe": "sizes"}, "the probe 'sizes'; did you mean 'size'"),
    ],
)
def test_a_misspelt_claim_is_refused_before_there_is_a_folder(change, message, tmp_path):
    (claim,) = ONE.claims
    wrong = replace(claim.context[0], **change)
    for misspelt in (
        replace(claim, context=(wrong,)),
        replace(claim, conditions=(replace(claim.conditions[0], of=wrong),)),
    ):
        study = replace(ONE, claims=(misspelt,), quantities={"size": "norm"})
        with pytest.raises(StudyError, match=f"claim S1 of study 'one' (names )?(is )?{message}"):
            start(tmp_path / "run", SMALL, study)
    assert not (tmp_path / "run").exists()
    other = replace(
        claim,
        context=(replace(wrong, gamma=0.5, probe="mine", quantity="x", set="grid", stage="early"),),
    )
    if "sweep" not in change:
        replace(ONE, claims=(other,), quantities={"size": "norm"}).check_claims(SMALL)
