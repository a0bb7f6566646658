"""A run that somebody else made: whatever its files say, it opens, or one sentence tells why not."""

import json
import os
from shutil import copytree

import numpy as np
import pandas as pd
import pytest
from own_studies import ONE
from safetensors import safe_open
from safetensors.numpy import save_file

from rb_interp.errors import ModelError, RunError
from rb_interp.manifest import FILE, Manifest
from rb_interp.report.terminal import run_rows
from rb_interp.runs.run import Run


@pytest.fixture
def copy(one, tmp_path):
    return Run.open(copytree(one.folder, tmp_path / "run"), study=ONE)


def forge(run, name, change):
    """Change a JSON file of a run, and let the manifest agree with it."""
    content = json.loads((run.folder / name).read_text())
    text = json.dumps(change(content))
    step = run.manifest.content.files[name].step
    Manifest(run.folder).write_bytes(run.folder / name, text.replace('"DEEP"', "[" * 9999 + "]" * 9999).encode(), step)


@pytest.mark.parametrize(
    "changes",
    [
        *({"added_seeds": seeds} for seeds in ([[]], [""], [{}], [[True]], [5], "DEEP")),
        *({"tasks": {"": task}} for task in (5, ["a"], "ab", ["a", 1], ["a", "b", "c"])),
    ],
)
def test_what_is_no_description_of_a_run_is_one_sentence(copy, changes):
    forge(copy, "run.json", lambda content: {**content, **changes})
    with pytest.raises(RunError, match=r"run.json (does not say what a run is|cannot be read as JSON .more than 50)"):
        Run.open(copy.folder, study=ONE)


@pytest.mark.parametrize(
    "changes",
    [
        *({"outcome": outcome} for outcome in (["HOLDS"], "<b>", 5, None, "\ud800")),
        *({name: [1]} for name in ("statement", "id", "n_seeds", "effect", "met_at_initialisation", "seeds", "met")),
        *({"conditions": given} for given in (5, [5], [{"seeds": [], "values": []}], "DEEP")),
    ],
)
def test_verdicts_of_other_kinds_are_one_sentence(copy, changes):
    changes = {name: "x" if name in ("seeds", "met") else value for name, value in changes.items()}
    forge(copy, "verdicts.json", lambda content: [{**content[0], **changes}])
    for ask in (lambda: copy.outcomes, lambda: copy.verdicts):
        with pytest.raises(RunError, match=r"(no verdicts|cannot be read as JSON).*'rb-interp probe "):
            ask()
    assert "rb-interp probe" in run_rows(copy)["verdicts"]


@pytest.mark.parametrize("content", [5, [1], {}, None, "HOLDS"])
def test_something_else_than_verdicts_is_one_sentence(copy, content):
    forge(copy, "verdicts.json", lambda _: content)
    with pytest.raises(RunError, match="these are no verdicts"):
        _ = copy.outcomes


def test_half_a_character_in_a_run_is_a_question_mark_on_the_page(copy, tmp_path):
    forge(copy, "verdicts.json", lambda content: [{**content[0], "statement": "It grows.\ud800"}])
    forge(copy, "run.json", lambda content: {**content, "command": "rb\udcff"})
    for step, record in copy.manifest.content.steps.items():
        copy.manifest.finish(step, *record.made_from, version=record.version)
    run = Run.open(copy.folder, study=ONE)
    page = run.write_report(tmp_path / "page").read_text()
    assert "It grows.?" in page
    assert "rb?" in page
    run_rows(run)["made"].encode()


def test_texts_that_are_far_larger_than_their_file_are_not_read(copy):
    def repeat(path):
        table = pd.read_parquet(copy.folder / "readings.parquet")
        table["quantity"] = "q" * 1_000_000
        table.to_parquet(path, index=False)

    def apart(path):
        table = pd.read_parquet(copy.folder / "readings.parquet")
        table["quantity"] = [f"{row}" + "q" * 1_000_000 for row in range(len(table))]
        table.to_parquet(path, index=False)

    rows = len(copy.readings)
    for write, least in ((repeat, rows * 1_000_000), (apart, rows * 1_000_000)):
        Manifest(copy.folder).write(copy.folder / "readings.parquet", write, "probe")
        with pytest.raises(RunError, match=r"its texts take [\d,]+ bytes when they are read, more than ") as told:
            _ = copy.readings
        assert int(str(told.value).split("take ")[1].split(" bytes")[0].replace(",", "")) >= 900_000 <= least


def with_arrays(run, name, change):
    """Change the arrays of a checkpoint, and let the manifest agree with it."""
    path = run.folder / "checkpoints" / f"{name}.safetensors"
    with safe_open(path, framework="np") as held:
        told, arrays = held.metadata(), {key: held.get_tensor(key) for key in held.keys()}  # noqa: SIM118
    change(arrays)
    Manifest(run.folder).write(path, lambda temporary: save_file(arrays, temporary, told), "train")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("curves/steps", lambda arrays: arrays.pop("curves/steps")),
        ("curves/steps", lambda arrays: arrays.update({"curves/steps": np.zeros(2)})),
        ("curves/values", lambda arrays: arrays.pop("curves/values")),
        ("curves/values", lambda arrays: arrays.update({"curves/values": arrays["curves/values"][:, :1].copy()})),
        ("embed.W_E", lambda arrays: arrays.pop("embed.W_E")),
        ("embed.W_E", lambda arrays: arrays.update({"embed.W_E": arrays["embed.W_E"][:, :1].copy()})),
    ],
)
def test_a_saved_state_that_training_did_not_write_is_one_sentence(copy, name, change):
    """What reads learning curves says so, and so does training that would go on from there."""
    with_arrays(copy, "state", change)
    (copy.folder / "checkpoints" / f"step_{0:08d}.safetensors").unlink()
    asked = [copy.train] + ([lambda: copy.curves, lambda: copy.verdicts] if name.startswith("curves") else [])
    for ask in asked:
        with pytest.raises(RunError, match=f"state.safetensors is not what training writes .{name} is"):
            ask()


@pytest.mark.lens
def test_a_member_without_its_weights_is_one_sentence(copy):
    last = f"step_{copy.sweep().config.train.steps:08d}"
    (member, *_) = copy.sweep().members
    with_arrays(copy, last, lambda arrays: arrays.pop("embed.W_E"))
    with pytest.raises(ModelError, match=r"weights are missing: embed.W_E"):
        copy.model(gamma=member.gamma, seed=member.seed)


def in_place(path, kind, away):
    held = path.read_bytes()
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        away.write_bytes(held)
        path.symlink_to(away)
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "huge":
        with open(path, "wb") as file:
            file.truncate(5 * 2**30)


@pytest.mark.parametrize("kind", ["pipe", "link", "loop", "huge"])
@pytest.mark.parametrize("name", [FILE, "run.json", "verdicts.json", "readings.parquet", "arrays.safetensors"])
def test_pipes_links_and_huge_files_are_not_read(copy, tmp_path, name, kind):
    in_place(copy.folder / name, kind, tmp_path / "away")
    with pytest.raises(
        RunError, match="folder or a device|leads out of|levels of symbolic|is missing|100,000,000|4,294,967,296"
    ):
        _ = Run.open(copy.folder, study=ONE).verdicts


def resigned(folder, change):
    """A manifest with other values and the checksum of these."""
    import hashlib

    content = json.loads((folder / FILE).read_text())
    change(content)
    del content["sha256"]
    own = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (folder / FILE).write_text(json.dumps({"sha256": own, **content}))


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content["files"]["run.json"].update(step=[]),
        lambda content: content["files"]["run.json"].update(sha256=None),
        lambda content: content["files"]["run.json"].update(before=5),
        lambda content: content["steps"]["probe"].update(made_from={"train": []}),
        lambda content: content["steps"]["probe"].update(made_from=[["train", "a"]]),
        lambda content: content["steps"]["probe"].update(finished={}),
        *(
            lambda content, name=name: content["files"].update({name: content["files"]["run.json"]})
            for name in ("a\0b", "", ".", "./run.json", "a//b", "x" * 300, "\ud800")
        ),
    ],
)
def test_a_manifest_with_values_of_other_kinds_is_one_sentence(copy, change):
    resigned(copy.folder, change)
    with pytest.raises(RunError, match=r"manifest.json is damaged .* move the folder away and run again"):
        Run.open(copy.folder, study=ONE).verify()
