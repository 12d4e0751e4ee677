"""Sums over the symbols of each venue as they are defined: of the series of every symbol."""

from __future__ import annotations

from collections.abc import Sequence

from derivdata.sources.service.data.view import Series, StoredColumn, View
from derivdata.sources.service.data.windows import ResponseWindow


def totals(
    view: View,
    column: StoredColumn,
    window: ResponseWindow,
    resolution: str | None,
    *,
    venues: Sequence[str] | None = None,
) -> Series:
    result = view.series(column, window, resolution, None, venues)
    grouped = result.frame.astype({"exchange": str}).groupby(["time", "exchange"])[column.value]
    summed = grouped.agg(value="sum", symbol_count="size").reset_index()
    return result._replace(frame=summed[["exchange", "time", "value", "symbol_count"]])
