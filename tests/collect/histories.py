"""Histories of the fake venues: one truth in each venue's shape, unit and way of paging, as data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from derivdata.tables.contracts import HIP3_DEXES as DEXES
from tests.collect.positions import gate, taken
from tests.collect.state_bodies import filled
from tests.collect.truth import HOUR

Row = dict[str, Any]

_LISTS: dict[str, Row] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""By venue and end of the path: names of parameters, most rows of a page, its order, a row and the body."""
_SYMBOLS = ("BTC", "ETH")


def history(fakes: Any, exchange: str, place: str, params: Row) -> Any:
    """Return the body of a list of payments, open interest or prices; None for any other request."""
    venue = "hyperliquid" if exchange in DEXES else {"aster": "binance"}.get(exchange, exchange)
    ends = (key for key in _LISTS if key.split()[0] == venue and f"{place}/".endswith(f"{key.split()[1]}/"))
    key = next((k for k in ends if params.items() >= _LISTS[k].get("when", {}).items()), None)
    if key is None and exchange == "dydx" and place.startswith("/historicalFunding/"):
        key, params = "dydx /historicalFunding", {**params, "symbol": place.rpartition("/")[2]}
    if key is None:
        return None
    if exchange == "extended":
        params = {**params, "market": place.split("/")[2]}
    shape = _LISTS[key]
    if not params.keys() >= {*shape.get("needs", ())}:
        return shape["refusal"]
    rows, more = _page(fakes, shape, params, _listed(fakes, exchange, shape, params))
    if "refused" in more:
        return shape["refusal"]
    now = int(fakes.now().timestamp() * 1000)
    name = str(params.get(shape.get("symbol", "symbol")))
    asked = {"name": name, "base": name[:3], "now": now}
    listed = [filled(shape["row"], asked | row) for row in rows]
    if shape.get("positions"):
        listed = [row | gate(name[:3], row["time"], row["mark_price"]) for row in listed]
    return filled(shape["body"], {**asked, **more, "rows": listed})


def _listed(fakes: Any, exchange: str, shape: Row, params: Row) -> list[Row]:
    """Return the venue's rows so far of the requested contract, with the optional columns."""
    name = str(params[shape.get("symbol", "symbol")]).rpartition(":")[2]
    cut = shape.get("cut", 0)
    if not name.endswith(shape.get("ends", "")):
        raise KeyError(name)
    symbol = _SYMBOLS[int(name[-1])] if shape.get("by_number") else name[cut : cut + 3].replace("XBT", "BTC")
    if "of" in shape:
        return _states(fakes, shape, params, symbol)
    paid = fakes.payments(exchange, symbol)
    if shape.get("ahead"):  # the first row is the running interval
        paid = [
            row for row in fakes.truth.payments(exchange, symbol) if row[0] <= fakes.now().timestamp() + HOUR
        ]
    late = shape.get("jitter", False)  # some venues are late by up to a second
    return [
        {
            "t": second * 1000 + (second // HOUR * 37 % 900 if late else 0),
            "second": second,
            "base": symbol,
            "minutes": 60 * hours,
            "rate": rate,
            "rounded": round(rate, 8),
            "eight": 8 * rate,
            "percent": abs(rate) * 100,
            "points": rate * 100,
            "hours": hours,
            "direction": "long" if rate >= 0 else "short",
            "index": fakes.truth.index(second),
            "index_before": fakes.truth.index(second - HOUR),
        }
        for second, hours, rate in paid
    ]


def _states(fakes: Any, shape: Row, params: Row, symbol: str) -> list[Row]:
    """Return open interest and marks of every five minutes or each full hour, in the venues' units."""
    name, value = shape.get("each_five", ("", None))
    by_hour = shape["of"] == "hours" and (not name or params.get(name) != value)
    now = fakes.now().timestamp()
    return [
        {
            "t": second * 1000, "second": second, "ends": second * 1000 + 3_599_999, "symbol": symbol,
            "coins": coins, "usd": coins * mark, "coins_e2": coins * 100, "both": 2 * coins,
            "both_usd": 2 * coins * mark, "both_e4": 2 * coins * 10000,
            "mark": mark, "high": mark + 9, "low": mark - 9,
            "bought": bought, "taken": bought + sold,
            "last": mark + 1.0, "index": mark - 2.0, "last_high": mark + 10.0, "last_low": mark - 8.0,
        }
        for second, coins, mark in fakes.truth.oi(symbol)[-shape.get("last", 0) :]
        for bought, sold in [taken(symbol, second)]
        if (not by_hour or second % HOUR == 0) and (second <= now or "last" in shape or "end" in shape)
    ]  # fmt: skip


def _page(fakes: Any, shape: Row, params: Row, rows: list[Row]) -> tuple[list[Row], Row]:
    """Return the rows of a page, and the paging fields of the body."""
    unit = shape.get("unit", 1)
    name, usual, most = shape.get("limit", ("", 10**6, 10**6))
    limit = min(int(params.get(name, usual)), most)

    def at(which: str, otherwise: float) -> float:
        text = params.get(shape.get(which, ""), otherwise)
        is_number = not isinstance(text, str) or text.replace(".", "").isdigit()
        return float(text) * unit if is_number else pd.Timestamp(text).timestamp() * 1000

    first, end = at("start", 0), at("end", 9e15)
    month = fakes.now().timestamp() * 1000 - 30 * 86_400_000
    if shape.get("of_a_month") and 0 < first < month - 60_000:
        return [], {"refused": True}
    if "reach_days" in shape:
        first = max(first, fakes.now().timestamp() * 1000 - shape["reach_days"] * 86_400_000)
    inside = [
        r for r in rows if first <= r["t"] and (r["t"] < end if shape.get("exclusive") else r["t"] <= end)
    ]
    skip = int(params.get(shape.get("offset", ""), 0))
    if "page" in shape:
        skip = limit * (int(params.get(shape["page"], 1)) - 1)
    newest = inside[::-1] if shape.get("newest") else inside
    page = newest[skip : skip + limit]
    for row in page:
        row["whole"] = f"{pd.Timestamp(row['t'], unit='ms', tz='UTC'):%Y-%m-%dT%H:%M:%S}"
        row["iso"] = f"{row['whole']}.{row['t'] % 1000:03}"
    following = str(skip + limit) if skip + limit < len(newest) else ""
    told = {
        "pages": -(-len(newest) // limit),
        "page": skip // limit + 1,
        "count": len(newest),
        "next": following,
        "more": bool(following),
    }
    return page[::-1] if shape.get("turned") else page, told
