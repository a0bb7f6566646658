"""The last block at the last position alone: the same logits there, for a third less work in a model of two layers.

The answer is read at the last position. Of the last block it needs one query, what attention brings to it, and one
position of the MLP, and of the unembedding one position too. So three activations of the last block are cut to the last
position as they pass: the scores (their queries), ``z``, and ``resid_mid``. Positions before it are then missing, or
hold the last one's attention; nothing reads them. Where an edit acts at one of these places or after it, it is given
the whole activation, and the cuts begin after it.

Whether a model allows this is tried once, on two rows, against its own logits. One that does not runs whole. So does a
model that carries hooks of the caller's, since they may read any position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Int
from torch import Tensor

from rb_interp.interventions.sites import Edit
from rb_interp.models.generations import resid_mid_is_a_copy
from rb_interp.models.protocol import HookedModel
from rb_interp.probes.capture import attached

Cut = tuple[str, Callable[[Tensor], Tensor]]
CUTS: tuple[Cut, ...] = (
    ("attn.hook_attn_scores", lambda scores: scores[:, :, -1:]),
    ("attn.hook_z", lambda z: z[:, -1:]),
    ("hook_resid_mid", lambda resid: resid[:, -1:]),
)
"""Hook in the last block, and what is left of its activation, in the order in which they are computed."""
FIRST_CUT = {
    **dict.fromkeys(("hook_resid_pre", "attn.hook_q", "attn.hook_k", "attn.hook_v"), 0),
    **dict.fromkeys(("attn.hook_attn_scores", "attn.hook_pattern", "attn.hook_z"), 1),
    **dict.fromkeys(("hook_attn_out", "hook_resid_mid"), 2),
}
"""Hook of an edit in the last block -> the first of CUTS that may follow it; an edit at any other allows none."""
TOLERANCE = 1e-4
"""Share of the largest logit by which the trial may differ."""

_allowed: WeakKeyDictionary[HookedModel, bool] = WeakKeyDictionary()


def cuts(model: HookedModel, tokens: Int[Tensor, "row pos"], edits: Sequence[Edit] = ()) -> list[Edit]:
    """Edits that cut the last block to the last position, to come after the given ones; none where that would not do.

    Args:
        tokens: rows of the runs to come, on CPU; the first two are tried where the model was not tried yet.
    """
    if any(point.fwd_hooks for point in model.hook_dict.values()):
        return []
    if model not in _allowed:
        _allowed[model] = _try(model, tokens[:2])
    if not _allowed[model]:
        return []
    return _edits(last_block_cuts(model), max((_first_cut(model, edit.hook) for edit in edits), default=0))


def last_block_cuts(model: HookedModel) -> dict[str, Callable[[Tensor], Tensor]]:
    """CUTS by full hook name; the scores only where what follows reads them from their hook."""
    block = f"blocks.{model.cfg.n_layers - 1}."
    skipped = CUTS[0][0] if resid_mid_is_a_copy(model) else None
    return {block + hook: cut for hook, cut in CUTS if hook != skipped and block + hook in model.hook_dict}


def _first_cut(model: HookedModel, hook: str) -> int:
    """Number of the first cut that may follow an edit at a hook; len(CUTS) where none may."""
    if hook in ("hook_embed", "hook_pos_embed"):
        return 0
    blocks, _, rest = hook.partition(".")
    number, _, name = rest.partition(".")
    if blocks != "blocks" or not number.isdigit():
        return len(CUTS)
    return FIRST_CUT.get(name, len(CUTS)) if int(number) == model.cfg.n_layers - 1 else 0


def _edits(found: dict[str, Callable[[Tensor], Tensor]], first: int) -> list[Edit]:
    wanted = tuple(hook for hook, _ in CUTS[first:])
    return [Edit(name, lambda x, rows, cut=cut: cut(x)) for name, cut in found.items() if name.endswith(wanted)]


@torch.no_grad()
def _try(model: HookedModel, rows: Int[Tensor, "row pos"]) -> bool:
    """Whether the cuts, all of them or only the later ones, leave the logits at the last position as they are."""
    found = last_block_cuts(model)
    if not found:
        return False
    rows = rows.to(next(model.parameters()).device)
    own = model(rows)[:, -1]
    close = partial(torch.allclose, own, rtol=0, atol=TOLERANCE * float(own.abs().max()))
    try:
        for first in range(len(CUTS)):
            hooks = [(hook, lambda x, hook, change=change: change(x, rows)) for hook, change in _edits(found, first)]
            with attached(model, hooks):
                cut = model(rows)[:, -1]
            if cut.shape != own.shape or not close(cut):
                return False
    except Exception:  # whatever the reason, such a model is run whole
        return False
    return True
