"""Passages of real stories in common words, to stand beside rules at the preset ``quick``.

    python experiments/story_passages.py tinystories_train.jsonl runs/passages

At ``quick`` a predicate is one token (``phrases``), and of these 11,000 stories have 11,700, with
which a step takes some ten times as long. Passages of two sentences, all of whose tokens are among
the 1,500 commonest, are many. Writes ``passages.jsonl`` and ``tokenizer.json`` into the folder, and
prints the command that trains beside them. A sentence ends at a stop before a capital letter; quotation
marks are not looked at, so a passage may open or close one alone.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

from rb_interp.text import generate_classes, read_stories, word_tokenizer
from rb_interp.text.tokens import PHRASES, words_of

SENTENCES, COMMONEST = 2, 1500


def passages(stories: list[str]) -> list[str]:
    """Passages in the order of the stories, each once."""
    tokens: dict[str, list[str]] = {}
    for story in stories:
        sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", " ".join(story.split()))
        for first in range(0, len(sentences) - SENTENCES + 1, SENTENCES):
            text = " ".join(sentences[first : first + SENTENCES])
            tokens[text] = words_of([text], PHRASES)
    n = Counter(token for one in tokens.values() for token in one)
    common = {token for token, _ in n.most_common(COMMONEST)}
    return [text for text, own in tokens.items() if common.issuperset(own)]


if __name__ == "__main__":
    source, folder = map(Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    texts = passages(read_stories(source))
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (folder / "passages.jsonl").write_text(rows)
    questions = [example.text for example in generate_classes(4000, seed=0)]
    tokenizer = word_tokenizer([*texts, *questions], 2 * COMMONEST, phrases=True)
    tokenizer.backend.save(str(folder / "tokenizer.json"))
    print(
        f"rb-interp train language --stories {folder}/passages.jsonl "
        f"--tokenizer {folder}/tokenizer.json --d-vocab {tokenizer.d_vocab} "
        "--curves template rule stop --stages early --gammas 0.3 0.8 --seeds 10 11"
    )
