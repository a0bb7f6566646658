"""The language study on a tiny sweep: readings that probes called by hand give too, and refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from golden.calls import smoke_config
from torch.nn.functional import cross_entropy

from rb_interp.errors import RunError
from rb_interp.probes import chain_accuracy, chain_inputs, token_similarity, uniformity
from rb_interp.runs.run import Run
from rb_interp.studies.language import LANGUAGE
from rb_interp.studies.language.measure import _read, text_of
from rb_interp.tasks import Inputs
from rb_interp.text.settings import TEXT_SETS

pytestmark = pytest.mark.wide


def found_difference(readings):
    here = readings.query(
        "gamma == 0.3 and seed == 1 and stage == 'final' and probe == 'token_similarity'"
    )
    return here.set_index("quantity").value["difference"]


def test_readings_agree_with_probes_called_by_hand(run):
    text, readings = text_of(run.sweep(), 1), run.readings
    for stage in ("early", "final"):
        model, untrained = (
            run.model(gamma=0.3, seed=1, stage=stage),
            run.model(gamma=0.3, seed=1, stage="init"),
        )
        by_hand = token_similarity(model, counts=text.counts, untrained=untrained, n_null=20)
        here = readings.query(
            f"gamma == 0.3 and seed == 1 and stage == '{stage}' and probe == 'token_similarity'"
        )
        found = here.set_index("quantity")
        for name, value in by_hand.values.items():
            assert found.value[name] == pytest.approx(value, abs=1e-6, nan_ok=True)
            assert found.untrained[name] == pytest.approx(
                by_hand.untrained[name], abs=1e-6, nan_ok=True
            )
    examples = chain_inputs(text_of(run.sweep(), 0).examples, text.tokenizer)
    reading = chain_accuracy(run.model(gamma=0.8, seed=0, stage="final"), examples, n_null=0)
    skills = run.table("skills").query(
        "gamma == 0.8 and seed == 0 and step == @run.config.train.steps and accuracy_of == 'step'"
    )
    assert np.average(skills.accuracy, weights=skills.n) == pytest.approx(reading.values["step"])
    final = readings.query(
        "gamma == 0.8 and seed == 0 and probe == 'chain' and stage == 'final'"
    ).set_index("quantity")
    assert final.value["loss_chain"] == pytest.approx(reading.values["loss_chain"], rel=1e-5)
    course = run.table("similarity").query(
        "gamma == 0.3 and seed == 1 and step == @run.config.train.steps"
    )
    assert course.difference.item() == pytest.approx(found_difference(readings), abs=1e-6)
    start = (
        run.table("similarity").query("gamma == 0.3 and seed == 1 and step == 0").difference.item()
    )
    at_init = readings.query(
        "gamma == 0.3 and seed == 1 and stage == 'init' and quantity == 'difference'"
    )
    assert start == pytest.approx(at_init.value.item(), abs=1e-6)
    for corpus in ("prontoqa", "stories"):
        final, by_hand = run.model(gamma=0.8, seed=1, stage="final"), {}
        for n in (2, run.config.task.held_out):
            rows = text.rows(f"{corpus}_test")
            tokens, counted = rows.tokens[:n, :-1], rows.targets[:n]
            by_hand[n] = uniformity(
                final, Inputs(tokens), layer=1, head=1, n_null=0, queries=counted
            ).values["tv"]
        here = readings.query(
            f"gamma == 0.8 and seed == 1 and stage == 'final' and `set` == '{corpus}'"
        )
        assert here.query(
            "layer == 1 and head == 1 and quantity == 'tv'"
        ).value.item() == pytest.approx(by_hand[n])
        few = [
            reading
            for where, reading in _read(final, text, replace(run.config, probe_rows=2))
            if where == corpus
        ]
        assert few[-1].values["tv"] == pytest.approx(by_hand[2]) != pytest.approx(by_hand[n])
    attention = readings.query("probe == 'uniformity' and quantity == 'tv'")
    assert set(attention["set"]) == {"prontoqa", "stories"}
    assert len(attention) == 6 * 3 * 2 * 2 * 2  # members, stages, corpora, layers, heads


def test_curves_and_delta_l_are_those_of_the_exported_models(run):
    curves = run.table("curves").query("gamma == 0.5 and seed == 1")
    model = run.model(gamma=0.5, seed=1, stage="final")
    for name in TEXT_SETS:
        rows = text_of(run.sweep(), 1).rows(name)
        tokens = torch.from_numpy(rows.tokens[: run.config.train.eval_rows].astype(np.int64))
        with torch.no_grad():
            loss = cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        assert curves.query(
            f"set == '{name}' and step == @run.config.train.steps"
        ).loss.item() == pytest.approx(loss.item(), abs=1e-5)
    wide = curves.pivot(index="step", columns="set", values="loss")
    delta = ((wide.stories_train - wide.prontoqa_train) / wide.prontoqa_train).mean()
    readings = run.readings.query("gamma == 0.5 and seed == 1 and probe == 'corpus_loss'")
    assert readings.set_index("quantity").value["delta_loss"] == pytest.approx(delta)
    first, second = text_of(run.sweep(), 1).entropies
    per = (wide.stories_train / second - wide.prontoqa_train / first) / (
        wide.prontoqa_train / first
    )
    assert readings.set_index("quantity").value["delta_loss_per_entropy"] == pytest.approx(
        per.mean()
    )


def stories_of(path, animal: str) -> None:
    lines = [json.dumps({"text": f"Once a {animal} had {n} mice. " * 40}) for n in range(60)]
    path.write_text("\n".join(lines) + "\n")


def test_a_run_is_not_continued_on_another_text(tmp_path):
    stories_of(stories := tmp_path / "stories.jsonl", "cat")
    golden = smoke_config("language")
    task, train = replace(golden.task, stories=str(stories)), replace(golden.train, steps=1)
    config = replace(golden, task=task, train=train, gammas=(0.8,), seeds=(0,))
    other = replace(config, data_seed=5)
    assert text_of(Run.start(tmp_path / "other", LANGUAGE, other).sweep(), 0).seed == 5
    run = Run.start(tmp_path / "run", LANGUAGE, config)
    assert run.sweep().provenance == {}
    run.train(progress=False)
    assert run.sweep().provenance[0]["stories"]["source"] == "stories from stories.jsonl"
    assert text_of(Run.open(tmp_path / "run", study=LANGUAGE).sweep(), 0).seed == 0
    stories_of(stories, "dogs")
    message = (
        r"the data of seed 0 is not what .* was begun with \(stories, tokenizer, entropies "
        r"differ, see .*data\.json\)"
    )
    changed = Run.open(tmp_path / "run", study=LANGUAGE)
    with pytest.raises(RunError, match=message):
        changed.sweep().dataset(0)
    changed.sweep().stores[(0,)].path("state").unlink()
    with pytest.raises(RunError, match=message):
        changed.train(progress=False)
    (tmp_path / "run" / "data.json").write_text("[")
    with pytest.raises(RunError, match=r"data\.json is damaged.*Put a sound copy of it back"):
        Run.open(tmp_path / "run", study=LANGUAGE).sweep().dataset(0)
