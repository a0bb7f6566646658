"""Settings from Python: what is stored, what is refused with which line, presets, and what is the
same thing."""

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from rb_interp.errors import ConfigError, ModelError, TaskError
from rb_interp.models.config import ModelConfig
from rb_interp.settings import Settings, fingerprint, fitted
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.studies.composite.task import CompositeTask
from rb_interp.studies.emb_mlp.config import Scaling
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig

NO_WHOLE = "input should be a valid integer"


@pytest.mark.parametrize(
    ("kind", "changes", "line"),
    [
        (TrainConfig, {"steps": 0}, "steps=0: input should be greater than or equal to 1"),
        *(
            (TrainConfig, {"steps": value}, f"steps={value!r}: {NO_WHOLE}")
            for value in ("3", True, 2.7)
        ),
        (AnchorConfig, {"seeds": (2.7,)}, "seeds.0=2.7: input should be a valid integer"),
        (TrainConfig, {"lr": float("nan")}, "lr=nan: input should be a finite number"),
        (
            TrainConfig,
            {"betas": (0.9, 1)},
            "betas.1=1: input should be less than or equal to 0.999999",
        ),
        (
            TrainConfig,
            {"schedule": "cosin"},
            "schedule='cosin' is not known; did you mean 'cosine'?",
        ),
        (TrainConfig, {"stepz": 3}, "TrainConfig has no setting 'stepz'; did you mean 'steps'?"),
        (
            TrainConfig,
            {"eps": -1, "lr": -1},
            "lr=-1: input should be greater than or equal to 0\neps=-1: input",
        ),
        (ModelConfig, {"gammas": None}, "gammas=None: input should be an instance of MatrixGammas"),
        (ModelConfig, {"uniform_layers": (2,)}, "uniform_layers=(2,) of a model with 2 layers"),
        (ModelConfig, {"architecture": "emb_mlp"}, "its definition has n_layers=1"),
        (AnchorTask, {"keys": (1, 2, 3)}, "keys=(1, 2, 3): tuple should have at most 2 items"),
        (
            CompositeTask,
            {"evaluation_rows": 3},
            "evaluation_rows=3: input should be a multiple of 2",
        ),
        (AnchorConfig, {"seeds": (1, 1)}, "seeds=(1, 1): name each once"),
        (Scaling, {"d_models": (100, 80)}, "d_models=(100, 80): give widths in ascending order"),
    ],
)
def test_what_does_not_fit_gets_a_line_each_in_the_error_of_its_class(kind, changes, line):
    for make in (lambda: kind(**changes), lambda: replace(kind(), **changes)):
        with pytest.raises(kind.ERROR) as caught:
            make()
        assert line in str(caught.value)
        assert str(caught.value).count("\n") == len(changes) - 1


def test_numbers_and_lists_of_any_kind_are_one_configuration():
    plain = TrainConfig(steps=7, lr=1.0, keep_at=(0.0, 1.0))
    odd: Any = {"steps": np.int64(7), "lr": np.float32(1), "keep_at": np.array([0, 1])}
    assert TrainConfig(**odd) == replace(plain, lr=1) == plain
    assert fingerprint(TrainConfig(**odd)) == fingerprint(plain)
    assert [type(value) for value in (TrainConfig(**odd).steps, *TrainConfig(**odd).keep_at)] == [
        int,
        float,
        float,
    ]
    listed: Any = {"keys": [21, 60], "masked": [[11, 13], [13, 11]]}
    assert AnchorTask(**listed) == AnchorTask()
    assert AnchorConfig.from_preset("smoke", seeds=range(2)).seeds == (0, 1)


def test_a_default_is_stored_as_a_given_value_is():
    class Whole(Settings):
        share: float = 0

    assert type(Whole().share) is type(replace(Whole()).share) is float
    assert fingerprint(Whole()) == fingerprint(Whole(0.0))
    with pytest.raises(FrozenInstanceError):
        Whole().share = 1.0  # pyright: ignore[reportAttributeAccessIssue]


def test_a_preset_is_what_differs_from_the_defaults():
    assert AnchorTask.preset("smoke") == AnchorTask(**AnchorTask.PRESETS["smoke"])
    assert TrainConfig.preset("smoke", steps=9) == replace(TrainConfig.preset("smoke"), steps=9)
    for kind, error in (
        (AnchorTask, TaskError),
        (ModelConfig, ModelError),
        (AnchorConfig, ConfigError),
    ):
        with pytest.raises(
            error, match=rf"{kind.__name__} has no preset 'smok'; did you mean 'smoke'\?"
        ):
            kind.check_preset("smok")


def test_a_single_value_is_fitted_to_an_annotation():
    assert fitted([1, np.int32(2)], tuple[float, ...], "ranges") == (1.0, 2.0)
    with pytest.raises(ConfigError, match=r"^ranges.1='x': input should be a valid number$"):
        fitted([1, "x"], tuple[float, ...], "ranges")
