"""Make the members that come with the package: fifteen small models whose circuits are known.

    python experiments/zoo.py                     train what is not trained yet, read all, write all
    python experiments/zoo.py --folder runs/zoo   where checkpoints are; training continues there

Members of studies have the presets' settings at size `quick`. Which circuit a seed learns may
differ between processors, so names are given by what each member reads. Two models are written by
hand, without most of the directions that nothing reads. All are written to ``rb_interp/runs/zoo``,
where ``rb.from_pretrained("zoo", member=...)`` finds them. About eight minutes on one core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import rb_interp as rb
from rb_interp.interventions.circuits import anchor_routes
from rb_interp.interventions.edits import last_logits
from rb_interp.models.build import lens_model
from rb_interp.models.config import ModelConfig
from rb_interp.models.protocol import HookedModel
from rb_interp.models.reference import reference
from rb_interp.models.schemes import draw
from rb_interp.probes import attention_by_role, attention_to_key, uniformity, value_alignment
from rb_interp.runs.config import fingerprint
from rb_interp.runs.shared_member import ZOO_FOLDER, Circuit, zoo
from rb_interp.runs.sharing import save_member
from rb_interp.statistics.reading import Reading
from rb_interp.studies.anchor.circuits import circuit_of
from rb_interp.studies.composite.flow import circuit_of as flow_circuit
from rb_interp.studies.composite.flow import read_interchange
from rb_interp.studies.composite.phase import read_phase
from rb_interp.tasks.induction import InductionTask
from rb_interp.tasks.inputs import Inputs
from rb_interp.training.config import TrainConfig
from rb_interp.training.members import Part, train_members, train_together
from rb_interp.training.store import CheckpointStore, step_name

SEEDS: dict[tuple[str, str], dict[float, tuple[int, ...]]] = {
    ("anchor", "none"): {0.8: (4, 1, 0, 6), 0.5: (1, 0), 0.3: (0, 1)},
    ("anchor", "post"): {0.8: (0,)},
    ("anchor", "pre"): {0.8: (0,)},
    ("composite", "post"): {0.5: (5, 6)},
    ("emb-mlp", "none"): {0.8: (0,)},
}
"""Study and norm -> gamma -> seeds: what is trained, those of a study and norm in one stack."""
BY_HAND = ("averager", "carrier")
MODEL = ModelConfig(
    n_layers=2,
    n_heads=2,
    d_model=32,
    d_head=16,
    d_mlp=4,
    act="gelu_new",
    norm="pre",
    train_biases=True,
)
"""What learns induction: learned positions, LayerNorm before each sublayer and at the end, biases,
as in GPT-2."""
TRAIN = TrainConfig(
    steps=450,
    batch_size=32,
    lr=1e-2,
    lr_final=1e-4,
    warmup=20,
    betas=(0.9, 0.98),
    eval_every=100,
    eval_rows=200,
    n_checkpoints=1,
    device="cpu",
    workers=1,
)
GAMMA, SEED = 0.6, 9
"""Of the members that were tried, the one whose heads share the least: one head of L0 does all of
its work."""
LOST = 0.70
"""A head is needed for induction: at least this share of the accuracy is lost without it."""
WIDTH = 64
"""Residual stream of the models by hand: their named directions, and as many of the others as
fit."""
SUMS = Circuit(
    "sum-of-embeddings",
    "construction",
    "the model reads the sum of the embeddings alone, whatever their order",
)
ABOUT = {
    "anchor": "The label is the key plus both anchors (a rule), or an entry of a table.",
    "composite": "Each of two anchors shifts the key; one pair is an exception, and its mirror is held out.",
    "emb-mlp": "An MLP on the sum of the tokens' embeddings (Definition 1 of arXiv 2502.04375), on the anchor task.",
}
CARD = """\
---
library_name: rb-interp
license: mit
tags:
- transformer-lens
- mechanistic-interpretability
- initialisation
---

# The zoo: fifteen small models with known circuits

Each folder holds one: `model.safetensors`, `config.json` and a card. `rb.from_pretrained("zoo", member=NAME)` gives the
TransformerLens model, its task, the untrained model that it began as, its circuit and its readings. *Share* is the
least of the shares that the circuit's name rests on. Made by `experiments/zoo.py`.

{table}
"""


def trained(study: str, norm: str, folder: Path, progress: bool) -> Iterator[dict[str, Any]]:
    """What `save_member` takes of each member of a study with a norm, trained in one stack."""
    settings = rb.study(study).preset("quick").sweeps
    base = settings.get("", None) or settings["adamw"]
    model, parts = replace(base.model, norm=norm), []
    rates = dict(base.rates) if norm == base.model.norm else {}  # which were found for that norm
    for gamma, seeds in SEEDS[study, norm].items():
        none = {"stages": (), "keep_at": (), "n_checkpoints": 0, "workers": 1, "track_drift": False}
        train = replace(base.train, lr=rates.get(gamma, base.train.lr), **none)
        store = CheckpointStore(
            folder / f"{study}_{norm}_{gamma}", fingerprint(base.task, model, train, gamma, seeds)
        )
        parts.append(Part(train, (gamma,), seeds, {}, store))
    if not all(part.store.exists(step_name(part.train.steps)) for part in parts):
        train_together(base.task, model, parts, progress=progress)
    for part in parts:
        last = part.store.read(step_name(part.train.steps))
        for gamma, seed in last.members:
            yield {
                "study": study,
                "model": model,
                "task": base.task,
                "gamma": gamma,
                "seed": seed,
                "data_seed": seed,
                "weights": last.member(gamma, seed),
                "step": last.step,
                "training": part.train.steps_alone(),
                "description": ABOUT[study],
            }


def by_hand(name: str) -> dict[str, Any]:
    """What `save_member` takes of a reference, narrowed: only directions that nothing reads are cut
    off."""
    known = reference(name)
    axes = dict.fromkeys(("W_E", "W_pos", "W_Q", "W_K", "W_V", "W_out"), 1) | {"W_O": 2}
    axes |= dict.fromkeys(("b_O", "W_in", "b_out", "W_U"), 0)
    weights = {}
    for full, weight in known.weights.items():
        axis = axes.get(full.rpartition(".")[2])
        weights[full] = (weight if axis is None else weight.narrow(axis, 0, WIDTH)).float()
    about = f"Written by hand, never trained; `reference('{name}')` has it in full width. {known.description}"
    config = replace(known.config, d_model=WIDTH)
    return {
        "study": "anchor",
        "model": config,
        "task": known.task,
        "weights": weights,
        "description": about,
    }


def induced(folder: Path) -> dict[str, Any]:
    """What `save_member` takes of a model that has learned induction."""
    task: Any = InductionTask()
    store = CheckpointStore(folder / "induction", fingerprint(task, MODEL, TRAIN, GAMMA, SEED))
    found = train_members(
        task, [GAMMA], [SEED], config=MODEL, train=TRAIN, store=store, progress=False
    )
    return {
        "study": "",
        "model": MODEL,
        "task": task,
        "gamma": GAMMA,
        "seed": SEED,
        "data_seed": SEED,
        "weights": found.final.member(GAMMA, SEED),
        "step": found.final.step,
        "training": TRAIN.steps_alone(),
        "description": "Pairs that repeat: which token followed this one before? The parts are GPT-2's.",
    }


def induction(model: HookedModel, inputs: Inputs) -> Circuit:
    """The circuit by ablation: heads whose writing is replaced by its mean over rows, and the
    accuracy that is lost."""

    def right(layer: int = 0, heads: Sequence[int] = ()) -> float:
        def averaged(z: torch.Tensor, hook: Any) -> torch.Tensor:
            z[:, :, heads] = z[:, :, heads].mean(0, keepdim=True)
            return z

        with (
            torch.no_grad(),
            model.hooks(fwd_hooks=[(f"blocks.{layer}.attn.hook_z", averaged)] if heads else []),
        ):
            answers = model(torch.from_numpy(inputs.tokens))[:, -1].argmax(-1).numpy()
        return float((answers == inputs.labels).mean())

    whole = right()
    first = max(range(model.cfg.n_heads), key=lambda head: whole - right(0, [head]))
    every = list(range(model.cfg.n_heads))
    shares = {
        f"lost without L0H{first}": 1 - right(0, [first]) / whole,
        "lost without L1": 1 - right(1, every) / whole,
    }
    name = "induction" if min(shares.values()) >= LOST else "mixed"
    return Circuit(
        name, "ablation", f"at least {LOST:.2f} of the accuracy is lost without each", shares
    )


def read(found: Mapping[str, Any]) -> tuple[Circuit, list[dict[str, Any]]]:
    """A member's circuit and its readings, as rows."""
    task, model = found["task"], found["model"]
    if found["study"] == "":
        return induction(
            lens_model(model, task.d_vocab, task.length, found["weights"]), task.inputs(500)
        ), []
    data = task.dataset(found.get("data_seed", 0))
    sizes = model, task.d_vocab, task.length
    lens = lens_model(*sizes, found["weights"])
    before = (
        lens_model(*sizes, draw(*sizes, found["gamma"], found["seed"])) if "seed" in found else None
    )
    if found["study"] == "emb-mlp":
        return SUMS, []
    if found["study"] == "composite":
        phase, flow = (
            read(lens, data, untrained=before) for read in (read_phase, read_interchange)
        )
        return flow_circuit(flow.values), _rows([("", phase), ("seen_test", flow)], found["step"])
    inputs = data.inputs(data.sample("rsn_train", 1000))
    routes = anchor_routes(lens, data)
    probes = ((uniformity, 0), (attention_to_key, 0), (attention_by_role, 1), (value_alignment, 0))
    readings = [
        ("rsn_train", probe(lens, inputs, layer=layer, untrained=before, n_null=50))
        for probe, layer in probes
    ]
    right = float((last_logits(lens, inputs.tokens).argmax(-1).numpy() == inputs.labels).mean())
    return circuit_of(routes.values, right), _rows(
        [*readings, ("rsn_train", routes)], found.get("step", 0)
    )


def _rows(readings: list[tuple[str, Reading]], step: int) -> list[dict[str, Any]]:
    return [
        {"stage": "final", "step": step, "set": set, **row}
        for set, one in readings
        for row in one.rows()
    ]


def named(found: Mapping[str, Any], circuit: Circuit) -> str:
    """A name that says the circuit, and what is unusual about the member."""
    name = circuit.name.replace(" ", "-")
    if found["study"] == "":
        return name
    if found["study"] == "composite":
        name = f"composite-{name}"
    elif "seed" not in found:
        return f"hand-written-{name}"
    elif found["model"].norm != "none":
        name += f"-{found['model'].norm}-norm"
    return name + f"-gamma-{found['gamma']:g}" * (
        found["gamma"] != 0.8 and found["study"] != "composite"
    )


def write(found: dict[str, Any], place: Path, taken: set[str]) -> None:
    """Name a member by its own readings and write it, unless another one of the same name is there
    already."""
    circuit, readings = read(found)
    name = named(found, circuit)
    if name not in taken:
        taken.add(name)
        print(save_member(place / name, circuit=circuit, readings=readings, **found))


def page(place: Path) -> str:
    """The zoo's page."""
    columns = (
        "member",
        "task",
        "norm",
        "gamma",
        "seed",
        "circuit",
        "named_by",
        "share",
        "accuracy",
        "kB",
    )
    lines = [columns, ["---"] * len(columns)]
    table = zoo(place).astype(object)
    for row in table.where(table.notna(), None).to_dict("records"):
        row["kB"] = round(row["bytes"] / 1000)
        row["share"] = row["share"] and f"{row['share']:.2f}"
        row["seed"] = None if row["seed"] is None else int(row["seed"])
        row["member"] = "[{member}]({member}/README.md)".format(**row)
        lines.append(["" if row[column] is None else str(row[column]) for column in columns])
    return CARD.format(table="\n".join(f"| {' | '.join(line)} |" for line in lines))


def main() -> None:
    """Train, read and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("runs/zoo"), help="of checkpoints")
    parser.add_argument("--to", type=Path, default=ZOO_FOLDER, help="of the members")
    chosen = parser.parse_args()
    taken: set[str] = set()
    for study, norm in SEEDS:
        for found in trained(study, norm, chosen.folder, progress=True):
            write(found, chosen.to, taken)
    write(induced(chosen.folder), chosen.to, taken)
    for name in BY_HAND:
        write(by_hand(name), chosen.to, taken)
    (chosen.to / "README.md").write_text(page(chosen.to))


if __name__ == "__main__":
    main()
