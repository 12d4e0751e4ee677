"""Builder analytics."""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.sources.service import json_rows
from derivdata.sources.service.answers import traders
from derivdata.sources.service.answers.context import Answers, RequestContext

__all__ = ["ANSWERS"]

_FIGURES = {"volume_usd": "volume_usd", "fees_usd": "fees_usd", "trade_count": "trades"}


def dashboard(context: RequestContext) -> dict[str, Any]:
    """``GET /builder-analytics/dashboard``: totals, builders by volume, and the totals over time."""
    chosen = context.window()
    frame = traders.read_past(context.view, "builders_history", chosen)
    totals = traders.summary(frame, _FIGURES)
    builders = traders.ranked(traders.sums(frame, ["builder"], _FIGURES), "volume_usd")
    builders["rank"] = np.arange(1, len(builders) + 1)
    series = traders.sums(traders.steps(context, frame, chosen), ["timestamp"], _FIGURES)
    body = {
        "total_volume_usd": totals["volume_usd"],
        "total_builder_fees_usd": totals["fees_usd"],
        "total_trades": totals["trades"],
        "by_builder": json_rows.rows(builders),
        "timeseries": json_rows.rows(series),
    }
    return traders.envelope(context, chosen, body)


ANSWERS: Answers = {
    "/builder-analytics/dashboard": dashboard,
}
