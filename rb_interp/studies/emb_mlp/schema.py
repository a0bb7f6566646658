"""The tables that the Emb-MLP study measures beside its readings."""

from rb_interp.runs.schema import TableSchema, over_seeds

TABLES = {
    "agreement": TableSchema(
        "sweep gamma seed group prediction:str metric:str",
        "step:float fraction last_step:int at_first:bool back again",
    ),
    "agreement_summary": TableSchema(
        "sweep gamma group prediction:str metric:str",
        "n never:int at_first:int step:float fraction n_back:int back n_again:int again middle_step "
        "middle_fraction middle_at_first:bool",
    ),
    "drift": TableSchema(
        "sweep gamma seed step group prediction:str", "leaving:bool fraction cos r2 cos_raw r2_raw r2_permuted"
    ),
    "drift_curves": over_seeds("sweep gamma group prediction:str step"),
    "exponents": TableSchema("gamma seed", "exponent predicted"),
    "exponents_summary": over_seeds("gamma predicted"),
    "inner_products": TableSchema("gamma seed d_model:int", "error size"),
    "inner_products_summary": TableSchema("gamma d_model:int", "mean by_eq_13 relative n"),
    "label_cosines": TableSchema("group labels:str token:int other:int", "cos"),
    "label_cosines_summary": TableSchema("group labels:str", "mean n"),
    "label_distributions": TableSchema(
        "seed token:int label:int", "group population empirical population_excess empirical_excess"
    ),
    "lemma_1": TableSchema("gamma d_model:int", "n_init:int n_within:int share low high tolerance"),
    "lemma_1_reached": TableSchema("d_model:int", "gamma"),
    "value_flow": TableSchema("sweep gamma seed step", "leaving:bool fraction cos r2 cos_direction share_leading"),
    "value_flow_curves": over_seeds("sweep gamma step"),
    "value_flow_leaving": over_seeds("sweep gamma"),
}
"""Name -> columns; the first text of each has the columns that tell rows apart. docs/tables.md says what they hold."""
