"""A small anchor task, two with other answers, pairs of rows on no task at all, and models under
hooks by hand."""

from contextlib import ExitStack

import numpy as np
import torch
from probes.lens_models import lens_model

from rb_interp.interventions.edits import edits_of, interchange_edits, replaced, values_at
from rb_interp.interventions.metrics import answer_logits
from rb_interp.interventions.sites import Site
from rb_interp.models.build import build_model
from rb_interp.models.protocol import live_tensors
from rb_interp.tasks import AnchorTask, Inputs
from rb_interp.tasks.inputs import Roles

TASK = AnchorTask(
    keys=(11, 20),
    memory_anchors=(1, 3),
    reasoning_anchors=(5, 8),
    masked=(),
    d_vocab=40,
    n_sequences=400,
)
DATA = TASK.dataset(0)
KEY, QUERY, NOISE = (
    np.array([[0], [3], [1]]),
    np.array([[4], [4], [3]]),
    np.array([[1, 2], [1, 2], [0, 2]]),
)
ROLES = Roles({"key": KEY, "query": QUERY, "noise": NOISE})
CLEAN, CORRUPTED = (
    Inputs(np.random.default_rng(seed).integers(0, 30, (3, 6)), np.arange(3) + 3 * seed, ROLES)
    for seed in (0, 1)
)
HOOKS = {name: f"blocks.{{}}.attn.hook_{name}" for name in ("q", "k", "v", "z")} | {
    "mlp_post": "blocks.{}.mlp.hook_post"
}


def patched(model, rows, source, sites, answer_at=None):
    """Logits of some rows with sites taken from their source, role to role."""
    return answer_logits(model, rows, interchange_edits(model, rows, source, sites), answer_at)


def by_hooks(model, base, source, sites, at):
    """Logits at ``at`` ``[row]``; sites (component, layer, unit, role) are the source's, or 0
    without one."""
    rows, hooks = np.arange(len(base)), []
    for component, layer, unit, role in sites:
        name = HOOKS.get(
            component,
            component if component.startswith("hook") else f"blocks.{{}}.hook_{component}",
        )
        name, where = (
            name.format(layer),
            {"last": np.full((len(base), 1), base.tokens.shape[1] - 1)},
        )
        here = base.roles.positions.get(role, where.get(role))[:, 0]
        seen = {}
        if source is not None:
            model.run_with_hooks(
                torch.from_numpy(source.tokens),
                fwd_hooks=[
                    (name, lambda a, hook, seen=seen: seen.update(value=a.detach().clone()))
                ],
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


def read_at(model, tokens, site, roles):
    """What a model computes at one site of some rows."""
    return values_at(model, Inputs(tokens, None, roles), site)[Site.parse(site)]


def write_at(model, site, values, rows):
    """Edits that write values at one site of some rows."""
    return edits_of(model, rows, {Site.parse(site): values})


def without(model, names):
    """A context in which some weights are 0."""
    held, stack = live_tensors(model), ExitStack()
    for name in names:
        stack.enter_context(replaced(held[name], torch.zeros_like(held[name])))
    return stack


class Shifted(AnchorTask):
    """No answer is key + sum."""

    def answers(self, data, rows, tokens):
        return super().answers(data, rows, tokens) + 1


class Added(AnchorTask):
    """Every answer is key + sum, that of memory too."""

    def answers(self, data, rows, tokens):
        roles = np.concatenate([data.positions[role][rows] for role in ("key", "anchor")], 1)
        return np.take_along_axis(tokens, roles, 1).sum(1)


def model_of(kind):
    """A post-norm model of the task, or one of TransformerLens's own."""
    if kind == "post":
        return build_model(TASK, gamma=0.3, norm="post", d_model=16, d_head=8, d_mlp=16, n_heads=4)
    return lens_model(kind, d_vocab=40)
