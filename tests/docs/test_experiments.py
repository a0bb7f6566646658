"""Every experiment file loads, says what it is for, and differs from its preset in what its name says alone."""

from pathlib import Path

import pytest

from rb_interp.cli import parse, starting_point
from rb_interp.runs.config import comparable, scale_of
from rb_interp.runs.registry import study

FOLDER = Path(__file__).parents[2] / "experiments"
AT_ONE_RATE = {"rates": []}
"""The preset's own rates were chosen without LayerNorm, for the scheme ``fan_in``."""
DIFFERS = {
    "fig3_gamma_sweep": ("anchor", "quick", {}),
    "fig3_paper": ("anchor", "paper", {}),
    "norm_pre": ("anchor", "quick", {"model.norm": "pre", **AT_ONE_RATE}),
    "norm_post": ("anchor", "quick", {"model.norm": "post", **AT_ONE_RATE}),
    "learning_rate_post_2e-4": ("anchor", "paper", {"train.lr": 2e-4, "train.steps": 60_000}),
    "scheme_d_model": ("anchor", "quick", {"model.scheme": "d_model", **AT_ONE_RATE}),
    "emb_mlp": ("emb-mlp", "quick", {}),
    "emb_mlp_relu": ("emb-mlp", "quick", {f"{s}.model.act": "relu" for s in ("adamw", "descent", "one_layer")}),
    "emb_mlp_paper": ("emb-mlp", "paper", {}),
    "labels": ("labels", "quick", {}),
    "labels_paper": ("labels", "paper", {}),
    "language": ("language", "quick", {}),
    "language_fixed_embedding": ("language", "quick", {"model.scheme": "fan_in_fixed_embedding"}),
    "language_paper": ("language", "paper", {}),
}


def flat(data: dict, prefix: str = "") -> dict:
    found = {}
    for key, value in data.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def test_every_file_is_listed_here_and_in_the_readme():
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(DIFFERS)
    readme = (FOLDER / "README.md").read_text()
    scripts = [path.name for path in FOLDER.glob("*.py")]
    assert all(f"[{name}]({name})" in readme for name in (*(f"{name}.toml" for name in DIFFERS), *scripts))


def test_every_kept_result_is_listed_in_the_readme():
    folder = FOLDER.parent / "results"
    readme = (folder / "README.md").read_text()
    kept = {path.name for path in folder.iterdir() if not path.name.startswith(".")} - {"README.md"}
    assert {name for name in kept if f"`{name}`" not in readme} == set()


@pytest.mark.parametrize("name", DIFFERS)
def test_it_differs_from_its_preset_in_what_its_name_says(name):
    wanted, preset, expected = DIFFERS[name]
    found, config = starting_point(["--config", str(FOLDER / f"{name}.toml")])
    before, after = flat(comparable(study(wanted).preset(preset))), flat(comparable(config))
    changed = {key: value for key, value in after.items() if value != before.get(key)}
    assert (found, config.preset, changed) == (wanted, preset, expected)
    assert scale_of(config) == ("custom" if expected else preset)


def test_what_the_norms_are_compared_with_differs_in_the_norm_alone():
    arguments = ["reproduce", "--config", str(FOLDER / "fig3_gamma_sweep.toml"), "--rates"]
    without = flat(comparable(parse(arguments).settings))
    for name in ("norm_pre", "norm_post"):
        _, config = starting_point(["--config", str(FOLDER / f"{name}.toml")])
        assert {key for key, value in flat(comparable(config)).items() if value != without[key]} == {"model.norm"}


@pytest.mark.parametrize("name", DIFFERS)
def test_it_says_which_figure_and_which_question(name):
    comment = "\n".join(line for line in (FOLDER / f"{name}.toml").read_text().splitlines() if line.startswith("#"))
    assert "Fig" in comment
    assert "# Question: " in comment
    assert comment.count("?") >= 1
