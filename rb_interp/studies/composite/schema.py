"""The tables that the composite study measures beside its readings."""

from rb_interp.runs.schema import TableSchema, over_seeds

TABLES = {
    "phases": TableSchema(
        "gamma seed",
        "phase:str flow:str I S O I_early S_early acc_train acc_seen_train acc_seen_test n_pairs:int "
        "attention_last:bool attention_anchors:bool attention_last_unseen:bool attention_anchors_unseen:bool",
    ),
    "phase_counts": TableSchema("gamma phase:str flow:str", "n total:int"),
    "flow_match": TableSchema("quantity", "value low high n"),
    "answers": TableSchema("gamma seed difference:int", "count:int share"),
    "by_position": TableSchema("gamma seed position:int", "I S n"),
    "by_position_summary": over_seeds("gamma position:int"),
    "interchange": TableSchema("gamma seed roles:str", "base source kb_ps ks_pb other placebo n"),
    "interchange_by_flow": TableSchema("flow:str roles:str", "base source kb_ps ks_pb other placebo members:int"),
    "attention": TableSchema("gamma seed set layer:int head:int query:str key:str", "attention untrained"),
    "exception_edges": TableSchema("gamma seed edge:str", "turned kept qualifies:bool n:int"),
    "exception_places": TableSchema("gamma seed", "used_for:str phase:str flow:str place:str others:str learned"),
    "exception_counts": TableSchema("used_for:str phase:str flow:str place:str", "n:int"),
    "exception_test": TableSchema("by:str", "right low high n:int"),
    "attention_summary": over_seeds("gamma flow:str set layer:int head:int query:str key:str"),
    "matrices": TableSchema(
        "gamma seed layer:int matrix:str",
        "participation participation_untrained stable_rank stable_rank_untrained condensed condensed_untrained "
        "condensed_signed condensed_signed_untrained groups groups_untrained",
    ),
    "matrices_summary": over_seeds("gamma layer:int matrix:str"),
    "eigenvalues": TableSchema("gamma seed step rank:int", "eigenvalue"),
    "eigenvalues_summary": over_seeds("gamma step rank:int"),
    "growth": TableSchema("gamma seed rank:int", "final half_step"),
    "phase_auc": TableSchema(
        "layer:int matrix:str", "auc low high untrained n gammas:int inferential:int symmetric:int"
    ),
}
"""Name -> columns; the first text of each has the columns that tell rows apart. docs/tables.md says what they hold."""
