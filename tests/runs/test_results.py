"""Tables of a run say which members reached their stage, and so do its screen, models and exports."""

from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from own_studies import ONE, One, measure, start
from rich.console import Console

from rb_interp.runs.terminal import print_run
from rb_interp.tasks import Stage, anchor

pytestmark = pytest.mark.trains


def test_tables_say_which_members_reached_their_stage(tmp_path, monkeypatch):
    """By the learning curves of the member, and for `matched` by those of its sibling at gamma
    .8."""

    def everywhere(run, progress):
        found = measure(run, progress)
        stages = [
            found.readings.assign(stage=stage) for stage in ("init", "half", "matched", "final")
        ]
        return replace(found, readings=pd.concat(stages, ignore_index=True))

    study = replace(ONE, measure=everywhere)
    run = start(tmp_path / "run", One(seeds=(0, 1)), study)
    run.train(progress=False)
    curves = run.curves.query("set == 'rsn_train'")
    least = curves.groupby(["gamma", "seed"])["loss"].min() / np.log(run.config.task.d_vocab)
    monkeypatch.setattr(
        anchor, "HALF", least.sort_values().iloc[1:3].mean()
    )  # two of four members come so far
    run.probe(progress=False)
    for row in run.readings.to_dict("records"):
        gamma = 0.8 if row["stage"] == "matched" else row["gamma"]
        came = least[gamma, row["seed"]] <= anchor.HALF
        assert row["reached"] == (came or row["stage"] in ("init", "final")), row
    assert run.readings.groupby("stage")["reached"].sum().to_dict() == {
        **{"final": 4, "init": 4, "half": 2},
        "matched": 2 * sum(least[0.8] <= anchor.HALF),
    }
    assert run.table("doubled")["reached"].all()
    summary = run.table("summary").query("stage == 'half'")
    by_gamma = run.readings.query("stage == 'half'").groupby("gamma")["reached"].sum()
    assert summary.set_index("gamma")["n_reached"].to_dict() == by_gamma.to_dict()
    assert sorted(summary["n"]) == [2] * len(summary)
    late = {gamma: 2 - n for gamma, n in by_gamma.items() if n < 2}
    told = "; ".join(f"half at γ = {gamma:g}: {n} of 2 members" for gamma, n in late.items())
    assert told in run.evidence.unreached()
    assert "final" not in run.evidence.unreached()
    for (gamma, seed), least_of in least.items():
        if least_of <= anchor.HALF:
            run.model(
                gamma=gamma, seed=seed, stage="half"
            )  # without a warning, which would be an error
        else:
            told = f"gamma={gamma:g}, seed={seed} never came to 'half'; these are its"
            with pytest.warns(UserWarning, match=told):
                run.model(gamma=gamma, seed=seed, stage="half")
            with pytest.warns(UserWarning, match=told):
                shared = run.export(
                    gamma=gamma, seed=seed, stage="half", path=tmp_path / f"{gamma}-{seed}"
                )
            assert not shared.content["reached"]
            assert "at stage half (which it never reached" in shared.card
    screen = Console(file=StringIO(), width=300)
    print_run(run, screen)
    assert "half reached by 2 of 4" in screen.file.getvalue()
    assert run.sweep().reached(20) == dict.fromkeys(run.sweep().members, True)
    last = run.config.train.steps
    for delay in (last, last + 1):  # what is met at step 0 comes so much later
        at_once = Stage(lambda now, start: now[:, 0, 0] > 0, delay=delay)
        monkeypatch.setattr(anchor.AnchorTask, "stages", {"half": at_once})
        assert set(run.sweep().reached("half").values()) == {delay == last}
