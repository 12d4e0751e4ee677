"""Prices over time, which the local service alone answers."""

from __future__ import annotations

from typing import Any

import pandas as pd

from derivdata.sources.service import json_rows
from derivdata.sources.service.answers.context import Answers, RequestContext
from derivdata.sources.service.request_coverage import never_requested

__all__ = ["ANSWERS"]

_TABLE = "prices_history"


def history(context: RequestContext) -> dict[str, Any]:
    """``GET /local/prices/history``: one price of one symbol; unknown symbols have an empty series."""
    view, params = context.view, context.params
    view.need(_TABLE)
    window = context.window()
    frame, used, _ = view.series(
        _TABLE,
        "price_usd",
        window,
        params["resolution"],
        symbols=[params["symbol"]],
        venues=params["exchanges"],
        kind=params["kind"],
    )
    stamps = json_rows.iso_tokens(pd.DatetimeIndex(frame["time"]))
    points = json_rows.objects({"timestamp": stamps, "y": frame["price_usd"]})
    nothing = [] if len(frame) else ["no data in this range"]
    if nothing:
        span = window.start, window.end
        nothing += never_requested(view, _TABLE, params["symbol"], *span, venues=params["exchanges"])
    return {
        "symbol": params["symbol"],
        "kind": params["kind"],
        "unit": "usd",
        "resolution": used,
        "series": json_rows.split(points, frame["exchange"]),
        "notices": window.notices + nothing,
    }


ANSWERS: Answers = {"/local/prices/history": history}
