"""Every experiment file loads, says what it is for, and differs from its preset in what its name says alone."""

from pathlib import Path

import pytest

from rb_interp.study.config import StudyConfig, load_config
from rb_interp.study.language_config import LanguageConfig
from rb_interp.study.series_config import SeriesConfig, load_study
from rb_interp.study.sweep_config import comparable, flatten

FOLDER = Path(__file__).parents[2] / "experiments"
DIFFERS = {
    "fig3_gamma_sweep": ("quick", {}),
    "fig3_paper": ("paper", {}),
    "norm_pre": ("quick", {"model.norm": "pre"}),
    "norm_post": ("quick", {"model.norm": "post"}),
    "learning_rate_post_2e-4": ("paper", {"train.lr": 2e-4, "train.steps": 60_000}),
    "scheme_d_model": ("quick", {"model.scheme": "d_model"}),
}
PARTS = {
    "emb_mlp": ("emb-mlp", "quick", {}),
    "emb_mlp_relu": ("emb-mlp", "quick", {f"{part}.model.act": "relu" for part in ("sweep", "descent", "one_layer")}),
    "emb_mlp_paper": ("emb-mlp", "paper", {}),
    "labels": ("labels", "quick", {}),
    "labels_paper": ("labels", "paper", {}),
}
LANGUAGE = {
    "language": ("quick", {}),
    "language_fixed_embedding": ("quick", {"model.scheme": "fan_in_fixed_embedding"}),
    "language_paper": ("paper", {}),
}
EVERY = (*DIFFERS, *PARTS, *LANGUAGE)


def test_every_file_is_listed_here_and_in_the_readme():
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(EVERY)
    readme = (FOLDER / "README.md").read_text()
    assert all(f"[{name}.toml]({name}.toml)" in readme for name in EVERY)


@pytest.mark.parametrize("name", PARTS)
def test_a_study_of_several_parts_differs_from_its_preset_in_what_its_name_says(name):
    study, preset, expected = PARTS[name]
    base, found = SeriesConfig.from_preset(study, preset), load_study(FOLDER / f"{name}.toml")
    changed = {}
    for part, config in found.parts.items():
        before, after = flatten(comparable(base.parts[part])), flatten(comparable(config))
        changed |= {f"{part}.{key}": value for key, value in after.items() if value != before.get(key)}
    assert changed == expected
    assert (found.study, found.scaling, found.tier) == (study, base.scaling, "custom" if expected else preset)


@pytest.mark.parametrize("name", LANGUAGE)
def test_a_language_study_differs_from_its_preset_in_what_its_name_says(name):
    preset, expected = LANGUAGE[name]
    base, found = LanguageConfig.from_preset(preset), load_study(FOLDER / f"{name}.toml")
    before, after = flatten(comparable(base)), flatten(comparable(found))
    assert {key: value for key, value in after.items() if value != before[key]} == expected


@pytest.mark.parametrize("name", DIFFERS)
def test_it_differs_from_its_preset_in_what_its_name_says(name):
    preset, expected = DIFFERS[name]
    base = comparable(StudyConfig.from_preset(preset))
    found = comparable(load_config(FOLDER / f"{name}.toml"))
    changed = {f"{part}.{key}": value for part in ("task", "model", "train") for key, value in found[part].items()
               if value != base[part][key]}  # fmt: skip
    assert changed == expected
    rest = set(base) - {"task", "model", "train"}
    assert {key: found[key] for key in rest} == {key: base[key] for key in rest}


@pytest.mark.parametrize("name", EVERY)
def test_it_says_which_figure_and_which_question(name):
    comment = "\n".join(line for line in (FOLDER / f"{name}.toml").read_text().splitlines() if line.startswith("#"))
    assert "Fig" in comment
    assert "# Question: " in comment
    assert comment.count("?") >= 1


def test_the_post_norm_experiment_is_post_norm():
    assert load_config(FOLDER / "learning_rate_post_2e-4.toml").model.norm == "post"
