"""Make the golden tables again: python tests/golden/make.py, or some: make.py readings smoke
verdicts fingerprints.

``smoke`` trains every study (minutes), and the verdicts are those on its readings and on the kept
runs'. Make the tables on one commit and commit them with what changed the numbers.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ["OMP_NUM_THREADS"] = "1"
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import pandas as pd  # noqa: E402
from golden import calls  # noqa: E402
from golden.compared import rounded  # noqa: E402


def _write(table: pd.DataFrame, name: str) -> None:
    rounded(table).to_parquet(
        HERE / f"{name}.parquet", index=False, compression="zstd", compression_level=19
    )


def main(wanted: list[str]) -> None:
    """Make what is asked for."""
    if "readings" in wanted:
        _write(
            pd.concat([calls.rows_of(name) for name in calls.SUBJECTS], ignore_index=True),
            "readings",
        )
    if "smoke" in wanted:
        for study in calls.STUDIES:
            with TemporaryDirectory() as folder:
                _write(calls.smoke(study, Path(folder) / "run").readings, f"smoke_{study}")
    if "verdicts" in wanted:
        calls.verdicts(HERE).to_csv(HERE / "verdicts.csv", index=False)
    if "fingerprints" in wanted:
        (HERE / "fingerprints.json").write_text(json.dumps(calls.fingerprints(), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:] or ["readings", "smoke", "verdicts", "fingerprints"])
