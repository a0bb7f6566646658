"""Interventions as tables for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rb_interp.figures.numbers import share_text
from rb_interp.report.terminal import console_of, for_console

if TYPE_CHECKING:
    import pandas as pd

UNITS = {"logit_diff": "logit difference", "probability": "probability of the clean answer"}


def print_matrix(table: pd.DataFrame, metric: str = "logit_diff", console: Console | None = None) -> None:
    """Print a patching matrix: components in forward order down, roles across, recovered shares in the cells."""
    console = console_of(console)
    member = table.iloc[0]
    differ = {"both": "key and anchors"}.get(member["counterfactual"], member["counterfactual"])
    console.print(Text(f"recovered {UNITS[metric]}; clean and corrupted inputs differ in {differ}"))
    console.print(Text("1: the cell carries all of the difference, 0: none of it"))
    console.print(Text(f"gamma {member['gamma']:g}, seed {member['seed']}, stage {member['stage']}, n {member['n']}"))
    roles = list(dict.fromkeys(table["role"]))
    found = _columns(["site", *roles])
    for place, cells in table.groupby(["component", "layer"], sort=False):
        component, layer = cast(tuple[str, int], place)
        by_role = cells.set_index("role")["recovered"]
        found.add_row(f"{component}.{int(layer)}", *(_cell(by_role.get(role)) for role in roles))
    console.print(found)
    wide, control = float(np.max(table["high"] - table["low"])), float(np.max(np.abs(table["control"])))
    notes = [f"95 % intervals are at most {wide:.2f} wide"] if np.isfinite(wide) else []
    notes += [f"the control's largest cell is {control:.2f}"] if np.isfinite(control) else []
    console.print(Text(for_console("; ".join(notes), console)))
    if not (np.isfinite(wide) and control < 0.5):
        console.print(Text("The control does as much as cells do: this member hardly tells these inputs apart."))
    if {"noise", "last"} <= set(roles):
        console.print(Text("noise includes the last position where a noise token stands there"))


def print_ablations(means: pd.DataFrame, console: Console | None = None) -> None:
    """Print the accuracy lost without each component, by gamma, method and set, from `intervene.ablation_means`."""
    console = console_of(console)
    sets, methods = (list(dict.fromkeys(means[name])) for name in ("set", "method"))
    console.print(Text(f"accuracy lost without a component, stage {means['stage'].iloc[0]}; mean over seeds [95 %]"))
    found = _columns(["gamma", "component", "method", *sets])
    lines = [(method, method, "accuracy_drop") for method in methods]
    lines += [("(had)", methods[0], "before"), ("(control)", methods[0], "control_accuracy_drop")]
    for place, rows in means.groupby(["gamma", "component"], sort=False):
        gamma, component = cast(tuple[float, str], place)
        by_set = rows.set_index(["method", "quantity", "set"]).sort_index()[["mean", "low", "high"]]
        for name, method, quantity in lines:
            cells = by_set.loc[method, quantity].reindex(sets).to_numpy()
            found.add_row(f"{gamma:g}", component, name, *(for_console(share_text(*cell), console) for cell in cells))
    console.print(found)
    console.print(Text("had: accuracy with the component, the most there is to lose"))
    console.print(Text("control: the same component as it is on the same input with other noise"))


def _columns(headings: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=True, justify="left")
    return table


def _cell(value: float | None) -> Text:
    if value is None or not np.isfinite(value):
        return Text("-")
    return Text(f"{value:5.2f}", "bold" if abs(value) >= 0.5 else "")
