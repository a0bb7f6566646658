# %% [markdown]
# # Activation patching by role
#
# Which component, at which place of the row, carries what the answer depends on? TransformerLens
# patches positions. In many tasks the thing of interest stands elsewhere in every row; then a
# *role* (the key, the anchors, the last position) says more than a position.
#
# The model's weights were written by hand, so we know what it does: L0 averages the anchors' values
# into the last position, and L1 brings the key there. The answer is the key plus the sum of the
# anchors.

# %%
import pandas as pd

from rb_interp import interventions as iv
from rb_interp.models.reference import reference

known = reference("averager")
model, data = known.model(), known.task.dataset(seed=0)
rows = data.sample("rsn_train", 64)
clean = data.inputs(rows)
pd.DataFrame(clean.tokens[:3]).assign(
    key_at=clean.roles.position("key")[:3, 0], answer=clean.labels[:3]
)

# %% [markdown]
# ## Pairs of rows that differ in one thing
#
# `counterfactual` changes the key and leaves the rest. The control changes noise tokens alone: a
# patch from these rows must do nothing.

# %%
corrupted = data.task.counterfactual(data, rows, "key")
(clean.tokens != corrupted.tokens).sum(1).max(), (clean.labels != corrupted.labels).all()

# %% [markdown]
# ## The matrix
#
# The corrupted rows run with one cell taken from the clean rows. 1: the cell carries all that
# differs. 0: nothing.

# %%
matrix = iv.patching_matrix(model, clean, corrupted, roles=("key", "anchor", "last"))
share = matrix.to_frame().pivot(index=["component", "layer"], columns="role", values="recovered")
share.round(2)

# %% [markdown]
# The key stands at its own position up to L1, where attention (`attn_out`, L1) takes it to the last
# position. That is what was written into the weights. `transformer_lens.patching` gives the
# [same numbers](../beside_transformerlens.md), with a setter and an index for each role.

# %% [markdown]
# ## With its control
#
# Where the source differs in noise alone nothing may be lost. This control stands beside the
# effect.

# %%
same = data.task.counterfactual(data, rows, "noise")
ablated = iv.ablation(
    model, clean, "attn_out.1@last", method="mean", control=same, metric="accuracy"
)
ablated

# %% [markdown]
# What each intervention does, and how it can mislead, stands in
# [interventions](../interventions.md).
