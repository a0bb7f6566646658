"""The calibration again from seeds: the shipped table is what the code gives, and an interruption loses little."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from rb_interp.errors import ModelError
from rb_interp.models import build_model
from rb_interp.models.reference import REFERENCES
from rb_interp.studies.anchor import calibrate, error_rates, known_models
from rb_interp.studies.anchor.detectors import DETECTORS, MECHANISM_CLAIMS, NAMES
from rb_interp.studies.anchor.known_models import ShuffledTask, examine, load, rows_of
from rb_interp.tasks import AnchorTask

pytestmark = [pytest.mark.lens, pytest.mark.wide]


def recomputed(subjects) -> pd.DataFrame:
    rows = []
    for subject in subjects:
        rows += rows_of(subject, examine(load(subject), subject.data))
    return pd.DataFrame(rows)


def assert_as_shipped(found: pd.DataFrame) -> None:
    keys = ["family", "source", "name", "seed", "detector"]
    shipped = error_rates.copies()
    found = found.loc[found["detector"].isin(shipped["detector"])]
    both = found.merge(shipped, on=keys, suffixes=("", "_shipped"), how="left")
    assert both["present_shipped"].notna().all()
    assert (both["present"] == both["present_shipped"].astype(bool)).all()
    assert (both["truth"] == both["truth_shipped"]).all()
    np.testing.assert_allclose(both["margin"], both["margin_shipped"], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", ["averager", "carrier", "memoriser"])
def test_copies_are_as_shipped(name, monkeypatch):
    asked, swap = [], known_models.key_and_sum

    def watched(*args, same_position=None, **options):
        asked.append(same_position)
        return swap(*args, same_position=same_position, **options)

    monkeypatch.setattr(known_models, "key_and_sum", watched)
    found = recomputed(known_models.reference_copies(name, 1))
    assert set(found["detector"]) == {*DETECTORS}
    assert_as_shipped(found)
    known = found.loc[found["truth"] != ""]
    assert (known["present"] == (known["truth"] == "yes")).all()
    assert asked == [None, True]  # pairs of any position for M9, of one position for M9b


def test_untrained_models_are_as_shipped():
    found = recomputed(known_models.fresh(1))
    assert found["name"].drop_duplicates().tolist() == ["0.3", "0.5", "0.8"]
    assert set(found["truth"]) == {""}
    assert_as_shipped(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCES)
def test_more_copies_are_as_shipped(name):
    assert_as_shipped(
        recomputed(
            subject for seed in (0, *range(3, 120, 9)) for subject in known_models.reference_copies(name, 1, first=seed)
        )
    )


def test_shuffled_labels_keep_their_numbers_and_lose_the_rule():
    plain, shuffled = AnchorTask().dataset(3), ShuffledTask().dataset(3)
    assert (plain.tokens == shuffled.tokens).all()
    train, held_out = plain.rows("train"), plain.rows("rsn_test")
    assert (plain.labels[held_out] == shuffled.labels[held_out]).all()
    assert (np.sort(plain.labels[train]) == np.sort(shuffled.labels[train])).all()
    reasoning = plain.rows("rsn_train")
    assert (plain.labels[reasoning] == shuffled.labels[reasoning]).mean() < 0.05
    assert (ShuffledTask().dataset(3).labels == shuffled.labels).all()


def test_accuracy_is_of_the_last_position_on_reasoning_rows():
    (subject,) = known_models.reference_copies("averager", 1)
    right = examine(load(subject), subject.data)["learning_order", "acc_rsn_train", "", None]
    assert right > 0.9
    wrong = subject._replace(data=ShuffledTask().dataset(0))
    assert examine(load(wrong), wrong.data)["learning_order", "acc_rsn_train", "", None] < 0.1


def test_a_model_with_several_heads_is_refused():
    task = AnchorTask()
    with pytest.raises(ModelError, match="a model with 2 heads has no calibration; claims speak of models with one"):
        examine(build_model(task, 0.8, n_heads=2), task.dataset(0))


def test_an_interrupted_calibration_continues_and_gives_the_same(tmp_path, monkeypatch):
    small = {"n_copies": 1, "n_untrained": 1, "n_shuffled": 1, "progress": False}
    two = ("averager", "carrier")
    monkeypatch.setattr(calibrate, "REFERENCES", two)
    plain, copied, whole = known_models.label_shuffled, known_models.reference_copies, []
    monkeypatch.setattr(known_models, "label_shuffled", lambda n, progress: plain(n, progress, steps=10))

    def counted(name, n):
        whole.append(name)
        return copied(name, n)

    def stopped(n):
        raise KeyboardInterrupt

    monkeypatch.setattr(known_models, "reference_copies", counted)
    with monkeypatch.context() as patch:
        patch.setattr(known_models, "fresh", stopped)
        with pytest.raises(KeyboardInterrupt):
            calibrate.measure_copies(tmp_path, **small)
    assert whole == list(two)
    found = calibrate.measure_copies(tmp_path, **small)
    assert whole == list(two)
    assert len(found) == (len(two) + 6) * len(DETECTORS)
    assert found["source"].drop_duplicates().tolist() == ["reference", "untrained", "label_shuffled"]
    rates = calibrate.write_tables(found, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == [error_rates.COPIES, error_rates.RATES]
    assert not [*(tmp_path / calibrate.PARTIAL).iterdir()]
    written = [error_rates.read_table(tmp_path / name) for name in (error_rates.COPIES, error_rates.RATES)]
    pd.testing.assert_frame_equal(written[0], found, check_dtype=False, check_exact=True)
    pd.testing.assert_frame_equal(written[1], rates, check_dtype=False, check_exact=True)
    assert len(calibrate._measured(tmp_path, progress=False)) == len(found)  # what is finished is read
    assert whole == list(two)


def test_the_printed_table_has_every_detector_in_100_columns():
    text = io.StringIO()
    calibrate.print_rates(error_rates.shipped_rates(), Console(file=text, width=100))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    for detector in (*MECHANISM_CLAIMS[:9], *NAMES):
        (line,) = [line for line in lines if line.split()[:1] == [detector] and "by cause" not in line]
        assert line.split()[-1] in ("yes", "no")
