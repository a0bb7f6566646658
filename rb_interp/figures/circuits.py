"""How often each circuit occurs at each rate, and in which member."""

from __future__ import annotations

from collections import Counter

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from rb_interp.figures.evidence import SMALL, Evidence
from rb_interp.figures.numbers import seeds_text
from rb_interp.figures.panels import Caption, sentence_figure
from rb_interp.figures.style import new_figure, styled

CIRCUITS = {
    "average-then-key": ("#0c6b6f", ""), "key-to-anchors": ("#e9b949", "///"),
    "mixed": ("#a99bd0", "..."), "none": ("#e2e2e2", ""),
}  # fmt: skip
OTHER = ("#ffffff", "xx")


def circuit_counts(evidence: Evidence) -> dict[float, dict[str, int]]:
    """Number of seeds by rate (ascending) and circuit: the known circuits in a fixed order, then any others."""
    table = evidence.circuits
    pairs = Counter(zip(table["gamma"].astype(float), table["circuit"].astype(str), strict=True))
    names = [*CIRCUITS, *sorted({name for _, name in pairs} - set(CIRCUITS))]
    return {gamma: {name: pairs[gamma, name] for name in names} for gamma in sorted({gamma for gamma, _ in pairs})}


@styled
def draw_circuits(evidence: Evidence) -> Figure:
    """Share of seeds per circuit at each rate with counts (left), and every member's circuit (right)."""
    counts = circuit_counts(evidence)
    if not counts:
        return sentence_figure("This run has no named circuits.")
    figure = new_figure(1.15 + 0.42 * max(len(counts), 2))
    bars, grid = figure.subplots(1, 2, width_ratios=(1.2, 1))
    _bars(bars, counts)
    _grid(grid, evidence, list(counts))
    names = next(iter(counts.values()))
    handles = [Patch(fc=look(name)[0], hatch=look(name)[1], ec="#555555", lw=0.4, label=name) for name in names]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
    return figure


def look(circuit: str) -> tuple[str, str]:
    """Colour and hatch of a circuit."""
    return CIRCUITS.get(circuit, OTHER)


def _bars(axes: Axes, counts: dict[float, dict[str, int]]) -> None:
    for place, row in enumerate(counts.values()):
        start, total = 0.0, sum(row.values())
        for name, n in row.items():
            if not n:
                continue
            colour, hatch = look(name)
            axes.barh(place, n / total, 0.7, left=start, color=colour, hatch=hatch, edgecolor="#555555", lw=0.4)
            box = {"fc": "white", "ec": "none", "pad": 1.2}
            axes.text(start + n / total / 2, place, str(n), ha="center", va="center", fontsize=8, bbox=box)
            start += n / total
    axes.set_yticks(range(len(counts)), [f"γ = {gamma:g}" for gamma in counts])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of seeds (written: number of seeds)")


def _grid(axes: Axes, evidence: Evidence, gammas: list[float]) -> None:
    seeds = sorted({int(seed) for seed in evidence.circuits["seed"]})
    table = evidence.circuits
    for gamma, seed, circuit in zip(table["gamma"], table["seed"], table["circuit"], strict=True):
        x, y = seeds.index(int(seed)), gammas.index(float(gamma))
        colour, hatch = look(str(circuit))
        axes.add_patch(Rectangle((x - 0.42, y - 0.35), 0.84, 0.7, fc=colour, hatch=hatch, ec="#555555", lw=0.4))
    axes.set_xlim(-0.6, len(seeds) - 0.4)
    axes.set_ylim(len(gammas) - 0.5, -0.5)
    axes.set_xticks(range(len(seeds)), [str(seed) for seed in seeds])
    axes.set_yticks(range(len(gammas)), [""] * len(gammas))
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_xlabel("seed (a column shares data and draws)")


def caption_circuits(evidence: Evidence) -> Caption:
    """Caption of the circuit table."""
    counts = circuit_counts(evidence)
    told = "no circuit was named there"
    if SMALL in counts:
        row = counts[SMALL]
        told = ", ".join(f"{name} {n}" for name, n in row.items() if n) + f" of {seeds_text(sum(row.values()))}"
    return Caption(
        f"The circuit that each member ends up with, named by fixed thresholds on its readings. At γ = {SMALL:g}: "
        f"{told}. Average-then-key is the paper's reading (layer 1 averages, the last layer fetches the key); "
        "key-to-anchors carries the key to the anchors in layer 1 and reads them in the last.",
        "that small initialisation leads to the paper's circuit: a small share of average-then-key at γ = "
        f"{SMALL:g}, or as large a share at the other rates. With few seeds a share is coarse: one of five seeds is "
        "already 20 %.",
    )
