"""Dynamics: when does each mechanism appear, and when does each loss fall?

Along the checkpoints that a run kept of a member (step 0, the log-spaced ones, the last, and its own ``half``), each
quantity below is read on rsn_train rows, without null and untrained model. The values of a quantity give one event:

    mechanism   the first checkpoint that meets the threshold and is followed by one that meets it too (or is the last);
                its step lies between that checkpoint and the one before, where the line between the two values meets
                the threshold, linear in log(step + 25); met at the first checkpoint already: that one, "from the start"
    loss        the first evaluation with f_X <= 1/2, f_X = min(L_X / ln d_vocab, 1), for X = mem, rsn_train, rsn_test
    never       nan, censored at the last step

The thresholds are the claims' and the circuit rules' own. Two events are compared by log2((a + 25) / (b + 25)).

How it can mislead. An event's step is known to the spacing of checkpoints only, about a factor 2 at the quick preset.
All seeds share those checkpoints, so an interval over seeds does not contain that error: a mean of -.5 doublings with a
narrow interval is one checkpoint's worth. Only the order against rsn_train is finer, because each member is kept at the
very evaluation at which that loss has halved; how far before it is not. What comes and goes between two checkpoints is
missed. The order is one of thresholds, and thresholds differ in how late they lie: a share of .80 is met well after the
share began to rise, so "after the loss" may mean that a mechanism matures then, not that it begins. A threshold may
also be met by accident: at the quick sizes s1 / s2 passes 1.5 within 25 steps, long before any loss moves, and the
attention of a large initialisation has "stopped averaging" before training. key-to-anchors and average-then-key exclude
each other, and signs of both are in this list: split the order table by circuit. Coming first is no cause; patching
tests causes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from rb_interp.models.build import exported
from rb_interp.models.generations import write_weights
from rb_interp.models.protocol import HookedModel
from rb_interp.probes import (
    attention_by_role,
    attention_to_key,
    geometry,
    uniformity,
    value_alignment,
    variance_explained,
)
from rb_interp.runs.members import MemberModels, each_member
from rb_interp.runs.run import Run
from rb_interp.studies.anchor.events import QUANTITIES, event_table
from rb_interp.studies.anchor.readings import OPTIONS, one_pass
from rb_interp.tasks import Inputs
from rb_interp.training.member_group import Member

ROWS = 300
"""Inputs that the probes see at each checkpoint, at most: enough for a mean to .03, and cheap."""


@dataclass(frozen=True, eq=False)
class Dynamics:
    """How a run's members came to what they are.

    Attributes:
        values: gamma, seed, step, quantity, value: one row per member, kept checkpoint and quantity (probe/quantity).
        events: gamma, seed, event, event_of ("loss" or "mechanism"), step (nan: never), censored (True: never).
    """

    values: pd.DataFrame
    events: pd.DataFrame


def dynamics(run: Run, progress: bool = True) -> Dynamics:
    """Read every mechanism of every member at every checkpoint that the run kept, and date the events.

    Values are nan where a member's weights are not finite. Raises RunError where a checkpoint is missing or broken.
    """
    config: Any = run.config
    sweep, kept = run.sweep(), run.sweep().checkpoint_steps
    halves, n = sweep.stage_steps("half"), min(ROWS, config.probe_rows)

    def read(models: MemberModels, member: Member) -> list[dict[str, Any]]:
        data, rows = sweep.dataset(member.seed), []
        inputs = data.inputs(data.sample("rsn_train", n))
        own = ["half"] if halves[member] >= 0 and halves[member] not in kept else []
        for step in (*kept, *own):
            checkpoint, found = sweep.checkpoint(step, member.gamma, member.seed), dict.fromkeys(QUANTITIES, np.nan)
            weights = checkpoint.member(member.gamma, member.seed)
            if all(weight.isfinite().all() for weight in weights.values()):
                write_weights(models.model, exported(weights, sweep.config.model))
                found = mechanism_values(models.model, inputs)
            place = {"gamma": member.gamma, "seed": member.seed, "step": checkpoint.step}
            rows += [{**place, "quantity": quantity, "value": value} for quantity, value in found.items()]
        return rows

    found = each_member(sweep, sweep.members, read, progress=progress, desc="dynamics")
    values = pd.DataFrame(chain.from_iterable(found)).sort_values(
        ["gamma", "seed", "step"], kind="stable", ignore_index=True
    )
    return Dynamics(values, event_table(values, sweep.curves(), sweep.config.task.d_vocab))


def mechanism_values(model: HookedModel, inputs: Inputs) -> dict[str, float]:
    """Every one of QUANTITIES, of one model on the given inputs.

    Where a layer has several heads, the one that shows the most counts: the lowest tv, the highest of all else; the
    attn_out's shares of variance sum the heads. Raises what the probes raise.
    """
    last, heads, seen = model.cfg.n_layers - 1, range(model.cfg.n_heads), one_pass(model, inputs)

    def read(probe: Any, **where: int) -> dict[str, float]:
        source = model if probe in OPTIONS else seen  # those that compare tokens read weights
        return dict(probe(source, inputs, n_null=0, **where, **OPTIONS.get(probe, {})).values)

    def over_heads(probe: Any, layer: int, *names: str) -> dict[str, float]:
        found = [read(probe, layer=layer, head=head) for head in heads]
        most = min if probe is uniformity else max
        return {f"{probe.__name__}/{name}": float(most(values[name] for values in found)) for name in names}

    written, embedding = read(variance_explained), read(geometry)
    return {
        **over_heads(uniformity, 0, "tv"),
        **over_heads(value_alignment, 0, "spectrum_ratio", "cos_reasoning", "cos_memory"),
        **over_heads(attention_to_key, 0, "key_from_last_anchor"),
        **over_heads(attention_by_role, last, "key", "anchors"),
        "variance_explained/attn_out.0:anchor_sum": float(written["attn_out.0:anchor_sum"]),
        "variance_explained/attn_out.last:key": float(written[f"attn_out.{last}:key"]),
        **{f"geometry/{name}": float(embedding[name]) for name in ("order_rho", "pc1_key")},
    }
