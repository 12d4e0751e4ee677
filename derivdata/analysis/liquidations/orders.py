"""Check frames of liquidation orders."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from derivdata.analysis.inputs import require_names
from derivdata.tables.required import require_columns

__all__ = ["check_orders"]


def check_orders(events: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return the columns to group orders by.

    Raises
    ------
    ValueError
        Columns are absent, an order occurs twice, a side is neither ``long`` nor ``short``, times are missing
        or have no zone, or a column of `by` is missing in some rows.
    """
    numbers = [name for name in ("value_usd", "fill_price_usd") if name in ("value_usd", *events.columns)]
    require_columns(events, "events", numbers, others=("time", "side", "value_usd"))
    unknown = events["side"][~events["side"].isin(("long", "short"))]
    if len(unknown):
        raise ValueError(
            f"events has the side {unknown.iloc[0]!r}: it must be 'long' or 'short', the side that was "
            "liquidated. A forced sell order closes a long"
        )
    if events["time"].isna().any():
        raise ValueError("events lack the time in some rows")
    if len(events) and getattr(events["time"].dtype, "tz", None) is None:
        raise ValueError("times of events have no zone: .dt.tz_localize('UTC') says which")
    if {"exchange", "order_id"} <= set(events.columns):
        duplicates = int(events.duplicated(["exchange", "order_id"]).sum())
        if duplicates:
            raise ValueError(
                f"{duplicates} events repeat an order of a venue: drop_duplicates(['exchange', 'order_id'])"
            )
    require_names(events, by, "by", "events")
    for name in by:
        if events[name].isna().any():
            raise ValueError(f"events lack {name!r} in some rows: by can not place them")
    return list(by)
