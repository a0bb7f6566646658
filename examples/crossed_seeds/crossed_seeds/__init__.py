"""Seeds taken apart: seeds of the data crossed with seeds of the initial weights, everything else
the same."""

from pathlib import Path

from rb_interp.runs import Study

STUDY = Study(
    name="crossed-seeds",
    title="Crossed seeds: do the data or the initial weights decide which circuit is learned?",
    question=(
        "Members of the anchor study that differ in their seed alone learn different circuits. A "
        "seed fixes the data "
        "(rows, label table, order of batches) and the initial weights. Here each seed of the data "
        "meets each seed of "
        "the initial weights, and the variance of the circuit is divided between the two. Nothing "
        "is claimed: the "
        "study measures shares."
    ),
    cost={"quick": "about 20 minutes on two CPU cores"},
    config="crossed_seeds.config:CrossedSeedsConfig",
    measure="crossed_seeds.measure:measure",
    figures="crossed_seeds.report:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
    glossary="crossed_seeds.report:GLOSSARY",
)
