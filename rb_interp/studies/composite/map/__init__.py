"""The phase map of composite functions: which phase, at each initialisation and depth, learning rate or weight decay?

The map of paper 2's Figs. 2 and 14 (arXiv 2405.05409), on the task and with the phases of the composite study.
"""

from pathlib import Path

from rb_interp.runs.protocol import Study

_HERE = "rb_interp.studies.composite.map"

COMPOSITE_MAP = Study(
    name="composite-map",
    title="Phase map: where in gamma, depth, learning rate and weight decay is an unseen pair inferred?",
    question=(
        "The composite study asks how a pair of anchors that was never trained is answered. This map asks where: at "
        "which initialisations, and how that changes with depth, learning rate, weight decay and the kind of block. "
        "Each claim is a sentence of “Initialization is Critical to Whether Transformers Fit Composite Functions by "
        "Reasoning or Memorizing” (arXiv 2405.05409), with a criterion that was fixed before these runs."
    ),
    cost={"smoke": "about a minute", "quick": "about a quarter of an hour on two free CPU cores"},
    config=f"{_HERE}.config:CompositeMapConfig",
    measure="rb_interp.studies.composite.measure:measure_map",
    tables={"members": "sweep gamma seed", "cells": "axis point gamma phase", "boundaries": "axis point"},
    claims=f"{_HERE}.claims:CLAIMS",
    figures="rb_interp.studies.composite.figures:MAP_FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
    families={"C": "Phases"},
)
