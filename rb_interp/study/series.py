"""A study of several parts as a folder: a run folder for each part, and what is read, judged and drawn of them all.

series.json  config.toml  PART/ (run folders)  readings.parquet  TABLE.parquet  arrays.safetensors  claims.json
figures/  report.html  report.json
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rb_interp.errors import RunError
from rb_interp.files import write_whole
from rb_interp.study.about import SERIES, check_free, read_about, write_about
from rb_interp.study.run import Run, differences
from rb_interp.study.series_config import SeriesConfig, series_from_mapping
from rb_interp.study.sweep_config import comparable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from rb_interp.figures.evidence import Evidence

FORMAT = "rb_interp series 1"
ARRAYS = "arrays.safetensors"


@dataclass(frozen=True)
class SeriesMeasured:
    """What probing all parts gives; the column formats are in docs/tables.md.

    Attributes:
        readings: as of a run, with the column ``part`` in front ("" for what compares parts).
        tables: further tables by name. arrays: ``{part}/{gamma}/{seed}/{stage}/{rows}/{probe}/{array}`` -> array.
    """

    readings: pd.DataFrame
    tables: Mapping[str, pd.DataFrame]
    arrays: Mapping[str, np.ndarray]


class Series:
    """A study folder that exists.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "labels"
    >>> series = Series.start(folder, SeriesConfig.from_preset("labels", "smoke"))
    >>> Series.open(folder).config == series.config, sorted(series.parts)
    (True, ['keys', 'near_sum', 'ranges'])
    """

    def __init__(self, folder: Path, config: SeriesConfig, about: dict[str, Any]) -> None:
        self.folder, self.config, self.about = Path(folder), config, about
        self.parts = {name: Run.open(self.folder / name) for name in config.parts}

    @staticmethod
    def start(folder: Path | str, config: SeriesConfig, command: str = "") -> Series:
        """Make the folder, or open it where it holds the same study; RunError where it holds something else."""
        folder = Path(folder)
        if (folder / SERIES).exists():
            held, about = _read(folder)
            if held.fingerprint != config.fingerprint:
                raise RunError(
                    f"{folder} holds a study with another configuration ({_differences(held, config)}); nothing was "
                    f"changed. Use another --out, or repeat the command that made it to continue it."
                )
        else:
            check_free(folder, SERIES, "study")
            about = write_about(folder / SERIES, FORMAT, config, config.plain, command)
        for name, part in config.parts.items():
            Run.start(folder / name, part)
        return Series(folder, config, about)

    @staticmethod
    def open(folder: Path | str) -> Series:
        """Open a study folder; RunError says what is wrong with it."""
        return Series(Path(folder), *_read(Path(folder)))

    @property
    def finished(self) -> bool:
        """Whether every part is trained to its last step."""
        return all(run.finished for run in self.parts.values())

    def train(self, progress: bool = True) -> dict[str, float]:
        """Train every part from wherever it stopped; seconds by part and kind of work."""
        seconds = {}
        for name, run in self.parts.items():
            trained = run.train(progress)
            spent = {} if trained is None else trained.seconds
            seconds |= {f"{name}: {what}": value for what, value in spent.items()}
        return seconds

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write ``name.parquet`` whole or not at all."""
        write_whole(self.folder / f"{name}.parquet", lambda path: table.to_parquet(path, index=False))


def _read(folder: Path) -> tuple[SeriesConfig, dict[str, Any]]:
    """Configuration and description of a study folder."""
    about = read_about(folder / SERIES, FORMAT, "study", "rb-interp reproduce --study")
    return series_from_mapping(about["config"], str(folder / SERIES)), about


def _differences(held: SeriesConfig, wanted: SeriesConfig) -> str:
    """Settings that differ, in the first part where any does, or what else does."""
    if held.study != wanted.study:
        return f"study: '{held.study}' there, '{wanted.study}' here"
    for name, part in wanted.parts.items():
        if comparable(held.parts[name]) != comparable(part):
            return f"part '{name}', {differences(held.parts[name], part)}"
    return f"preset or scaling: '{held.preset}', {held.scaling} there, '{wanted.preset}', {wanted.scaling} here"


def reproduce_series(
    config: SeriesConfig, out: Path | str | None = None, *, command: str = "", progress: bool = True
) -> Series:
    """Train every part, measure, judge the claims and write the report; continues where it was stopped.

    Args:
        config: the study. out: its folder; by default ``runs/``, the study and the preset, with a fingerprint where
            settings differ.
    """
    from rb_interp.training.loop import resolve_device

    for part in config.parts.values():
        resolve_device(part.train.device)
    started = time.monotonic()
    series = Series.start(out or default_series_folder(config), config, command)
    seconds = series.train(progress)
    for name, call in (("probes", lambda: probe_series(series, progress)), ("report", lambda: report_series(series))):
        before = time.monotonic()
        call()
        seconds[name] = time.monotonic() - before
    seconds["total"] = time.monotonic() - started
    write_whole(series.folder / "timing.json", lambda path: path.write_text(json.dumps(seconds, indent=1)))
    return series


def default_series_folder(config: SeriesConfig) -> Path:
    """``runs/emb-mlp-quick`` for a preset as it stands, with a fingerprint behind it for a variation."""
    as_it_stands = config.fingerprint == SeriesConfig.from_preset(config.study, config.preset).fingerprint
    name = f"{config.study}-{config.preset}"
    return Path("runs") / (name if as_it_stands else f"{name}-{config.fingerprint}")


def probe_series(series: Series, progress: bool = True) -> None:
    """Measure a trained study and judge its claims: tables, arrays, claims.json."""
    from safetensors.numpy import save_file

    from rb_interp.claims import claims_of, judge
    from rb_interp.study.threads import one_thread

    _check_trained(series)
    with one_thread():
        measured = _measure(series, progress)
    series.write_table("readings", measured.readings)
    for name, table in measured.tables.items():
        series.write_table(name, table)
    write_whole(series.folder / ARRAYS, lambda path: save_file(dict(measured.arrays), path))
    for run in series.parts.values():
        run.write_table("curves", run.curves())
    config = series.config
    judged = judge(measured.readings, config.tier, claims_of(config.study))
    text = json.dumps(judged, indent=1, allow_nan=False)
    write_whole(series.folder / "claims.json", lambda path: path.write_text(text))


def _check_trained(series: Series) -> None:
    for name, run in series.parts.items():
        if not run.finished:
            raise RunError(
                f"part '{name}' of {series.folder} stands at step {run.step or 0} of {run.config.train.steps}; finish "
                f"it first: rb-interp reproduce --config {series.folder / 'config.toml'} --out {series.folder}"
            )


def _measure(series: Series, progress: bool) -> SeriesMeasured:
    if series.config.study == "labels":
        from rb_interp.study.labels import measure_labels

        return measure_labels(series.parts, progress)
    from rb_interp.study.emb_mlp import measure_emb_mlp

    return measure_emb_mlp(series.parts, series.config.scaling, progress)


def evidence_series(series: Series) -> Evidence:
    """Everything that figures and report look at, read from a probed study."""
    import pandas as pd
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    from rb_interp.claims import expected_by_chance

    _check_trained(series)
    folder, config = series.folder, series.config
    try:
        readings = pd.read_parquet(folder / "readings.parquet")
        others = (path for path in sorted(folder.glob("*.parquet")) if path.stem != "readings")
        tables = {path.stem: pd.read_parquet(path) for path in others}
        claims = json.loads((folder / "claims.json").read_text())
        arrays = load_file(folder / ARRAYS)
        curves = {name: run.read_table("curves") for name, run in series.parts.items()}
    except (OSError, ValueError, SafetensorError) as error:
        raise RunError(
            f"what was read in {folder} is missing or damaged ({error}); 'rb-interp probe {folder}' makes it again."
        ) from None
    meta = {
        "versions": series.about["versions"],
        "host": series.about["host"],
        "command": series.about["command"] or f"rb-interp reproduce --config {folder / 'config.toml'}",
        "created": series.about["created"],
        "expected_holds_by_chance": expected_by_chance(claims),
        "toml": config.to_toml(),
    }
    from rb_interp.figures.evidence import Evidence

    def evidence_of(name: str) -> Evidence:
        part, prefix = config.parts[name], f"{name}/"
        return Evidence(
            config=config.plain[name],
            tier=config.tier,
            curves=curves[name],
            readings=readings.loc[readings["part"] == name].drop(columns="part").reset_index(drop=True),
            circuits=pd.DataFrame(),
            arrays={key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)},
            claims=[],
            sample=part.task.dataset(part.seeds[0]),
        )

    parts = {name: evidence_of(name) for name in series.parts}
    return Evidence(
        config=config.plain,
        tier=config.tier,
        curves=pd.concat([table.assign(part=name) for name, table in curves.items()], ignore_index=True),
        readings=readings,
        circuits=pd.DataFrame(),
        arrays=arrays,
        claims=claims,
        sample=next(iter(parts.values())).sample,
        meta=meta,
        tables=tables,
        study=config.study,
        parts=parts,
    )


def report_series(series: Series) -> Path:
    """Draw the figures and write report.html and report.json; returns the page."""
    from rb_interp.report import write_report

    return write_report(evidence_series(series), series.folder)
