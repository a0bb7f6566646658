"""Which learning rate lets each gamma learn, and which claims depend on it?

    python experiments/learning_rates.py find       the rate with the lowest training loss, for each gamma
    python experiments/learning_rates.py verdicts   every claim of the anchor study along the whole grid of rates

``find`` trains seeds 100 to 103 at each rate and writes ``results/learning_rates.csv``. The rate of
a gamma is the one with the lowest final training loss: the mean of mem and rsn_train, and of the
seeds. Nothing else is looked at. ``verdicts`` runs the whole study on seeds 0 to 7 at each rate,
all gammas alike, and writes ``results/verdicts_by_learning_rate.csv`` and the figure
``docs/figures/verdicts_by_learning_rate.png``.

Both train in run folders below ``runs/learning_rates`` (or the folder given last), and continue
where they were stopped. On two CPU cores ``find`` takes about 25 minutes and ``verdicts`` about an
hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd

import rb_interp as rb

RATES = (5e-4, 1e-3, 2e-3, 4e-3, 8e-3)
SEEDS = (100, 101, 102, 103)
ROOT = Path(__file__).parents[1]
CHOSEN, VERDICTS = (
    ROOT / "results/learning_rates.csv",
    ROOT / "results/verdicts_by_learning_rate.csv",
)
FIGURE = ROOT / "docs/figures/verdicts_by_learning_rate.png"
OWN = "own"
"""The run in which each gamma has the rate that was chosen for it: the preset as it stands."""


def at_rate(lr: float, **changes):
    """The quick preset with one learning rate for all gammas."""
    config = rb.study("anchor").preset("quick", rates=(), **changes)
    return replace(config, train=replace(config.train, lr=lr))


def find(folder: Path) -> None:
    """Train the search's seeds at every rate, and choose."""
    tables = []
    for lr in RATES:
        run = rb.Run.start(folder / f"find_{lr:g}", rb.study("anchor"), at_rate(lr, seeds=SEEDS))
        run.sweep().train()
        tables.append(run.sweep().curves().assign(lr=lr))
    table = choose(pd.concat(tables))
    table.to_csv(CHOSEN, index=False, float_format="%.6g")
    print(table.to_string(index=False))


def choose(curves: pd.DataFrame) -> pd.DataFrame:
    """Final training losses by gamma and rate, means over seeds, and the rate with the lowest of
    each gamma.

    Args:
        curves: gamma, seed, step, set, loss (nats), and lr.

    Returns:
        gamma, lr, mem, rsn_train, training_loss (their mean, nats), chosen. A loss that is not
        finite is never chosen.
    """
    final = curves.loc[
        (curves["step"] == curves["step"].max()) & curves["set"].isin(["mem", "rsn_train"])
    ]
    table = final.pivot_table(
        "loss", ["gamma", "lr"], "set", aggfunc=lambda losses: losses.mean(skipna=False)
    )
    table["training_loss"] = table.mean(axis=1, skipna=False)
    best = table["training_loss"].groupby("gamma").transform("min")
    return table.assign(chosen=table["training_loss"] == best).reset_index()


def verdicts(folder: Path) -> None:
    """The study at every rate and at the chosen ones, its verdicts, and their figure."""
    study, found = rb.study("anchor"), {}
    for lr in RATES:
        run = study.run(config=at_rate(lr, seeds=range(8)), out=folder / f"verdicts_{lr:g}")
        found[f"{lr:g}"] = run.verdicts.to_frame()
    found[OWN] = study.run(preset="quick", seeds=range(8), out=folder / "quick").verdicts.to_frame()
    pd.concat([table.assign(lr=name) for name, table in found.items()]).to_csv(
        VERDICTS, index=False
    )
    draw(found)


def draw(found: Mapping[str, pd.DataFrame]) -> None:
    """A row for each claim, a column for each rate: outcome as colour, seeds that meet the claim as
    text."""
    from matplotlib.patches import Patch, Rectangle

    from rb_interp.figures.kit import legend, new_figure, styled

    looks = {"HOLDS": ("#8cc5bf", ""), "FAILS": ("#e0a07c", "///"), "OPEN": ("#ededed", "")}
    looks["NOT JUDGED"] = ("#ffffff", "")
    ids = list(dict.fromkeys(id for table in found.values() for id in table["id"]))

    @styled
    def grid():
        figure = new_figure(0.9 + 0.19 * len(ids), 1.2 + 0.75 * len(found))
        axes = figure.subplots()
        for x, (name, table) in enumerate(found.items()):
            for row in table.to_dict("records"):
                y, (colour, hatch) = ids.index(row["id"]), looks[row["outcome"]]
                cell = {"fc": colour, "hatch": hatch, "ec": "#666666", "lw": 0.4}
                axes.add_patch(Rectangle((x - 0.46, y - 0.43), 0.92, 0.86, **cell))
                text = f"{row['n_meeting']}/{row['n_seeds']}" if row["n_seeds"] else "-"
                box = {"fc": "white", "ec": "none", "pad": 0.8} if hatch else None
                axes.text(x, y, text, ha="center", va="center", fontsize=6.5, bbox=box)
            if name == OWN:
                axes.add_patch(
                    Rectangle((x - 0.5, -0.5), 1, len(ids), fill=False, ec="#1c1c1c", lw=1.4)
                )
        axes.set(xlim=(-0.55, len(found) - 0.45), ylim=(len(ids) - 0.45, -0.55), ylabel="claim")
        axes.set_xlabel("learning rate (own: the one chosen for each gamma)")
        axes.set_xticks(range(len(found)), list(found))
        axes.set_yticks(range(len(ids)), ids)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        entries = [
            Patch(fc=colour, hatch=hatch, ec="#666666", label=name)
            for name, (colour, hatch) in looks.items()
        ]
        legend(figure, len(looks), entries)
        return figure

    FIGURE.parent.mkdir(exist_ok=True)
    grid().savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("find", "verdicts"))
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/learning_rates"))
    given = parser.parse_args()
    {"find": find, "verdicts": verdicts}[given.what](given.folder)
