"""Liquidations of venues that tell them by a stream and by request, which do not name the same event alike.

A venue is collected by one path, but where it changes, in a gap that the other fills or after a restart, an
event may come by both: with another id, its instant in seconds or by another clock, and other prices. The
events of both agree in contract, side and coins, and in their instants to a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from math import isclose

import pandas as pd

from derivdata.sources.archive import Archive
from derivdata.sources.collect.liquidations import LIQUIDATIONS
from derivdata.sources.venues.endpoint import Venue

__all__ = ["has_two_paths", "without_other_path"]

_APART = pd.Timedelta(1, "s")
_SAME_COINS = 1e-6


def has_two_paths(venue: Venue) -> bool:
    """Return whether a venue tells its liquidations both by a stream and by request."""
    return venue.stream is not None and any(
        endpoint.what == "liquidations" and endpoint.method != "WS" for endpoint in venue.endpoints
    )


def without_other_path(
    archive: Archive, exchange: str, rows: pd.DataFrame, own: Collection[str] = ()
) -> pd.DataFrame:
    """Return the fills of one venue but for those that the archive has by the venue's other path.

    Parameters
    ----------
    archive
        What is stored.
    exchange
        The venue of `rows`.
    rows
        Fills that came by one path.
    own
        Ids of what came by the same path before: such a row is another event, however alike.

    Notes
    -----
    Each stored row stands for one of `rows` at most: equal fills of one instant are different events.
    """
    if rows.empty:
        return rows
    first, last = rows["time"].min() - _APART, rows["time"].max() + _APART
    stored = archive.read(LIQUIDATIONS, first, last + pd.Timedelta(1, "us"), venues=[exchange])
    ids = stored["order_id"].astype(str)
    stored_ids = set(ids) & set(rows["order_id"].astype(str))
    others: dict[tuple[str, str], list[tuple[pd.Timestamp, float]]] = defaultdict(list)
    for row in stored[~ids.isin(stored_ids.union(own))].itertuples():
        others[str(row.symbol), str(row.side)].append((row.time, row.quantity))
    if not others:
        return rows
    is_new = []
    for row in rows.itertuples():
        twins = others[str(row.symbol), str(row.side)]
        twin = None if row.order_id in stored_ids else next((t for t in twins if _is_twin(row, *t)), None)
        if twin is not None:
            twins.remove(twin)
        is_new.append(twin is None)
    return rows[is_new]


def _is_twin(row: object, time: pd.Timestamp, quantity: float) -> bool:
    """Return whether a stored row may be the same event: some venues count what is ordered, others fills."""
    coins = (row.quantity, row.filled_quantity)  # type: ignore[attr-defined]
    near = abs(row.time - time) <= _APART  # type: ignore[attr-defined]
    return near and any(isclose(each, quantity, rel_tol=_SAME_COINS) for each in coins)
