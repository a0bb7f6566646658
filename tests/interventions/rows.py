"""A small anchor task, pairs of rows on no task at all, and any model under hooks written by hand."""

import numpy as np
import torch

from rb_interp.interventions.hooking import interchange_edits
from rb_interp.interventions.metrics import answer_logits
from rb_interp.tasks import AnchorTask, Inputs
from rb_interp.tasks.inputs import Roles

TASK = AnchorTask(
    keys=(11, 20), memory_anchors=(1, 3), reasoning_anchors=(5, 8), masked=(), d_vocab=40, n_sequences=400
)
DATA = TASK.dataset(0)
KEY, QUERY, NOISE = np.array([[0], [3], [1]]), np.array([[4], [4], [3]]), np.array([[1, 2], [1, 2], [0, 2]])
ROLES = Roles({"key": KEY, "query": QUERY, "noise": NOISE})
CLEAN, CORRUPTED = (
    Inputs(np.random.default_rng(seed).integers(0, 30, (3, 6)), np.arange(3) + 3 * seed, ROLES) for seed in (0, 1)
)
HOOKS = {name: f"blocks.{{}}.attn.hook_{name}" for name in ("q", "k", "v", "z")} | {
    "mlp_post": "blocks.{}.mlp.hook_post"
}


def patched(model, rows, source, sites, answer_at=None):
    """Logits of some rows with sites taken from their source, role to role."""
    return answer_logits(model, rows, interchange_edits(model, rows, source, sites), answer_at)


def by_hooks(model, base, source, sites, at):
    """Logits at ``at`` ``[row]``; sites (component, layer, unit, role) are the source's, or 0 without one."""
    rows, hooks = np.arange(len(base)), []
    for component, layer, unit, role in sites:
        name = HOOKS.get(component, component if component.startswith("hook") else f"blocks.{{}}.hook_{component}")
        name, where = name.format(layer), {"last": np.full((len(base), 1), base.tokens.shape[1] - 1)}
        here = base.roles.positions.get(role, where.get(role))[:, 0]
        seen = {}
        if source is not None:
            model.run_with_hooks(
                torch.from_numpy(source.tokens),
                fwd_hooks=[(name, lambda a, hook, seen=seen: seen.update(value=a.detach().clone()))],
            )

        def change(activation, hook, seen=seen, here=here, unit=unit):
            changed = activation.clone()
            new = seen["value"][rows, here] if seen else torch.zeros_like(changed[rows, here])
            index = (rows, here) if unit is None else (rows, here, unit)
            changed[index] = new if unit is None else new[:, unit]
            return changed

        hooks.append((name, change))
    with torch.no_grad():
        return model.run_with_hooks(torch.from_numpy(base.tokens), fwd_hooks=hooks)[rows, at]
