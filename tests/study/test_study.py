"""The whole job on a tiny study: every command, every claim, every figure, and no damage from bad input."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from rb_interp.claims import CLAIMS
from rb_interp.claims.calibration import MECHANISM_CLAIMS
from rb_interp.cli import main
from rb_interp.errors import RunError
from rb_interp.figures import FIGURES
from rb_interp.models.lens import read_weights
from rb_interp.probes import routing, value_alignment
from rb_interp.study.measure import probe_members
from rb_interp.study.run import Run

pytestmark = pytest.mark.lens


def test_the_report_holds_every_claim_and_every_figure(folder):
    page, twin = (folder / "report.html").read_text(), json.loads((folder / "report.json").read_text())
    claims = json.loads((folder / "claims.json").read_text())
    assert [claim["id"] for claim in claims] == [claim.id for claim in CLAIMS]
    for claim in CLAIMS:
        assert f">{claim.id}<" in page
    for figure in FIGURES:
        assert figure.title in page
        assert (folder / "figures" / f"{figure.id}.svg").stat().st_size > 1000
        assert (folder / "figures" / f"{figure.id}.png").stat().st_size > 1000
    assert {claim["id"]: claim["verdict"] for claim in twin["claims"]} == {c["id"]: c["verdict"] for c in claims}
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_claims_json_has_the_fields_of_its_format(folder):
    wanted = "id statement source statistic criterion gamma stage verdict effect low high n_seeds n_meeting twin tier"
    for claim in json.loads((folder / "claims.json").read_text()):
        assert set(wanted.split()) <= set(claim)
        assert claim["calibrated"] is (None if claim["id"] not in MECHANISM_CLAIMS else True)
        assert claim["tier"] == "custom"
        if claim["id"] != "I1":  # two seeds decide nothing; I1 has initialisations of its own
            assert claim["verdict"] == "UNDECIDED"


def test_readings_agree_with_probes_called_by_hand(folder):
    run = Run.open(folder)
    readings = run.read_table("readings")
    assert 0 < run.checkpoint("matched", 0.3, 1).step < 80
    model, twin = run.model(0.3, 1, "matched"), run.model(0.3, 1, "init")
    data = run.config.task.dataset(1)
    rows = data.sample("mem", 60)
    by_hand = {
        "mem": routing(model, data.tokens[rows], data.roles(rows), layer=1, twin=twin, n_null=20),
        "": value_alignment(model, data.tokens[rows], data.roles(rows), twin=twin, n_null=20),
    }
    place = readings[(readings.gamma == 0.3) & (readings.seed == 1) & (readings.stage == "matched")]
    for rows_name, reading in by_hand.items():
        expected = pd.DataFrame(reading.table()).set_index("quantity")
        found = place[(place.probe == reading.probe) & (place["rows"] == rows_name)].set_index("quantity")
        for column in ("value", "twin"):
            np.testing.assert_allclose(found.loc[expected.index, column], expected[column], rtol=1e-4, atol=1e-6)


def test_one_probe_on_a_whole_run_at_any_checkpoint(folder):
    run = Run.open(folder)
    readings = run.read_table("readings")
    wanted = readings[(readings.stage == "final") & (readings.probe == "routing") & (readings["rows"] == "mem")]
    found = probe_members(run, routing, 80, "mem", layer=1, n_null=0)
    assert set(found.step) == {80}
    np.testing.assert_allclose(found.value, wanted.value, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.twin, wanted.twin, rtol=1e-4, atol=1e-6)


def test_a_run_gives_its_members_as_models(folder):
    run = Run.open(folder)
    weights = run.weights(0.8, 0)
    for name, value in read_weights(run.model(0.8, 0)).items():
        torch.testing.assert_close(value, weights[name])


def test_every_command_runs_on_a_run_folder(folder, capsys):
    before = (folder / "claims.json").read_bytes()
    assert main(["probe", str(folder)]) == 0
    assert (folder / "claims.json").read_bytes() == before
    assert main(["report", str(folder)]) == 0
    assert main(["info", str(folder)]) == 0
    assert main(["init", "--preset", "smoke", "--gamma", ".8"]) == 0
    printed = capsys.readouterr().out
    assert "step 80 of 80, finished" in printed
    assert "blocks.1.mlp.W_out" in printed


@pytest.mark.slow
def test_repeating_the_command_changes_no_result(folder):
    names = ("claims.json", "readings.parquet", "curves.parquet", "report.json", "checkpoints/state.safetensors")
    before = {name: (folder / name).read_bytes() for name in names}
    assert main(["reproduce", "--config", str(folder / "config.toml"), "--out", str(folder)]) == 0
    assert {name: (folder / name).read_bytes() for name in names} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduc"], "did you mean 'reproduce'"),
        (["train", "--preset", "quik"], "did you mean 'quick'"),
        (["train", "--norm", "pree"], "did you mean 'pre'"),
        (["train", "--q", "7"], "q=7 anchors; expected 1 to 4"),
        (["train", "--config", "nowhere.toml"], "nowhere.toml cannot be read"),
        (["probe", "nowhere"], "nowhere is not a run folder"),
        (["train", "--device", "cuda:9", "--preset", "smoke", "--out", "OUT"], "no GPU"),
        (["train", "--gamma", ".8", ".3"], "gammas"),
        (["train", "--stpes", "3"], "steps"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(arguments)
    except SystemExit as stop:  # flags are tyro's own
        status = stop.code
    assert status == 2
    printed = capsys.readouterr()
    assert message in printed.err + printed.out
    assert "Traceback" not in printed.err + printed.out


def test_a_folder_with_another_study_is_refused(folder, capsys):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert main(["reproduce", "--preset", "smoke", "--out", str(folder)]) == 2
    assert "another configuration" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_a_broken_checkpoint_is_named(folder, capsys):
    path = folder / "checkpoints" / "step_00000080.safetensors"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:100])
        assert main(["probe", str(folder)]) == 2
        assert "step_00000080.safetensors cannot be read as safetensors" in capsys.readouterr().err
    finally:
        path.write_bytes(whole)


def test_importing_and_asking_for_help_stay_cheap():
    heavy = "{'torch', 'transformer_lens', 'pandas', 'matplotlib', 'scipy'}"
    code = f"import sys, rb_interp; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = (
        "import sys\nfrom rb_interp.cli import main\ntry:\n    main(['reproduce', '--help'])\n"
        f"except SystemExit:\n    pass\nassert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_training_does_not_need_transformer_lens(tmp_path):
    code = (
        "import sys\nsys.modules['transformer_lens'] = None\nfrom rb_interp.cli import main\n"
        f"sys.exit(main(['train', '--preset', 'smoke', '--steps', '5', '--out', {str(tmp_path / 'run')!r}]))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert Run.open(tmp_path / "run").finished


@pytest.mark.parametrize("name", ["claims.json", "arrays.safetensors", "readings.parquet"])
def test_a_damaged_table_says_how_to_make_it_again(folder, name, capsys):
    whole = (folder / name).read_bytes()
    try:
        (folder / name).write_bytes(whole[:50])
        assert main(["report", str(folder)]) == 2
        assert "missing or damaged" in capsys.readouterr().err
    finally:
        (folder / name).write_bytes(whole)


def test_a_diverged_member_is_named(folder):
    run = Run.open(folder)
    name = "step_00000080"
    kept, whole = run.store.read(name), run.store.path(name).read_bytes()
    kept.tensors["unembed.b_U"][kept.members.index((0.8, 1))] = float("nan")
    try:
        run.store.write(name, kept.step, kept.members, kept.tensors)
        with pytest.raises(RunError, match=r"gamma=0\.8, seed=1 diverged: its weights at step 80"):
            probe_members(run, routing, "final", layer=1, n_null=0)
    finally:
        run.store.path(name).write_bytes(whole)


def test_models_come_ready_for_patching(folder):
    assert not any(module.training for module in Run.open(folder).model(0.8, 0).modules())
