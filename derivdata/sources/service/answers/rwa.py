"""Trading hours of the exchanges behind real-world assets."""

from __future__ import annotations

from typing import Any

import pandas as pd

from derivdata.sources.service import json_rows
from derivdata.sources.service.answers.context import Answers, RequestContext
from derivdata.sources.service.refusal import bad_request

__all__ = ["ANSWERS"]

_DAY = pd.Timedelta(1, "D")
_NAMES = ("exchange_id", "short_name", "mic")


def market_hours(context: RequestContext) -> dict[str, Any]:
    """``GET /rwa/market-hours``: sessions and holidays; the filter takes ids, short names and codes."""
    view, wanted = context.view, context.params["exchange"]
    view.need("rwa_market_hours")
    calendar = view.latest("rwa_market_hours", view.now, within=_DAY)
    calendar = calendar.sort_values(["exchange_id", "start", "end"])
    chosen = pd.Series(wanted is None, index=calendar.index)
    for name in wanted or ():
        same = (calendar[list(_NAMES)].apply(lambda column: column.str.lower()) == name.lower()).any(axis=1)
        if not same.any():
            raise bad_request(f"exchange={name!r} is no id, short name or market identifier code")
        chosen |= same
    venues = [_venue(rows) for _, rows in calendar[chosen].groupby("exchange_id", sort=True)]
    return {"timestamp": json_rows.stamp(view.now), "exchanges": venues}


def _venue(rows: pd.DataFrame) -> dict[str, Any]:
    first = rows.iloc[0]
    holiday = rows["session"] == "holiday"
    later = rows[(rows["start"] == first["next_session_start"]) & ~holiday]
    return {
        "id": first["exchange_id"],
        **{name: first[name] for name in ("name", "short_name", "mic", "timezone")},
        "is_tradable": bool(first["is_tradable_now"]),
        "next_session": None if later.empty else _intervals(later)[0],
        "sessions": _intervals(rows[~holiday]),
        "holidays": _intervals(rows[holiday]),
    }


def _intervals(rows: pd.DataFrame) -> list[Any]:
    return [
        json_rows.Raw(item) for item in json_rows.objects(rows[["start", "end", "session", "is_tradable"]])
    ]


ANSWERS: Answers = {
    "/rwa/market-hours": market_hours,
}
