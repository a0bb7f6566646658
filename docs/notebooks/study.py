# %% [markdown]
# # A study from Python
#
# A study trains models at several initialisation rates (gamma), probes them, and judges claims that
# were fixed before. `anchor.run(preset="quick")` does it all and writes a report. Here the anchor
# study runs for 60 steps with one seed, one verb at a time; that is far too short to show anything
# about initialisation, and the verdicts say so.

# %%
import tempfile
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot  # noqa: F401 (a notebook shows figures once this is imported)
import torch

import rb_interp as rb
from rb_interp.probes import uniformity

anchor = rb.study("anchor")
anchor.question

# %%
smoke = anchor.preset("smoke")
train = replace(smoke.train, steps=60)
config = replace(
    smoke, seeds=(0,), gammas=(0.5, 0.8), train=train, n_null=20, n_init=10, probe_rows=100
)
folder = Path(tempfile.mkdtemp()) / "anchor-60-steps"
run = rb.Run.start(folder, anchor, config)
run.train(progress=False)
run.probe(progress=False)
run

# %% [markdown]
# The run is a folder. Stop it at any moment, and the same calls continue it.
#
# ## Learning curves
#
# Small initial weights (large gamma) should learn the rule (`rsn_train`, and `rsn_test` with
# combinations that are held out) before the table (`mem`).

# %%
curves = run.curves
members = curves[curves.sweep == ""]  # the other sweep trains with L0 fixed at an average
members.tail(3)

# %%
_ = rb.plots.learning_curves(members)

# %% [markdown]
# ## One member as a TransformerLens model
#
# `run.model` gives a member at any stage with exactly its trained weights. Everything that
# TransformerLens does works on it.

# %%
model, untrained = (run.model(gamma=0.8, seed=0, stage=stage) for stage in ("final", "init"))
data = run.config.task.dataset(seed=0)
inputs = data.inputs(data.sample("rsn_train", 100))
logits, cache = model.run_with_cache(torch.from_numpy(inputs.tokens))
cache["blocks.0.attn.hook_pattern"].shape

# %% [markdown]
# A probe gives a reading: each value beside the untrained model's and a null.

# %%
uniformity(model, inputs, layer=0, untrained=untrained)

# %% [markdown]
# The same probe on every member, at any stage:

# %%
table = run.probe_members(uniformity, stage="final", set="rsn_train", layer=0)
table[table.quantity == "tv"][["gamma", "seed", "value", "untrained", "p_value"]].round(3)

# %% [markdown]
# ## Verdicts
#
# No claim about members is decided with fewer than eight seeds.

# %%
run.verdicts.to_frame()[["id", "criterion", "outcome", "n_meeting", "n_seeds", "reason"]].head(6)

# %% [markdown]
# `run.write_report()` draws the figures and writes one HTML file. [A study of your
# own](../tutorial_own_study.md) shows how to ask another question with the same machine.
