"""HIP-4 analytics: outcome markets."""

from __future__ import annotations

from typing import Any

import pandas as pd

from derivdata.sources.service import json_rows
from derivdata.sources.service.answers import traders
from derivdata.sources.service.answers.context import Answers, RequestContext
from derivdata.sources.service.refusal import not_found
from derivdata.sources.service.view import View
from derivdata.sources.service.window import Window

__all__ = ["ANSWERS"]

_TRADERS, _OI = "hip4_traders", "hip4_oi"
_FIGURES = {
    "volume_usd": "volume",
    "fill_count": "fill_count",
    "trade_count": "trade_count",
    "fees_usd": "total_fees",
}
_TRADER = {
    "volume_usd": "volume",
    "fees_usd": "fees_paid",
    "trade_count": "trade_count",
    "fill_count": "fill_count",
}
_HELD = {"open_interest": "oi_contracts", "oi_usd": "oi_usd"}
_TRADERS_SHOWN = 100
_MONTH = pd.Timedelta(30, "D")


def dashboard(context: RequestContext) -> dict[str, Any]:
    """``GET /hip4-analytics/dashboard``: totals, outcomes, and the totals by day."""
    chosen, frame = _traded(context)
    outcomes = traders.ranked(_counted(frame, "outcome_id"), "volume")
    body = {
        "summary": _summary(frame),
        "by_outcome": json_rows.rows(outcomes),
        "timeseries": json_rows.rows(_daily(frame)),
    }
    return traders.envelope(context, chosen, body)


def outcome(context: RequestContext) -> dict[str, Any]:
    """``GET /hip4-analytics/outcome/{outcome_id}``: totals, venues and days of one outcome."""
    number = context.params["outcome_id"]
    chosen, frame = _traded(context)
    if number not in _outcomes(context.view):
        raise not_found(f"unknown outcome {number!r}")
    frame = frame[frame["outcome_id"] == number]
    body = {
        "outcome_id": number,
        "summary": _summary(frame),
        "by_venue": json_rows.rows(traders.ranked(_counted(frame, "venue"), "volume")),
        "timeseries": json_rows.rows(_daily(frame)),
    }
    return traders.envelope(context, chosen, body)


def oi_eod(context: RequestContext) -> dict[str, Any]:
    """``GET /hip4-analytics/oi-eod``: open interest at the end of each day since `start`, or of 30 days."""
    view = context.view
    view.need(_OI)
    start = view.now - _MONTH if context.params["start"] is None else context.params["start"]
    chosen = context.window({"start": start})
    day = pd.Timedelta(1, "D")
    ends = _of_venue(context, view.read(_OI, chosen.start + day, chosen.end))
    rows = traders.sums(ends.assign(day=ends["time"] - day), ["day"], _HELD)
    return {"success": True, "data": json_rows.rows(rows), "notices": chosen.notices}


def leaderboard(context: RequestContext) -> dict[str, Any]:
    """``GET /hip4-analytics/leaderboard``: addresses by volume."""
    chosen, frame = _traded(context)
    rows = traders.sums(frame, ["address"], _TRADER)
    kinds = frame.groupby("address", observed=True)["outcome_id"].nunique()
    rows["outcomes_traded"] = rows["address"].map(kinds).astype("int64")
    shown = traders.ranked(rows, "volume", context.params["limit"] or _TRADERS_SHOWN)
    return traders.envelope(context, chosen, {"data": json_rows.rows(shown), "total_traders": len(rows)})


def _traded(context: RequestContext) -> tuple[Window, pd.DataFrame]:
    chosen = context.window()
    return chosen, _of_venue(context, traders.read_past(context.view, _TRADERS, chosen))


def _of_venue(context: RequestContext, frame: pd.DataFrame) -> pd.DataFrame:
    venue = context.params["venue"]
    return frame if venue is None else frame[frame["venue"] == venue]


def _summary(frame: pd.DataFrame) -> dict[str, Any]:
    return traders.summary(frame, _FIGURES) | {"unique_traders": int(frame["address"].nunique())}


def _counted(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    users = frame.groupby(by, observed=True)["address"].nunique()
    return traders.sums(frame, [by], _FIGURES).assign(unique_traders=users.to_numpy())


def _daily(frame: pd.DataFrame) -> pd.DataFrame:
    return _counted(frame.assign(date=frame["time"].dt.floor("1D")), "date")


def _outcomes(view: View) -> frozenset[str]:
    """Return every outcome in the store."""

    def outcomes() -> frozenset[str]:
        frame = view.read(_TRADERS, view.store.start, view.horizon)
        return frozenset(frame["outcome_id"].astype(str).unique())

    return view.once("hip4 outcomes", outcomes)


ANSWERS: Answers = {
    "/hip4-analytics/dashboard": dashboard,
    "/hip4-analytics/outcome/{outcome_id}": outcome,
    "/hip4-analytics/oi-eod": oi_eod,
    "/hip4-analytics/leaderboard": leaderboard,
}
