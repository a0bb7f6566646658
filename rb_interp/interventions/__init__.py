"""Change what a model computes, and see whether the answer follows. Every intervention has its control.

The calls that measure an effect are here. Edits, contexts, tables of many sites and the anchor task's own tests are in
the submodules.
"""

from rb_interp.interventions import (
    ablating,
    attention,
    attribution,
    blocking,
    hooking,
    interchanging,
    matrix,
    metrics,
    number_line,
    path,
    route_shares,
    site_patching,
    sites,
    subspace,
)
from rb_interp.interventions.ablating import ablation
from rb_interp.interventions.attention import forced_average
from rb_interp.interventions.attribution import attribution_matrix
from rb_interp.interventions.blocking import blocked_attention
from rb_interp.interventions.circuit_names import circuit_by_cause
from rb_interp.interventions.effect import Effect
from rb_interp.interventions.interchanging import interchange
from rb_interp.interventions.patching import patching_matrix
from rb_interp.interventions.path import path_matrix, path_patch
from rb_interp.interventions.route_shares import routes
from rb_interp.interventions.site_patching import patching_effect
from rb_interp.interventions.sites import Site
from rb_interp.interventions.subspace import subspace_effect

__all__ = [
    "Effect",
    "Site",
    "ablating",
    "ablation",
    "attention",
    "attribution",
    "attribution_matrix",
    "blocked_attention",
    "blocking",
    "circuit_by_cause",
    "forced_average",
    "hooking",
    "interchange",
    "interchanging",
    "matrix",
    "metrics",
    "number_line",
    "patching_effect",
    "patching_matrix",
    "path",
    "path_matrix",
    "path_patch",
    "route_shares",
    "routes",
    "site_patching",
    "sites",
    "subspace",
    "subspace_effect",
]
