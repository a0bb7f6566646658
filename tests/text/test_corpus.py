"""A stream is tokenised once for each content, and a cache that is wrong or out of reach changes nothing."""

import os
import subprocess
import sys

import numpy as np
import pytest

from rb_interp.errors import TextError
from rb_interp.text import corpus
from rb_interp.text.corpus import content_key, stream, tokenise
from rb_interp.text.tokenizer import END, Tokenizer, train_tokenizer

TEXTS = ["the cat sat", "the mat", "a cat"]
TOKENIZER = train_tokenizer(["the cat sat on the mat"] * 3, 300)
RIGHT = tokenise(TEXTS, TOKENIZER).tolist()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RB_INTERP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch):
    """How often texts were tokenised."""
    calls = []
    monkeypatch.setattr(corpus, "tokenise", lambda texts, by: [calls.append(texts), tokenise(texts, by)][1])
    return calls


def test_a_stream_is_end_then_documents_each_followed_by_end():
    pieces = [TOKENIZER.encode(text) for text in TEXTS]
    assert [0, *pieces[0], 0, *pieces[1], 0, *pieces[2], 0] == RIGHT


def test_the_second_time_it_is_mapped_from_the_cache(made, cache):
    for _ in range(2):
        tokens = stream(TEXTS, TOKENIZER)
        assert isinstance(tokens, np.memmap)
        assert tokens.tolist() == RIGHT
    assert len(made) == 1
    assert sorted(path.suffix for path in cache.iterdir()) == [".json", ".npy"]


def test_another_text_order_tokenizer_or_format_is_another_stream(made, cache, monkeypatch):
    other = train_tokenizer(["the cat sat on a mat"] * 3, 300)
    for texts, by in ((TEXTS, TOKENIZER), (TEXTS[::-1], TOKENIZER), ([*TEXTS, ""], TOKENIZER), (TEXTS, other)):
        assert stream(texts, by).tolist() == tokenise(texts, by).tolist()
    assert content_key(["ab", "c"]) != content_key(["a", "bc"]) != content_key(["a", "b", "c"])
    monkeypatch.setattr(corpus, "FORMAT", 2)
    stream(TEXTS, TOKENIZER)
    assert len(made) == len(list(cache.glob("*.npy"))) == 5


DAMAGE = {
    "cut": lambda file, sidecar: file.write_bytes(file.read_bytes()[:-4]),
    "other numbers": lambda file, sidecar: np.save(file, np.load(file) + 1),
    "no sidecar": lambda file, sidecar: sidecar.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_is_made_again(made, cache, damage):
    stream(TEXTS, TOKENIZER)
    DAMAGE[damage](next(cache.glob("*.npy")), next(cache.glob("*.json")))
    for _ in range(2):
        assert stream(TEXTS, TOKENIZER).tolist() == RIGHT
    assert len(made) == 2


def test_a_cache_that_cannot_be_written_is_done_without(made, cache):
    cache.write_text("a file where the folder should be")
    for _ in range(2):
        assert stream(TEXTS, TOKENIZER).tolist() == RIGHT
    assert len(made) == 2


def test_processes_at_once_leave_one_whole_stream(cache):
    code = (
        "from rb_interp.text.corpus import stream; from rb_interp.text.tokenizer import train_tokenizer\n"
        "t = train_tokenizer(['the cat sat on the mat'] * 3, 300)\n"
        "for i in range(60): assert len(stream(['the cat sat'] * (i % 20 + 1), t)) == 1 + 4 * (i % 20 + 1), i"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE) for _ in range(3)]
    assert [process.communicate()[1].decode() for process in running] == [""] * 3
    assert len(list(cache.glob("*.npy"))) == len(list(cache.iterdir())) / 2 == 20


def test_a_tokenizer_that_gives_end_within_a_document_is_refused():
    from tokenizers import Tokenizer as Backend

    backend = Backend.from_str(TOKENIZER.json.replace('"special":true', '"special":false'))
    with pytest.raises(TextError) as error:
        stream([f"the {END} cat"], Tokenizer(backend, "own"))
    assert str(error.value) == (
        "tokenizer 'own' gives the token between documents within a document; take <|endoftext|> out of the texts."
    )
