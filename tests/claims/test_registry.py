"""The registry against CLAIMS as typed out by hand: ids, places, statistics, operators and thresholds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rb_interp.claims import CLAIMS, claims_of
from rb_interp.claims.calibration import standing
from rb_interp.claims.causes import CAUSES, WORDS
from rb_interp.errors import ConfigError

# id -> (what is read, gamma, stage, operator, threshold[, less the same quantity at gamma, stage])
EXPECTED = {
    "A1": [("learning_order/bias", 0.8, "final", ">=", 0.10), ("learning_order/bias_test", 0.8, "final", ">=", 0.10)],
    "A2": [
        ("learning_order/abs_bias", 0.3, "final", "<=", 0.10),
        ("learning_order/margin_mem", 0.3, "final", ">=", 0.3),
        ("learning_order/margin_rsn_train", 0.3, "final", ">=", 0.3),
    ],
    "A3": [
        ("learning_order/acc_rsn_test", 0.3, "final", "<=", 0.20),
        ("learning_order/acc_gap", 0.3, "final", ">=", 0.20),
    ],
    "A4": [
        ("learning_order/bias", 0.8, "final", ">", 0, 0.5, "final"),
        ("learning_order/bias", 0.5, "final", ">", 0, 0.3, "final"),
    ],
    "A5": [("learning_order/acc_rsn_test", 0.8, "final", ">=", 0.90)],
    "E1": [("geometry/order_rho", 0.8, "final", "<=", -0.80)],
    "E2": [("geometry/cos_memory", 0.8, "half", ">=", 0.50)],
    "E3": [("geometry/pc1_key", 0.8, "final", ">=", 0.90), ("geometry/pc1_reasoning", 0.8, "final", ">=", 0.90)],
    "E4": [("geometry/abs_cos_ratio", 0.3, "final", "<=", 1.5)],
    "E5": [
        ("geometry/participation_ratio", 0.8, "final", "<=", 0.5),
        ("geometry/abs_cos", 0.8, "final", "<", 0.90),
    ],
    "E6": [("geometry/theory", 0.8, "final", ">=", 0.90)],
    "I1": [
        ("lemma_1/within_0.05", 0.8, "init", ">=", 0.95),
        ("lemma_1/within_0.05", 0.8, "init", ">", 0, 0.3, "init"),
        ("lemma_1/within_0.05", 0.5, "init", ">=", 0, 0.3, "init"),
        ("lemma_1/within_0.05", 0.8, "init", ">=", 0, 0.5, "init"),
    ],
    "M1": [("uniformity/tv rsn_train @0", 0.8, "half", "<=", 0.10)],
    "M2": [("uniformity/tv rsn_train @0", 0.3, "matched", ">=", 0.10, 0.8, "half")],
    "M3": [("value_alignment/spectrum_ratio @0", 0.8, "half", ">=", 1.5)],
    "M4": [("value_alignment/cos_reasoning @0", 0.8, "half", ">=", 0.70)],
    "M5": [("value_alignment/cos_memory @0", 0.8, "half", "<=", 0.30)],
    "M6": [("value_alignment/cos_gap @0", 0.8, "half", ">=", 0.30)],
    "M7": [("routing/key rsn_train @1", 0.8, "final", ">=", 0.90)],
    "M7b": [("routing/key mem @1", 0.8, "final", ">=", 0.90)],
    "M8": [
        ("composition/attn_out.1:key rsn_train", 0.8, "final", ">=", 0.80),
        ("composition/attn_out.0:anchor_sum rsn_train", 0.8, "final", ">=", 0.80),
    ],
    "M9": [
        ("swap_key/effect rsn_train", 0.8, "final", ">=", 0.90),
        ("swap_sum/effect rsn_train", 0.8, "final", ">=", 0.90),
        ("swap_key/placebo rsn_train", 0.8, "final", "<=", 0.10),
        ("swap_sum/placebo rsn_train", 0.8, "final", "<=", 0.10),
    ],
    "M10": [
        ("forced_average/effect rsn_train", 0.8, "half", "<=", 0.10),
        ("forced_average/placebo rsn_train", 0.8, "half", ">=", 0.20, 0.8, "half"),
    ],
}
ANCHOR = tuple(EXPECTED)
GRADIENT_DESCENT = [("drift/r2 anchor", ">=", 0.90), ("drift/r2_excess anchor", ">=", 0.10)]
EMBEDDING = [("geometry/order_rho", "<=", -0.80), ("geometry/cos_memory", ">=", 0.50)]
EXPECTED |= {
    "B1": [
        ("learning_order/bias in sweep", 0.8, "final", ">=", 0.10),
        ("learning_order/bias_test in sweep", 0.8, "final", ">=", 0.10),
    ],
    "B2": [
        ("learning_order/abs_bias in sweep", 0.3, "final", "<=", 0.10),
        ("learning_order/margin_mem in sweep", 0.3, "final", ">=", 0.3),
        ("learning_order/margin_rsn_train in sweep", 0.3, "final", ">=", 0.3),
    ],
    "B3": [
        ("learning_order/acc_rsn_test in sweep", 0.3, "final", "<=", 0.20),
        ("learning_order/acc_gap in sweep", 0.3, "final", ">=", 0.20),
    ],
    "B4": [
        ("learning_order/bias in sweep", 0.8, "final", ">", 0, 0.5, "final"),
        ("learning_order/bias in sweep", 0.5, "final", ">", 0, 0.3, "final"),
    ],
    "B5": [("learning_order/acc_rsn_test in sweep", 0.8, "final", ">=", 0.90)],
    "T1": [(f"{what} in descent", 0.8, "leaving", *rest) for what, *rest in GRADIENT_DESCENT],
    "T2": [("drift/r2 anchor in descent", 0.8, "leaving", ">=", 0.20, 0.3, "leaving")],
    "T3": [(f"{what} in sweep", 0.8, at, *rest) for at in ("early", "late") for what, *rest in EMBEDDING],
    "T4": [(f"{what} in one_layer", 0.8, "leaving", *rest) for what, *rest in GRADIENT_DESCENT],
    "R1": [("label_speed/bias", 0.8, "final", ">=", 0.05)],
    "R2": [("label_range/lowest_inside mem in ranges", 0.8, "before_memory", ">=", 0.90)],
    "G1": [("corpus_loss/delta_loss", 0.8, "final", ">", 0)],
    "G1n": [("corpus_loss/delta_loss_per_entropy", 0.8, "final", ">", 0)],
    "G2": [
        ("corpus_loss/delta_loss", 0.8, "final", ">", 0, 0.5, "final"),
        ("corpus_loss/delta_loss", 0.5, "final", ">", 0, 0.3, "final"),
    ],
    "G3": [("token_similarity/difference", 0.8, "early", "<", 0)],
}
STUDIES = {
    "anchor": ANCHOR,
    "emb-mlp": ("B1", "B2", "B3", "B4", "B5", "T1", "T2", "T3", "T4"),
    "labels": ("R1", "R2"),
    "language": ("G1", "G1n", "G2", "G3"),
}
EVERY = [claim for study in STUDIES for claim in claims_of(study)]
SOURCES = {
    **{"A1": "Fig. 3A right", "A2": "Fig. 3A left", "A3": "Fig. 3A left", "A4": "Fig. 3A", "A5": "Fig. 3A right"},
    **{"E1": "Fig. 5A bottom", "E2": "Fig. 5A top", "E3": "Fig. 5B", "E4": "Fig. 14", "E5": "related work"},
    **{"E6": "Fig. 5C, Eq. 14", "I1": "Lemma 1", "M1": "Fig. 6, attention", "M2": "contrast"},
    **{"M3": "Fig. 6, spectrum", "M4": "Fig. 6, alignment", "M5": "Fig. 6, alignment", "M6": "contrast"},
    **{"M7": "second attention", "M7b": "second attention", "M8": "key + sum"},
    **{"M9": "key + sum, causal", "M10": "average, causal"},
    **dict.fromkeys(("B1", "B2", "B3", "B4", "B5"), "Fig. 3B"),
    **{"T1": "Prop. 1", "T2": "Prop. 1", "T3": "Fig. 4A", "T4": "Props. 2-3"},
    **{"R1": "Fig. 8 left", "R2": "Fig. 8 right"},
    **{"G1": "Fig. 1", "G1n": "control", "G2": "Fig. 7A", "G3": "Fig. 7B"},
}
# What each probe writes, so that no claim waits for a number that nobody computes.
QUANTITIES = {
    "uniformity": {"tv", "max_deviation", "entropy"},
    "value_alignment": {
        *("spectrum_ratio", "cos_reasoning", "cos_memory", "cos_key", "cos_gap"),
        *("cos_reasoning_within", "cos_memory_within", "cos_reasoning_raw", "cos_memory_raw", "cos_key_raw"),
        *("subspace_reasoning", "subspace_memory", "subspace_key"),
    },
    "routing": {"key", "anchors", "self", "noise"},
    "composition": {f"attn_out.{layer}:{by}" for layer in (0, 1) for by in ("key", "anchor_sum", "key_and_sum")},
    "geometry": {
        *("cos_memory", "cos_reasoning", "abs_cos", "abs_cos_ratio", "order_rho", "pc1_key", "pc1_reasoning"),
        *("own_pc1_key", "own_pc1_reasoning", "participation", "participation_ratio", "theory"),
    },
    "learning_order": {
        *("bias", "bias_test", "abs_bias", "acc_mem", "acc_rsn_train", "acc_rsn_test", "acc_gap"),
        *("margin_mem", "margin_rsn_train", "half_step", "area_mem", "area_rsn_train", "area_rsn_test"),
    },
    "lemma_1": {"within_0.05", "max_deviation"},
    "drift": {"r2", "r2_excess", "cos", "r2_positions", "cos_positions", "r2_sequences"},
    "label_speed": {"bias", "bias_per_entropy", "area_mem1", "area_mem2"},
    "label_range": {"lowest_inside", *(f"inside_{group}" for group in (1, 2, 3, 4)), "pooled", "accuracy"},
    "corpus_loss": {
        *("delta_loss", "delta_loss_test", "delta_loss_per_entropy", "delta_loss_per_entropy_test"),
        *("delta_final", "early_step", "loss_prontoqa_train", "loss_stories_train"),
        *("loss_prontoqa_test", "loss_stories_test"),
    },
    "token_similarity": {
        *("cos_prontoqa", "cos_stories", "cos_control", "difference", "difference_control"),
        *("cos_prontoqa_centred", "cos_stories_centred", "cos_control_centred"),
        *("difference_centred", "difference_control_centred", "n_prontoqa", "n_stories", "control_mismatch"),
    },
    **{name: {"effect", "placebo", "difference"} for name in WORDS},
}


def described(part) -> tuple:
    term = part.of
    what = f"{term.probe}/{term.quantity}" + (f" {term.rows}" if term.rows else "")
    what += "" if term.layer is None else f" @{term.layer}"
    what += f" in {term.part}" if term.part else ""
    if part.minus is None:
        return what, term.gamma, term.stage, part.operator, part.threshold
    other = part.minus
    assert (other.probe, other.rows, other.layer, other.part) == (term.probe, term.rows, term.layer, term.part)
    assert other.quantity == {"placebo": "effect"}.get(term.quantity, term.quantity)
    return what, term.gamma, term.stage, part.operator, part.threshold, other.gamma, other.stage


def test_the_claims_are_exactly_these_with_these_criteria():
    assert claims_of("anchor") == CLAIMS
    for study, ids in STUDIES.items():
        assert tuple(claim.id for claim in claims_of(study)) == ids
    for claim in EVERY:
        assert [described(part) for part in claim.parts] == EXPECTED[claim.id], claim.id
        assert claim.source == SOURCES[claim.id]


def test_a_study_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"no claims of a study 'emb_mlp'; did you mean 'emb-mlp'\?"):
        claims_of("emb_mlp")


def test_claims_that_read_no_mechanism_need_no_calibration():
    for study in ("emb-mlp", "labels", "language"):
        for claim in claims_of(study):
            assert standing(claim.id, "norm none, 2 layers, learned positions") == (None, "")


def test_only_m7b_has_a_gate_and_only_i1_is_about_a_share():
    assert {claim.id: described(claim.gate) for claim in EVERY if claim.gate} == {
        "M7b": ("learning_order/acc_mem", 0.8, "final", ">=", 0.50)
    }
    assert [claim.id for claim in EVERY if claim.unit == "share"] == ["I1"]


def test_what_stands_beside_a_verdict():
    within = ["cos_reasoning_within", "cos_memory_within"]
    for claim in EVERY:
        for term in claim.beside:
            of = claim.parts[0].of
            gammas = (0.8, 0.5, 0.3) if claim.id == "G2" else (of.gamma,)
            assert term.gamma in gammas
            assert (term.part, term.stage, term.rows) == (of.part, of.stage, of.rows), claim.id
    assert {claim.id: [term.quantity for term in claim.beside] for claim in EVERY if claim.beside} == {
        "E3": ["own_pc1_key", "own_pc1_reasoning"],
        "M4": within,
        "M5": within,
        "M9": ["effect"] * 4,
        "T1": ["r2_sequences", "cos"],
        "T4": ["r2_positions"],
        "R1": ["bias_per_entropy", "area_mem1", "area_mem2"],
        "R2": ["pooled", "inside_1", "inside_2", "inside_3", "inside_4", "accuracy"],
        "G1": ["delta_loss_test"],
        "G1n": ["delta_loss_per_entropy_test"],
        "G2": ["delta_loss"] * 3,
        "G3": ["cos_prontoqa", "cos_stories", "difference_control", "difference_centred"],
    }


CAUSAL = {
    "M1": EXPECTED["M10"],
    "M2": [("forced_average/effect rsn_train", 0.3, "matched", ">=", 0.10, 0.8, "half")],
    "M3": [
        ("leading_direction_only/effect rsn_train", 0.8, "half", "<=", 0.10),
        ("leading_direction_only/placebo rsn_train", 0.8, "half", ">=", 0.20, 0.8, "half"),
    ],
    "M4": [("without_reasoning/difference rsn_train", 0.8, "half", ">=", 0.20)],
    "M5": [("without_memory/difference rsn_train", 0.8, "half", "<=", 0.10)],
    "M7": [("key_blocked/difference rsn_train", 0.8, "final", ">=", 0.20)],
    "M7 ": [("key_blocked_answers/difference rsn_train", 0.8, "final", ">=", 0.50)],
    "M7b": [("key_blocked/difference mem", 0.8, "final", ">=", 0.20)],
    "M8": EXPECTED["M9"],
}


def test_each_mechanism_has_its_intervention_with_this_criterion():
    assert [cause.of for cause in CAUSES] == ["M1", "M2", "M3", "M4", "M5", "M6", "M7", "M7", "M7b", "M8"]
    for cause in CAUSES:
        if cause.of != "M6":
            second = " " if cause.intervention.endswith("_answers") else ""
            assert [described(part) for part in cause.check.parts] == CAUSAL[cause.of + second], cause.of
    gap = next(cause for cause in CAUSES if cause.of == "M6").check.parts
    assert [(part.of.probe, part.minus.probe, part.operator, part.threshold) for part in gap] == [
        ("without_reasoning", "without_memory", ">=", 0.20)
    ]
    assert {cause.of for cause in CAUSES if cause.check.gate} == {"M7b"}


def test_every_quantity_is_one_that_a_probe_writes():
    for claim in EVERY:
        parts = claim.parts + ((claim.gate,) if claim.gate else ())
        terms = [*(part.of for part in parts), *(part.minus for part in parts if part.minus), *claim.beside]
        for term in terms:
            assert term.quantity in QUANTITIES[term.probe], (claim.id, term.quantity)


@pytest.mark.parametrize(
    ("id", "criterion"),
    [
        ("A1", "gamma 0.8, final: B >= 0.1 and B_test >= 0.1"),
        ("A4", "B (gamma 0.8, final) - B (gamma 0.5, final) > 0 and B (gamma 0.5, final) - B (gamma 0.3, final) > 0"),
        (
            "M7b",
            "gamma 0.8, final: layer 2's attention from the last position to the key, memory inputs >= 0.9; "
            "in seeds with accuracy on mem >= 0.5",
        ),
        ("B5", "Emb-MLP, gamma 0.8, final: accuracy on rsn_test >= 0.9"),
        (
            "T3",
            "Emb-MLP, gamma 0.8, early: Spearman(|s_i - s_j|, cos) over reasoning anchors <= -0.8 and "
            "mean cos between memory anchors >= 0.5 and "
            "Emb-MLP, gamma 0.8, late: Spearman(|s_i - s_j|, cos) over reasoning anchors <= -0.8 and "
            "mean cos between memory anchors >= 0.5",
        ),
        (
            "T4",
            "one-layer model under gradient descent, gamma 0.8, leaving the plateau: "
            "R^2 of the anchors' predicted drift >= 0.9 and R^2 - that of predictions permuted within kind >= 0.1",
        ),
        (
            "R2",
            "a label range for each group, gamma 0.8, before memory is learned: "
            "mean probability inside the group's own label range, the lowest of the groups >= 0.9",
        ),
        ("G1", "gamma 0.8, final: Delta L, mean over training > 0"),
        (
            "G2",
            "Delta L (gamma 0.8, final) - Delta L (gamma 0.5, final) > 0 and "
            "Delta L (gamma 0.5, final) - Delta L (gamma 0.3, final) > 0",
        ),
        ("G3", "gamma 0.8, early: mean cos between PrOntoQA tokens - between TinyStories tokens < 0"),
    ],
)
def test_criteria_as_printed(id, criterion):
    assert next(claim for claim in EVERY if claim.id == id).criterion == criterion


def test_printed_criteria_carry_every_label_operator_and_threshold():
    for claim in EVERY:
        assert claim.statement.endswith(".")
        for part in claim.parts:
            assert part.of.label
            assert part.comparison in claim.criterion
            assert part.comparison.endswith(f"{part.operator} {part.threshold:g}")


def test_reading_the_registry_imports_nothing_heavy():
    code = (
        "import sys, rb_interp.claims; "
        "print([m for m in ('numpy', 'pandas', 'scipy', 'torch', 'transformer_lens') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
