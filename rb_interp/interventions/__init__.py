"""Change what a model computes, and see whether the answer follows. Every intervention has its
control.

The calls that measure an effect are here. Edits, contexts, tables of many sites and the anchor
task's own tests are in the submodules. All raise ModelError for what a model does not have (a
layer, head, component or method), for rows that are no pairs, for a control that is like the rows
or their source, and RolesError for a role that rows do not have.
"""

from rb_interp.interventions.ablating import ablation, ablations, patching_effect
from rb_interp.interventions.attribution import attribution_matrix
from rb_interp.interventions.circuits import circuit_by_cause, routes
from rb_interp.interventions.direct import direct_effect
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.matrix import Matrix
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.path import path_matrix, path_patch
from rb_interp.interventions.patterns import blocked_attention, forced_average
from rb_interp.interventions.sites import Site
from rb_interp.interventions.subspaces import subspace_effect
from rb_interp.interventions.swaps import interchange

__all__ = [
    "Effect",
    "Matrix",
    "Site",
    "ablation",
    "ablations",
    "attribution_matrix",
    "blocked_attention",
    "circuit_by_cause",
    "direct_effect",
    "forced_average",
    "interchange",
    "patching_effect",
    "patching_matrix",
    "path_matrix",
    "path_patch",
    "routes",
    "subspace_effect",
]
