"""Open interest: venues now and over time, one symbol over time."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from derivdata.sources.service import json_rows, market
from derivdata.sources.service.answers import measures
from derivdata.sources.service.answers.context import Answers, RequestContext
from derivdata.sources.service.view import View

__all__ = ["ANSWERS"]

_DAY = pd.Timedelta(1, "D")
_WEEK = 7


def exchanges_summary(context: RequestContext) -> dict[str, Any]:
    """``GET /oi/exchanges-summary``: changes are percent; the line has a point a day and ends now."""
    view = context.view
    view.need("oi_history", "markets_symbol_exchanges")
    summary = view.once("oi_summary", lambda: _summary(view))
    total = float(summary["total_oi_usd"].sum())
    rows = dict(summary.items()) | {"sparkline_7d": summary["sparkline_7d"].tolist()}
    return {"exchanges": json_rows.rows(rows), "total": len(summary), "total_market_oi": round(total, 2)}


def _summary(view: View) -> pd.DataFrame:
    """One row per venue, largest first, with the columns of the answer."""
    past = [market.oi_at(view, view.now - back * _DAY) for back in range(_WEEK, -1, -1)]
    days = [oi.groupby(level="exchange").sum(min_count=1) for oi in past]
    now = market.oi_at(view, view.now).rename("oi_usd").reset_index()
    now = now[now["oi_usd"] > 0].sort_values(["exchange", "oi_usd", "symbol"], ascending=[True, False, True])
    venues = now.groupby("exchange", sort=True)
    total = venues["oi_usd"].sum()
    line = pd.concat(days[1:], axis=1, sort=True).reindex(total.index).round(2)
    summary = pd.DataFrame(
        {
            "total_oi_usd": total.round(2),
            "symbol_count": venues.size(),
            "top_symbol": venues["symbol"].first(),
            "change_24h": _change(total, days[-2]),
            "change_7d": _change(total, days[0]),
            "sparkline_7d": [json_rows.encode(row) for row in line.to_numpy().tolist()],
            "market_share": total / total.sum(),
        }
    ).reset_index()
    return summary.sort_values(["total_oi_usd", "exchange"], ascending=[False, True])


def _change(now: pd.Series, before: pd.Series) -> Any:
    before = before.reindex(now.index)
    return ((now / before.where(before > 0, np.nan) - 1) * 100).round(6)


ANSWERS: Answers = {
    "/oi/exchanges-summary": exchanges_summary,
    "/oi/exchange-totals": partial(measures.exchange_totals, measure=measures.OI),
    "/oi/{symbol}/timeseries": partial(measures.timeseries, measure=measures.OI),
    "/oi/exchange-top-symbols-timeseries": partial(measures.top_symbols, measure=measures.OI),
}
