"""When each venue pays next: from the payments that it made, or else from what is known of the venue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from derivdata.analysis.settlements import scheduled
from derivdata.support.arguments import typed
from derivdata.support.times import Instant, instant
from derivdata.tables.required import require_columns
from derivdata.tables.venue_facts import fact_value

__all__ = ["next_settlements"]

_ROUNDING = 1e-6  # of an interval
_GRACE = 1 / 60  # hours after the due instant until which a payment may not be in the table yet


@typed
def next_settlements(
    settlements: pd.DataFrame,
    at: Instant,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return when each venue pays funding of each symbol next, and what that rests on.

    Parameters
    ----------
    settlements
        Table ``funding_settlements``. Payments after `at` are not looked at.
    at
        The instant in question: a payment at it has been made.
    symbols, venues
        Also pairs of these without payments in the table; by default those of the table only.

    Returns
    -------
    DataFrame
        One row per symbol and venue, the next payment first: ``symbol``, ``exchange``, ``time`` (UTC),
        ``hours_until``, ``interval_hours``, ``last_time``, ``missed`` and ``basis``:

        - ``payments``: counted on from the last payment by its interval;
        - ``overdue``: so too, but ``missed`` payments that were due by `at`, the first of them more than a
          minute before, are not in the table: it may be incomplete, the interval another one or the contract
          delisted;
        - ``facts``: no payment is in the table; the interval is that of ``dd.venues.facts()``, counted from
          00:00 UTC, which is assumed;
        - ``unknown``: neither; ``time`` is missing.

        That the interval stays as it was is assumed in every row: venues shorten it under stress.

    Raises
    ------
    ValueError
        A column is absent, or `at` is no instant.

    Examples
    --------
    >>> paid = dd.funding.settlements("BTC", "2d", venues=["binance", "hyperliquid"])
    >>> due = dd.analysis.funding.next_settlements(paid, dd.asof())
    >>> due[["exchange", "hours_until", "basis"]].to_numpy().tolist()
    [['hyperliquid', 1.0, 'payments'], ['binance', 4.0, 'payments']]
    """
    require_columns(settlements, "settlements", ("interval_hours",), others=("symbol", "exchange", "time"))
    now = instant(at, "at")
    due = pd.DatetimeIndex(scheduled(settlements["time"].dt.tz_localize(None).to_numpy())).tz_localize("UTC")
    rows = settlements.assign(time=due.as_unit("us"), row=np.arange(len(settlements)))
    rows = rows[rows["time"] <= now].sort_values("time", kind="stable")
    last = rows.drop_duplicates(["symbol", "exchange"], keep="last")
    by_pair = {
        (str(row.symbol), str(row.exchange)): _after(row.time, float(row.interval_hours), now)
        for row in last.itertuples()
    }
    listed = [
        list(names) if names is not None else sorted({pair[place] for pair in by_pair})
        for place, names in enumerate((symbols, venues))
    ]
    if symbols is not None or venues is not None:
        for symbol in listed[0]:
            for exchange in listed[1]:
                by_pair.setdefault((symbol, exchange), _assumed(symbol, exchange, now))
    table = pd.DataFrame(
        [{"symbol": symbol, "exchange": exchange, **row} for (symbol, exchange), row in by_pair.items()],
        columns=[
            "symbol", "exchange", "time", "hours_until", "interval_hours", "last_time", "missed", "basis",
        ],
    )  # fmt: skip
    for name in ("time", "last_time"):
        table[name] = pd.to_datetime(table[name], utc=True).dt.as_unit("us")
    table["missed"] = table["missed"].astype("Int64")
    table = table.sort_values(["time", "symbol", "exchange"], ignore_index=True)
    table.attrs = dict(settlements.attrs)
    return table


def _after(last: Any, interval: float, now: Any) -> dict[str, Any]:
    """Return the first payment after `now` that the last one and its interval lead to."""
    if not interval > 0.0:
        return _row(None, np.nan, last, None, "unknown", now)
    passed = (now - last) / pd.Timedelta(1, "h")
    steps = np.floor(passed / interval + _ROUNDING)
    basis = "overdue" if passed > interval + _GRACE else "payments"
    missed = int(steps) if basis == "overdue" else 0
    return _row(last + pd.Timedelta((steps + 1) * interval, "h"), interval, last, missed, basis, now)


def _assumed(symbol: str, exchange: str, now: Any) -> dict[str, Any]:
    interval = fact_value(exchange, "interval_hours", symbol, f"{now:%Y-%m-%d}")
    if interval is None:
        return _row(None, np.nan, None, None, "unknown", now)
    midnight = now.normalize()
    passed = (now - midnight) / pd.Timedelta(1, "h")
    steps = np.floor(passed / interval + _ROUNDING) + 1
    return _row(midnight + pd.Timedelta(steps * interval, "h"), interval, None, None, "facts", now)


def _row(time: Any, interval: float, last: Any, missed: int | None, basis: str, now: Any) -> dict[str, Any]:
    until = np.nan if time is None else (time - now) / pd.Timedelta(1, "h")
    return {
        "time": time,
        "hours_until": until,
        "interval_hours": interval,
        "last_time": last,
        "missed": missed,
        "basis": basis,
    }
