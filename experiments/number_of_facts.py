"""Draw how much later rules are read than facts are remembered, over the number of facts.

    python experiments/number_of_facts.py

Reads results/language_facts.csv (64 facts) and results/language_facts_N.csv, and writes
docs/figures/number_of_facts.png.
"""

from pathlib import Path

import matplotlib
import pandas as pd

ROOT = Path(__file__).parents[1]
COLOURS = {0.3: "#c0504d", 0.8: "#0b6b6b"}


def main() -> None:
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    tables = {64: pd.read_csv(ROOT / "results/language_facts.csv")}
    for path in (ROOT / "results").glob("language_facts_*[0-9].csv"):
        tables[int(path.stem.rpartition("_")[2])] = pd.read_csv(path)
    seeds = set.intersection(*(set(table["seed"]) for table in tables.values()))
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for place, n in enumerate(sorted(tables)):
        table = tables[n][tables[n]["seed"].isin(seeds)].sort_values("seed")
        for side, (gamma, colour) in zip((-1, 1), COLOURS.items(), strict=True):
            members = table[table["gamma"] == gamma]
            x = pd.Series(range(len(members)), index=members.index) - (len(members) - 1) / 2
            x = place + 0.17 * side + 0.03 * x
            read = members["ratio_50_low"] == members["ratio_50_high"]
            for which, marker, fill in ((read, "o", colour), (~read, "v", "white")):
                axes.plot(
                    x[which], 2 ** members["ratio_50_high"][which], marker, mfc=fill, mec=colour
                )
    axes.set_yscale("log", base=2)
    ticks = [2.0**-power for power in range(1, 8)]
    axes.set_yticks(ticks, [f"1/{round(1 / tick)}" for tick in ticks])
    axes.set_xticks(range(len(tables)), [f"{n} facts" for n in sorted(tables)])
    axes.set_ylabel("steps to half of the facts /\nsteps to half of the rules")
    axes.spines[["top", "right"]].set_visible(False)
    keys = [axes.plot([], [], "o", color=colour)[0] for colour in COLOURS.values()]
    keys.append(axes.plot([], [], "v", mfc="white", mec="black")[0])
    names = [f"γ = {gamma:g}" for gamma in COLOURS]
    figure.legend(
        keys,
        [*names, "no rule read: at most this"],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )
    figure.savefig(ROOT / "docs/figures/number_of_facts.png", dpi=120)


if __name__ == "__main__":
    main()
