"""Builder analytics."""

from __future__ import annotations

from typing import Any

import numpy as np

from derivdata.service import wire
from derivdata.service.answers import traders
from derivdata.service.answers.asking import Ask

__all__ = ["dashboard"]

_FIGURES = {"volume_usd": "volume_usd", "fees_usd": "fees_usd", "trade_count": "trades"}


def dashboard(ask: Ask) -> dict[str, Any]:
    """``GET /builder-analytics/dashboard``: totals, builders by volume, and the totals over time."""
    chosen = traders.window(ask)
    frame = traders.known(ask.view, "builders_history", chosen)
    totals = traders.summary(frame, _FIGURES)
    builders = traders.ranked(traders.sums(frame, ["builder"], _FIGURES), "volume_usd")
    builders["rank"] = np.arange(1, len(builders) + 1)
    series = traders.sums(traders.steps(ask, frame, chosen), ["timestamp"], _FIGURES)
    body = {
        "total_volume_usd": totals["volume_usd"],
        "total_builder_fees_usd": totals["fees_usd"],
        "total_trades": totals["trades"],
        "by_builder": wire.rows(builders),
        "timeseries": wire.rows(series),
    }
    return traders.envelope(ask, chosen, body)
