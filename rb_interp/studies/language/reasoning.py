"""What is read of models that reason beside facts of the same form.

`decisive`    how soon rules and facts are learned (``statistics.decisive``), and ``same_sign``
`reasoning`   at the stages ``facts`` and ``final``:

    chain_H          share of whole chains at H steps, as ``probes.chain_accuracy``
    chain_more       the same at one step more than any trained chain has
    knows_fact       share of facts whose object is the likeliest token, in prompts never seen
    follows_prompt   share of rows in which the object that a rule of the prompt gives is likelier
                     than the one of the fact that it contradicts; such rows are never trained on
    most_chain_2, most_chain_more    the largest over gammas, of each seed; the latter 0 where no
                                     gamma writes half of the chains at two steps

How it can mislead. A class query names the last object of a chain: at one step it is copied. A
model that knows neither rules nor facts has a follows_prompt of about one half.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np
import pandas as pd

from rb_interp import probes
from rb_interp.errors import TextError
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.activations import logits_of
from rb_interp.probes.chain import chain_inputs, written_chains
from rb_interp.runs import Run, readings_table
from rb_interp.runs.measurement import MemberModels
from rb_interp.settings import LARGE, SMALL
from rb_interp.statistics.decisive import decisive_table, same_sign
from rb_interp.statistics.reading import Reading
from rb_interp.studies.language.config import FACTS
from rb_interp.text.classes import CLASSES, fact_table, generate_classes, generate_facts
from rb_interp.text.prontoqa import Example, generate
from rb_interp.text.sentences import split_sentences
from rb_interp.text.settings import MOST_STEPS
from rb_interp.text.targets import KINDS, target_kinds
from rb_interp.text.task import TextData
from rb_interp.training.member_group import Member

N_SHOWN = 3
"""Held-out examples whose chains are written out."""
CHAINS = """gamma seed step example:int hops:int right:bool prompt:str written:str
expected:str"""
"""Columns of the table ``chains``."""
WRITES = 0.50
"""Share of whole chains at two steps that some gamma must have."""


def reasoning_of(
    models: MemberModels, member: Member, text: TextData
) -> Iterator[tuple[str, str, Reading]]:
    """Readings ``reasoning`` of a member, and the chains that it writes at every stored step."""
    start: dict[str, float] = {}
    for stage in (FACTS, "final"):
        models.load(member, stage)
        start = start or _reasoning(models.untrained, text)
        values = _reasoning(models.model, text)
        n = len(text.examples)
        yield stage, "", Reading("reasoning", values, untrained=start, n=n)
    examples = [example for example in text.examples if example.hops > 1][:N_SHOWN]
    for step in models.sweep.checkpoint_steps:
        models.load(member, step)
        written = written_chains(models.model, examples, text.tokenizer)
        rows = []
        for number, (example, chain) in enumerate(zip(examples, written, strict=True)):
            gold = example.text.removeprefix(example.prompt).strip()
            row = {"example": number, "hops": example.hops, "right": chain == gold}
            rows.append({**row, "prompt": example.prompt, "written": chain, "expected": gold})
        yield "kept", "", Reading("reasoning", {}, tables={"chains": pd.DataFrame(rows)})


def _reasoning(model: HookedModel, text: TextData) -> dict[str, float]:
    config = text.config
    values = _whole_chains(model, text.examples, text)
    values["chain_more"] = math.nan
    hops = max(config.hops) + 1
    # the number of steps would be a word that no text has
    if hops <= MOST_STEPS and config.query != "steps":
        longer = generate_classes(len(text.examples), text.seed, (hops,), config.ordering)
        if config.query == "property":
            longer = generate(len(text.examples), text.seed, (hops,), config.ordering)
        with suppress(TextError):  # none fits into the context
            values["chain_more"] = _whole_chains(model, longer, text)[f"chain_{hops}"]
    table = fact_table(config.facts, text.seed)
    n = len(text.examples)
    facts = generate_facts(n, text.seed + 1, table)
    logits, remembered = _at_objects(model, facts, text, "fact")
    values["knows_fact"] = float(np.mean(logits.argmax(1) == remembered))
    # the same names and classes in the same order
    conflicts = generate_facts(n, text.seed + 1, table, conflict=True)
    logits, tokens = _at_objects(model, conflicts, text, "object")
    rows = np.arange(n)
    values["follows_prompt"] = float(np.mean(logits[rows, tokens] > logits[rows, remembered]))
    return values


def _whole_chains(
    model: HookedModel, examples: Sequence[Example], text: TextData
) -> dict[str, float]:
    reading = probes.chain_accuracy(model, chain_inputs(examples, text.tokenizer), n_null=0)
    chains = reading.tables["skills"].query("accuracy_of == 'chain'")
    rows = chains.to_dict("records")
    return {f"chain_{row['hops']}": float(row["accuracy"]) for row in rows}


def _at_objects(
    model: HookedModel, examples: Sequence[Example], text: TextData, kind: str
) -> tuple[np.ndarray, np.ndarray]:
    """Logits ``[row, d_vocab]`` at the one target of a kind in each example, and that token."""
    inputs = chain_inputs(examples, text.tokenizer)
    kinds = target_kinds(examples, text.tokenizer)
    positions = np.array([list(row).index(KINDS.index(kind)) for row in kinds])
    rows = np.arange(len(examples))
    logits = logits_of(model, inputs.tokens[:, :-1]).numpy()
    return logits[rows, positions], inputs.tokens[rows, positions + 1]


def decisive_readings(run: Run, texts: Mapping[int, TextData]) -> pd.DataFrame:
    """Readings ``decisive`` of every sweep, and whether the sign is one at all numbers of facts."""
    baselines = {
        seed: (_rule_baseline(text), math.log(len(CLASSES))) for seed, text in texts.items()
    }
    tables = {}
    for name, sweep in run.sweeps.items():
        tables[name] = decisive_table(sweep.curves(), baselines).assign(sweep=name)
    rows = []
    n_facts = run.sweep().config.task.facts
    counts = {"", f"facts_{n_facts / 4:g}", f"facts_{4 * n_facts}"}
    if counts <= {*tables} and {SMALL, LARGE} <= {*run.sweep().config.gammas}:
        step = run.sweep().config.train.steps
        for seed, value in same_sign([tables[name] for name in counts]).items():
            reading = Reading(
                "decisive", {"same_sign": value}, untrained={"same_sign": 0.0}, n=len(counts)
            )
            labels = {"gamma": math.nan, "seed": seed, "stage": "final", "step": step}
            rows += reading.rows(**labels, set="")
    return readings_table(*tables.values(), rows)


def _rule_baseline(text: TextData) -> float:
    """Mean of ln(different rules of the prompt) over the rules to read in held-out chains, in nats."""
    n_targets = [example.hops - 1 for example in text.examples]
    logs = [math.log(len({*split_sentences(e.question)}) - 1) for e in text.examples]
    return float(np.average(logs, weights=n_targets))


def best_of_gammas(readings: pd.DataFrame) -> pd.DataFrame:
    """Rows ``most_chain_2`` and ``most_chain_more``, one a seed and of no gamma."""
    final = readings.query("probe == 'reasoning' and stage == 'final'")
    best = []
    for quantity in ("chain_2", "chain_more"):
        rows = final.loc[final["quantity"] == quantity].sort_values("value", ascending=False)
        rows = rows.drop_duplicates("seed").sort_values("seed")
        best.append(rows.assign(gamma=np.nan, quantity=f"most_{quantity}"))
    two_steps, longer = best
    writes = set(two_steps.loc[two_steps["value"] >= WRITES, "seed"])
    value = longer["value"].where(longer["seed"].isin(writes), 0.0)
    return pd.concat([two_steps, longer.assign(value=value)])
