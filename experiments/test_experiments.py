"""Every experiment file says what it is for, and differs from its preset in what its name says
alone."""

from pathlib import Path
from types import SimpleNamespace

import gpu_check
import join_runs
import language_tables
import learning_rates
import pandas as pd
import pytest

from rb_interp.claims import judge
from rb_interp.cli import starting_point
from rb_interp.runs.studies import study
from rb_interp.settings import comparable
from rb_interp.studies.language.config import REASONING_CLAIMS
from rb_interp.tasks.anchor import RATES

FOLDER = Path(__file__).parent
ONE_RATE = {"rates": []}
"""The preset's own rates were chosen without LayerNorm, for the scheme ``fan_in``."""
DIFFERS = {
    "norm_pre": {"model.norm": "pre", **ONE_RATE},
    "norm_post": {"model.norm": "post", **ONE_RATE},
    "learning_rate_post_2e-4": {"train.lr": 2e-4, "train.steps": 60_000},
    "scheme_d_model": {"model.scheme": "d_model", **ONE_RATE},
    "emb_mlp_relu": {f"{sweep}.model.act": "relu" for sweep in ("adamw", "descent", "one_layer")},
    "language_fixed_embedding": {"model.scheme": "fan_in_fixed_embedding"},
}
"""Files that are more than a preset -> what they change."""


def flat(data: dict, prefix: str = "") -> dict:
    found = {}
    for key, value in data.items():
        found |= (
            flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
        )
    return found


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_a_file_differs_from_its_preset_in_what_its_name_says_and_asks_a_question(path):
    name, config = starting_point(["--config", str(path)])
    before, after = flat(comparable(study(name).preset(config.preset))), flat(comparable(config))
    assert {key: value for key, value in after.items() if value != before.get(key)} == DIFFERS.get(
        path.stem, {}
    )
    assert (config.preset == "paper") == (
        path.stem.endswith("_paper") or path.stem == "learning_rate_post_2e-4"
    )
    assert "# Question: " in path.read_text()
    assert f"[{path.name}]({path.name})" in (FOLDER / "README.md").read_text()


def test_every_kept_result_is_listed_in_the_readme():
    folder = FOLDER.parent / "results"
    readme, kept = (folder / "README.md").read_text(), {path.name for path in folder.iterdir()}
    assert {
        name
        for name in kept - {"README.md"}
        if not name.startswith(".") and f"`{name}`" not in readme
    } == set()


def test_the_preset_has_the_rates_with_the_lowest_training_loss_of_the_recorded_search():
    table = pd.read_csv(learning_rates.CHOSEN)
    best = (
        table.loc[table.groupby("gamma")["training_loss"].idxmin(), ["gamma", "lr"]]
        .to_numpy()
        .tolist()
    )
    chosen = table.loc[table["chosen"], ["gamma", "lr"]].to_numpy().tolist()
    assert best == [list(pair) for pair in RATES["quick"]] == chosen


def test_the_check_of_a_gpu_runs_on_a_cpu(tmp_path):
    table = tmp_path / "check.csv"
    small = ["--device", "cpu", "--preset", "smoke", "--steps", "1", "--members", "1"]
    gpu_check.main([*small, "--out", str(table)])
    rows = pd.read_csv(table)
    assert (rows.query("check == 'rounding'")["value"].astype(float) < 1e-12).all()
    expected = {"as set", "single steps", "HookedTransformer, plain loop", "torch.func"}
    assert set(rows.query("check == 'speed'")["way"]) == expected


def test_the_sign_of_other_numbers_of_facts_is_judged_from_tables():
    """G4n on the kept members: the same at another number of facts, then reversed in seed 11."""
    kept = pd.read_parquet(FOLDER.parent / "results/language_facts_readings.parquet")
    signed = kept["seed"].between(10, 16)  # seeds that read rules at gamma .8
    kept = kept[signed]
    (g4n,) = (claim for claim in REASONING_CLAIMS if claim.id == "G4n")
    reversed_ = kept.assign(value=kept["value"].where(kept["seed"] != 11, -kept["value"]))
    for other, met in ((kept, [True] * 7), (reversed_, [True, False, *[True] * 5])):
        readings = language_tables.with_signs(kept, [other])
        readings = language_tables.with_signs(readings, [other])  # once more replaces
        assert list(judge(readings, [g4n])[0].met) == met
    other_sweep = kept.assign(sweep="facts_16", value=-kept["value"])
    whole = pd.concat([kept, other_sweep], ignore_index=True)
    assert list(judge(language_tables.with_signs(whole, [kept]), [g4n])[0].met) == [True] * 7
    signed = language_tables.with_signs(kept, [kept])
    assert language_tables.with_signs(signed, []) is signed


def test_runs_of_other_gammas_are_joined_as_one(tmp_path, monkeypatch):
    """A member is replaced by its new run, others stay, and of all gammas the lowest is kept."""
    run = {}

    def make(name, seed, gamma, value, gate):
        readings = pd.DataFrame(
            {
                "sweep": "",
                "gamma": [gamma, gamma, None],
                "seed": [seed, 0, seed],  # the second row: a draw of the initialisation
                "probe": ["own", "lemma_1", "learning_order"],
                "quantity": ["loss", "within_0.05", "lowest_acc_mem"],
                "value": [value, 1.0, gate],
            }
        )
        curves = readings[:1]
        tables = {"readings": readings, "curves": curves, "circuits": curves}
        config = SimpleNamespace(seeds=[seed], gammas=[gamma])
        run[name] = SimpleNamespace(config=config, table=tables.get)

    monkeypatch.setattr(join_runs.rb.Run, "open", lambda name: run[name])
    judged = pd.DataFrame({"n_seeds": [1]})
    monkeypatch.setattr(join_runs, "judged", lambda first, readings: judged)
    make("zero", 0, 0.8, 1.0, 0.9)
    make("small", 5, 0.8, 2.0, 0.7)
    make("large", 5, 0.3, 3.0, 0.4)
    make("again", 5, 0.8, 4.0, 0.6)
    join_runs.main(str(tmp_path), "zero", "small", "large")
    join_runs.main(str(tmp_path), "again")
    table = pd.read_parquet(tmp_path / "readings.parquet")
    own = table[table["probe"] == "own"].sort_values("value")
    assert own[["seed", "gamma", "value"]].to_numpy().tolist() == [
        [0, 0.8, 1.0],
        [5, 0.3, 3.0],
        [5, 0.8, 4.0],
    ]
    gate = table[table["probe"] == "learning_order"].sort_values("seed")
    assert gate[["seed", "value"]].to_numpy().tolist() == [[0, 0.9], [5, 0.4]]
    assert (table["probe"] == "lemma_1").sum() == 2  # one of each gamma
