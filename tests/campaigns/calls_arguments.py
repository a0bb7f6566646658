"""Valid arguments of every public callable, and wrong values to put in their place."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from campaigns.calls_on_runs import REFERENCE, RUNS, Valid

GAMMA, SETTINGS = 0.5, {"n_layers": 2, "n_heads": 1, "d_model": 16, "d_head": 8, "d_mlp": 16}
RUN = {
    "preset": "smoke",
    "seeds": [0, 1],
    "n_null": 5,
    "adamw": {"gammas": [0.3, 0.8], "train": {"steps": 20}},
    "descent": {"gammas": [0.8], "train": {"steps": 20, "lr": 1.0, "n_checkpoints": 1}},
    "one_layer": {"gammas": [0.8], "train": {"steps": 10}},
    "scaling": {"d_models": [80, 120], "gammas": [0.3, 0.8], "lemma_gammas": [0.3, 0.8], "n_init": 3},
}


def make_run(folder: Path) -> None:
    """One tiny run, trained and measured."""
    from rb_interp.runs.config import from_mapping
    from rb_interp.runs.run import Run
    from rb_interp.studies.emb_mlp import EMB_MLP

    run = Run.start(folder, EMB_MLP, from_mapping(EMB_MLP.load("config"), RUN))
    run.train(progress=False)
    run.probe(progress=False)


def made(run_folder: Path) -> SimpleNamespace:
    """What the calls are about: tasks, models, rows, text, tables, a run."""
    import rb_interp as rb
    from rb_interp import claims, interventions, probes, text
    from rb_interp.models.reference import reference
    from rb_interp.training import TrainConfig

    torch.set_num_threads(1)
    task = rb.AnchorTask.preset("smoke")
    data = task.dataset(0)
    rows = data.sample("rsn_train", 20)
    model, untrained = (rb.build_model(task, GAMMA, seed=seed, **SETTINGS) for seed in (0, 1))
    other = rb.build_model(rb.AnchorTask(d_vocab=100), 0.8, **{**SETTINGS, "n_heads": 2, "n_layers": 1, "d_model": 24})
    mlp = rb.build_model(task, GAMMA, config=rb.ModelConfig(architecture="emb_mlp", n_layers=1, d_model=16, d_mlp=16))
    inputs = data.inputs(rows)
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in (0, 1)]
    words = text.text_data(text.TextConfig.preset("smoke"), 0)
    task_of_text = text.TextTask.preset("smoke")
    speaker, mute = (rb.build_model(task_of_text, GAMMA, seed=seed, **SETTINGS) for seed in (0, 1))
    place = {"gamma": 0.8, "stage": "final", "set": "", "probe": "p", "layer": None, "quantity": "q"}
    readings = pd.DataFrame([{**place, "seed": seed, "value": 0.1 * seed, "untrained": 0.0} for seed in range(8)])
    term = claims.Term("p", "q", 0.8, "final", label="q")
    claim = claims.Claim("X", "It is high.", "here", (claims.Condition(term, ">=", 0.2),))
    check = claims.CausalCheck("X", "cut", "it is cut", "noise is cut", "nothing is lost", claim)
    effects = pd.DataFrame(
        [
            {"gamma": 0.8, "seed": seed, "stage": "final", "set": "", "intervention": "cut", "quantity": "loss",
             "effect": 0.1 * seed, "control": 0.0}
            for seed in range(8)
        ]
    )  # fmt: skip
    grouping = claims.Grouping("parity", {seed: "odd" if seed % 2 else "even" for seed in range(8)}, (claim,))
    files = Path(tempfile.mkdtemp(dir=run_folder.parent))
    (files / "stories.txt").write_text("One day a cat ran.\n<|endoftext|>\nOne day a dog sat.\n")
    words.tokenizer.save(files / "tokenizer")
    example = words.examples[0]
    keys = {"question": example.question, "query": example.query, "answer": example.answer}
    test = {"test_example": {**keys, "chain_of_thought": list(example.chain_of_thought)}}
    (files / "prontoqa.json").write_text(json.dumps({"example1": test}))
    effect = interventions.Effect(
        "cut", "attn_out.0", "accuracy_drop", np.ones(4), np.zeros((2, 4)), control_name="noise"
    )
    places = pd.MultiIndex.from_product([(0.3, 0.8), range(3), (0, 9), ["mem"]], names=["gamma", "seed", "step", "set"])
    curves = pd.DataFrame({"loss": 2.0, "accuracy": 0.5}, places).reset_index()
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((16, 2)))[0]
    return SimpleNamespace(
        axes=Figure().subplots(), curves=curves, scanned=rb.scan(probes.uniformity, model, inputs, n_null=0),
        rb=rb, task=task, data=data, rows=rows, model=model, untrained=untrained, other=other, mlp=mlp, inputs=inputs,
        few=data.inputs(data.sample("rsn_train", 7)), key=task.counterfactual(data, rows, "key"),
        anchors=task.counterfactual(data, rows, "anchors"), noise=task.counterfactual(data, rows, "noise"),
        cache=probes.captured(model, inputs.tokens, names), hook_names=names, text=words, text_task=task_of_text,
        speaker=speaker, mute=mute, chain=probes.chain_inputs(words.examples[:4], words.tokenizer),
        readings=readings, term=term, claim=claim, check=check, effects=effects, grouping=grouping, files=files,
        verdicts=claims.judge(readings, [claim]), reading=probes.uniformity(model, inputs, n_null=5), basis=basis,
        run=rb.Run.open(run_folder), reference=reference("averager"), effect=effect,
        config=rb.ModelConfig(**SETTINGS), rng=np.random.default_rng(0),
        train=TrainConfig(steps=2, batch_size=8, eval_every=1, eval_rows=5, n_checkpoints=1),
    )  # fmt: skip


def _probe(**more: Any) -> Valid:
    return lambda p: {"model": p.model, "inputs": p.inputs, "untrained": p.untrained, "n_null": 5, "seed": 0, **more}


def _of_text(p: SimpleNamespace, **more: Any) -> dict[str, Any]:
    counts = p.text.counts
    return {"model": p.speaker, "untrained": p.mute, "n_null": 5, "seed": 0, "counts": counts, **more}


def _weights(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def _named(names: str, *shapes: tuple[int, ...], **more: Any) -> Valid:
    return lambda p: {**dict(zip(names.split(), _weights(*shapes), strict=True)), **more}


def _text_rows(p: SimpleNamespace) -> Any:
    from rb_interp import Inputs

    return Inputs(p.text.train.tokens[:40, :-1])


PROBES: dict[str, Valid] = {
    "attention": _probe(layer=0, head=0, query=("key", "anchor", "noise"), to="key"),
    "attention_by_role": _probe(layer=1, head=0),
    "attention_to_key": _probe(layer=0, head=0),
    "condensation": _probe(layer=0, matrices=("W_Q",)),
    "cosines_by_target": lambda p: {
        **_probe()(p), "hook": "blocks.0.hook_mlp_out", "role": "key", "targets": np.arange(20) % 4,
        "pairs": np.array([[0, 1], [2, 3]]), "within": np.arange(20) % 2,
    },
    "lattice": _probe(tokens="key", steps=(3, 4)),
    "uniformity": _probe(layer=0, head=0),
    "variance_explained": _probe(layer=1, head=0),
    "geometry": lambda p: {
        **_probe(layer=0, head=0)(p), "groups": {"a": np.arange(11, 15), "key": np.arange(21, 31)}, "alike": ("a",),
        "ordered": ("a", "key"), "line": "a",
    },
    "value_alignment": lambda p: {
        **_probe(layer=0, head=0, k=2)(p), "groups": None, "contrast": ("reasoning_anchor", "memory_anchor")
    },
    "weight_rank": _probe(layer=0),
    "weight_spectra": _probe(layer=0),
    "label_range": lambda p: {**_probe()(p), "groups": np.arange(20) % 2, "ranges": ((21, 40), (41, 60))},
    "chain_accuracy": lambda p: {
        "model": p.speaker, "inputs": p.chain, "untrained": p.mute, "n_null": 5, "seed": 0
    },
    "chain_inputs": lambda p: {"examples": p.text.examples[:4], "tokenizer": p.text.tokenizer},
    "embedding_rank": _of_text,
    "next_token": lambda p: {**_of_text(p), "inputs": _text_rows(p), "lengths": np.full(40, 100)},
    "token_similarity": lambda p: {**_of_text(p), "n_draws": 10},
    "token_table": lambda p: {"counts": p.text.counts, "texts": ["x"] * p.text.counts.shape[1]},
    "typical_tokens": lambda p: {"counts": p.text.counts, "min_count": 20, "min_ratio": 10.0},
    "capture": lambda p: {
        "model": p.model, "tokens": p.inputs.tokens, "names": p.hook_names, "batch": 8, "keep": lambda x: x[:, 0]
    },
    "from_arrays": lambda p: {"arrays": {"pattern": np.ones((2, 3, 1, 4, 4)) / 4}, "attn_only": False},
    "captured": lambda p: {"model": p.model, "tokens": p.inputs.tokens, "names": p.hook_names, "batch": 8},
    "scan": lambda p: {
        "probe": p.rb.probes.uniformity, "model": p.model, "inputs": p.inputs, "layers": (0, 1), "heads": (0,),
        "n_null": 3,
    },
    "Null": lambda p: {"name": "nothing", "draws": np.arange(5.0), "side": "greater"},
    "Null.p_value": lambda p: {"value": 2.5},
    "Reading": lambda p: {
        "probe": "mine", "values": {"x": 1.0}, "layer": 0, "head": 0, "untrained": {"x": 0.0}, "n": 3,
        "nulls": {"x": p.rb.probes.Null("nothing", np.arange(5.0))}, "arrays": {"a": np.zeros(2)}, "tables": {},
    },
    "Reading.rows": lambda p: {},
    "Reading.to_frame": lambda p: {},
}  # fmt: skip
INTERVENTIONS: dict[str, Valid] = {
    "attribution_matrix": lambda p: {
        "model": p.model, "clean": p.inputs, "corrupted": p.key, "components": ["z", "mlp_post"], "layers": [0, 1],
        "roles": ["key", "last"], "head": None, "metric": "logit_diff", "answer_at": -1, "direction": "noise",
        "control": p.noise, "steps": 2, "compare": False,
    },
    "ablation": lambda p: {
        "model": p.model, "inputs": p.inputs, "sites": ["attn_out.0@key", "z.1.0"], "method": "resample",
        "control": p.noise, "metric": "loss", "answer_at": -1, "seed": 0,
    },
    "blocked_attention": lambda p: {
        "model": p.model, "inputs": p.inputs, "layer": 1, "query": "last", "key": "key", "head": 0,
        "metric": "accuracy", "answer_at": -1, "n_draws": 2, "seed": 0,
    },
    "circuit_by_cause": lambda p: {"shares": {"key:from_key": 0.9, "anchors:L0_at_last": 0.9}, "accuracy": 0.99},
    "forced_average": lambda p: {
        "model": p.model, "inputs": p.inputs, "entropies": np.linspace(0, 1, 6), "layer": 0, "head": 0, "n_draws": 2,
        "metric": "loss", "answer_at": -1, "seed": 0,
    },
    "interchange": lambda p: {
        "model": p.model, "base": p.inputs, "source": p.key, "sites": ["attn_out.1@last", "resid_pre.0@anchor"],
        "predicted": p.key.labels, "control": p.noise, "hold": "attn_out.0", "metric": "logit_diff", "answer_at": -1,
    },
    "patching_matrix": lambda p: {
        "model": p.model, "clean": p.inputs, "corrupted": p.key, "components": ["z", "pattern"], "layers": [0, 1],
        "roles": ["key", "last"], "head": 0, "metric": "probability", "answer_at": -1, "direction": "denoise",
        "control": p.noise,
    },
    "patching_effect": lambda p: {
        "model": p.model, "clean": p.inputs, "corrupted": p.key, "sites": ["embed@key", "attn_out.0"], "metric": "kl",
        "answer_at": -1, "direction": "noise", "control": p.noise,
    },
    "path_matrix": lambda p: {
        "model": p.model, "base": p.inputs, "source": p.key, "senders": ["embed@key", "attn_out.0@anchor"],
        "receivers": ["attn_out.1@last"], "metric": "logit_diff", "answer_at": -1, "mlps": "recomputed",
        "control": p.noise,
    },
    "path_patch": lambda p: {
        "model": p.model, "base": p.inputs, "source": p.key, "sender": "attn_out.0@anchor",
        "receiver": "attn_out.1@last", "metric": "rank", "answer_at": -1, "mlps": "frozen", "control": p.noise,
    },
    "routes": lambda p: {"model": p.model, "inputs": p.inputs, "changed": {"key": p.key, "anchors": p.anchors}},
    "subspace_effect": lambda p: {
        "model": p.model, "inputs": p.inputs, "basis": p.basis, "keep": True, "layer": 0, "head": 0, "n_draws": 2,
        "metric": "accuracy", "answer_at": -1, "match": None, "seed": 0,
    },
    "Effect": lambda p: {
        "intervention": "cut", "site": "attn_out.0", "quantity": "accuracy_drop", "values": np.ones(4),
        "control": np.zeros((2, 4)), "control_name": "noise redrawn",
    },
    "Effect.summary": lambda p: {},
    "Effect.to_frame": lambda p: {},
    "Site": lambda p: {"component": "z", "layer": 0, "role": "key", "head": 0},
    "Site.parse": lambda p: {"text": "z.0.0@key"},
    "Site.at": lambda p: {"role": "anchor"},
    "Site.check": lambda p: {"model": p.model},
}  # fmt: skip
PLOTS: dict[str, Valid] = {
    "heads": lambda p: {"table": p.scanned, "quantity": "tv", "ax": p.axes},
    "learning_curves": lambda p: {"curves": p.curves, "quantity": "loss", "ax": p.axes},
}
STATISTICS: dict[str, Valid] = {
    "Interval": lambda p: {"estimate": 0.0, "low": -1.0, "high": 1.0},
    "dirichlet_rows": lambda p: {"n_draws": 3, "length": 4, "rng": p.rng},
    "gaussian_product_singular_values": lambda p: {"n_draws": 3, "outer": 5, "inner": 4, "rng": p.rng, "top": 2},
    "gaussian_singular_values": lambda p: {"n_draws": 3, "rows": 5, "columns": 4, "rng": p.rng, "top": 2},
    "paired_differences": lambda p: {"first": {0: 1.0, 1: 2.0}, "second": {1: 1.0}},
    "permutations": lambda p: {"n_draws": 3, "n": 4, "rng": p.rng},
    "proportion_interval": lambda p: {"successes": 3, "n": 4, "confidence": 0.9},
    "random_directions": lambda p: {"n_draws": 3, "dim": 4, "rng": p.rng},
    "random_subspaces": lambda p: {"n_draws": 3, "dim": 4, "k": 2, "rng": p.rng},
    "t_interval": lambda p: {"values": [1.0, 2.0, 4.0], "confidence": 0.9},
}
CLAIMS: dict[str, Valid] = {
    "Calibration": lambda p: {"family": "tiny", "standings": {}, "rates": (), "trained": ()},
    "CausalCheck": lambda p: dict(vars(p.check)),
    "Claim": lambda p: dict(vars(p.claim)),
    "Condition": lambda p: {"of": p.term, "operator": ">=", "threshold": 0.1, "minus": p.term},
    "Condition.met": lambda p: {"value": 0.2},
    "Grouping": lambda p: dict(vars(p.grouping)),
    "Standing": lambda p: {"calibrated": True, "reason": ""},
    "Term": lambda p: dict(vars(p.term)),
    "Verdicts": lambda p: {"verdicts": list(p.verdicts)},
    "Verdicts.__getitem__": lambda p: {"key": "X"},
    "Verdicts.from_json": lambda p: {"data": p.verdicts.to_json()},
    "Verdicts.to_frame": lambda p: {},
    "expected_by_chance": lambda p: {"verdicts": p.verdicts},
    "judge": lambda p: {
        "readings": p.readings, "claims": [p.claim], "scale": "quick", "standings": {}, "diverged": (("", 0.8, 1),)
    },
    "judge_checks": lambda p: {
        "readings": p.readings, "effects": p.effects, "checks": [p.check], "scale": "quick",
        "sibling_stages": {"half_of_small": ("half", 0.8)}, "diverged": (("", 0.8, 1),),
    },
    "judge_within": lambda p: {
        "readings": p.readings, "grouping": p.grouping, "scale": "quick", "standings": {}, "diverged": (("", 0.8, 1),)
    },
}  # fmt: skip
D, H, M = 6, 3, 4
THEORY: dict[str, Valid] = {
    "agreement": _named("predicted measured", (2, 5, D), (2, 5, D), centred=True),
    "permuted_r2": _named("predicted measured", (5, D), (5, D), kinds=np.array([0, 0, 1, 1, 1]), draws=3, seed=0),
    "emb_mlp_map": _named("W_in W_out", (D, M), (M, 7)),
    "one_layer_maps": _named("W_V W_O W_in W_out", (D, H), (H, D), (D, M), (M, D)),
    "one_layer_drift": _named("pull attention direct pull_last", (D, D), (D, D), (D, D), (D, D), length=3),
    "value_flow": _named("W_E pull W_O W_in W_out", (D, D), (D, D), (H, D), (D, M), (M, D), length=3),
    "value_direction": _named("W_E rates", (7, D), (7,)),
    "leading_direction": _named("change", (D, H)),
    "pull": lambda p: {
        "tokens": torch.from_numpy(p.inputs.tokens), "labels": torch.from_numpy(p.inputs.labels), "d_vocab": 200,
        "count": "sequences", "last": True, "dtype": torch.float64,
    },
    "empirical": lambda p: {"data": p.data, "tokens": np.array([11, 12]), "count": "sequences", "rows": "rsn_train"},
    "excess": lambda p: {"P": np.full((3, 4), 0.25)},
    "exponent": lambda p: {"d_models": (10, 100, 1000), "errors": np.array([4.0, 2.0, 1.0])},
    "gaussian_profile": lambda p: {
        "task": p.task, "values": np.array([11, 12]), "d_model": 30, "C_1": 1.0, "centre": "label", "gamma": 0.5,
        "rng": p.rng,
    },
    "inner_product_error": lambda p: {
        "task": replace(p.task, n_sequences=400), "gamma": 0.8, "d_model": 100, "seed": 0, "d_head": 4, "d_mlp": 6,
        "C_1": 1.0, "centre": "label",
    },
    "population": lambda p: {"task": p.task, "group": "key", "masked": True},
    "population_pull": lambda p: {"task": p.task, "masked": True},
    "rates": lambda p: {"task": p.task, "group": "key", "masked": True},
    "reasoning_moments": lambda p: {"task": p.task},
    "theorem_1_embeddings": lambda p: {"values": np.arange(3), "n_coordinates": 20, "kind": "key"},
    "InnerProducts": lambda p: {"error": 0.1, "size": 1.0},
}  # fmt: skip
TASKS: dict[str, Valid] = {
    "AnchorTask.preset": lambda p: {"name": "smoke"},
    "AnchorTask.dataset": lambda p: {"seed": 0},
    "AnchorTask.answers": lambda p: {"data": p.data, "rows": p.rows, "tokens": p.inputs.tokens},
    "AnchorTask.counterfactual": lambda p: {"data": p.data, "rows": p.rows, "change": "key", "seed": 0},
    "AnchorTask.tokens": lambda p: {"group": "key"},
    "AnchorTask.combinations": lambda p: {"set": "mem"},
    "AnchorTask.rows_per_combination": lambda p: {"set": "mem"},
    "AnchorDataset.rows": lambda p: {"set": "mem"},
    "AnchorDataset.sample": lambda p: {"set": "mem", "n": 5},
    "AnchorDataset.roles": lambda p: {"rows": p.rows},
    "AnchorDataset.inputs": lambda p: {"rows": p.rows},
    "Inputs": lambda p: {"tokens": p.inputs.tokens, "labels": p.inputs.labels, "roles": p.inputs.roles},
    "Inputs.take": lambda p: {"rows": np.arange(3)},
    "Roles": lambda p: {
        "positions": p.inputs.roles.positions, "tokens": p.inputs.roles.tokens, "set": p.inputs.roles.set, "task": "it"
    },
    "Roles.position": lambda p: {"role": "key", "probe": "mine"},
    "Roles.group": lambda p: {"name": "key", "probe": "mine"},
    "Roles.take": lambda p: {"rows": np.arange(3)},
    "Stage": lambda p: {"reached": lambda now, start: now[:, 0, 1] > 0.5, "keep": "first", "with_siblings": False},
    "fingerprint": lambda p: {"task": p.task},
}  # fmt: skip
MODELS: dict[str, Valid] = {
    "build_model": lambda p: {
        "task": p.task, "gamma": 0.5, "norm": "none", "scheme": "fan_in", "seed": 0, "config": p.config,
        "dtype": torch.float32,
    },
    "initialisation_table": lambda p: {"model": p.model, "gamma": 0.5, "per": {"qk": 0.8}, "scheme": "fan_in"},
    "scale_init": lambda p: {"model": p.model, "gamma": 0.5, "per": {"qk": 0.8}, "scheme": "fan_in", "seed": 0},
    "ModelConfig.preset": lambda p: {"name": "smoke"},
}  # fmt: skip
TEXT: dict[str, Valid] = {
    "Example": lambda p: dict(vars(p.text.examples[0])),
    "Rows": lambda p: dict(vars(p.text.train)),
    "Rows.batch": lambda p: {"rows": np.arange(3)},
    "Rows.of": lambda p: {"corpus": "stories"},
    "Rows.select": lambda p: {"rows": np.arange(3)},
    "Rows.counts": lambda p: {"d_vocab": 512},
    "TextConfig.preset": lambda p: {"name": "smoke"},
    "TextData.rows": lambda p: {"name": "stories_test"},
    "TextTask.preset": lambda p: {"name": "smoke"},
    "TextTask.text": lambda p: {"seed": 0},
    "TextTask.dataset": lambda p: {"seed": 0},
    "TextTask.prepare": lambda p: {"seeds": (0,)},
    "TextTask.provenance": lambda p: {"seed": 0},
    "Tokenizer.encode": lambda p: {"text": "One day"},
    "Tokenizer.encode_batch": lambda p: {"texts": ["One day", "a cat"]},
    "Tokenizer.decode": lambda p: {"ids": [40, 41]},
    "Tokenizer.token_text": lambda p: {"token": 40},
    "Tokenizer.save": lambda p: {"folder": p.files / "tokenizer"},
    "generate": lambda p: {
        "n": 2, "seed": 0, "hops": (1, 2), "ontology": "fictional", "ordering": "random", "distractors": True
    },
    "generate_stories": lambda p: {"n": 2, "seed": 0},
    "load_tokenizer": lambda p: {"place": str(p.files / "tokenizer"), "d_vocab": p.text.tokenizer.d_vocab},
    "parse_sentence": lambda p: {"sentence": "Max is a rompus."},
    "read_prontoqa": lambda p: {"path": p.files / "prontoqa.json"},
    "read_stories": lambda p: {"path": p.files / "stories.txt"},
    "step_kinds": lambda p: {"example": p.text.examples[0]},
    "text_data": lambda p: {"config": p.text.config, "seed": 0},
    "text_provenance": lambda p: {"config": p.text.config},
    "tokenizer_of": lambda p: {"config": p.text.config},
    "train_tokenizer": lambda p: {"texts": ["One day a cat ran."] * 5, "d_vocab": 270},
    "verify": lambda p: {"example": p.text.examples[0], "distractors": True},
}  # fmt: skip
TOP: dict[str, Valid] = {
    "from_pretrained": lambda p: {"path": "zoo", "member": "mixed", "revision": None, "task": None},
    "zoo": lambda p: {},
    "study": lambda p: {"name": "anchor"},
    "threads": lambda p: {"n": 1},
    "train_model": lambda p: {"model": p.model, "task": p.task, "train": p.train, "seed": 0, "progress": False},
    "train_members": lambda p: {
        "task": p.task, "model": p.config, "train": p.train, "gammas": [0.5, 0.8], "seeds": [0, 1],
        "rates": {0.8: 1e-3}, "data_seed": 0, "store": None, "progress": False,
    },
    "TrainConfig.preset": lambda p: {"name": "smoke"},
    "Study.load": lambda p: {"name": "claims"},
    "Study.preset": lambda p: {"preset": "smoke"},
}  # fmt: skip
GROUPS: dict[str, dict[str, Valid]] = {
    "rb_interp": TOP, "rb_interp.probes": PROBES, "rb_interp.interventions": INTERVENTIONS,
    "rb_interp.statistics": STATISTICS, "rb_interp.claims": CLAIMS, "rb_interp.theory": THEORY,
    "rb_interp.tasks": TASKS, "rb_interp.models": MODELS, "rb_interp.text": TEXT,
    "rb_interp.runs": RUNS, "rb_interp.models.reference": REFERENCE,
    "rb_interp.plots": PLOTS,
}  # fmt: skip
"""Module -> its callables, ``Class.method`` for methods, each with its valid arguments."""
