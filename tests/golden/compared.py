"""How golden numbers are compared, and how many digits of them are kept."""

import numpy as np
import pandas as pd

DIGITS, TOLERANCE = 10, 1e-6


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """The table with its numbers at 10 significant digits."""
    numbers = table.select_dtypes("floating").columns
    return table.assign(
        **{name: [float(f"{x:.{DIGITS - 1}e}") for x in table[name]] for name in numbers}
    )


def differing(
    now: pd.DataFrame,
    then: pd.DataFrame,
    keys: list[str],
    numbers: list[str],
    tolerance: float = TOLERANCE,
) -> pd.DataFrame:
    """Rows that are missing, additional, or differ in a number by more than the tolerance, and than
    its ``error``."""
    keyed = [t.assign(number=t.groupby(keys, dropna=False).cumcount()) for t in (now, then)]
    both = keyed[0].merge(
        keyed[1], on=[*keys, "number"], how="outer", suffixes=("", "_then"), indicator="row"
    )
    bad = both["row"] != "both"
    for name in numbers:
        first, second = both[name].astype(float), both[f"{name}_then"].astype(float)
        allowed = tolerance * np.maximum(1, second.abs())
        if "error" in now:
            allowed = np.fmax(allowed, both["error_then"])
        same = (
            (first == second) | (first.isna() & second.isna()) | ((first - second).abs() <= allowed)
        )
        bad |= ~same
    return both[bad]
