# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Activation patching by role
#
# Which component, at which place of the row, carries what the answer depends on? TransformerLens patches positions. In
# many tasks the thing of interest stands elsewhere in every row; then a *role* (the key, the anchors, the last
# position) says more than a position. This notebook patches by role, and compares the numbers with TransformerLens's
# own.
#
# The model's weights were written by hand, so we know what it does: L0 averages the anchors' values into the last
# position, and L1 brings the key there. The answer is the key plus the sum of the anchors.

# %%
import numpy as np
import pandas as pd
import torch
from transformer_lens import patching

from rb_interp import interventions as iv
from rb_interp.models.reference import reference

known = reference("averager")
model, data = known.model(), known.task.dataset(seed=0)
rows = data.sample("rsn_train", 64)
clean = data.inputs(rows)
pd.DataFrame(clean.tokens[:3]).assign(key_at=clean.roles.position("key")[:3, 0], answer=clean.labels[:3])

# %% [markdown]
# ## Pairs of rows that differ in one thing
#
# `counterfactual` changes the key and leaves the rest. The control changes noise tokens alone: a patch from these rows
# must do nothing.

# %%
corrupted = data.task.counterfactual(data, rows, "key")
(clean.tokens != corrupted.tokens).sum(1).max(), (clean.labels != corrupted.labels).all()

# %% [markdown]
# ## The matrix
#
# The corrupted rows run with one cell taken from the clean rows. 1: the cell carries all that differs. 0: nothing.

# %%
matrix = iv.patching_matrix(model, clean, corrupted, roles=("key", "anchor", "last"))
share = matrix.to_frame().pivot(index=["component", "layer"], columns="role", values="recovered")
share.round(2)

# %% [markdown]
# The key stands at its own position up to L1, where attention (`attn_out`, L1) takes it to the last position. That is
# what was written into the weights.
#
# ## The same with TransformerLens
#
# `transformer_lens.patching` takes a setter and an index. To patch a role we tell it, row by row, where the key stands.

# %%
tokens, others = torch.from_numpy(clean.tokens), torch.from_numpy(corrupted.tokens)
answers = torch.from_numpy(np.stack([clean.labels, corrupted.labels], 1))
at, row = torch.from_numpy(clean.roles.position("key")), torch.arange(len(tokens))[:, None]


def logit_diff(logits):
    found = logits[:, -1].gather(1, answers)
    return (found[:, 0] - found[:, 1]).mean()


def key_of(corrupted_activation, index, clean_activation):
    corrupted_activation[row, at] = clean_activation[row, at]
    return corrupted_activation


with torch.no_grad():
    _, cache = model.run_with_cache(tokens)
    ends = [float(logit_diff(model(some))) for some in (others, tokens)]
    layers = pd.DataFrame({"layer": range(model.cfg.n_layers)})
    found = patching.generic_activation_patch(model, others, cache, logit_diff, key_of, "resid_pre", index_df=layers)
peer = (found.flatten().numpy() - ends[0]) / (ends[1] - ends[0])
ours = share.xs("resid_pre", level="component")["key"].to_numpy()
pd.DataFrame({"TransformerLens": peer, "rb_interp": ours}, index=pd.Index(range(len(ours)), name="layer"))

# %%
assert np.allclose(peer, ours, atol=1e-4)

# %% [markdown]
# ## With its control
#
# Patching as such does nothing where the source differs in noise alone. The control stands beside each cell.

# %%
same = data.task.counterfactual(data, rows, "noise")
ablated = iv.ablation(model, clean, "attn_out.1@last", method="mean", control=same, metric="accuracy")
ablated

# %% [markdown]
# What each intervention does, and how it can mislead, stands in [interventions](../interventions.md).
