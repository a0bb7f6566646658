"""A member goes to the Hub and comes back, through a stand-in; what the Hub refuses is one sentence."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub.utils import filter_repo_objects

import rb_interp as rb
from rb_interp.errors import RunError
from rb_interp.runs.shared_member import FILE, WEIGHTS


class Hub:
    """A stand-in for the Hub: repositories are folders."""

    def __init__(self, root):
        self.root, self.asked = root, []

    def files(self, repo_id):
        return {str(path.relative_to(self.root / repo_id)) for path in (self.root / repo_id).rglob("*.*")}

    def snapshot_download(self, repo_id, *, revision=None, allow_patterns=None):
        self.asked.append((repo_id, revision))
        if not (self.root / repo_id).exists():
            raise FileNotFoundError("404 Client Error\nmore")
        cache = self.root / f"cache-{len(self.asked)}"
        self.copy(self.root / repo_id, cache, allow_patterns)
        return str(cache)

    def create_repo(self, repo_id, *, private=None, exist_ok=False):
        (self.root / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(self, *, repo_id, folder_path, allow_patterns):
        self.copy(folder_path, self.root / repo_id, allow_patterns)
        return SimpleNamespace(commit_url=f"https://hub/{repo_id}")

    @staticmethod
    def copy(old, new, patterns):
        names = [str(path.relative_to(old)) for path in Path(old).rglob("*") if path.is_file()]
        for name in filter_repo_objects(names, allow_patterns=patterns):
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(old / name, new / name)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    hub = Hub(tmp_path / "hub")
    for name in ("snapshot_download", "create_repo", "upload_folder"):
        monkeypatch.setattr(f"huggingface_hub.{name}", getattr(hub, name))
    monkeypatch.chdir(tmp_path)
    return hub


def test_a_member_goes_to_the_hub_and_comes_back(stand_in, exported):
    assert rb.push_to_hub(exported.folder, "me/one") == "https://hub/me/one"
    assert stand_in.files("me/one") == {FILE, WEIGHTS, "README.md"}
    again = rb.from_pretrained("me/one")
    assert (again.content, again.card) == (exported.content, exported.card)
    assert all(torch.equal(again.weights[name], weight) for name, weight in exported.weights.items())


def test_of_several_on_the_hub_one_is_fetched_by_name_at_a_revision(stand_in, copy, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(copy, tmp_path / "all" / name)
    (tmp_path / "all" / "README.md").write_text("all")
    (tmp_path / "all" / "private.txt").write_text("mine")
    rb.push_to_hub(tmp_path / "all", "me/all")
    held = {f"{name}/{file}" for name in ("a", "b") for file in (FILE, WEIGHTS, "README.md")}
    assert stand_in.files("me/all") == {"README.md", *held}
    with pytest.raises(RunError, match="holds 2 members; name one with member=: a, b"):
        rb.from_pretrained("me/all")
    member = rb.from_pretrained("me/all", member="b", revision="v1")
    assert (member.name, stand_in.asked[-1]) == ("one", ("me/all", "v1"))
    assert not (member.folder.parent / "a" / WEIGHTS).exists()  # it was not downloaded


def test_what_is_not_there_or_damaged_is_one_sentence(stand_in, copy, tmp_path):
    with pytest.raises(RunError, match=r"no folder no/body here, .* \(FileNotFoundError: 404 Client Error\)"):
        rb.from_pretrained("no/body")
    (copy / WEIGHTS).write_bytes(b"0")
    with pytest.raises(RunError, match="is missing or damaged"):
        rb.push_to_hub(copy, "me/one")
    with pytest.raises(RunError, match="does not say what a member is"):
        rb.push_to_hub(tmp_path / "empty", "me/one")
    assert not (tmp_path / "hub").exists()
