"""Lists of the fake venues that hold single rows: liquidations, trades, and option quotes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tests.collect.state_bodies import filled

_SHAPES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""By venue, the row of an event."""

SYMBOLS = ("BTC", "ETH")
STEP = 5  # seconds between two trades


class Event(NamedTuple):
    """One trade, or one liquidation: of a long or a short position, in coins."""

    ms: int
    number: int
    is_liquidation: bool
    is_long: bool
    price: float
    coins: float

    @property
    def value(self) -> float:
        """USD."""
        return self.price * self.coins


def events(symbol: str, start: float, end: float) -> list[Event]:
    """Trades of both ends inclusive [s]; each 50th is a liquidation, and some of these are three equal."""
    results = []
    for number in range(int(start) // STEP, int(end) // STEP + 1):
        ms = number * STEP * 1000 + 1000 * len(symbol) + number * 37 % 900
        if not start <= ms / 1000 <= end:
            continue
        mixed = zlib.crc32(b"%d" % number)
        liquidated = mixed % 50 == 0
        row = Event(ms, number, liquidated, mixed % 3 == 0, 50000.0 + number % 100, 1 + mixed % 7)
        results += [row] * (3 if liquidated and mixed % 4 == 0 else 1)
    return results


def liquidated(symbol: str, start: float, end: float) -> list[Event]:
    """Only liquidations."""
    return [event for event in events(symbol, start, end) if event.is_liquidation]


def inverse(symbol: str) -> str:
    """The name of a symbol's inverse contract in `events`: its trades are others, at other times."""
    return f"{symbol} inverse"


def answer(fakes: Any, exchange: str, place: str, params: dict[str, Any]) -> Any:
    """Body of a list; None for a path that is not a list."""
    now = fakes.now().timestamp()
    for (name, ending), made in LISTS.items():
        if name == exchange and params.get("kind") != "option" and place.partition("{")[0].find(ending) >= 0:
            return made(place, params, now)
    return None


def iso(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def _seconds(text: str) -> float:
    return pd.Timestamp(text).timestamp()


def _rows(venue: str, listed: list[Event], symbol: str, *, market: str = "", amount: Any = None) -> list[Any]:
    """Fill in a venue's row for each event, with an id that is the same whenever it is listed."""
    seen: dict[int, int] = {}
    rows = []
    for place, event in enumerate(listed):
        seen[event.number] = seen.get(event.number, 0) + 1
        closing, sign = ("sell", 1) if event.is_long else ("buy", -1)
        figures = {
            **event._asdict(), "symbol": symbol, "market": market, "place": place, "value": event.value,
            "id": f"{market or symbol}-{event.number}-{seen[event.number]}", "second": event.ms // 1000,
            "iso": iso(event.ms), "below": event.price - 1, "coins_e3": event.coins * 1000,
            "signed_e4": sign * event.coins * 10000, "order_e4": -sign * event.coins * 10000,
            "closing": closing, "CLOSING": closing.upper(), "held": "long" if event.is_long else "short",
            "opening": "buy" if event.is_long else "sell",
            "taken": "sell" if event.is_long == (event.number % 2 == 0) else "buy",
            "amount": None if amount is None else amount(event),
            "liquidation": "liquidation" if event.is_liquidation else "fill",
            "LIQUIDATION": "LIQUIDATION" if event.is_liquidation else "FILL",
            "LIQUIDATED": "LIQUIDATED" if event.is_liquidation else "LIMIT",
        }  # fmt: skip
        rows.append(filled(_SHAPES[venue], figures))
    return rows


def _gateio(place: str, params: dict[str, Any], now: float) -> Any:
    start, end = int(params["from"]), int(params["to"])
    if end - start > 3600:
        return {"label": "INVALID_PARAM_VALUE", "message": "from and to span more than an hour"}
    named = SYMBOLS if "usdt" in place else ()
    rows = [row for s in named for row in _rows("gateio", liquidated(s, start, min(end + 0.999, now)), s)]
    return sorted(rows, key=lambda row: -row["time"])[: int(params.get("limit", 100))]


def _deribit(place: str, params: dict[str, Any], now: float) -> Any:
    count, symbol = min(int(params.get("count", 10)), 1000), params["currency"]
    start, end = int(params["start_timestamp"]) / 1000, int(params["end_timestamp"]) / 1000
    listed = events(symbol, start, min(end, now)) if symbol in SYMBOLS else []
    rows = _rows("deribit", listed, symbol)
    for row, event in zip(rows, listed, strict=True):
        if event.is_liquidation:
            row["liquidation"] = "T" if event.number % 2 == 0 else "M"
    return {"jsonrpc": "2.0", "result": {"trades": rows[:count], "has_more": len(rows) > count}}


def _dydx(place: str, params: dict[str, Any], now: float) -> Any:
    symbol = place.rpartition("/")[2][:3]
    end = min(_seconds(params["createdBeforeOrAt"]), now) if "createdBeforeOrAt" in params else now
    rows = _rows("dydx", events(symbol, end - 10_800, end), symbol)[::-1]
    return {"trades": rows[: min(int(params.get("limit", 100)), 1000)]}


def _kraken(place: str, params: dict[str, Any], now: float) -> Any:
    symbol = {"XBT": "BTC"}.get(params["symbol"][3:6], params["symbol"][3:6])
    in_usd = params["symbol"].startswith("PI_")  # and not in coins
    symbol = inverse(symbol) if in_usd else symbol
    end = min(_seconds(params["lastTime"]) - 0.0005, now) if "lastTime" in params else now
    listed = events(symbol, end - 3600, end)
    rows = _rows("kraken", listed, symbol, amount=lambda e: e.value if in_usd else e.coins)[::-1][:100]
    return {"result": "success", "serverTime": iso(int(now * 1000)), "history": rows}


def _paradex(place: str, params: dict[str, Any], now: float) -> Any:
    size, skip = min(int(params.get("page_size", 100)), 1000), int(params.get("cursor", 0))
    start, end = int(params["start_at"]) / 1000, int(params["end_at"]) / 1000
    market = params["market"]
    rows = _rows("paradex", events(market[:3], start, min(end, now)), market[:3], market=market)[::-1]
    following = str(skip + size) if skip + size < len(rows) else None
    return {"results": rows[skip : skip + size], "next": following}


def _huobi(place: str, params: dict[str, Any], now: float) -> Any:
    market = params["contract_code"]
    rows = _rows("huobi", liquidated(market[:3], now - 86_400, now), market[:3], market=market)[::-1]
    told = {"code": 200, "message": "Success", "ts": int(now * 1000)}
    return {**told, "data": rows[: int(params.get("limit", 20))]}


def _bitget(place: str, params: dict[str, Any], now: float) -> Any:
    skip = int(params.get("cursor", 0))
    rows = [row for s in SYMBOLS for row in _rows("bitget", liquidated(s, now - 3 * 86_400, now), s)]
    rows.sort(key=lambda row: -int(row["ts"]))
    page = rows[skip : skip + int(params.get("limit", 20))]
    data = {"list": page, "cursor": str(skip + len(page))}
    return {"code": "00000", "msg": "success", "requestTime": int(now * 1000), "data": data}


def _okx(place: str, params: dict[str, Any], now: float) -> Any:
    if params.get("instType") == "OPTION":
        return None
    end = min(int(params["after"]) / 1000 - 0.0005, now) if "after" in params else now
    symbol, _, quote = params["instFamily"].partition("-")
    in_usd = quote == "USD"  # contracts of 100 USD; others are of 0.01 coins
    listed = liquidated(inverse(symbol) if in_usd else symbol, end - 86_400, end)
    listed = listed[::-1][: int(params.get("limit", 100))]
    details = _rows("okx", listed, symbol, amount=lambda e: e.value / 100 if in_usd else e.coins * 100)
    return {"code": "0", "msg": "", "data": [{"instId": f"{params['instFamily']}-SWAP", "details": details}]}


def _okx_options(place: str, params: dict[str, Any], now: float) -> Any:
    if params.get("instType") != "OPTION":
        return None
    base, quotes = params["instFamily"][:3], {"bidPx": "0.04", "askPx": "", "vol24h": "3", "markPx": "0.05"}
    names = [f"{base}-USD-260327-{strike}-C" for strike in (40000, 50000, 60000)]
    return {
        "code": "0",
        "msg": "",
        "data": [{"instId": name, "ts": str(int(now * 1000)), **quotes} for name in names],
    }


def _predicted(place: str, params: dict[str, Any], now: float) -> Any:
    if params.get("type") != "predictedFundings":
        return None
    hours = {"BinPerp": ("0.0001", 8), "BybitPerp": ("0.0002", 4), "HlPerp": ("0.0000125", 1)}
    rows = {
        name: {"fundingRate": rate, "fundingIntervalHours": length, "nextFundingTime": int(now * 1000)}
        for name, (rate, length) in hours.items()
    }
    return [[symbol, [*map(list, rows.items()), ["OtherPerp", None]]] for symbol in SYMBOLS]


LISTS: dict[tuple[str, str], Callable[[str, dict[str, Any], float], Any]] = {
    ("gateio", "/liq_orders"): _gateio,
    ("deribit", "get_last_trades_by_currency_and_time"): _deribit,
    ("dydx", "/trades/perpetualMarket/"): _dydx,
    ("kraken", "/api/v3/history"): _kraken,
    ("paradex", "/trades"): _paradex,
    ("huobi", "/v5/market/liquidation_orders"): _huobi,
    ("bitget", "/v3/market/liquidations"): _bitget,
    ("okx", "/liquidation-orders"): _okx,
    ("okx", "/market/tickers"): _okx_options,
    ("okx", "/mark-price"): _okx_options,
    ("hyperliquid", "/info"): _predicted,
}
