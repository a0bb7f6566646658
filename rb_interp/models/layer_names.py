"""What a linear layer does in a transformer, told from its name, as the models of transformers and torch name it."""

from __future__ import annotations

import re

LEAVES = {
    "qk": "q_proj k_proj query key q_lin k_lin q k wq wk to_q to_k q_attn",
    "vo": "v_proj o_proj value v_lin out_lin v o wv to_v to_out",
    "qkv": "c_attn query_key_value qkv_proj Wqkv W_pack qkv",
    "mlp": "c_fc fc1 fc2 fc_in fc_out dense_h_to_4h dense_4h_to_h gate_proj up_proj down_proj gate_up_proj w1 w2 w3 wi "
    "wi_0 wi_1 lin1 lin2 linear1 linear2 W_in W_out W_gate",
    "unembedding": "lm_head embed_out unembed",
}
"""Group -> last parts of a layer's path that say it alone."""
IN_ATTENTION = ("c_proj", "dense", "out_proj", "proj", "out", "wo", "Wo")
"""Last parts of W_O's path within attention, where an MLP may use the same."""
OUT_OF_MLP = ("c_proj", "dense", "dense_4h_to_h", "down_proj", "fc2", "fc_out", "w2", "wo", "lin2", "linear2", "W_out")
OUT_OF_ATTENTION = (*IN_ATTENTION, "o_proj", "out_lin", "o", "to_out")
_GROUP = {leaf: group for group, leaves in LEAVES.items() for leaf in leaves.split()}
_ATTENTION, _MLP = (
    re.compile("attn|attention", re.I),
    re.compile("^(mlp|ffn?|intermediate|output|dense_?relu_?dense)$|feed_?forward", re.I),
)


def group_of(path: str) -> str:
    """Group of matrices that a layer with this path belongs to; ``other`` where its name does not tell.

    >>> [group_of(f"h.0.{name}") for name in ("attn.c_proj", "mlp.c_proj", "self_attn.k_proj", "adapter")]
    ['vo', 'mlp', 'qk', 'other']
    """
    *above, leaf = path.split(".")
    if any(_ATTENTION.search(part) for part in above):
        return "vo" if leaf in IN_ATTENTION else _GROUP.get(leaf, "other")
    if any(_MLP.search(part) for part in above):
        return "mlp"
    return _GROUP.get(leaf, "other")


def writes(path: str) -> bool:
    """Whether a layer of attention or of an MLP is its output projection.

    >>> [writes(f"encoder.layer.0.{name}") for name in ("attention.output.dense", "output.dense", "intermediate.dense")]
    [True, True, False]
    """
    *above, leaf = path.split(".")
    outputs = {"vo": OUT_OF_ATTENTION, "mlp": OUT_OF_MLP}.get(group_of(path), ())
    return leaf in outputs and "intermediate" not in above
