# %% [markdown]
# # Gamma-scaled initialisation in your own loop
#
# Each matrix starts with `std = d_in^-gamma`, where d_in is its input dimension. `rb.scale_init`
# writes such a start into any model: of TransformerLens, of Hugging Face, or your own. The loop
# stays yours.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import rb_interp as rb
from rb_interp.tasks.induction import InductionTask

task = InductionTask()
shape = {
    "vocab_size": task.d_vocab,
    "n_positions": task.length,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 2,
    "n_inner": 64,
}
sizes = GPT2Config(**shape, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
_ = torch.manual_seed(0)

# %% [markdown]
# ## What does a model start with?
#
# The table shows each tensor as it is. `fitted_gamma` is the rate that its standard deviation
# corresponds to. Hugging Face draws GPT-2's matrices with .02, whatever their size, so the rate
# differs from matrix to matrix.

# %%
columns = ["parameter", "shape", "group", "d_in", "measured_std", "fitted_gamma"]
table = rb.initialisation_table(GPT2LMHeadModel(sizes))
table[table.d_in > 0][columns].round(3).head(8)

# %% [markdown]
# ## Another start, in one line
#
# `per` gives one group of matrices a rate of its own. The table knows what this model was drawn
# with: `z` says by how many standard errors the measured standard deviation misses the intended
# one.

# %%
model = rb.scale_init(GPT2LMHeadModel(sizes), gamma=0.8, per={"qk": 0.5})
table = rb.initialisation_table(model)
table[table.d_in > 0][["parameter", "group", "intended_at_init", "measured_std", "z"]].round(
    3
).head(8)

# %% [markdown]
# GPT-2's unembedding is its embedding. Such a tensor is written once, and `tied_to` says so.
#
# ## The loop
#
# Three models of one seed: they share every draw and differ by a factor in each matrix. The task is
# induction: a row has a block of random tokens, then pairs of neighbours from it, and the model
# must say what follows.

# %%
data = task.dataset(seed=0)
seen = torch.from_numpy(data.tokens[data.set == 0])
targets = torch.from_numpy(data.labels[data.set == 0])  # -1 where nothing is asked


def train(gamma, steps=300):
    model = rb.scale_init(GPT2LMHeadModel(sizes), gamma=gamma, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.98))
    rng, losses = np.random.default_rng(0), []
    for step in range(steps):
        rows = torch.from_numpy(rng.integers(0, len(seen), 32))
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1, (step + 1) / 20, 2 * (1 - step / steps))
        logits = model(seen[rows]).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets[rows].flatten(), ignore_index=-1
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


with rb.threads(1):
    curves = {gamma: train(gamma) for gamma in (0.3, 0.5, 0.8)}

# %%
figure, ax = plt.subplots(figsize=(5, 3), layout="constrained")
for gamma, losses in curves.items():
    ax.plot(np.convolve(losses, np.ones(10) / 10, "valid"), label=f"γ = {gamma:g}")
ax.axhline(np.log(task.block), color="grey", linestyle=":", label="guessing within the block")
ax.set(xlabel="step", ylabel="loss (nats), mean of 10 steps")
_ = ax.legend()

# %% [markdown]
# One seed shows nothing about initialisation. For that take many seeds, trained together in one
# program, with intervals over seeds: `rb.train_members`, or [a study](study.py).
#
# What each scheme and group means stands in [models](../models.md).
