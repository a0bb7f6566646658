"""Change what a model computes, and see whether the answer follows: every intervention beside its placebo."""

# Not lazily: once a file is imported, its name would hide the function of the same name.
from rb_interp.interventions.ablation import ablate, ablation, ablation_edits, ablations
from rb_interp.interventions.attention import (
    blocked_attention,
    blocked_edits,
    forced_average,
    forced_pattern,
    forced_pattern_of,
    random_patterns,
    row_entropies,
)
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.hooking import edited, edited_weights, last_logits, write_at
from rb_interp.interventions.interchange import KeyAndSum, interchange, interchange_edits, key_and_sum
from rb_interp.interventions.number_line import permuted_coordinates, permuted_number_line
from rb_interp.interventions.sites import Edit, Site, read_at
from rb_interp.interventions.subspace import (
    leading,
    only_subspace,
    span,
    subspace_effect,
    token_basis,
    without_subspace,
)
from rb_interp.lazy import lazy_names
from rb_interp.tasks.counterfactual import Inputs, counterfactual, inputs

_LATER = {
    "patch": "rb_interp.interventions.path",
    "patching_matrix": "rb_interp.interventions.patching",
    "path_patch": "rb_interp.interventions.path",
}

__all__ = [
    "Edit",
    "Effect",
    "Inputs",
    "KeyAndSum",
    "Site",
    "ablate",
    "ablation",
    "ablation_edits",
    "ablations",
    "blocked_attention",
    "blocked_edits",
    "counterfactual",
    "edited",
    "edited_weights",
    "forced_average",
    "forced_pattern",
    "forced_pattern_of",
    "inputs",
    "interchange",
    "interchange_edits",
    "key_and_sum",
    "last_logits",
    "leading",
    "only_subspace",
    "patch",
    "patching_matrix",
    "path_patch",
    "permuted_coordinates",
    "permuted_number_line",
    "random_patterns",
    "read_at",
    "row_entropies",
    "span",
    "subspace_effect",
    "token_basis",
    "without_subspace",
    "write_at",
]

__getattr__ = lazy_names(__name__, _LATER)
