"""Positioning: long against short, by number of accounts or by size of positions."""

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
    start: times.TimeLike,
    end: times.TimeLike | None = None,
    *,
    venues: str | Sequence[str] | None = None,
    kind: Literal["accounts", "positions", "top_accounts", "top_positions"] = "accounts",
    resolution: times.Resolution | None = "1h",
) -> pd.DataFrame:
    """Return the ratio of long to short accounts or positions on each venue over a window.

    Parameters
    ----------
    symbols, start, end, venues, resolution
        As in `derivdata.funding.history`.
    kind
        ``"accounts"``: each account with a position counts once. ``"top_accounts"``: the same among the
        venue's largest traders. ``"top_positions"``: size of the positions of the largest traders.
        ``"positions"``: size of the positions of active traders (Bitget).

    Returns
    -------
    DataFrame, table ``positioning_history``
        One row per symbol, venue and step. ``long_share`` and ``short_share`` [fraction] are the newest
        values of the step that ends at ``time``, NaN if only the ratio is known; ``long_short_ratio`` [1].
        The numbers of long and short accounts may differ, unlike the sizes of long and short positions.

    Notes
    -----
    ``GET /local/positioning/history``, which is not part of the API document. Each venue has its own
    definition of largest traders and of counted accounts: compare a venue with its own past, not with another
    venue. Errors: see `derivdata.prices.history`.

    Examples
    --------
    >>> dd.positioning.history("BTC", "7d", venues=["okx", "bybit"]).shape
    (336, 8)
    """
    return quantities.table_rows(
        endpoints.POSITIONING_HISTORY, symbols, start, end, venues, kind=kind, resolution=resolution
    )
