"""Which heads read the rule that applies, and where is a fact looked up? Attention, patching and
ablations by role, on language models that write chains.

    python experiments/deduction.py RUN [NAME [SEED ...]]      a run of the language study, ``quick``

A row is a held-out example of two steps or more, cut before the object of its first rule, which the
model must find in the prompt. Roles: ``subject`` and ``object`` of the rule that applies, at both
places where the prompt states it, the full ``stop`` there, ``behind``, the subject of the sentence
that follows (mostly one of the next), ``other_subjects`` and ``other_objects`` of the five that do not apply, the
``premise``'s name and class, in the chain again as ``name`` and ``class``, the class as it is
``written`` in the rule, and ``last``, where the object is predicted (that is where the class is
written, if a predicate is one token).

Patching takes a head's z, or the stream, from the same text with the object's class and one other
exchanged everywhere: a valid example, whose chain goes on with the other class. The control exchanges
two classes that the rule does not name. Writes ``results/NAME.parquet`` (``deduction``), and of the
members that read rules ``results/NAME_places.csv`` and ``NAME_paths.csv``. Members of other seeds stay
in the table. A line of it is a member, kept step, head and quantity, with the untrained model or the
control beside it, and p where there is a null:

    QUERY_to_KEY attention between roles, a share; null: roles of other rows
    recovered    share of the way to the other object by the head's z, by that at ``last``, and by
                 the stream that enters a layer at a role
    lost         share right less that without the head's z, whose mean over rows takes its place
    right        share of rows whose object is the likeliest token

At the last step alone stand ``copying``, ``previous_token`` and ``induction`` of each head
(``probes.head_circuits``), ``lost_layer``, as ``lost`` without all heads of a layer, and numbers of the
members that read rules. There KIND is the ``object`` exchanged as above; the ``premise``, which is the
next class of the chain, so that the next rule applies; or the ``subject`` of the rule that applies,
exchanged with that of a rule of the other chain, so that this one applies. Another class is proved
then. So it is in the control of this text, whose first rule stays and whose second rule's subject is
exchanged. The roles ``subjects`` and ``objects`` are those of all twelve sentences:

    KIND_followed            by the stream at a role: share of the way in the share of rows whose
                             likeliest token is the other object
    KIND_path_SENDER_to_C    share of the way by the path from a sender straight to the queries,
                             keys or values of a head of L1

Facts are cut at the same place, and read at the last step alone. Their name, or their class, is that
of another fact, whose object differs; the control is as above. ``name_`` or ``class_recovered`` is the
share of the way to the other object by a layer's input, attention or MLP at a role.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rb_interp as rb
from rb_interp import interventions as iv
from rb_interp import probes
from rb_interp.models.protocol import HookedModel
from rb_interp.runs.measurement import MemberModels
from rb_interp.text.classes import CLASSES, FactTable, fact_table, generate_facts
from rb_interp.text.prontoqa import GOAL, Example, verify
from rb_interp.text.sentences import parse_clause, split_sentences
from rb_interp.text.tokens import Tokenizer

TABLE = Path(__file__).parents[1] / "results/deduction.parquet"
N_ROWS = 64
RULE = 1
"""Number of the first rule among the sentences of a chain."""
PLACES = ("object", "stop", "behind", "other_objects")
"""Roles from which L1 may take the object."""
ATTENDS = (
    *(("last", place) for place in PLACES),
    *(("object", "subject"), ("behind", "object"), ("behind", "subject")),
)
"""Pairs of roles whose attention is read."""
STREAMS = (*PLACES, "subject", "other_subjects", "premise", "written")
"""Roles whose stream is taken from the other text."""
OF_PREMISE = ("premise_name", "premise", "name", "class", "last")
"""The same where the premise differs."""
OF_SUBJECTS = ("subjects", "objects", "last")
"""The same where subjects are exchanged."""
SCORES = ("copying", "previous_token", "induction")
READS = 0.9
"""A member reads rules if it is right in more of the rows at its last step."""


def exchanged(example: Example, first: str, second: str) -> Example:
    """The example with two classes exchanged everywhere; it is proved, so it is valid."""
    question, query, *chain = (
        exchanged_words(text, first, second)
        for text in (example.question, example.query, *example.chain_of_thought)
    )
    swapped = Example(question, query, tuple(chain), "", example.hops)
    verify(swapped)
    return swapped


def exchanged_words(text: str, first: str, second: str) -> str:
    """A text with two words exchanged."""
    names = {first: second, second: first}
    return re.sub(f"{first}|{second}", lambda found: names[found.group()], text)


def class_of(word: str) -> str:
    """The class in a word or a predicate, singular or plural."""
    return next(name for name in CLASSES if name in word.lower())


def tokens_of(starts: np.ndarray, sentence: str, at: int) -> list[int]:
    """Positions of the subject, of the predicate's first token, and of the full stop, of a sentence
    at a character."""
    clause = parse_clause(sentence)
    stop = at + len(sentence) - 1
    # the character lies in the token before the next that begins; one more token stands in front
    characters = [at + sentence.index(clause.subject), stop - len(clause.predicate), stop]
    return np.searchsorted(starts, characters, side="right").tolist()


def deduction_rows(examples: Sequence[Example], tokenizer: Tokenizer) -> rb.Inputs:
    """Examples cut before the object of their first rule, with roles; filled up behind their end."""
    roles, ends = [], []
    for example in examples:
        starts = np.array(tokenizer.starts([example.text])[0])
        sentences = split_sentences(example.question)
        position, places = len("Q: "), []
        for sentence in sentences:
            places.append(tokens_of(starts, sentence, position))
            position += len(sentence) + 1
        premise, stated = example.chain_of_thought[:2]
        chain = len(example.prompt) + 1
        name, class_again, _ = tokens_of(starts, premise, chain)
        written, end, _ = tokens_of(starts, stated, chain + len(premise) + 1)
        of_rule: dict[str, list[int]] = defaultdict(list)
        for sentence, place, following in zip(sentences, places, places[1:], strict=False):
            subject, predicate, stop = place
            if sentence == stated:
                of_rule["subject"].append(subject)
                of_rule["object"].append(predicate)
                of_rule["stop"].append(stop)
                of_rule["behind"].append(following[0])
            else:
                of_rule["other_subjects"].append(subject)
                of_rule["other_objects"].append(predicate)
        of_premise = {"premise_name": [places[-1][0]], "premise": [places[-1][1]]}
        of_chain = {"name": [name], "class": [class_again], "written": [written], "last": [end - 1]}
        roles.append({**of_rule, **of_premise, **of_chain})
        ends.append(end)
    return cut_rows(examples, tokenizer, ends, roles)


def fact_rows(examples: Sequence[Example], tokenizer: Tokenizer) -> rb.Inputs:
    """Facts cut before their object, with roles."""
    roles, ends = [], []
    for example in examples:
        starts = np.array(tokenizer.starts([example.text])[0])
        premise, stated = example.chain_of_thought[:2]
        before = len("Q: ") + len(example.question) - len(premise)
        chain = len(example.prompt) + 1
        _, end, _ = tokens_of(starts, stated, chain + len(premise) + 1)
        of_row: dict[str, list[int]] = {"last": [end - 1]}
        for names, at in ((("premise_name", "premise"), before), (("name", "class"), chain)):
            places = tokens_of(starts, premise, at)[:2]
            of_row |= {name: [place] for name, place in zip(names, places, strict=True)}
        roles.append(of_row)
        ends.append(end)
    return cut_rows(examples, tokenizer, ends, roles)


def cut_rows(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    ends: Sequence[int],
    roles: Sequence[dict[str, list[int]]],
) -> rb.Inputs:
    """Examples before a token, which is their label; filled up behind their end."""
    texts = [[tokenizer.end, *tokenizer.encode(example.text)] for example in examples]
    filled = np.full((len(texts), max(ends)), tokenizer.end)
    for row, (tokens, end) in enumerate(zip(texts, ends, strict=True)):
        filled[row, :end] = tokens[:end]
    labels = [tokens[end] for tokens, end in zip(texts, ends, strict=True)]
    positions = {name: np.array([row[name] for row in roles]) for name in roles[0]}
    return rb.Inputs(filled, np.array(labels), roles=rb.Roles(positions))


def fact_texts(
    table: FactTable, examples: Sequence[Example], seed: int
) -> dict[str, list[Example]]:
    """Facts; the same about another name, and of another class, whose object differs; and with two
    classes exchanged that the fact does not name."""
    rng = np.random.default_rng(seed)
    texts: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        premise = parse_clause(example.chain_of_thought[0])
        name, subject = premise.subject, class_of(premise.predicate)
        own = table[name, subject].predicate
        differing = [key for key in sorted(table) if table[key].predicate != own]
        others = {
            "name": [key for key in differing if key[1] == subject],
            "class": [key for key in differing if key[0] == name],
        }
        if not all(others.values()):
            continue
        texts["base"].append(example)
        for kind, keys in others.items():
            other = keys[rng.integers(len(keys))]
            question = exchanged_words(example.question, subject, other[1])
            question = question.replace(f"{name} ", f"{other[0]} ")
            sentences = [f"{other[0]} is a {other[1]}.", table[other].sentence]
            texts[kind].append(
                replace(example, question=question, chain_of_thought=tuple(sentences))
            )
        free = rng.permutation([one for one in CLASSES if one not in (subject, own)])
        question = exchanged_words(example.question, free[0], free[1])
        texts["control"].append(replace(example, question=question))
    return texts


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


def premise_texts(examples: Sequence[Example], seed: int) -> list[list[Example]]:
    """Examples of three steps, the same from their second class on, which are a step shorter, and
    with two classes exchanged that neither of the two first rules names."""
    rng = np.random.default_rng(seed)
    texts: list[list[Example]] = [[], [], []]
    for example in examples:
        premise, stated, later, follows, *_ = example.chain_of_thought
        source = replace(
            example,
            question=example.question.removesuffix(premise) + later,
            chain_of_thought=example.chain_of_thought[2:],
            hops=example.hops - 1,
        )
        verify(source)
        rules = [parse_clause(rule) for rule in (stated, follows)]
        named = {rule.subject for rule in rules} | {rule.predicate for rule in rules}
        free = rng.permutation([name for name in CLASSES if name not in named])
        changed = source, exchanged(example, free[0], free[1])
        for text, one in zip(texts, (example, *changed), strict=True):
            text.append(one)
    return texts


def subject_texts(examples: Sequence[Example], seed: int) -> list[list[Example]]:
    """Three texts of two steps each: examples; the same with the subject of their first rule exchanged
    with that of a rule of the other chain; and with that of their second rule exchanged with that of
    the rule after it. The latter two prove the same class; the third has the first step of the first."""
    rng = np.random.default_rng(seed)
    texts: list[list[Example]] = [[], [], []]
    for example in examples:
        rules = rules_of(example.question)
        start = class_of(example.chain_of_thought[0])
        lines = {name: line_from(rules, name) for name in rules}
        free = [
            name
            for name, line in lines.items()
            if len(line) > 2 and start not in line and name not in lines[start]
        ]
        if not free:
            continue
        other = lines[free[rng.integers(len(free))]]
        pairs = zip(lines[start][:2], other[:2], strict=True)
        changed = (exchanged_subjects(example, *pair) for pair in pairs)
        for text, one in zip(texts, (example, *changed), strict=True):
            text.append(one)
    return texts


def rules_of(question: str) -> dict[str, Any]:
    """Class -> the rule about it."""
    clauses = map(parse_clause, split_sentences(question)[:-1])
    return {class_of(clause.subject): clause for clause in clauses}


def line_from(rules: dict[str, Any], name: str) -> list[str]:
    """A class and all that follow from it."""
    line = [name]
    while line[-1] in rules:
        line.append(class_of(rules[line[-1]].predicate))
    return line


def exchanged_subjects(example: Example, first: str, second: str) -> Example:
    """The example with the subjects of two rules exchanged, and two steps of what follows then."""
    *stated, premise = split_sentences(example.question)
    names = {first: second, second: first}
    for number, sentence in enumerate(stated):
        subject = class_of(parse_clause(sentence).subject)
        stated[number] = sentence.replace(subject, names.get(subject, subject), 1)
    question = " ".join([*stated, premise])
    rules = rules_of(question)
    steps = [rules[name] for name in line_from(rules, class_of(premise))[:2]]
    name = parse_clause(premise).subject
    chain = [premise]
    for step in steps:
        chain += [step.sentence, f"{name} is a {step.predicate}."]
    changed = Example(question, GOAL + chain[-1], tuple(chain), "", len(steps))
    verify(changed)
    return changed


def read(models: MemberModels, source: rb.Inputs, base: rb.Inputs, control: rb.Inputs) -> list:
    """What is read of a member at a step: rows of the table."""
    model, untrained = models.model, models.untrained
    rows: list[dict[str, Any]] = []
    for query, to in ATTENDS:
        options = {"query": query, "to": to, "untrained": untrained}
        found = probes.scan(probes.attention, model, base, **options)
        found = found[found["quantity"] == f"{query}_to_{to}"]
        columns = ["quantity", "layer", "head", "value", "untrained", "p_value"]
        rows += found[columns].rename(columns={"untrained": "beside"}).to_dict("records")
    options = {"metric": "logit_diff", "answer_at": "last", "control": control}
    for component, head, roles in (
        *(("z", "all", None), ("z", "all", ["last"])),
        ("resid_pre", None, STREAMS),
    ):
        where = {"roles": roles, "components": [component], "head": head}
        cells = iv.patching_matrix(model, source, base, **where, **options)
        for cell in cells.to_frame().to_dict("records"):
            of_cell = {"value": cell["recovered"], "beside": cell.get("control")}
            quantity = f"recovered_{component}@{cell['role']}"
            place = {"layer": cell["layer"], "head": cell.get("head")}
            rows.append({"quantity": quantity, **place, **of_cell})
    lost = iv.ablations(model, base, head="all", methods=["mean"], metric="accuracy")
    for row in lost.to_dict("records"):
        of_head = {"layer": row["layer"], "head": row["head"]}
        rows.append({"quantity": "lost", **of_head, "value": row["accuracy_drop"]})
    rows.append({"quantity": "right", "value": float(lost["answered"].iloc[0])})
    return rows


def read_heads(models: MemberModels, base: rb.Inputs) -> list:
    """What the weights of each head copy and match, and what is lost without all heads of a layer: rows
    of the table."""
    found = probes.scan(probes.head_circuits, models.model, untrained=models.untrained)
    found = found[found["quantity"].isin(SCORES)]
    columns = ["quantity", "layer", "head", "value", "untrained", "p_value"]
    rows = found[columns].rename(columns={"untrained": "beside"}).to_dict("records")
    for layer in range(models.model.cfg.n_layers):
        site, options = [f"attn_out.{layer}"], {"methods": ["mean"], "metric": "accuracy"}
        lost = iv.ablations(models.model, base, site, **options)["accuracy_drop"].iloc[0]
        rows.append({"quantity": "lost_layer", "layer": layer, "value": lost})
    return rows


def read_paths(
    model: HookedModel, kind: str, roles: Sequence[str], texts: Sequence[rb.Inputs]
) -> list:
    """What follows the other text, and by which paths from L0 to L1: rows of the table."""
    base, source, control = texts
    options = {"answer_at": "last", "control": control}
    where = {"components": ["resid_pre"], "roles": roles}
    rows = []
    cells = iv.patching_matrix(model, source, base, **where, metric="accuracy", **options)
    for cell in cells.to_frame().to_dict("records"):
        of_cell = {"layer": cell["layer"], "value": cell["recovered"], "beside": cell["control"]}
        quantity = f"{kind}_followed_resid_pre@{cell['role']}"
        rows.append({"quantity": quantity, "n": len(base), **of_cell})
    heads = range(model.cfg.n_heads)
    senders = ["embed", "mlp_out.0", *(f"z.0.{head}" for head in heads)]
    receivers = [f"{component}.1.{head}" for component in "qkv" for head in heads]
    paths = iv.path_matrix(model, base, source, senders, receivers, **options).to_frame()
    for path in paths.to_dict("records"):
        component, _, head = path["receiver"].split(".")
        of_path = {"layer": 1, "head": int(head), "value": path["recovered"]}
        quantity = f"{kind}_path_{path['sender']}_to_{component}"
        rows.append({"quantity": quantity, "n": len(base), **of_path, "beside": path["control"]})
    return rows


def read_facts(models: MemberModels, inputs: dict[str, rb.Inputs]) -> list:
    """Where a fact's object is looked up: rows of the table."""
    rows: list[dict[str, Any]] = []
    for kind in ("name", "class"):
        cells = iv.patching_matrix(
            models.model,
            inputs[kind],
            inputs["base"],
            components=["resid_pre", "attn_out", "mlp_out"],
            answer_at="last",
            control=inputs["control"],
        )
        for cell in cells.to_frame().to_dict("records"):
            quantity = f"{kind}_recovered_{cell['component']}@{cell['role']}"
            of_cell = {"value": cell["recovered"], "beside": cell["control"]}
            rows.append({"quantity": quantity, "layer": cell["layer"], **of_cell})
    return rows


def places_read(table: pd.DataFrame) -> pd.DataFrame:
    """From where L1 takes the object, of each member that is right in more than .9 of the rows at its
    last step: the share of the way by its input at a place, and the largest attention of a head."""
    end = table[table["step"] == table["step"].max()]
    member = ["gamma", "seed"]
    values = (
        end.groupby([*member, "quantity", "layer"], dropna=False)["value"].max().unstack(member)
    )
    columns = {"right": values.loc["right"].iloc[0]}
    for role in PLACES:
        columns[role] = values.loc[f"recovered_resid_pre@{role}", 1]
    for role in PLACES:
        columns[f"to_{role}"] = values.loc[f"last_to_{role}", 1]
    of_member = pd.DataFrame(columns)
    return (
        of_member[of_member["right"] > READS].drop(columns="right").round(3).add(0.0).reset_index()
    )


def paths_read(table: pd.DataFrame) -> pd.DataFrame:
    """All paths from L0 to the queries, keys and values of L1, added up, and in size the largest of
    their controls: columns KIND_C."""
    names = table["quantity"].str.extract(r"^(\w+)_path_.+_to_(\w)$")
    column = names[0].str.cat(names[1], sep="_")
    groups = table.groupby(["gamma", "seed", column])
    sums = groups["value"].sum().unstack()
    controls = groups["beside"].agg(lambda control: control.abs().max()).unstack()
    return sums.assign(control=controls.max(axis=1)).sort_index().round(3).add(0.0).reset_index()


def with_all_places(inputs: rb.Inputs) -> rb.Inputs:
    """Rows with the roles ``subjects`` and ``objects``, of all sentences that state a rule."""
    positions = dict(inputs.roles.positions)
    for name in ("subject", "object"):
        positions[f"{name}s"] = np.hstack([positions[name], positions[f"other_{name}s"]])
    return replace(inputs, roles=rb.Roles(positions))


def main(folder: str, name: str = TABLE.stem, *seeds: str) -> None:
    path = TABLE.with_stem(name)
    run = rb.Run.open(folder)
    if run.config.task.query == "property":
        raise SystemExit(
            "deduction.py reads chains about classes alone; give a run with --query class."
        )
    sweep = run.sweep()
    models = MemberModels(sweep)
    earlier = (
        pd.read_parquet(path) if path.is_file() else pd.DataFrame({"seed": pd.Series(dtype=int)})
    )
    chosen = [int(seed) for seed in seeds] or list(run.config.seeds)
    earlier = earlier[~earlier["seed"].isin(chosen)]
    table: list[dict[str, Any]] = []
    for member in (one for one in sweep.sound_members if one.seed in chosen):
        text = sweep.dataset(member.seed).text

        def rows_of(
            examples: Sequence[Example], tokenizer: Tokenizer = text.tokenizer
        ) -> rb.Inputs:
            return deduction_rows(examples, tokenizer)

        examples = [one for one in text.examples if one.hops > 1][:N_ROWS]
        base, source, control = map(rows_of, three_texts(examples, member.seed))
        longest = [one for one in text.examples if one.hops == 3][:N_ROWS]
        of_premise = [*map(rows_of, premise_texts(longest, member.seed))]
        two = [one for one in text.examples if one.hops == 2]
        of_subject = [rows_of(one[:N_ROWS]) for one in subject_texts(two, member.seed)]
        of_subject[0] = with_all_places(of_subject[0])
        of_subject[1:] = [replace(one, roles=of_subject[0].roles) for one in of_subject[1:]]
        facts = fact_table(text.config.facts, text.seed)
        known = generate_facts(2 * N_ROWS, member.seed + 1, facts)
        of_facts = fact_texts(facts, known, member.seed)
        inputs = {kind: fact_rows(one[:N_ROWS], text.tokenizer) for kind, one in of_facts.items()}
        labels = {"gamma": member.gamma, "seed": member.seed}
        found = []
        for step in sweep.checkpoint_steps:
            models.load(member, step)
            found = read(models, source, base, control)
            table += [{**labels, "step": step, **row, "n": len(base)} for row in found]
        last = [*read_heads(models, base), *read_facts(models, inputs)]
        if found[-1]["value"] > READS:
            last += read_paths(models.model, "object", STREAMS, (base, source, control))
            last += read_paths(models.model, "premise", OF_PREMISE, of_premise)
            last += read_paths(models.model, "subject", OF_SUBJECTS, of_subject)
        table += [{**labels, "step": step, "n": N_ROWS, **row} for row in last]
        print(f"gamma {member.gamma:g}, seed {member.seed}", flush=True)
        readings = pd.concat([earlier, pd.DataFrame(table).round(4)], ignore_index=True)
        readings.sort_values(["gamma", "seed"], kind="stable").to_parquet(path, index=False)
    places_read(readings).to_csv(path.with_name(f"{name}_places.csv"), index=False)
    paths_read(readings).to_csv(path.with_name(f"{name}_paths.csv"), index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
