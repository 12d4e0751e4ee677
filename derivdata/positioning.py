"""Positioning: how many accounts, and how much of the positions, are long against short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pandas as pd

from derivdata.client import quantities
from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.tables import endpoints

__all__ = ["history"]
__dir__ = __all__.copy


@typed
def history(
    symbols: str | Sequence[str],
    start: times.Instant,
    end: times.Instant | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    kind: Literal["accounts", "positions", "top_accounts", "top_positions"] = "accounts",
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return long against short of every venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As in `derivdata.funding.history`.
    kind
        ``"accounts"``, every account with a position counts once; ``"top_accounts"``, the same among the
        venue's largest traders; ``"top_positions"``, the positions of these; ``"positions"``, those of the
        traders that Bitget takes for active.

    Returns
    -------
    DataFrame, table ``positioning_history``
        One row per symbol, venue and step. ``long_share`` and ``short_share`` [fraction] at ``time`` are the
        newest of the step that ends there, NaN where only the ratio is known; ``long_short_ratio`` [1].
        Accounts on one side do not have to equal those on the other, as positions do.

    Notes
    -----
    ``GET /local/positioning/history``, which is not part of the API document. Each venue defines its largest
    traders and when an account counts: compare a venue with its own past, not with another venue. Errors are
    those of `derivdata.prices.history`.

    >>> dd.positioning.history("BTC", "7d", venues=["okx", "bybit"]).shape
    (336, 8)
    """
    return quantities.table_rows(
        endpoints.POSITIONING_HISTORY, symbols, start, end, venues, kind=kind, resolution=resolution
    )
