"""The tables that the language study measures beside its readings."""

from rb_interp.machine.schema import Table, over_seeds

TABLES = {
    "attention": Table("gamma stage set layer", "mean low high n"),
    "corpora": Table("seed corpus:str", "source:str documents:int tokens:int stand_in:str entropy"),
    "course": Table("gamma step quantity", "mean low high n below:int"),
    "deltas": Table("gamma seed step", "delta_loss"),
    "early": Table("gamma", "n at_last:int at_first:int first:int all:int all_at_first:int"),
    "nulls": Table("probe quantity gamma stage", "null_mean null_sd"),
    "paired": Table("what:str", "mean low high n count:int"),
    "rank_ratios": Table("gamma seed matrix:str", "ratio"),
    "rank_ratios_summary": over_seeds("gamma matrix:str"),
    "similarity": Table(
        "gamma seed step",
        "cos_prontoqa cos_stories cos_control cos_in_range cos_counterpart difference difference_control "
        "difference_counterpart difference_centred difference_control_centred difference_counterpart_centred",
    ),
    "skills": Table("gamma seed step hops:int accuracy_of:str", "accuracy n"),
    "skills_summary": Table("gamma accuracy_of:str hops:int", "mean low high n"),
    "token_intervals": Table("gamma seed stage step quantity", "low high"),
    "token_intervals_summary": Table("gamma stage quantity", "low high n"),
    "tokens": Table(
        "seed token:int",
        "text:str corpus:str count_prontoqa:int count_stories:int ratio control:bool counterpart:int",
    ),
}
"""Name -> columns; the first text of each has the columns that tell rows apart. docs/tables.md says what they hold."""
