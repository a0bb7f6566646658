"""The tables that the label study measures beside its readings."""

from rb_interp.runs.schema import TableSchema, over_seeds

TABLES = {
    "in_range": TableSchema("sweep gamma seed step group:int", "low:int high:int inside pooled accuracy"),
    "in_range_summary": over_seeds("gamma step group:int"),
    "label_facts": TableSchema("gamma quantity group:float", "mean low high n:float"),
    "outputs": TableSchema("gamma seed step group:int label:int", "low:int high:int probability"),
    "outputs_summary": over_seeds("gamma group:int label:int"),
}
"""Name -> columns; the first text of each has the columns that tell rows apart. docs/tables.md says what they hold."""
