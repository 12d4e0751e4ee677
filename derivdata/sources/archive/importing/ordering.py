"""Rows in the order of their table, in which rows with one key are neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata.support.arrays import Array
from derivdata.tables.schema import Table
from derivdata.tables.schema.table import arrangement


def in_order(table: Table, frame: pd.DataFrame) -> tuple[pd.DataFrame, Array]:
    """Return rows in the order of a table, and which of them repeat the key of an earlier row.

    One sort serves the search for duplicates here and the table's own order later.
    """
    frame = frame.reset_index(drop=True)
    columns = {name: _with_sorted_words(frame[name]) for name in frame.columns}
    by = [*table.order, *(name for name in table.key if name not in table.order)]
    by = [name for name in by if name in columns]
    keys = [columns[name] for name in by]
    rank, is_tied = arrangement([key.to_numpy() if key.dtype == object else key for key in keys])
    if rank is not None:
        columns = {name: values.array.take(rank) for name, values in columns.items()}
    frame = pd.DataFrame(columns, copy=False)
    if {*table.order} <= {*table.key}:
        return frame, np.append(np.zeros(min(len(frame), 1), dtype=bool), is_tied)
    key = [name for name in table.key if name in columns]
    return frame, frame.duplicated(key).to_numpy()


def _with_sorted_words(values: pd.Series) -> Any:
    """Return a column of words with its categories in alphabetical order."""
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return values
    categories = values.cat.categories
    if categories.is_monotonic_increasing:
        return values
    return values.cat.reorder_categories(categories.sort_values())
