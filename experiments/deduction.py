"""Which heads read the rule that applies? Attention, patching and ablations by role, on language
models that write chains.

    python experiments/deduction.py RUN      a run of the language study, preset ``facts``

A row is a held-out example of two steps or more, cut before the object of its first rule, which the
model must find in the prompt. Roles: ``subject`` and ``object`` of the rule that applies, at both
places where the prompt states it, ``other_subjects`` and ``other_objects`` of the five that do not,
the ``premise``'s class, the class as it is ``written`` again, and ``last``, where the object is
predicted (that is where the class is written, if a predicate is one token).

Patching takes a head's z from the same text with the object's class and one other exchanged
everywhere: a valid example, whose chain goes on with the other class. The control exchanges two
classes that the rule does not name. Adds to ``results/deduction.csv`` a line for each member, kept
step, head and quantity, with the untrained model or the control beside it, and p where there is a
null:

    last_to_object, object_to_subject    attention, a share; null: roles of other rows
    recovered    share of the way to the other object by the head's z, by that at ``last``, and of
                 the stream that enters L0 at ``object``
    lost         share right without the head's z (mean over rows), less that with it
    right        share of rows whose object is the likeliest token
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rb_interp as rb
from rb_interp import interventions as iv
from rb_interp import probes
from rb_interp.runs.measurement import MemberModels
from rb_interp.text.classes import CLASSES
from rb_interp.text.prontoqa import Example, verify
from rb_interp.text.sentences import parse_clause, split_sentences
from rb_interp.text.tokens import Tokenizer

TABLE = Path(__file__).parents[1] / "results/deduction.csv"
N_ROWS = 64
RULE = 1
"""Number of the first rule among the sentences of a chain."""


def exchanged(example: Example, first: str, second: str) -> Example:
    """The example with two classes exchanged everywhere; it is proved, so it is valid."""
    names = {first: second, second: first}

    def other(found: re.Match) -> str:
        name = names[found.group().lower()]
        return name.capitalize() if found.group()[0].isupper() else name

    def swap(text: str) -> str:
        return re.sub(f"(?i){first}|{second}", other, text)

    chain = tuple(map(swap, example.chain_of_thought))
    swapped = Example(swap(example.question), swap(example.query), chain, "", example.hops)
    verify(swapped)
    return swapped


def class_of(word: str) -> str:
    """The class in a word or a predicate, singular or plural."""
    return next(name for name in CLASSES if name in word.lower())


def deduction_rows(examples: Sequence[Example], tokenizer: Tokenizer) -> rb.Inputs:
    """Examples cut before the object of their first rule, with roles; filled up behind their end."""
    rows, labels, roles = [], [], []
    for example in examples:
        text, chain = example.text, example.chain_of_thought
        starts = np.array(tokenizer.starts([text])[0])

        def token(character: int, starts: np.ndarray = starts) -> int:
            return int(np.searchsorted(starts, character, side="right"))  # one more stands in front

        def places(sentence: str, at: int, token: Any = token) -> tuple[int, int]:
            clause = parse_clause(sentence)
            subject = at + sentence.index(clause.subject)
            return token(subject + 1), token(at + len(sentence) - len(clause.predicate))

        position = len("Q: ")
        subjects, objects = defaultdict(list), defaultdict(list)
        for sentence in split_sentences(example.question):
            subject, object_of_rule = places(sentence, position)
            subjects[sentence].append(subject)
            objects[sentence].append(object_of_rule)
            position += len(sentence) + 1
        premise = split_sentences(example.question)[-1]
        stated = chain[RULE]
        written, end = places(stated, len(example.prompt) + len(chain[0]) + 2)
        others = [one for one in subjects if one not in (stated, premise)]
        roles.append(
            {
                "subject": subjects[stated],
                "object": objects[stated],
                "other_subjects": [at for one in others for at in subjects[one]],
                "other_objects": [at for one in others for at in objects[one]],
                "premise": objects[premise],
                "written": [written],
                "last": [end - 1],
            }
        )
        tokens = [tokenizer.end, *tokenizer.encode(text)]
        rows.append(tokens[:end])
        labels.append(tokens[end])
    longest = max(map(len, rows))
    filled = np.array([row + [tokenizer.end] * (longest - len(row)) for row in rows])
    positions = {name: np.array([row[name] for row in roles]) for name in roles[0]}
    return rb.Inputs(filled, np.array(labels), roles=rb.Roles(positions))


def three_texts(examples: Sequence[Example], seed: int) -> list[list[Example]]:
    """Examples, the same with the object exchanged, and with two classes that no part of the rule
    names."""
    rng = np.random.default_rng(seed)
    texts: list[list[Example]] = [[], [], []]
    for example in examples:
        rule = parse_clause(example.chain_of_thought[RULE])
        named = [class_of(rule.subject), class_of(rule.predicate)]
        free = rng.permutation([name for name in CLASSES if name not in named])
        changed = exchanged(example, named[1], free[0]), exchanged(example, free[1], free[2])
        for text, one in zip(texts, (example, *changed), strict=True):
            text.append(one)
    return texts


def read(models: MemberModels, source: rb.Inputs, base: rb.Inputs, control: rb.Inputs) -> list:
    """What is read of a member at a step: rows of the table."""
    model, untrained = models.model, models.untrained
    rows: list[dict[str, Any]] = []
    for query, to in (("last", "object"), ("object", "subject")):
        options = {"query": query, "to": to, "untrained": untrained}
        found = probes.scan(probes.attention, model, base, **options)
        found = found[found["quantity"] == f"{query}_to_{to}"]
        columns = ["quantity", "layer", "head", "value", "untrained", "p_value"]
        rows += found[columns].rename(columns={"untrained": "beside"}).to_dict("records")
    options = {"metric": "logit_diff", "answer_at": "last", "control": control}
    for head, roles, components in (
        ("all", ("all", "last"), ["z"]),
        (None, ("object", "premise", "written"), ["resid_pre"]),
    ):
        for role in roles:
            where = {"roles": None if role == "all" else [role], "components": components}
            cells = iv.patching_matrix(model, source, base, head=head, **where, **options)
            for cell in cells.to_frame().to_dict("records"):
                if cell["component"] == "resid_pre" and cell["layer"] > 0:
                    continue
                rows.append(
                    {
                        "quantity": f"recovered_{cell['component']}@{cell['role']}",
                        "layer": cell["layer"],
                        "head": cell.get("head"),
                        "value": cell["recovered"],
                        "beside": cell.get("control"),
                    }
                )
    lost = iv.ablations(model, base, head="all", methods=["mean"], metric="accuracy")
    for row in lost.to_dict("records"):
        of_head = {"layer": row["layer"], "head": row["head"]}
        rows.append({"quantity": "lost", **of_head, "value": row["accuracy_drop"]})
    rows.append({"quantity": "right", "value": float(lost["answered"].iloc[0])})
    return rows


def main(folder: str) -> None:
    run = rb.Run.open(folder)
    sweep = run.sweep()
    models = MemberModels(sweep)
    table = []
    for member in sweep.sound_members:
        text = sweep.dataset(member.seed).text
        examples = [one for one in text.examples if one.hops > 1][:N_ROWS]
        texts = three_texts(examples, member.seed)
        base, source, control = (deduction_rows(one, text.tokenizer) for one in texts)
        for step in sweep.checkpoint_steps:
            models.load(member, step)
            labels = {"gamma": member.gamma, "seed": member.seed, "step": step}
            for row in read(models, source, base, control):
                table.append({**labels, **row, "n": len(base)})
        print(f"gamma {member.gamma:g}, seed {member.seed}", flush=True)
        pd.DataFrame(table).round(4).to_csv(TABLE, index=False)


if __name__ == "__main__":
    main(sys.argv[1])
