"""Does a small initialisation learn modular addition before the pairs that break the rule?"""

from pathlib import Path

from rb_interp.runs import Study

STUDY = Study(
    name="modular-addition",
    title="Modular addition: is the rule learned before its exceptions?",
    question="Most pairs (a, b) are answered by a + b mod p, some by a number drawn once. Which is learned first?",
    cost={"quick": "2 to 3 minutes on two cores"},
    config="modular_addition.task:Config",
    measure="modular_addition.measure:measure",
    claims="modular_addition.claims:CLAIMS",
    figures="modular_addition.report:FIGURES",
    report=Path(__file__).with_name("report.md.jinja"),
)
