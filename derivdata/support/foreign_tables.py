"""Tables of other libraries as pandas frames: polars, pyarrow, DuckDB, ibis and all that narwhals takes.

This module imports neither narwhals nor pyarrow before such a table arrives.
"""

from __future__ import annotations

from typing import Any

import pandas as pd


def is_table(value: Any) -> bool:
    """Return whether a value is a table, eager or lazy, or a stream of rows of Arrow."""
    if _is_dask(value):
        return True
    import narwhals as nw

    return isinstance(nw.from_native(value, pass_through=True), nw.DataFrame | nw.LazyFrame) or _streams(
        value
    )


def _is_dask(value: Any) -> bool:
    """Return whether a value is a frame of dask, whose support narwhals 2.29 announces to end."""
    return hasattr(value, "__dask_graph__") and hasattr(value, "columns") and hasattr(value, "partitions")


def _streams(value: Any) -> bool:
    """Return whether a value gives rows by Arrow's interface; a single column has no ``schema``."""
    gives = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return gives and (hasattr(value, "schema") or hasattr(value, "columns"))


def to_pandas(table: Any) -> pd.DataFrame:
    """Return a table as a pandas frame whose columns Arrow does not hold; a lazy table is computed.

    Raises
    ------
    TypeError
        The value is not a table.
    """
    if isinstance(table, pd.DataFrame):
        return _without_arrow(table)
    if _is_dask(table):
        return _without_arrow(table.compute())
    import narwhals as nw

    frame = nw.from_native(table, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        if not _streams(table):
            raise TypeError(
                f"table must be a pandas.DataFrame or a table of another library, not {type(table).__name__}"
            )
        import pyarrow as pa

        rows = pa.table(table)
    elif frame.implementation.is_pandas_like():
        return _without_arrow(frame.to_pandas())
    else:
        rows = frame.to_arrow()
    return _without_arrow(rows.to_pandas(types_mapper=pd.ArrowDtype))


def _without_arrow(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the types of pandas and numpy in place of Arrow's."""
    from derivdata.support.plain_data import of_arrow

    dtypes = list(frame.dtypes)
    if not any(isinstance(dtype, pd.ArrowDtype) for dtype in dtypes):
        return frame
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    for place, dtype in enumerate(dtypes):
        if isinstance(dtype, pd.ArrowDtype):
            columns[place] = of_arrow(columns[place], dtype.pyarrow_dtype)
    result = pd.concat(columns, axis=1).set_axis(frame.columns, axis=1)
    result.attrs = dict(frame.attrs)
    return result


def with_index_as_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the named levels of its index as columns, except those that are columns already."""
    names = [name for name in frame.index.names if isinstance(name, str) and name not in frame.columns]
    if not names:
        return frame
    others = [level for level, name in enumerate(frame.index.names) if name not in names]
    if others:
        frame = frame.reset_index(level=others, drop=True)
    return frame.reset_index()
