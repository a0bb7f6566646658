"""A member that is shared comes back, or one sentence says why not."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from own_studies import MODEL, TASK

from rb_interp.errors import RunError
from rb_interp.models.schemes import draw
from rb_interp.runs import save_member
from rb_interp.runs.shared_member import FILE, WEIGHTS, from_pretrained
from rb_interp.runs.sharing import task_spec
from rb_interp.studies.composite.task import CompositeTask


def change_config(folder, **changes):
    told = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps({**told, **changes}))


def test_a_task_comes_back_by_its_study_or_is_asked_for_in_one_sentence(exported, copy, tmp_path):
    assert from_pretrained(exported.folder).task == TASK  # one of this package
    change_config(copy, task={**exported.content["task"], "kind": "elsewhere:Task"})
    with pytest.raises(
        RunError, match=r"cannot be made here \(no study 'one' is installed.*task=\.\.\."
    ):
        _ = from_pretrained(copy).task
    with pytest.raises(
        RunError, match=r"learned a rb_interp.tasks.anchor:AnchorTask with the fingerprint"
    ):
        _ = from_pretrained(exported.folder, task=replace(TASK, n_sequences=360)).task
    place, task = tmp_path / "one", CompositeTask(n_sequences=1600)
    model, sizes = replace(MODEL, norm="post"), (task.d_vocab, task.length)
    weights = {
        name: torch.from_numpy(weight).float()
        for name, weight in draw(model, *sizes, 0.5, 0).items()
    }
    assert (
        save_member(place, model=model, weights=weights, task=task, study="composite").task == task
    )
    for kind in (
        "subprocess:Popen",
        "rb_interp.tasks.anchor:replace",
        "rb_interp.training.config:TrainConfig",
    ):
        change_config(place, task={**task_spec(task, "composite"), "kind": kind})
        with pytest.raises(
            RunError,
            match=f"{kind} is no task of this package, and the study 'composite' trains none",
        ):
            _ = from_pretrained(place).task


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other 9"}, "its format is not 'rb_interp member 2'"),
        ({"model": {"weights_only": False}}, "unknown key 'weights_only'"),
        ({"checksum": "0" * 64}, "another checksum of its untrained weights"),
        ({"seed": 2}, "another checksum of its untrained weights"),
    ],
)
def test_a_wrong_description_is_one_sentence(copy, change, words):
    change_config(copy, **change)
    with pytest.raises(RunError, match=words) as told:
        from_pretrained(copy)
    assert "\n" not in str(told.value)


def test_damaged_or_other_weights_are_refused(copy):
    held = (copy / WEIGHTS).read_bytes()
    for damaged in (held[:100], held[:-1] + bytes([held[-1] ^ 1]), None):
        (copy / WEIGHTS).unlink()
        if damaged is not None:
            (copy / WEIGHTS).write_bytes(damaged)
        with pytest.raises(RunError, match="is missing or damaged: its SHA-256 is not"):
            from_pretrained(copy)
        (copy / WEIGHTS).write_bytes(held)


def test_a_folder_of_several_names_them(exported, copy, tmp_path):
    place = tmp_path / "several"
    for name in ("a", "b"):
        shutil.copytree(copy, place / name)
    with pytest.raises(RunError, match="holds 2 members; name one with member=: a, b"):
        from_pretrained(place)
    assert from_pretrained(place, member="b").folder == place / "b"
    for wrong in ("c", "../a"):
        with pytest.raises(RunError, match=f"holds no member '{wrong}'; known: a, b"):
            from_pretrained(place, member=wrong)
