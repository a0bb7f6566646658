# %% [markdown]
# # A model of your own: induction
#
# A small GPT-2 is trained in a plain loop on pairs that repeat, and learns induction (Olsson et al.
# 2022). Which heads do it, and how would we know? Everything here works on any TransformerLens
# model; nothing of this package trains it.
#
# ## The task
#
# A row is a block of random tokens, then pairs of neighbours from it, then the first token of one
# more pair:
#
#     a b c d e f   d e   a b   c        the answer is d
#
# Where things stand is said by *roles*: `first` is the place of the query's token in the block,
# `second` the place after it, where the answer stands.

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch

import rb_interp as rb
from rb_interp import interventions as iv
from rb_interp.probes import attention
from rb_interp.tasks.induction import InductionTask

task = InductionTask()
inputs = task.inputs(256)
inputs.tokens[0], inputs.labels[0], {role: at[0] for role, at in inputs.roles.positions.items()}

# %% [markdown]
# ## The model and the loop

# %%
SIZES = {
    "n_layers": 2,
    "n_heads": 2,
    "d_model": 32,
    "d_head": 16,
    "d_mlp": 8,
    "n_ctx": task.length,
    "d_vocab": task.d_vocab,
    "act_fn": "gelu_new",
    "normalization_type": "LN",
    "device": "cpu",
}


def small_gpt2():
    try:  # up to TransformerLens 3.9
        from transformer_lens import HookedTransformer, HookedTransformerConfig
    except ImportError:  # from 4.0 on
        from transformer_lens.config import TransformerBridgeConfig
        from transformer_lens.model_bridge import TransformerBridge

        return TransformerBridge.boot_native(TransformerBridgeConfig(**SIZES), device="cpu")
    return HookedTransformer(HookedTransformerConfig(**SIZES))


model, untrained = (rb.scale_init(small_gpt2(), gamma=0.5, seed=0) for _ in range(2))

# %%
data = task.dataset(seed=0)
seen = torch.from_numpy(data.tokens[data.set == 0])
targets = torch.from_numpy(data.labels[data.set == 0])  # -1 where nothing is asked
steps, rng, losses = 600, np.random.default_rng(0), []
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.98), weight_decay=0.01)
with rb.threads(1):
    for step in range(steps):
        rows = torch.from_numpy(rng.integers(0, len(seen), 32))
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * min(1, (step + 1) / 20, 1.05 - step / steps)
        loss = torch.nn.functional.cross_entropy(
            model(seen[rows]).flatten(0, 1), targets[rows].flatten(), ignore_index=-1
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())

with torch.no_grad():
    accuracy = (
        model(torch.from_numpy(inputs.tokens))[:, -1].argmax(-1).numpy() == inputs.labels
    ).mean()
f"accuracy on fresh rows: {accuracy:.2f}"

# %% [markdown]
# ## Who looks where?
#
# Induction needs a head that writes at `second` which token stood before it (it looks from `second`
# to `first`), and a later one that looks from the query to `second`. `scan` reads all heads from
# one forward pass.

# %%
previous = rb.scan(attention, model, inputs, query="second", to="first", untrained=untrained)
induction = rb.scan(attention, model, inputs, query="query", to="second", untrained=untrained)
columns = ["layer", "head", "quantity", "value", "untrained", "null", "null_mean", "p_value"]
previous[columns].round(3)

# %% [markdown]
# `second` always stands right after `first`. So roles of *another row* (the null) tell nothing: a
# previous-token head looks one back there too. The excess says how much more than other places
# these get: read it beside the untrained model's. For the induction head below the null does tell,
# since where its query stands varies.

# %%
induction[columns].round(3)

# %%
figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
for ax, table, name in zip(
    axes, (previous, induction), ("second_to_first", "query_to_second"), strict=True
):
    rb.plots.heads(table, name, ax=ax)

# %% [markdown]
# ## Does the answer need them?
#
# Attention shows where a head looks, not that the answer depends on it. Take heads away, one by one
# and together.

# %%
heads = [f"z.{layer}.{head}" for layer in range(2) for head in range(2)]
for sites in (*heads, ["z.0.0", "z.0.1"], ["z.1.0", "z.1.1"]):
    effect = iv.ablation(model, inputs, sites, method="mean")
    print(f"{sites!s:22} accuracy lost {effect.values.mean():.2f}")

# %% [markdown]
# Heads that stand in for each other lose little one by one, and everything together.
#
# ## What travels where?
#
# Change the answer's token wherever it stands, and take single components back from the rows as
# they were.

# %%
absent = [np.setdiff1d(np.arange(task.d_vocab), row) for row in inputs.tokens]
new = np.array([rng.choice(some) for some in absent])
other = np.where(inputs.tokens == inputs.labels[:, None], new[:, None], inputs.tokens)
corrupted = rb.Inputs(other, new, inputs.roles)
matrix = iv.patching_matrix(model, inputs, corrupted, roles=("first", "second", "query"))
matrix.to_frame().pivot(index=["component", "layer"], columns="role", values="recovered").round(2)

# %% [markdown]
# The answer stands at `second` until L1, whose attention takes it to the query. What each number
# means, and how it misleads, stands in [probes](../probes.md) and
# [interventions](../interventions.md).
