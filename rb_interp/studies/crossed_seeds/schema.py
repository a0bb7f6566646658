"""The tables that the study of crossed seeds measures beside its readings."""

from rb_interp.runs.schema import TableSchema

TABLES = {
    "crossing": TableSchema("gamma data_seed:int seed", "key_from_key key_from_anchors n circuit:str accuracy"),
    "components": TableSchema("gamma component", "variance share low high n"),
}
"""Name -> columns; the first text of each has the columns that tell rows apart. docs/tables.md says what they hold."""
