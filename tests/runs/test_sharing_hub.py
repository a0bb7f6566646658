"""A member goes to the Hub and comes back, through a stand-in; what the Hub refuses is one sentence."""

import os
import shutil
from pathlib import Path

import pytest
import torch

import rb_interp as rb
from rb_interp.errors import RunError
from rb_interp.runs.sharing import from_pretrained, push_to_hub
from rb_interp.runs.sharing.content import FILE, WEIGHTS
from rb_interp.runs.sharing.manifest import FILE as MANIFEST


class Hub:
    """A stand-in for the Hub: repositories are folders, snapshots are links into blobs, as in the library's cache."""

    def __init__(self, root):
        self.root, self.asked, self.repositories = root, [], {}

    def snapshot_download(self, repo_id, *, revision=None, allow_patterns=None):
        from huggingface_hub.utils import filter_repo_objects

        self.asked.append((repo_id, revision, allow_patterns))
        if (repo_id, revision) not in self.repositories:
            raise FileNotFoundError("404 Client Error\nmore")
        held = self.repositories[repo_id, revision]
        cache = self.root / f"models--{repo_id.replace('/', '--')}"
        snapshot = cache / "snapshots" / "abc"
        for name in filter_repo_objects(held, allow_patterns=allow_patterns):
            blob, link = cache / "blobs" / name.replace("/", "-"), snapshot / name
            blob.parent.mkdir(parents=True, exist_ok=True)
            link.parent.mkdir(parents=True, exist_ok=True)
            blob.write_bytes(held[name])
            if not link.exists():
                link.symlink_to(os.path.relpath(blob, link.parent))
        snapshot.mkdir(parents=True, exist_ok=True)
        return str(snapshot)

    def __call__(self, **options):  # HfApi(...)
        return self

    def create_repo(self, repo_id, *, private=None, exist_ok=False):
        if repo_id.startswith("other/"):
            raise PermissionError("403 Forbidden\nmore")
        self.repositories.setdefault((repo_id, None), {})

    def upload_folder(self, *, repo_id, folder_path, allow_patterns, commit_message):
        from huggingface_hub.utils import filter_repo_objects

        names = [path.relative_to(folder_path).as_posix() for path in Path(folder_path).rglob("*") if path.is_file()]
        for name in filter_repo_objects(names, allow_patterns=allow_patterns):
            self.repositories[repo_id, None][name] = (Path(folder_path) / name).read_bytes()
        return f"https://hub/{repo_id}"


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    found = Hub(tmp_path / "cache")
    monkeypatch.setattr("huggingface_hub.snapshot_download", found.snapshot_download)
    monkeypatch.setattr("huggingface_hub.HfApi", found)
    return found


def test_a_member_goes_to_the_hub_and_comes_back(stand_in, exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert exported.push_to_hub("me/one") == "https://hub/me/one"
    assert set(stand_in.repositories["me/one", None]) == {FILE, WEIGHTS, MANIFEST, "README.md"}
    again = rb.from_pretrained("me/one")
    assert (again.content, again.card, again.folder) == (exported.content, exported.card, None)
    assert all(torch.equal(again.weights[name], weight) for name, weight in exported.weights.items())
    with pytest.raises(RunError, match="was read from the Hub and has no folder here"):
        again.push_to_hub("me/two")


def test_of_several_on_the_hub_one_is_fetched_by_name_at_a_revision(stand_in, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        shutil.copytree(copy, tmp_path / "all" / name)
    (tmp_path / "all" / "README.md").write_text("all")
    (tmp_path / "all" / "private.txt").write_text("mine")
    rb.push_to_hub(tmp_path / "all", "me/all")
    held = stand_in.repositories["me/all", "v1"] = stand_in.repositories.pop(("me/all", None))
    assert "private.txt" not in held
    assert "README.md" in held
    with pytest.raises(RunError, match="holds 2 members; name one with member=: a, b"):
        rb.from_pretrained("me/all", revision="v1")
    stand_in.asked.clear()
    assert rb.from_pretrained("me/all", member="b", revision="v1").name == "one"
    assert [revision for _, revision, _ in stand_in.asked] == ["v1", "v1"]
    assert all(pattern.startswith("b/") for pattern in stand_in.asked[1][2])


def test_what_the_hub_refuses_is_one_sentence(stand_in, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        RunError, match=r"no/body could not be had from the Hub \(FileNotFoundError: 404 Client Error\)"
    ):
        from_pretrained("no/body")
    with pytest.raises(RunError, match=r"could not be uploaded to other/one \(PermissionError: 403 Forbidden\)"):
        push_to_hub(copy, "other/one")
    (tmp_path / "secret").write_text("mine")
    (copy / "README.md").unlink()
    (copy / "README.md").symlink_to(tmp_path / "secret")
    with pytest.raises(RunError, match="leads out of .*; nothing was uploaded"):
        push_to_hub(copy, "me/one")
    (copy / "README.md").unlink()
    (copy / WEIGHTS).write_bytes(b"0")
    with pytest.raises(RunError, match="has 1 bytes"):
        push_to_hub(copy, "me/one")
    with pytest.raises(RunError, match="holds no shared member"):
        push_to_hub(tmp_path / "cache", "me/one")
    assert stand_in.repositories == {}


def test_a_link_of_the_cache_that_leads_out_of_it_is_not_followed(stand_in, exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exported.push_to_hub("me/one")
    (tmp_path / "secret").write_bytes((exported.folder / WEIGHTS).read_bytes())
    link = Path(stand_in.snapshot_download("me/one", allow_patterns=[WEIGHTS])) / WEIGHTS
    link.unlink()
    link.symlink_to(tmp_path / "secret")
    with pytest.raises(RunError, match="leads out of the cache of me/one"):
        from_pretrained("me/one")
