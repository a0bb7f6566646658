"""Draw which circuit members learned: small models of the preset `quick` and the paper's sizes.

    python experiments/paper_sizes.py

Reads results/anchor_paper_200k, results/anchor_paper_lr1e-4_end and results/quick_circuits.csv, and
writes docs/figures/paper_circuits.png. Circuits have their names by cause.
"""

from pathlib import Path

import matplotlib
import pandas as pd
from scipy.stats import binomtest

ROOT = Path(__file__).parents[1]
COLOURS = {
    "average-then-key": ("#0b6b6b", "average-then-key (the paper's)"),
    "key-to-anchors": ("#e6b545", "key-to-anchors"),
    "gather-at-last-anchor": ("#9cc7e8", "gather-at-last-anchor"),
    "mixed": ("#a99ad0", "mixed"),
    "none": ("#e3e3e3", "too little learned"),
}


def main() -> None:
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    paper = pd.read_parquet(ROOT / "results/anchor_paper_200k/circuits.parquet")
    faster = pd.read_parquet(ROOT / "results/anchor_paper_lr1e-4_end/circuits.parquet")
    quick = pd.read_csv(ROOT / "results/quick_circuits.csv").query("seeds == '0-19'")
    rows = {
        f"{name}, γ = {gamma:g}{steps}": table[table.gamma == gamma].cause
        for name, steps, table, gammas in (
            (
                "10 x learning rate",
                ",\n80,000 of 2,000,000 steps",
                faster,
                (0.8, 0.5, 0.3),
            ),
            ("paper's sizes", ",\n200,000 of 2,000,000 steps", paper, (0.8, 0.3)),
            ("small", "", quick, (0.8, 0.5, 0.3)),
        )
        for gamma in gammas
    }
    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    for row, causes in enumerate(rows.values()):
        left, n = 0.0, len(causes)
        for name, (colour, label) in COLOURS.items():
            if count := int((causes == name).sum()):
                axes.barh(row, count / n, left=left, color=colour, edgecolor="white", label=label)
                box = {"fc": "white", "ec": "none", "pad": 1.5}
                axes.text(left + count / n / 2, row, str(count), ha="center", va="center", bbox=box)
                left += count / n
        meeting = int((causes == "average-then-key").sum())
        low, high = binomtest(meeting, n).proportion_ci()
        axes.text(
            1.02,
            row,
            f"the paper's circuit:\n{meeting} of {n} [{low:.2f}, {high:.2f}]",
            va="center",
        )
    axes.set_yticks(range(len(rows)), rows)
    axes.set(xlim=(0, 1.32), xlabel="share of models (number in each bar; one model a seed)")
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines["bottom"].set_bounds(0, 1)
    axes.set_title(
        "Which circuit did each model learn? Larger γ: smaller initial weights", loc="left"
    )
    handles, labels = axes.get_legend_handles_labels()
    known = dict(zip(labels, handles, strict=True))
    ordered = [label for _, label in COLOURS.values() if label in known]
    figure.legend(
        [known[label] for label in ordered],
        ordered,
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=8,
    )
    figure.savefig(ROOT / "docs/figures/paper_circuits.png", dpi=120)


if __name__ == "__main__":
    main()
