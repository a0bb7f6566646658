"""Every setting has a bound, and whatever is wrong with a value gets one sentence, from Python as from a file."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import get_type_hints

import jaxtyping
import numpy as np
import pytest

from rb_interp import bounds
from rb_interp.bounds import check_path
from rb_interp.checks import RANGES
from rb_interp.errors import ConfigError, ModelError, RbInterpError, TaskError
from rb_interp.models.config import ModelConfig
from rb_interp.runs.config import StudyConfig, fingerprint, from_mapping, read_toml
from rb_interp.runs.registry import names, study
from rb_interp.studies.anchor.config import AnchorConfig
from rb_interp.studies.language.config import LanguageConfig
from rb_interp.tasks import AnchorTask
from rb_interp.training.config import TrainConfig

DOCS = Path(__file__).parents[1] / "docs" / "configuration.md"


def settings_in(value, found):
    """Classes of the settings in a configuration, in the order in which they stand there."""
    if is_dataclass(value) and not isinstance(value, type):
        found.setdefault(type(value), value)
        for field in fields(value):
            settings_in(getattr(value, field.name), found)
    return found


def every_setting():
    """Class -> one of its kind, for all settings of all installed studies."""
    found = {}
    for name in names():
        config = study(name).preset("smoke")
        for each in (config, *config.sweeps.values()):
            settings_in(each, found)
    return found


SETTINGS = every_setting()
STUDIES = tuple(kind for kind in SETTINGS if issubclass(kind, StudyConfig))


@pytest.fixture(autouse=True)
def _as_users_have_it() -> Iterator[None]:
    """Without the checks of types that tests add: wrong kinds reach the class."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


def numeric(kind: type) -> dict[str, str]:
    """Fields of a class that hold numbers, and their annotations."""
    hints = {field.name: str(get_type_hints(kind)[field.name]) for field in fields(kind)}
    return {name: hint for name, hint in hints.items() if re.search(r"\b(int|float)\b", hint)}


@pytest.mark.parametrize("kind", SETTINGS, ids=lambda kind: kind.__name__)
def test_every_number_has_a_bound_that_keeps_out_what_lies_beside_it(kind):
    assert set(numeric(kind)) <= set(bounds.bounds_of(kind)), "a setting has no bound"
    for name, hint in numeric(kind).items():
        bound = bounds.bounds_of(kind)[name]
        for value in (
            bound.low - 1,
            bound.high + 1,
            2**63,
            10**400,
            float("nan"),
            float("inf"),
            "many",
            True,
            [[]],
            b"x",
        ):
            given = value
            if "tuple[tuple" in hint:
                given = ((value, value),)
            elif "tuple" in hint:
                given = (value, value)
            with pytest.raises((ConfigError, ModelError, TaskError)) as caught:
                replace(SETTINGS[kind], **{name: given})
            assert str(caught.value).startswith(f"{name}="), caught.value
            assert "; expected " in str(caught.value)
            assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("kind", "changes", "sentence"),
    [
        (AnchorTask, {"length": "a"}, "length='a'; expected a whole number."),
        (AnchorTask, {"keys": (1, 2, 3)}, "keys=[1, 2, 3]; expected a pair of whole numbers."),
        (AnchorTask, {"keys": None}, "keys=None; expected a pair of whole numbers."),
        (AnchorTask, {"masked": [11, 13]}, "masked=[11, 13]; expected a list of lists of whole numbers."),
        (AnchorTask, {"unordered": 1}, "unordered=1; expected true or false."),
        (AnchorTask, {"memory_labels": 3}, "memory_labels=3; expected a text without control characters, with"),
        (AnchorTask, {"q": 4, "reasoning_anchors": (90_000, 90_001), "d_vocab": 10**6}, "have no number of 64 bits"),
        (TrainConfig, {"steps": np.float64(3)}, "steps=3.0; expected a whole number."),
        (TrainConfig, {"stages": ("a\0b",)}, r"stages=['a\x00b']; expected a list of texts without control characters"),
        (TrainConfig, {"lr": 10**2000}, "lr=a number of more than 1,000 digits; expected a number."),
        (TrainConfig, {"schedule": "cosin"}, "schedule='cosin' is not known; did you mean 'cosine'?"),
        (ModelConfig, {"gammas": None}, "gammas=None; expected a MatrixGammas."),
        (AnchorConfig, {"train": None}, "train=None; expected a TrainConfig."),
        (LanguageConfig, {"model": {"d_model": 3}}, "model={'d_model': 3}; expected a ModelConfig."),
        (AnchorConfig, {"preset": 3}, "preset=3; expected a text"),
        (AnchorConfig, {"data_seed": 0.5}, "data_seed=0.5; expected a whole number, or none."),
    ],
)  # fmt: skip
def test_python_gets_the_sentences_of_files(kind, changes, sentence):
    with pytest.raises(RbInterpError) as caught:
        kind(**changes)
    assert sentence in str(caught.value)


def test_numbers_and_lists_of_any_kind_are_one_configuration():
    plain = TrainConfig(steps=7, lr=1.0, keep_at=(0.0, 1.0))
    odd = TrainConfig(steps=np.int64(7), lr=1, keep_at=np.array([0, 1.0]))
    assert odd == plain
    assert fingerprint(odd) == fingerprint(plain)
    assert type(odd.steps) is int
    assert AnchorTask(keys=[21, 60], masked=[[11, 13], [13, 11]]) == AnchorTask()
    assert AnchorConfig.from_preset("smoke", seeds=range(2)) == AnchorConfig.from_preset("smoke", seeds=(0, 1))


class Endless(tuple):
    """A list that says how long it is, and cannot be walked through."""

    def __len__(self) -> int:
        return 10**9

    def __iter__(self):
        raise AssertionError("this would take minutes")

    def __getitem__(self, at):
        return (0, 1, 2)


@pytest.mark.parametrize("kind", STUDIES, ids=lambda kind: kind.__name__)
def test_lists_that_are_too_long_are_refused_before_they_are_walked_through(kind):
    for seeds in (range(10**9), range(10**30), Endless(), np.zeros(10_001, int), ()):
        with pytest.raises(ConfigError, match=r"seeds=.*; expected 1 to 10,000 seeds \(each is a model"):
            kind.from_preset("smoke", seeds=seeds)
    assert len(kind.from_preset("smoke", seeds=range(10_000)).seeds) == 10_000
    with pytest.raises(ConfigError, match="keep_at=.*; expected a list of numbers, of at most 1,000,000"):
        TrainConfig(keep_at=range(10**9))


def test_counts_without_listing_are_those_of_the_lists():
    tasks = (
        AnchorTask.preset("smoke"),
        AnchorTask(q=3, masked=((11, 12, 13), (11, 12, 13)), n_sequences=100_000),
        AnchorTask(memory_anchors=(1, 8), memory_labels="ranges", label_ranges=((30, 49), (30, 69))),
    )
    for task in tasks:
        assert [task.n_combinations(s) for s in task.sets] == [len(task.combinations(s)) for s in task.sets]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("steps = " + "9" * 5000, "is not valid TOML: Exceeds the limit"),
        ("steps = " + "[" * 5000, "lists within lists"),
        ("a = 1\n" * 200_000, "has more than 1,000,000 bytes"),
        ("study = \ud800", "is not valid TOML"),
    ],
)
def test_files_that_python_cannot_read_are_named(tmp_path, content, message):
    path = tmp_path / "study.toml"
    path.write_bytes(content.encode(errors="surrogatepass"))
    with pytest.raises(ConfigError, match=message):
        read_toml(path)


def test_paths_that_can_be_none_are_refused():
    for path in ("a\0b", "x" * 256, "a/" * 3000, Path("a\nb")):
        with pytest.raises(ConfigError, match="can be no path; give one without control characters"):
            check_path("--out", path)
    with pytest.raises(ConfigError, match=r"^the run folder 'a.x00b' can be no path"):
        check_path("the run folder", "a\0b")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_toml(Path(__file__).parent)
    with pytest.raises(ConfigError, match=r"file: 'task.stories' is 'a.x00b'; expected a text"):
        from_mapping(LanguageConfig, {"task": {"stories": "a\0b"}}, "file")


def test_the_documents_have_every_bound():
    stated = {each: vars(each)["BOUNDS"] for kind in SETTINGS for each in kind.__mro__ if "BOUNDS" in vars(each)}
    tables = {each.__name__: table for each, table in stated.items()} | {"numbers in a list": bounds.LISTS}
    rows = [
        f"| {table} | `{name}` | {bound.low:,} | {bound.high:,} | {bound.unit} | {bound.why} |"
        for table, bounds_of_table in tables.items()
        for name, bound in bounds_of_table.items()
    ]
    head = ["| settings | name | lowest | highest | unit | why |", "|---|---|---|---|---|---|"]
    assert "\n".join([*head, *rows]) in DOCS.read_text(), "\n".join([*head, *rows])
    assert all(bound.why for table in tables.values() for bound in table.values())


def test_what_a_setting_may_be_a_function_takes():
    """Nothing is refused only once it is needed, after training."""
    taken = {**RANGES, "eval_rows": RANGES["n"], "probe_rows": RANGES["n"]}
    found = {name: bound for kind in SETTINGS for name, bound in bounds.bounds_of(kind).items() if name in taken}
    assert {"n_null", "eval_rows", "probe_rows", "d_model"} <= set(found)
    for name, bound in found.items():
        low, high = taken[name]
        assert low <= bound.low, name
        assert bound.high <= high or name.startswith("d_"), name  # no sizes of models are asked for in a call
