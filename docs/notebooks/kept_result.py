# %% [markdown]
# # Read a result that was kept
#
# Some runs take an hour or more. Their tables are kept in `results/`, so that nobody need repeat
# them. A kept result is opened like a run folder. It has no checkpoints, so it gives no models; it
# gives every number, verdict and figure.
#
# Here: composite functions. All pairs of anchors are trained but one, (4, 3), whose mirror (3, 4)
# is trained with an answer that does not follow the rule. Does a model *infer* the answer to (4,
# 3), or copy its mirror's?

# %%
from pathlib import Path

import matplotlib.pyplot  # noqa: F401 (a notebook shows figures once this is imported)

import rb_interp as rb
from rb_interp.statistics import proportion_interval

root = next(folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "results").is_dir())
run = rb.Run.open(root / "results" / "composite_quick")
run

# %% [markdown]
# There are no checkpoints, so nothing here can be trained or probed again. What made it stands in
# its settings.

# %%
run.is_copy, run.config.seeds, run.config.gammas, run.metadata["command"]

# %% [markdown]
# ## Verdicts
#
# Each claim was fixed before the run. A verdict says how many seeds meet it.

# %%
verdicts = run.verdicts.to_frame()
verdicts[["id", "criterion", "outcome", "n_meeting", "n_seeds", "effect", "untrained"]].head(8)

# %% [markdown]
# One verdict alone, with its reason where it is open or not judged:

# %%
verdict = run.verdicts["C2"]
verdict.outcome, verdict.statement, verdict.reason

# %% [markdown]
# ## Tables
#
# `phases` has a row for each member. `I` is the share of rows with (4, 3) that are answered as the
# rule would, `S` the share that are answered as the mirror. A member is `unfit` where it does not
# even answer the pairs that it was trained on.

# %%
phases = run.table("phases")
phases.pivot_table(index="gamma", columns="phase", values="seed", aggfunc="count", fill_value=0)

# %%
columns = ["gamma", "seed", "phase", "flow", "I", "S", "acc_seen_test"]
phases[phases.gamma == 0.5][columns].round(2)

# %% [markdown]
# At gamma .5 four of eight members copy the mirror in at least .9 of the rows, and none infers.
# Three of the four bring the key straight to the last position (`via last`). With eight seeds the
# share of symmetric members is anything from .16 to .84:

# %%
symmetric = int((phases[phases.gamma == 0.5].phase == "symmetric").sum())
proportion_interval(symmetric, 8)

# %% [markdown]
# ## Figures
#
# A figure is drawn from the tables alone. It is a matplotlib figure, so it can be changed before it
# is saved.

# %%
figure = run.figure("phases")
figure

# %% [markdown]
# The whole report is one file: `rb-interp report results/composite_quick --out report` draws it
# without training. What each table holds stands in [tables](../tables.md), what we make of this run
# in [composite functions](../results_composite.md).
