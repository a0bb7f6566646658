"""The census: which circuit is learned where, over initialisation, learning rate, norm and
optimiser."""

from pathlib import Path
from typing import ClassVar

from rb_interp.runs import Study, StudyConfig

SEEDS = tuple(range(30, 38))


class CensusConfig(StudyConfig):
    """Where the tables of members are; the study trains nothing.

    >>> CensusConfig().seeds
    (30, 31, 32, 33, 34, 35, 36, 37)
    """

    PRESETS: ClassVar[dict] = {"quick": {"seeds": SEEDS}}
    host_fields: ClassVar[tuple] = ("members",)

    seeds: tuple[int, ...] = SEEDS
    members: str = "runs/census"
    """Folder with map.parquet, factorial.parquet, optimiser.parquet and forks.parquet; one that is
    missing is empty."""


STUDY = Study(
    name="census",
    title="Census: which circuit is learned where",
    question=(
        "Seeds of one configuration learn different circuits. Here members of the anchor task, at "
        "many initialisations, learning rates, norms and optimisers, are named by cause, and it is "
        "asked what decides the name, and whether the circuit decides how a member generalises."
    ),
    cost={"quick": "seconds; training its members takes some twelve hours on two CPU cores"},
    config="census:CensusConfig",
    measure="census.measure:measure",
    tables={
        **dict.fromkeys(("map", "factorial", "optimiser"), "L0 run gamma seed"),
        "forks": "gamma seed fork",
        "norms": "norm",
        "agreements": "norm gamma",
        "groups": "norm number term",
        "optimisers": "norm gamma optimiser",
        "optimiser_means": "norm gamma optimiser number",
        "stopped": "n",
    },
    claims="census.claims:CLAIMS",
    figures="census.report:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
)
