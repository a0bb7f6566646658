"""A member that is shared comes back as it was, or one sentence says why not."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub.utils import filter_repo_objects
from own_studies import MODEL, ONE, TASK

import rb_interp as rb
from rb_interp.errors import ModelError, RunError
from rb_interp.models.schemes import draw
from rb_interp.runs import Circuit, Run, save_member
from rb_interp.runs.shared_member import FILE, WEIGHTS, from_pretrained, task_from
from rb_interp.runs.sharing import task_spec
from rb_interp.text.task import TextTask

TOKENS = torch.from_numpy(TASK.dataset(0).tokens[:40])
WHO = {"gamma": 0.8, "seed": 1}


def drawn(seed, dtype=torch.float32):
    held = draw(MODEL, TASK.d_vocab, TASK.length, 0.8, seed)
    return {name: torch.from_numpy(weight).to(dtype) for name, weight in held.items()}


@pytest.mark.lens
def test_a_member_of_a_run_comes_back_bit_for_bit_with_what_was_measured(one, exported, tmp_path):
    again = from_pretrained(exported.folder, task=TASK)
    for stage, model in (("final", again.model), ("init", again.untrained)):
        assert torch.equal(model(TOKENS), one.model(**WHO, stage=stage)(TOKENS))
    assert not torch.equal(again.model(TOKENS), again.untrained(TOKENS))
    table, columns = one.readings, ["probe", "quantity", "value", "untrained"]
    own = table[(table.gamma == 0.8) & (table.seed == 1)]
    assert again.readings[columns].to_dict("list") == own[columns].to_dict("list")
    rows = again.data.sample("rsn_train", 1000)
    right = (
        again.model(torch.from_numpy(again.data.tokens[rows]))[:, -1].argmax(-1).numpy()
        == again.data.labels[rows]
    )
    assert again.accuracy["rsn_train"] == right.mean()
    assert again.data.seed == 1
    assert sorted(path.name for path in exported.folder.iterdir()) == sorted(
        (FILE, WEIGHTS, "README.md")
    )
    start = one.export(**WHO, path=tmp_path / "start", stage="init")
    assert torch.equal(start.model(TOKENS), again.untrained(TOKENS))
    assert (len(start.readings), start.content["step"], start.content["stage"]) == (0, 0, "init")
    assert (again.content["training"]["steps"], again.content["step"], again.circuit) == (
        20,
        20,
        None,
    )


def test_a_study_names_the_circuits_of_its_members(one, tmp_path):
    def circuits(measured):
        assert len(measured.tables["doubled"])
        rows = measured.readings.to_dict("records")
        return {
            (r["gamma"], r["seed"]): Circuit("large", "size", "", {"norm": r["value"]})
            for r in rows
        }

    run = Run.open(one.folder, study=replace(ONE, circuits=circuits))
    member = run.export(**WHO, path=tmp_path / "one")
    assert member.circuit.shares["norm"] == pytest.approx(float(member.model.W_E.detach().norm()))
    assert run.export(**WHO, path=tmp_path / "start", stage="init").circuit is None


def test_weights_of_either_type_come_back_and_untrained_ones_are_drawn_by_their_seed(tmp_path):
    given = {"model": MODEL, "weights": drawn(6, torch.float64), "task": TASK}
    member = save_member(tmp_path / "a", **given, gamma=0.8, seed=5)
    assert all(
        torch.equal(member.initial[name], first) for name, first in drawn(5, torch.float64).items()
    )
    assert member.model(TOKENS).dtype == torch.float64
    assert save_member(tmp_path / "b", **given).untrained is None


def test_weights_that_are_none_are_not_written(tmp_path):
    held = drawn(0)
    for changed in (
        {name: weight for name, weight in held.items() if name != "unembed.b_U"},
        {**held, "unembed.b_U": torch.zeros(3)},
        {**held, "unembed.b_U": torch.full((64,), float("nan"))},
        {**held, "unembed.b_U": torch.zeros(64).double()},
        {name: weight.half() for name, weight in held.items()},
    ):
        with pytest.raises(ModelError):
            save_member(tmp_path / "one", model=MODEL, weights=changed, task=TASK)
    assert not (tmp_path / "one").exists()


def test_names_of_files_are_left_out_of_a_shared_task():
    told = task_spec(TextTask(stories="/home/me/stories.jsonl"), "language")
    assert (told["sources"], told["settings"]["stories"]) == (["stories"], TextTask().stories)
    assert told["fingerprint"] == TextTask(stories="/home/me/stories.jsonl").fingerprint()
    facts = TextTask.preset("quick")
    assert task_from(task_spec(facts, "language")) == facts


def test_a_folder_that_holds_something_is_refused(one, copy):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    for path in (copy, copy / FILE):
        with pytest.raises(
            RunError, match="holds something; nothing was changed. Give the path of a new"
        ):
            one.export(**WHO, path=path)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_the_hub_gets_members_and_nothing_else_and_gives_one_by_name_at_a_revision(
    copy, tmp_path, monkeypatch
):
    held, asked = tmp_path / "all", []
    for name in ("a", "b"):
        shutil.copytree(copy, held / name)
    (held / "private.txt").write_text("mine")

    def upload(*, repo_id, folder_path, allow_patterns):
        names = [
            str(path.relative_to(folder_path))
            for path in Path(folder_path).rglob("*")
            if path.is_file()
        ]
        asked.append({*filter_repo_objects(names, allow_patterns=allow_patterns)})
        return SimpleNamespace(commit_url="")

    def download(repo_id, *, revision=None, allow_patterns=None):
        asked.append((repo_id, revision))
        return str(held)

    hub = {
        "create_repo": lambda *_, **__: None,
        "upload_folder": upload,
        "snapshot_download": download,
    }
    for name, stand_in in hub.items():
        monkeypatch.setattr(f"huggingface_hub.{name}", stand_in)
    monkeypatch.chdir(tmp_path)
    rb.push_to_hub(held, "me/all")
    assert asked.pop() == {
        f"{name}/{file}" for name in ("a", "b") for file in (FILE, WEIGHTS, "README.md")
    }
    assert rb.from_pretrained("me/all", member="b", revision="v1").folder.name == "b"
    assert asked[-1] == ("me/all", "v1")
