"""Chains that are written, facts that are known and conflicts, of models whose rule is known."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from rb_interp.probes import chain
from rb_interp.probes.chain import written_chains
from rb_interp.statistics.reading import Reading
from rb_interp.studies.language import reasoning
from rb_interp.studies.language.config import CLAIMS, LanguageConfig
from rb_interp.text.classes import fact_table, generate_classes, generate_facts
from rb_interp.text.sentences import parse_clause, split_sentences
from rb_interp.text.task import TextTask

TASK = TextTask(
    **{"query": "class", "hops": (1, 2), "stories": "facts", "facts": 20, "tokenizer": "phrases"},
    **{"layout": "padded", "sequences": 40, "held_out": 20, "answers": 30, "n_ctx": 116},
)
MODEL = SimpleNamespace(cfg=SimpleNamespace(n_ctx=116))


class Reasoner:
    """Writes the right chain behind any prompt; a conflict is answered from prompt or memory."""

    def __init__(self, text, reads):
        self.text, self.reads = text, reads
        self.table = fact_table(20, text.seed)

    def document(self, prompt):
        sentences = split_sentences(prompt.removeprefix("Q: ").split("\n")[0])
        goal = sentences[-1].removeprefix("Prove: ")
        premise = parse_clause(sentences[-2])
        step = {}
        for sentence in sentences[:-2]:
            clause = parse_clause(sentence)
            step[clause.subject] = sentence, clause.predicate
        chain = [sentences[-2]]
        known, name = premise.predicate, premise.subject
        while chain[-1] != goal:
            fact = self.table.get((name, known))
            if fact and not (self.reads and known in step):
                sentence, noun = fact.sentence, fact.predicate
            else:
                sentence, noun = step[known]
            chain += [sentence, f"{name} is a {noun}."]
            known = noun
            if fact:
                break
        return f"{prompt} {' '.join(chain)}"

    def __call__(self, model, tokens, select=None):
        tokens = torch.as_tensor(tokens)
        tokenizer = self.text.tokenizer
        logits = torch.zeros(*tokens.shape, tokenizer.d_vocab)
        for row, ids in zip(logits, tokens.tolist(), strict=True):
            text = tokenizer.decode(ids).removeprefix("<|endoftext|>")
            prompt = f"{text.split('A:')[0]}A:"
            gold = [*tokenizer.encode(self.document(prompt)), tokenizer.end]
            places = torch.arange(min(len(gold), len(ids)))
            row[places, torch.tensor(gold)[: len(places)]] = 1.0
        return logits


@pytest.mark.parametrize(("reads", "follows"), [(True, 1.0), (False, 0.0)])
def test_what_a_model_that_reasons_reads(monkeypatch, reads, follows):
    text = TASK.text(200)
    reasoner = Reasoner(text, reads)
    monkeypatch.setattr(chain, "logits_of", reasoner)
    monkeypatch.setattr(reasoning, "logits_of", reasoner)
    examples = generate_classes(6, 1, (1, 2, 3))
    written = written_chains(MODEL, examples, text.tokenizer)
    assert written == [" ".join(example.chain_of_thought) for example in examples]
    short = SimpleNamespace(cfg=SimpleNamespace(n_ctx=80))
    cut = written_chains(short, examples, text.tokenizer)
    for example, full, part in zip(examples, written, cut, strict=True):
        assert full.startswith(part)
        n = 1 + len(text.tokenizer.encode(f"{example.prompt} {part}"))
        assert n == 81 or part == full
    facts = generate_facts(40, 9, reasoner.table)
    logits, tokens = reasoning._at_objects(MODEL, facts, text, "fact")
    assert (logits.argmax(1) == tokens).all()
    monkeypatch.setattr(reasoning, "_whole_chains", lambda *args: {"chain_2": 1.0, "chain_3": 0.5})
    values = reasoning._reasoning(MODEL, text)
    assert (values["knows_fact"], values["follows_prompt"]) == (1.0, follows)
    assert values["chain_more"] == 0.5
    # six rules, each stated twice
    np.testing.assert_allclose(reasoning._rule_baseline(text), np.log(6))


def test_the_best_gamma_of_each_seed_counts_and_longer_chains_only_where_chains_are_written():
    rows = []
    for gamma, seed, two, more in ((0.3, 0, 0.2, 0.1), (0.8, 0, 0.7, 0.3), (0.8, 1, 0.4, 0.3)):
        reading = Reading("reasoning", {"chain_2": two, "chain_more": more}, n=10)
        rows += reading.rows(gamma=gamma, seed=seed, stage="final", step=9, set="")
    best = reasoning.best_of_gammas(pd.DataFrame(rows))
    assert best["gamma"].isna().all()
    table = best.pivot_table("value", "seed", "quantity")
    assert table["most_chain_2"].tolist() == [0.7, 0.4]
    np.testing.assert_array_equal(table["most_chain_more"], [0.3, 0.0])


def test_claims_about_stories_are_worded_of_facts_where_there_are_facts():
    for preset, about in (("quick", "the facts"), ("stories", "TinyStories")):
        config = LanguageConfig.from_preset(preset)
        [g1] = [config.adapt_claim(claim) for claim in CLAIMS if claim.id == "G1"]
        assert g1.statement.endswith(f"the loss on PrOntoQA is below that on {about}.")
