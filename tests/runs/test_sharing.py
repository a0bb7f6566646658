"""A member that is shared comes back as it was, or one sentence says why not."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from own_studies import MODEL, ONE, TASK
from safetensors.torch import load, save

from rb_interp.errors import ModelError, RbInterpError, RunError
from rb_interp.models.schemes import draw
from rb_interp.runs.measured import Measured
from rb_interp.runs.run import Run
from rb_interp.runs.sharing import Circuit, from_pretrained, save_member, tensors
from rb_interp.runs.sharing.card import text
from rb_interp.runs.sharing.content import FILE, UNTRAINED, WEIGHTS
from rb_interp.runs.sharing.manifest import FILE as MANIFEST
from rb_interp.runs.sharing.manifest import read_manifest, write_manifest
from rb_interp.runs.sharing.save import told_of
from rb_interp.studies.anchor.circuits import circuits as anchor_circuits
from rb_interp.studies.composite.circuits import circuits as flows
from rb_interp.studies.composite.task import CompositeTask
from rb_interp.text.task import TextTask

TOKENS = torch.from_numpy(TASK.dataset(0).tokens[:40])
WHO = {"gamma": 0.8, "seed": 1}


def drawn(seed, dtype=torch.float32):
    held = draw(MODEL, TASK.d_vocab, TASK.length, 0.8, seed)
    return {name: torch.from_numpy(weight).to(dtype) for name, weight in held.items()}


def forge(folder, name, held):
    """Change a file, and let the manifest agree with it."""
    mark = read_manifest(folder)
    (folder / name).write_bytes(held)
    write_manifest(folder, mark["fingerprint"], {one: (folder / one).read_bytes() for one in {*mark["files"], name}})


def forge_config(folder, change):
    told = json.loads((folder / FILE).read_text())
    forge(folder, FILE, json.dumps({**told, **change}).encode())


@pytest.mark.lens
def test_a_member_of_a_run_comes_back_bit_for_bit_with_what_was_measured(one, exported, tmp_path):
    again = from_pretrained(exported.folder, task=TASK)
    for stage, model in (("final", again.model), ("init", again.untrained)):
        assert torch.equal(model(TOKENS), one.model(**WHO, stage=stage)(TOKENS))
    assert not torch.equal(again.model(TOKENS), again.untrained(TOKENS))
    table = one.readings
    own = table[(table.gamma == 0.8) & (table.seed == 1)]
    assert again.readings[["probe", "quantity", "value", "untrained"]].to_dict("list") == own[
        ["probe", "quantity", "value", "untrained"]
    ].to_dict("list")
    rows = again.data.sample("rsn_train", 1000)
    right = again.model(torch.from_numpy(again.data.tokens[rows]))[:, -1].argmax(-1).numpy() == again.data.labels[rows]
    assert again.accuracy["rsn_train"] == right.mean()
    assert again.data.seed == 1
    assert not (exported.folder / UNTRAINED).exists()
    assert sorted(path.name for path in exported.folder.iterdir()) == sorted((FILE, WEIGHTS, MANIFEST, "README.md"))
    start = one.export(**WHO, path=tmp_path / "start", stage="init")
    assert torch.equal(start.model(TOKENS), again.untrained(TOKENS))
    assert (len(start.readings), start.content.step, start.content.stage) == (0, 0, "init")
    assert (again.content.training["steps"], again.content.step, again.circuit) == (20, 20, None)


def test_a_study_names_the_circuits_of_its_members(one, tmp_path):
    def circuits(measured):
        assert len(measured.tables["doubled"])
        rows = measured.readings.to_dict("records")
        return {(r["gamma"], r["seed"]): Circuit("large", "size", "", {"norm": r["value"]}) for r in rows}

    run = Run.open(one.folder, study=replace(ONE, circuits=circuits))
    found = run.export(**WHO, path=tmp_path / "one")
    assert found.circuit.shares["norm"] == pytest.approx(float(found.model.W_E.detach().norm()))
    assert run.export(**WHO, path=tmp_path / "start", stage="init").circuit is None


def test_the_card_has_the_hubs_front_matter_and_nothing_of_it_is_markup(tmp_path):
    told = "<script>x</script> [a](b) | `c`\n---\nlicense: evil"
    circuit = Circuit("a: 'b'\n- c", "cause", "at least <b>", {"key|x": 0.9})
    saved = save_member(
        tmp_path / "one", model=MODEL, weights=drawn(1), task=TASK, gamma=0.8, seed=0, description=told, circuit=circuit
    )
    _, front, page = saved.card.split("---\n", 2)
    front = yaml.safe_load(front)
    assert (front["library_name"], front["license"], front["circuit"]) == ("rb-interp", "mit", circuit.name)
    splits = {
        result["dataset"]["split"]: result["metrics"][0]["value"] for result in front["model-index"][0]["results"]
    }
    assert splits == saved.accuracy
    assert text(told) in page
    assert "<script>" not in page
    assert "<script>" not in saved._repr_html_()
    assert saved.circuit == circuit


def test_weights_of_either_type_and_untrained_ones_that_no_seed_draws_come_back(tmp_path):
    first, last = drawn(5, torch.float64), drawn(6, torch.float64)
    given = {"model": MODEL, "weights": last, "task": TASK}
    stored = save_member(tmp_path / "a", **given, initial=first, gamma=0.8, seed=0)
    assert stored.content.untrained == "stored"
    assert all(torch.equal(stored.initial[name], first[name]) for name in first)
    assert stored.model(TOKENS).dtype == torch.float64
    by_seed = save_member(tmp_path / "b", **given, initial=first, gamma=0.8, seed=5)
    assert by_seed.content.untrained == "drawn"
    assert all(torch.equal(by_seed.initial[name], first[name]) for name in first)
    assert save_member(tmp_path / "c", **given).untrained is None


def test_a_task_comes_back_by_its_study_or_is_asked_for_in_one_sentence(exported, copy, tmp_path):
    assert from_pretrained(exported.folder).task == TASK  # one of this package
    forge_config(copy, {"task": {**vars(exported.content.task), "kind": "elsewhere:Task"}})
    with pytest.raises(RunError, match=r"cannot be made here \(no study 'one' is installed.*task=\.\.\."):
        _ = from_pretrained(copy).task
    with pytest.raises(RunError, match=r"learned a rb_interp.tasks.anchor:AnchorTask with the fingerprint"):
        _ = from_pretrained(exported.folder, task=replace(TASK, n_sequences=360)).task
    place, task = tmp_path / "one", CompositeTask(n_sequences=1600)
    model, sizes = replace(MODEL, norm="post"), (task.d_vocab, task.length)
    weights = {name: torch.from_numpy(weight).float() for name, weight in draw(model, *sizes, 0.5, 0).items()}
    assert save_member(place, model=model, weights=weights, task=task, study="composite").task == task
    told = vars(told_of(task, "composite"))
    for kind in ("subprocess:Popen", "rb_interp.tasks.anchor:replace", "rb_interp.tasks.dataset:Dataset"):
        forge_config(place, {"task": {**told, "kind": kind}})
        with pytest.raises(RunError, match=f"study 'composite' trains no {kind}"):
            _ = from_pretrained(place).task
    forge_config(place, {"task": {**told, "settings": {"length": 10**9}}})
    with pytest.raises(RunError, match="length=1000000000: input should be less"):
        _ = from_pretrained(place).task


def test_names_of_files_are_left_out_of_a_shared_task():
    told = told_of(TextTask(stories="/home/me/stories.jsonl"), "language")
    assert (told.sources, told.settings["stories"]) == (("stories",), TextTask().stories)
    assert told.fingerprint == TextTask(stories="/home/me/stories.jsonl").fingerprint()


def test_only_a_folder_of_this_member_is_written_over(one, copy, tmp_path):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    assert one.export(**WHO, path=copy, name="one").folder == copy
    for other in ({"seed": 0}, {"gamma": 0.5}, {"stage": "init"}):
        with pytest.raises(RunError, match="holds something else than this member; nothing was changed"):
            one.export(**{**WHO, **other}, path=copy)
    (copy / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="holds something else"):
        one.export(**WHO, path=copy)
    (copy / "notes.txt").unlink()
    (copy / "README.md").write_text("edited")
    with pytest.raises(RunError, match=r"README.md was changed since it was written; nothing was changed now"):
        one.export(**WHO, path=copy)
    (copy / "README.md").write_bytes(before["README.md"])
    weights = {name: held for name, held in before.items() if name != MANIFEST}
    assert weights == {path.name: path.read_bytes() for path in copy.iterdir() if path.name != MANIFEST}
    (tmp_path / "link").symlink_to(copy)
    with pytest.raises(RunError, match="is a link or a file"):
        one.export(**WHO, path=tmp_path / "link", name="one")


def test_a_member_is_written_whole_or_not_at_all(one, exported, tmp_path, monkeypatch):
    """Each time that a file is moved into place is tried as the one at which the disk is full."""
    moved, move = 0, os.replace

    def fail(*given):
        nonlocal moved
        moved += 1
        if moved == failing:
            raise OSError(28, "No space left on device")
        move(*given)

    monkeypatch.setattr(os, "replace", fail)
    for failing in range(1, 99):  # noqa: B007 (``fail`` reads it)
        moved = 0
        try:
            again = one.export(**WHO, path=tmp_path / "new", name="one")
        except RunError:
            assert list(tmp_path.iterdir()) == []
        else:
            break
    assert moved >= 4  # the manifest and each file
    assert (again.content, failing) == (exported.content, moved + 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other 9"}, "has the format 'other 9'"),
        ({"d_vocab": 10**9}, "d_vocab=1000000000: input should be less"),
        ({"d_vocab": 999_999}, "and the sizes in its config.json take"),
        ({"d_vocab": 63}, "and the sizes in its config.json take|asks for"),
        ({"model": {"norm": "none", "d_mlp": "16"}}, "input should be a valid integer"),
        ({"model": {"n_layers": True}}, "input should be a valid integer"),
        ({"model": 5}, "does not say what a member is"),
        ({"model": {"weights_only": False}}, "unknown key 'weights_only'"),
        ({"dtype": "object"}, "expected one of float32, float64"),
        ({"name": "../up"}, "is no name of a member"),
        ({"task": None}, "does not say what a member is"),
        ({"circuit": {"name": "a", "by": 1, "rule": ""}}, "expected a text"),
        ({"circuit": {"name": "a"}}, "no 'by'"),
        ({"accuracy": {"mem": "high"}}, "mem='high': input should be a valid number"),
        ({"readings": [[1]]}, "expected a list of rows"),
        ({"readings": [{"value": {}}]}, "something else than texts and numbers"),
        ({"untrained": "stored"}, "untrained.safetensors is not there yet"),
        ({"checksum": "0" * 64}, "another checksum of its untrained weights"),
        ({"seed": None}, "drawn by a seed, and it has none"),
        ({"sha": 1}, "unknown key 'sha'"),
    ],
)
def test_a_forged_description_is_one_sentence(copy, change, words):
    forge_config(copy, change)
    with pytest.raises(RbInterpError, match=words) as told:
        from_pretrained(copy)
    assert "\n" not in str(told.value)


def test_weights_are_looked_at_before_memory_is_taken(copy, monkeypatch):
    held = (copy / WEIGHTS).read_bytes()
    weights = load(held)
    huge = {**weights, "embed.W_E": torch.zeros(1)}
    renamed = {name.replace("W_E", "W_X"): weight for name, weight in weights.items()}
    for forged, words in (
        (held[:100], "has 100 bytes"),
        (held + b"0" * 2_000_000, "and the sizes in its config.json take"),
        ((1 << 60).to_bytes(8, "little") + held[8:], "is no safetensors file"),
        (save(huge), "and the sizes in its config.json take"),
        (save(renamed), "holds nothing as 'embed.W_E'"),
        (save({**weights, "unembed.W_U": weights["unembed.W_U"].T.contiguous()}), r"holds \[64, 16\] of float32"),
        (save({**weights, "unembed.b_U": weights["unembed.b_U"] * float("nan")}), "not finite"),
    ):
        forge(copy, WEIGHTS, forged)
        with pytest.raises(RunError, match=words):
            from_pretrained(copy)
    monkeypatch.setattr(tensors, "read_file", lambda path: 1 / 0)
    forge(copy, WEIGHTS, held + b"0" * 2_000_000)
    with pytest.raises(RunError, match="and the sizes in its config.json take"):  # before the file is read
        from_pretrained(copy)


def test_what_leads_out_of_the_folder_or_was_changed_is_not_read(copy, tmp_path):
    (tmp_path / "secret").write_bytes((copy / WEIGHTS).read_bytes())
    for name in (WEIGHTS, FILE, MANIFEST):
        held = (copy / name).read_bytes()
        (tmp_path / "secret").write_bytes(held)
        (copy / name).unlink()
        with pytest.raises(RunError):
            from_pretrained(copy)
        (copy / name).symlink_to(tmp_path / "secret")
        with pytest.raises(RunError, match="out of"):
            from_pretrained(copy)
        (copy / name).unlink()
        (copy / name).write_bytes(held)
    held = bytearray((copy / WEIGHTS).read_bytes())
    held[-1] ^= 1
    (copy / WEIGHTS).write_bytes(held)
    with pytest.raises(RunError, match="is damaged, or something else has changed it"):
        from_pretrained(copy)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "elsewhere").symlink_to(copy)
    with pytest.raises(RunError, match="leads out of"):
        from_pretrained(tmp_path / "two", member="elsewhere")


def test_a_folder_of_several_names_them(exported, copy, tmp_path):
    place = tmp_path / "several"
    for name in ("a", "b"):
        shutil.copytree(copy, place / name)
    with pytest.raises(RunError, match="holds 2 members; name one with member=: a, b"):
        from_pretrained(place)
    assert from_pretrained(place, member="b").folder == place / "b"
    for wrong, words in (("c", "holds no member 'c'; known: a, b"), ("../a", "no name of a member")):
        with pytest.raises(RunError, match=words):
            from_pretrained(place, member=wrong)
    (place / "empty").mkdir()
    with pytest.raises(RunError, match="holds no shared member"):
        from_pretrained(place / "empty")
    with pytest.raises(RunError, match="revision='v1' is of a repository"):
        from_pretrained(exported.folder, revision="v1")
    with pytest.raises(RunError, match="there is no folder nowhere, and it is no name of a repository"):
        from_pretrained("nowhere")


@pytest.mark.parametrize("weights", ["missing", "shape", "nan", "mixed", "half"])
def test_weights_that_are_none_are_not_written(tmp_path, weights):
    held = drawn(0)
    changed = {
        "missing": {name: weight for name, weight in held.items() if name != "unembed.b_U"},
        "shape": {**held, "unembed.b_U": torch.zeros(3)},
        "nan": {**held, "unembed.b_U": torch.full((64,), float("nan"))},
        "mixed": {**held, "unembed.b_U": torch.zeros(64).double()},
        "half": {name: weight.half() for name, weight in held.items()},
    }[weights]
    with pytest.raises(ModelError):
        save_member(tmp_path / "one", model=MODEL, weights=changed, task=TASK)
    assert not (tmp_path / "one").exists()


def test_circuits_of_the_studies_carry_the_shares_that_they_rest_on():
    shares = {"key_from_key": 0.9, "anchors_L0_at_last": 0.95, "key_from_last_anchor": 0.0}
    shares |= dict.fromkeys(("first_anchors_from_last_anchor", "key_from_anchors", "anchors_from_anchors"), 0.1)
    table = pd.DataFrame([{"gamma": 0.8, "seed": 3, "accuracy": 1.0, **shares}])
    empty = pd.DataFrame()
    found = anchor_circuits(Measured(empty, {"circuits": table}))[0.8, 3]
    assert (found.name, dict(found.shares)) == ("average-then-key", {"key:from_key": 0.9, "anchors:L0_at_last": 0.95})
    mixed = anchor_circuits(Measured(empty, {"circuits": table.assign(key_from_key=0.5)}))[0.8, 3]
    assert (mixed.name, len(mixed.shares)) == ("mixed", 6)
    read = {"last:kb_ps": 0.85, "key:ks_pb": 0.9, "a1+a2:source": np.nan, "a1:source": 0.2, "a2:source": 0.1}
    read["a1+a2:source"] = 0.3
    rows = [{"probe": "interchange_roles", "quantity": name, "value": value} for name, value in read.items()]
    readings = pd.DataFrame(rows).assign(gamma=0.5, seed=7, stage="final")
    flow = flows(Measured(readings))[0.5, 7]
    assert (flow.name, dict(flow.shares)) == ("via last", {"last:kb_ps": 0.85, "key:ks_pb": 0.9})
