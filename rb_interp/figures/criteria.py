"""The thresholds that figures draw. They are the claims' own (a test compares them); figures only show them."""

THRESHOLDS = {
    "A1": 0.10,
    "A2": 0.10,
    "E4": 1.5,
    "M1": 0.10,
    "M4": 0.70,
    "M5": 0.30,
    "M7": 0.90,
    "M8": 0.80,
}
THEORY = {
    "T1": 0.90,
    "T2": 0.20,
    "T4": 0.90,
    "excess": 0.10,
}
LABELS = {"R1": 0.05, "R2": 0.90}
LANGUAGE = {"G1": 0.0, "G1n": 0.0, "G2": 0.0, "G3": 0.0}


def written(claim: str, relation: str) -> str:
    """A criterion as a label: claim, relation, threshold.

    >>> written("M4", "≥")
    'M4: ≥ .70'
    """
    return f"{claim}: {relation} {THRESHOLDS[claim]:.2f}".replace(" 0.", " .")
