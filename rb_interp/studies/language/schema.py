"""The tables that the language study measures beside its readings."""

from rb_interp.runs.schema import OVER_SEEDS, TableSchema, over_seeds

TABLES = {
    "attention": TableSchema("gamma stage set layer", OVER_SEEDS),
    "corpora": TableSchema("seed corpus:str", "source:str documents:int tokens:int stand_in:str entropy"),
    "course": TableSchema("gamma step quantity", f"{OVER_SEEDS} below:int"),
    "deltas": TableSchema("gamma seed step", "delta_loss"),
    "early": TableSchema("gamma", "n at_last:int at_first:int first:int all:int all_at_first:int"),
    "nulls": TableSchema("probe quantity gamma stage", "null_mean null_sd"),
    "paired": TableSchema("what:str", f"{OVER_SEEDS} count:int"),
    "rank_ratios": TableSchema("gamma seed matrix:str", "ratio"),
    "rank_ratios_summary": over_seeds("gamma matrix:str"),
    "similarity": TableSchema(
        "gamma seed step",
        "cos_prontoqa cos_stories cos_control cos_in_range cos_counterpart difference difference_control "
        "difference_counterpart difference_centred difference_control_centred difference_counterpart_centred",
    ),
    "skills": TableSchema("gamma seed step hops:int accuracy_of:str", "accuracy n"),
    "skills_summary": TableSchema("gamma accuracy_of:str hops:int", OVER_SEEDS),
    "token_intervals": TableSchema("gamma seed stage step quantity", "low high reached"),
    "token_intervals_summary": TableSchema("gamma stage quantity", "low high n"),
    "tokens": TableSchema(
        "seed token:int",
        "text:str corpus:str count_prontoqa:int count_stories:int ratio control:bool counterpart:int",
    ),
}
"""Name -> columns; the first text of each has the columns that tell rows apart. docs/tables.md says what they hold."""
