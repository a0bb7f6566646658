"""Every command on a tiny run of the anchor study, and no damage from bad input."""

import signal
import sys

import pytest
from own_studies import ONE

from rb_interp import cli
from rb_interp.cli import main, parse
from rb_interp.models.config import MatrixGammas, ModelConfig
from rb_interp.runs import Run, study
from rb_interp.settings import to_toml
from rb_interp.studies.anchor.config import AnchorConfig

VARIED = AnchorConfig.from_preset(
    "smoke",
    gammas=(0.5, 1.0),
    seeds=(7,),
    model=ModelConfig(norm="pre", n_heads=2, gammas=MatrixGammas(qk=0.4)),
)


def test_flags_give_the_same_configuration_as_a_file(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(to_toml("anchor", VARIED))
    assert parse(["reproduce", "--config", str(path)]).settings == VARIED
    flags = "--preset smoke --gammas .5 1 --seeds 7 --norm pre --n-heads 2 --qk .4 --d-model 64 --d-head 32 --d-mlp 128"
    assert parse(["reproduce", *flags.split()]).settings == VARIED
    masked = parse(["train", "--masked", "12,13", "15,11", "--steps", "7", "--lr", "1e-4"]).settings
    assert masked.task.masked == ((12, 13), (15, 11))
    assert (masked.train.steps, masked.train.lr) == (7, 1e-4)


def test_a_study_of_several_sweeps_has_the_flags_of_each():
    command = parse(
        ["reproduce", "emb-mlp", "--preset", "smoke", "--seeds", "3", "--descent.train.steps", "9"]
    )
    assert command.study == "emb-mlp"
    assert (command.settings.seeds, command.settings.descent.train.steps) == ((3,), 9)


def test_patch_in_a_run_of_several_sweeps_names_the_flag(tmp_path, capsys):
    emb_mlp = study("emb-mlp")
    Run.start(tmp_path / "run", emb_mlp, emb_mlp.preset("smoke"))
    assert main(["patch", str(tmp_path / "run")]) == 2
    assert (
        "this run has no sweep ''; give sweep='...' (--sweep): known: " in capsys.readouterr().err
    )


@pytest.mark.trains
def test_every_command_runs_on_a_run_folder(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("rb_interp.runs.run.find_study", lambda _: ONE)
    folder = ONE.run(preset="smoke", seeds=(0,), out=tmp_path / "run", progress=False).folder
    before, table = (folder / "verdicts.json").read_bytes(), str(tmp_path / "patch.csv")
    for words in (
        ["probe", str(folder)],
        ["report", str(folder)],
        ["info", str(folder)],
        ["studies"],
        ["patch", str(folder), "--pairs", "8", "--components", "z", "--out", table],
        ["ablate", str(folder), "--n", "20", "--gammas", "0.8", "--methods", "zero"],
    ):
        assert main(words) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for word in (
        "1 OPEN",
        "step 20 of 20, finished",
        "emb-mlp",
        "share of the logit_diff recovered",
        "roles overlap",
        "accuracy lost",
    ):
        assert word in printed
    assert (tmp_path / "patch.csv").read_text().startswith("component")
    assert (folder / "verdicts.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduc"], "there is no command 'reproduc'; did you mean 'reproduce'?"),
        (["reproduce", "emb-mpl"], "no study 'emb-mpl' is installed; did you mean 'emb-mlp'?"),
        (["train", "--q", "7"], "q=7: input should be less than or equal to 4"),
    ],
)
def test_bad_input_gets_one_sentence(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.startswith("rb-interp: ")
    assert (printed.err.count("\n"), printed.out) == (1, "")
    assert not list(tmp_path.iterdir())


def test_a_file_and_flags_that_disagree_are_refused(tmp_path, capsys):
    (tmp_path / "study.toml").write_text(to_toml("anchor", VARIED))
    assert main(["train", "labels", "--config", str(tmp_path / "study.toml")]) == 2
    assert "says study 'anchor' and preset 'smoke'" in capsys.readouterr().err
    assert main(["train", "--preset", "quick", "--config", str(tmp_path / "study.toml")]) == 2
    assert "says study 'anchor' and preset 'smoke'" in capsys.readouterr().err


def test_a_folder_with_another_configuration_is_refused(tmp_path, capsys):
    folder = Run.start(tmp_path / "run", study("anchor"), VARIED).folder
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert main(["reproduce", "--preset", "smoke", "--out", str(folder)]) == 2
    assert "another configuration" in capsys.readouterr().err
    assert main(["reproduce", "labels", "--preset", "smoke", "--out", str(folder)]) == 2
    assert "it is of study 'anchor'" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_with_a_sentence_and_a_status(number, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["rb-interp", "studies"])
    monkeypatch.setattr(cli.Studies, "__call__", lambda *_: signal.raise_signal(number))
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        assert main() == 130
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert (
        capsys.readouterr().err.strip()
        == "rb-interp: stopped; the same command goes on from what is saved."
    )
