"""How large a table is when it is read: what its file says of itself is looked at before."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pyarrow.compute as pc
from pyarrow import ChunkedArray
from pyarrow.parquet import FileMetaData, ParquetFile

MOST_CELLS_A_BYTE = 100
"""Cells of a table for each byte of its file, at most."""
MOST_TEXT, MOST_TEXT_A_CELL = 2**30, 10_000
"""Bytes that the texts of a table take once they are read, at most: of all, and of one on average."""


def check_size(held: bytes) -> None:
    """Raise ValueError where a parquet file holds more than one of its size can, and as pyarrow does for no such file.

    A text that is repeated is in the file once. So the columns of text are read as numbers into a list of texts first,
    where the whole list is no larger than the limit.
    """
    metadata = ParquetFile(BytesIO(held)).metadata
    cells = _cells(metadata)
    if cells > MOST_CELLS_A_BYTE * len(held):
        raise ValueError(f"{metadata.num_rows} rows of {metadata.num_columns} columns in {len(held)} bytes")
    columns = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    if any(column.max_repetition_level for column in columns):
        raise ValueError("it has lists in its cells")
    texts = {at: column.path for at, column in enumerate(columns) if column.physical_type == "BYTE_ARRAY"}
    most = min(MOST_TEXT, MOST_TEXT_A_CELL * (metadata.num_rows + 1) * len(texts))
    _check_text(sum(_bytes(metadata, at) for at in texts), most)
    if not texts:
        return
    table = ParquetFile(BytesIO(held), read_dictionary=list(texts.values())).read(list(texts.values()))
    _check_text(sum(map(_text, table.columns)), most)


def _check_text(found: int, most: int) -> None:
    if found > most:
        raise ValueError(f"its texts take {found:,} bytes when they are read, more than {most:,}")


def _cells(metadata: FileMetaData) -> int:
    """The number of cells, by the rows and by each part of each column, whichever is more."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    values = sum(group.column(at).num_values for group in groups for at in range(group.num_columns))
    return max(metadata.num_rows * metadata.num_columns, values)


def _bytes(metadata: FileMetaData, column: int) -> int:
    """What a column takes in the file before it is compressed."""
    return sum(metadata.row_group(at).column(column).total_uncompressed_size for at in range(metadata.num_row_groups))


def _text(column: ChunkedArray) -> int:
    """What the texts of a column take, each as often as it is there."""
    total = 0
    for chunk in column.chunks:
        lengths = np.asarray(pc.call_function("binary_length", [chunk.dictionary]), dtype=np.int64)
        total += int(lengths[np.asarray(chunk.indices.drop_null())].sum())
    return total
