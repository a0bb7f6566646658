# %% [markdown]
# # Three questions to the census
#
# `results/census/map.parquet` has a row for each trained member of the anchor task: its settings,
# what its curves say, and its circuit, named by cause. Which circuit, where, and does it matter?

# %%
from pathlib import Path

import pandas as pd

root = next(folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "results").is_dir())
table = pd.read_parquet(root / "results/census/map.parquet")
members = table[table["L0"] == "free"]
len(members), members["norm"].value_counts().to_dict()

# %% [markdown]
# ## Which circuits does one setting make?
#
# A cell is a gamma, a learning rate and a norm. Its members differ in their seed. A member *infers*
# where .90 of the held-out rows are right.

# %%
infers = members["accuracy_rsn_test"] >= 0.9
cells = members[infers].groupby(["norm", "gamma", "lr"])["circuit"]
cells.value_counts().unstack(fill_value=0)

# %% [markdown]
# ## Does the circuit say how well a member generalises?
#
# The gap between held-out and trained loss, where the trained loss is first 2.65 nats, within one
# norm and learning rate.

# %%
gaps = members[infers].pivot_table("gap_2.65", ["norm", "lr"], "circuit", aggfunc=["mean", "count"])
gaps.round(2)

# %% [markdown]
# ## Which member is this, and how is it trained again?
#
# One line finds a member by its settings. Its `command` trains its job again: the same members in
# the same stack, so to the same bits on the same kind of processor.

# %%
row = members.query("norm == 'none' and gamma == 0.3 and lr == 0.002 and seed == 30").iloc[0]
print(row["command"])
row[["circuit", "by_attention", "bias", "accuracy_rsn_test", "step_settled", "tv_half"]]
