"""The claims of paper 1 about the anchor task, as data (arXiv 2502.04375).

Criteria were written down before the runs. They are never tuned to turn a verdict: a criterion that
proves ill-defined keeps its verdict, and a second one is added.
"""

from functools import partial

from rb_interp.claims import Claim, Condition, Term
from rb_interp.claims.learning_order import (
    alike_anchors,
    curve,
    geometry,
    learning_order_claims,
    ordered_anchors,
)
from rb_interp.settings import LARGE, MIDDLE, SMALL


def uniformity(gamma: float, stage: str) -> Term:
    return Term("uniformity", "tv", gamma, stage, "rsn_train", 0, "L0's TV from 1/i")


def value(quantity: str, label: str) -> Term:
    return Term("value_alignment", quantity, SMALL, "half", "", 0, label)


def _ov(quantity: str, label: str) -> tuple[Term]:
    return (value(f"ov_{quantity}", f"{label}, of W_V W_O"),)


def _attention(set: str, inputs: str) -> Term:
    label = f"L1's attention from the last position to the key, {inputs}"
    return Term("attention_by_role", "key", SMALL, "final", set, 1, label)


def _on_reasoning(probe: str, quantity: str, label: str, stage: str = "final") -> Term:
    return Term(probe, quantity, SMALL, stage, "rsn_train", label=label)


_share, route = partial(_on_reasoning, "variance_explained"), partial(_on_reasoning, "routes")
_forced = partial(_on_reasoning, "forced_average", stage="half")


def swapped(suffix: str, pairs: str) -> tuple[Condition, ...]:
    """M9's conditions: the answer follows key and sum, and does not follow new noise."""

    def part(what: str, quantity: str, label: str, layer: int) -> Term:
        return _on_reasoning(
            f"swap_{what}{suffix}", quantity, f"share of {label}, L{layer}'s output swapped{pairs}"
        )

    return (
        Condition(part("key", "effect", "pairs answered z_source + sum_base", 1), ">=", 0.90),
        Condition(part("sum", "effect", "pairs answered z_base + sum_source", 0), ">=", 0.90),
        Condition(part("key", "control", "answers changed by new noise", 1), "<=", 0.10),
        Condition(part("sum", "control", "answers changed by new noise", 0), "<=", 0.10),
    )


def _ordered_component(group: str, tokens: str) -> Condition:
    return Condition(geometry(f"pc1_{group}", f"|Spearman(PC1, value)| of {tokens}"), ">=", 0.90)


def _uniform_share(gamma: float) -> Term:
    return Term("lemma_1", "within_0.05", gamma, "init", label="uniform share")


_WITHIN = (
    value("cos_reasoning_within", "mean |cos(u1, reasoning anchors)|, centred within the anchors"),
    value("cos_memory_within", "mean |cos(u1, memory anchors)|, centred within the anchors"),
)


LEARNING_ORDER = learning_order_claims(
    "A",
    (
        "With small initialisation the reasoning mapping is learned before the memory mapping.",
        "With large initialisation both mappings are learned at about the same pace.",
        "With large initialisation the reasoning mapping is memorised: it does not carry over to "
        "masked pairs.",
        "The smaller the initialisation, the stronger the preference for reasoning.",
        "With small initialisation the reasoning mapping carries over to masked pairs.",
    ),
    ("Fig. 3A right", "Fig. 3A left", "Fig. 3A left", "Fig. 3A", "Fig. 3A right"),
)

EMBEDDING = (
    Claim(
        "E1",
        "The embeddings of reasoning anchors are the more alike, the closer their values.",
        "Fig. 5A bottom",
        (ordered_anchors(),),
    ),
    Claim(
        "E2",
        "Memory anchors share one direction early in training.",
        "Fig. 5A top",
        (alike_anchors("half"),),
    ),
    Claim(
        "E3",
        "The leading principal component of the embedding orders keys and reasoning anchors by "
        "value.",
        "Fig. 5B",
        (_ordered_component("key", "keys"), _ordered_component("reasoning", "reasoning anchors")),
        context=(
            geometry("own_pc1_key", "|Spearman(own PC1, value)| of keys"),
            geometry("own_pc1_reasoning", "|Spearman(own PC1, value)| of reasoning anchors"),
        ),
    ),
    Claim(
        "E4",
        "With large initialisation the embeddings stay about as orthogonal as random vectors.",
        "Fig. 14",
        (
            Condition(
                geometry("abs_cos_ratio", "mean |cos| / that of random vectors", LARGE), "<=", 1.5
            ),
        ),
    ),
    Claim(
        "E5",
        "With small initialisation the embedding becomes low rank without condensing to one "
        "direction.",
        "related work",
        (
            Condition(
                geometry("participation_ratio", "participation ratio / the untrained model's"),
                "<=",
                0.5,
            ),
            Condition(geometry("abs_cos", "mean |cos| between used tokens"), "<", 0.90),
        ),
    ),
    Claim(
        "E6",
        "The theoretical embedding predicts which reasoning anchors are alike.",
        "Fig. 5C, Eq. 14",
        (
            Condition(
                geometry("theory", "Pearson(real cos, theoretical cos) over reasoning anchors"),
                ">=",
                0.90,
            ),
        ),
    ),
)

INITIALISATION = (
    Claim(
        "I1",
        "The smaller the initialisation, the more often attention starts uniform: every |A_ij - "
        "1/i| <= 0.05.",
        "Lemma 1",
        (
            Condition(_uniform_share(SMALL), ">=", 0.95),
            Condition(_uniform_share(SMALL), ">", 0.0, _uniform_share(LARGE)),
            Condition(_uniform_share(MIDDLE), ">=", 0.0, _uniform_share(LARGE)),
            Condition(_uniform_share(SMALL), ">=", 0.0, _uniform_share(MIDDLE)),
        ),
        unit="share",
    ),
)

MECHANISM = (
    Claim(
        "M1",
        "With small initialisation L0 averages all preceding tokens.",
        "Fig. 6, attention",
        (Condition(uniformity(SMALL, "half"), "<=", 0.10),),
    ),
    Claim(
        "M2",
        "With large initialisation L0 is further from an average than with small initialisation.",
        "contrast",
        (Condition(uniformity(LARGE, "matched"), ">=", 0.10, uniformity(SMALL, "half")),),
    ),
    Claim(
        "M3",
        "One direction dominates L0's value matrix.",
        "Fig. 6, spectrum",
        (Condition(value("spectrum_ratio", "s1 / s2 of L0's W_V"), ">=", 1.5),),
        context=_ov("spectrum_ratio", "s1 / s2"),
    ),
    Claim(
        "M4",
        "The leading direction of L0's value matrix is that of the reasoning anchors.",
        "Fig. 6, alignment",
        (
            Condition(
                value("cos_reasoning", "mean |cos(u1, reasoning anchors)|, centred"), ">=", 0.70
            ),
        ),
        context=(*_WITHIN, *_ov("cos_reasoning", "mean |cos(u1, reasoning anchors)|, centred")),
    ),
    Claim(
        "M5",
        "The leading direction of L0's value matrix is not that of the memory anchors.",
        "Fig. 6, alignment",
        (Condition(value("cos_memory", "mean |cos(u1, memory anchors)|, centred"), "<=", 0.30),),
        context=(*_WITHIN, *_ov("cos_memory", "mean |cos(u1, memory anchors)|, centred")),
    ),
    Claim(
        "M6",
        "L0's value matrix is aligned with reasoning anchors more than with memory anchors.",
        "contrast",
        (
            Condition(
                value("cos_gap", "mean |cos| of reasoning anchors - of memory anchors, centred"),
                ">=",
                0.30,
            ),
        ),
        context=_ov("cos_gap", "mean |cos| of reasoning anchors - of memory anchors, centred"),
    ),
    Claim(
        "M7",
        "L1 fetches the key on reasoning inputs.",
        "second attention",
        (Condition(_attention("rsn_train", "reasoning inputs"), ">=", 0.90),),
    ),
    Claim(
        "M7b",
        "L1 fetches the key on memory inputs.",
        "second attention",
        (Condition(_attention("mem", "memory inputs"), ">=", 0.90),),
        gate=Condition(curve("acc_mem", "accuracy on mem"), ">=", 0.50),
    ),
    Claim(
        "M8",
        "L1's attention carries the key and L0's the sum of the anchors.",
        "key + sum",
        (
            Condition(
                _share("attn_out.1:key", "variance of L1's attention output explained by the key"),
                ">=",
                0.80,
            ),
            Condition(
                _share(
                    "attn_out.0:anchor_sum",
                    "variance of L0's attention output explained by the anchor sum",
                ),
                ">=",
                0.80,
            ),
        ),
    ),
)

CAUSAL = (
    Claim(
        "M9",
        "The answer is the key that L1's attention carries plus the sum that L0's carries.",
        "key + sum, causal",
        swapped("", ""),
        context=(
            _on_reasoning(
                "swap_key_in_place",
                "effect",
                "key swapped between inputs with the key at one position",
            ),
            _on_reasoning(
                "swap_sum_in_place",
                "effect",
                "sum swapped between inputs with the key at one position",
            ),
            _on_reasoning(
                "swap_key_carried", "effect", "key swapped where the other circuit carries it"
            ),
            _on_reasoning(
                "swap_sum_carried", "effect", "sum swapped where the other circuit carries it"
            ),
        ),
    ),
    Claim(
        "M10",
        "While the circuit forms, L0 needs no more than the average.",
        "average, causal",
        (
            Condition(_forced("effect", "nats lost with L0's pattern at 1/i"), "<=", 0.10),
            Condition(
                _forced("control", "nats lost with random patterns"),
                ">=",
                0.20,
                _forced("effect", "nats lost with L0's pattern at 1/i"),
            ),
        ),
    ),
)
