"""The anchor study: is the rule learned before the table, and through which circuit?"""

from pathlib import Path

from rb_interp.runs import Study

ANCHOR = Study(
    name="anchor",
    title="Anchor study: is the rule learned before the table?",
    question=(
        "Does a small initialisation make a transformer learn a rule before it learns a table, and "
        "through which circuit? Each claim is a sentence of “An Analysis for Reasoning Bias of "
        "Language Models with Small Initialization” (arXiv 2502.04375), with a criterion that was "
        "fixed before these runs."
    ),
    cost={
        "smoke": "about a minute",
        "quick": "about a quarter of an hour on two CPU cores",
        "paper": "by count three hours for the 24 members on an H200",
        "paper-200k": (
            "about nine minutes of training for 21 members on an H200, some 2.5 hours a member on "
            "a CPU core"
        ),
        "paper-lr1e-4": (
            "with --steps 9000 about half an hour a seed on a CPU core, whole some six hours; each "
            "seed holds out a pair of its own, see docs/claims.md"
        ),
    },
    config=f"{__name__}.config:AnchorConfig",
    measure=f"{__name__}.measure:measure",
    tables={
        "circuits": "gamma seed",
        "circuit_counts": "gamma named_by circuit",
        "effects": "gamma seed stage set intervention",
        "ablations": "gamma seed stage set component method",
        "patching": "gamma seed stage counterfactual component layer role",
        "carried": "gamma seed role answer",
        "dynamics": "gamma seed step quantity",
        "events": "gamma seed event",
        "event_order": "gamma circuit mechanism loss",
        "disagreement": "battery gamma seed_a seed_b",
        "disagreement_means": "battery gamma circuit_a circuit_b",
        "equivalence": "battery gamma",
        "battery_accuracy": "battery gamma seed",
    },
    claims=f"{__name__}.claims:CLAIMS",
    figures=f"{__name__}.figures:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
    quantities=Path(__file__).with_name("quantities.toml"),
    checks=f"{__name__}.checks:CHECKS",
    calibration=f"{__name__}.checks:calibration",
    groups=f"{__name__}.claims:groups",
    circuits=f"{__name__}.circuits:circuits",
)
