"""What paper 1 predicts from task and weights: label distributions, drift, Theorem 1, inner
products."""

from rb_interp.theory.drift import (
    agreement,
    emb_mlp_map,
    empirical,
    leading_direction,
    one_layer_drift,
    one_layer_maps,
    permuted_r2,
    population,
    population_pull,
    pull,
    value_flow,
)
from rb_interp.theory.theorem_1 import (
    InnerProducts,
    exponent,
    gaussian_profile,
    inner_product_error,
    lemma_1,
    reasoning_moments,
    theorem_1_embeddings,
)

__all__ = [
    "InnerProducts",
    "agreement",
    "emb_mlp_map",
    "empirical",
    "exponent",
    "gaussian_profile",
    "inner_product_error",
    "leading_direction",
    "lemma_1",
    "one_layer_drift",
    "one_layer_maps",
    "permuted_r2",
    "population",
    "population_pull",
    "pull",
    "reasoning_moments",
    "theorem_1_embeddings",
    "value_flow",
]
