"""Two models that the package did not make, in float64 and without training, of either generation
of TransformerLens.

``gpt2-induction`` has GPT-2's blocks, and two heads that are written by hand: L0's first looks at
the token before, and copies it; L1's first looks for the query's token among these copies, and
writes the token that it finds there. ``grouped-rotary`` has random weights, four heads that share
two keys and values, and no positions but rotary ones. Its numbers differ by 2e-9 between
generations, which turn positions by tables in float32.
"""

import warnings
from zlib import crc32

import torch
import transformer_lens
from torch import Tensor

SIZES = {
    "gpt2-induction": {
        **{
            "n_ctx": 23,
            "d_vocab": 16,
            "d_model": 64,
            "d_head": 24,
            "n_heads": 2,
            "d_mlp": 32,
            "n_layers": 2,
        },
        **{"act_fn": "gelu_new", "normalization_type": "LN"},
    },
    "grouped-rotary": {
        **{
            "n_ctx": 400,
            "d_vocab": 64,
            "d_model": 16,
            "d_head": 4,
            "n_heads": 4,
            "d_mlp": 32,
            "n_layers": 2,
        },
        **{"act_fn": "relu", "normalization_type": "LN", "positional_embedding_type": "rotary"},
        "n_key_value_heads": 2,
    },
}


def weights(name: str, seed: int) -> dict[str, Tensor]:
    """Every tensor under HookedTransformer's names; seed 0 has the mechanism, others are random
    alone."""
    s = SIZES[name]
    d, h, k, m, v = (s[key] for key in ("d_model", "n_heads", "d_head", "d_mlp", "d_vocab"))
    shared, std = (
        s.get("n_key_value_heads", h),
        0.02 if name == "gpt2-induction" and not seed else 0.4,
    )
    shapes = {"embed.W_E": (v, d), "ln_final.w": (d,), "ln_final.b": (d,), "unembed.W_U": (d, v)}
    if "positional_embedding_type" not in s:
        shapes["pos_embed.W_pos"] = (s["n_ctx"], d)
    for layer in range(s["n_layers"]):
        heads = {"Q": h, "K": shared, "V": shared}
        block = {f"attn.W_{part}": (n, d, k) for part, n in heads.items()}
        block |= {f"attn.b_{part}": (n, k) for part, n in heads.items()}
        block |= {"attn.W_O": (h, k, d), "attn.b_O": (d,), "mlp.W_in": (d, m), "mlp.b_in": (m,)}
        block |= {"mlp.W_out": (m, d), "mlp.b_out": (d,)}
        block |= {f"ln{i}.{part}": (d,) for i in (1, 2) for part in "wb"}
        shapes |= {f"blocks.{layer}.{part}": shape for part, shape in block.items()}
    made = {}
    for part, shape in shapes.items():
        generator = torch.Generator().manual_seed(crc32(f"{name} {seed} {part}".encode()))
        made[part] = std * torch.randn(shape, generator=generator, dtype=torch.float64)
        if (".ln" in part and part.endswith("w")) or part == "ln_final.w":
            made[part] += 1
    if name == "gpt2-induction" and not seed:
        _write_induction(made, v, s["n_ctx"])
    return made


def _write_induction(made: dict[str, Tensor], v: int, n: int) -> None:
    """The residual stream holds the token (v dimensions), the position (n), and the token before
    (v)."""
    token, position, before = torch.eye(64, dtype=torch.float64).split((v, n, v, 64 - 2 * v - n))[
        :3
    ]
    made["embed.W_E"] += token
    made["pos_embed.W_pos"] += position
    first, second = "blocks.0.attn.W_", "blocks.1.attn.W_"
    made[f"{first}Q"][0, :, :n] += 1.5 * position.T
    made[f"{first}K"][0, :, : n - 1] += 1.5 * position.T[:, :-1].roll(0, 1)
    made[f"{first}K"][0] = made[f"{first}K"][0].roll(1, 1)  # position p - 1 is found by position p
    made[f"{first}V"][0, :, :v] += token.T
    made[f"{first}O"][0, :v] += 0.4 * before
    made[f"{second}Q"][0, :, :v] += 1.2 * token.T
    made[f"{second}K"][0, :, :v] += 1.2 * before.T
    made[f"{second}V"][0, :, :v] += token.T
    made[f"{second}O"][0, :v] += token
    made["unembed.W_U"] += 3 * token.T


def foreign(name: str, seed: int = 0) -> object:
    """A HookedTransformer up to 3.9, a native bridge from 4.0 on."""
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            config = transformer_lens.HookedTransformerConfig(
                **SIZES[name], dtype=torch.float64, device="cpu", rotary_adjacent_pairs=True
            )
            model = transformer_lens.HookedTransformer(config)
        except ImportError:
            return _bridge(name, seed)
    held = dict(model.named_parameters())
    with torch.no_grad():
        held["unembed.b_U"].zero_()
        for part, value in weights(name, seed).items():
            (held[part] if part in held else held[part.replace("attn.", "attn._")]).copy_(value)
    return model.eval()


def _bridge(name: str, seed: int) -> object:
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge

    config = TransformerBridgeConfig(**SIZES[name], dtype=torch.float64)  # pyright: ignore
    model = TransformerBridge.boot_native(config, device="cpu", dtype=torch.float64)  # pyright: ignore
    held = {
        key.replace("_original_component.", ""): value for key, value in model.named_parameters()
    }
    paths = {
        "embed.W_E": "tok_embed.weight",
        "pos_embed.W_pos": "pos.weight",
        "unembed.W_U": "head.weight",
    }
    parts = {"attn.W_": "attn.{}.weight", "attn.b_": "attn.{}.bias", "mlp.W_": "mlp.fc_{}.weight"}
    parts |= {"mlp.b_": "mlp.fc_{}.bias"}
    with torch.no_grad():
        for part, value in weights(name, seed).items():
            path = paths.get(part, part.replace("blocks", "layers").replace("ln_final", "ln_out"))
            for theirs, ours in parts.items():
                start, found, end = path.partition(theirs)
                path = start + ours.format(end.lower()) if found else path
            if path not in held:
                path = path.removesuffix(".w").removesuffix(".b") + (
                    ".weight" if path.endswith("w") else ".bias"
                )
            if "attn.W_O" in part:
                value = value.flatten(0, 1).T
            elif "attn.W_" in part:
                value = value.transpose(1, 2).flatten(0, 1)
            elif "attn.b_" in part:
                value = value.flatten()
            elif ".W_" in part and "embed.W_E" not in part and "pos" not in part:
                value = value.T
            held[path].copy_(value)
    return model.eval()
