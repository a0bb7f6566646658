"""The tables that the study of addition and commands measures beside its readings."""

from rb_interp.runs.schema import TableSchema, over_seeds

TABLES = {
    "contrasts": TableSchema("task:str contrast:str seed", "difference"),
    "contrasts_summary": over_seeds("task:str contrast:str"),
}
"""Name -> columns; the first text of each has the columns that tell rows apart. docs/tables.md says what they hold."""
