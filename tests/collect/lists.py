"""Lists of the fake venues that hold single rows: liquidations, trades, and option quotes.

Written from the specification of the venues' APIs, as `tests.collect.fakes` is.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pandas as pd

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
    found = []
    for number in range(int(start) // STEP, int(end) // STEP + 1):
        ms = number * STEP * 1000 + 1000 * len(symbol) + number * 37 % 900
        if not start <= ms / 1000 <= end:
            continue
        mixed = zlib.crc32(b"%d" % number)
        liquidated = mixed % 50 == 0
        row = Event(ms, number, liquidated, mixed % 3 == 0, 50000.0 + number % 100, 1 + mixed % 7)
        found += [row] * (3 if liquidated and mixed % 4 == 0 else 1)
    return found


def liquidated(symbol: str, start: float, end: float) -> list[Event]:
    """Only liquidations."""
    return [event for event in events(symbol, start, end) if event.is_liquidation]


def inverse(symbol: str) -> str:
    """The name of a symbol's inverse contract in `events`: its trades are others, at other instants."""
    return f"{symbol} inverse"


def answer(fakes: Any, exchange: str, place: str, params: dict[str, Any]) -> Any:
    """What a list answers; None for a place that is no list."""
    now = fakes.now().timestamp()
    for (name, ending), made in LISTS.items():
        if name == exchange and place.partition("{")[0].find(ending) >= 0:
            return made(place, params, now)
    return None


def iso(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def _seconds(text: str) -> float:
    return pd.Timestamp(text).timestamp()


def _numbered(symbol: str, rows: list[Event]) -> list[tuple[Event, str]]:
    """Rows with an id each, the same whenever they are listed."""
    seen: dict[int, int] = {}
    named = []
    for row in rows:
        seen[row.number] = seen.get(row.number, 0) + 1
        named.append((row, f"{symbol}-{row.number}-{seen[row.number]}"))
    return named


def _gateio(place: str, params: dict[str, Any], now: float) -> Any:
    start, end = int(params["from"]), int(params["to"])
    if end - start > 3600:
        return {"label": "INVALID_PARAM_VALUE", "message": "from and to span more than an hour"}
    if "usdt" not in place:
        return []
    rows = [
        {
            "contract": f"{symbol}_USDT",
            "time": event.ms // 1000,
            "size": str((1 if event.is_long else -1) * event.coins * 10000),
            "order_size": str((-1 if event.is_long else 1) * event.coins * 10000),
            "left": "0",
            "fill_price": str(event.price),
            "order_price": str(event.price - 1),
        }
        for symbol in SYMBOLS
        for event in liquidated(symbol, start, min(end + 0.999, now))
    ]
    return sorted(rows, key=lambda row: -row["time"])[: int(params.get("limit", 100))]


def _deribit(place: str, params: dict[str, Any], now: float) -> Any:
    count = min(int(params.get("count", 10)), 1000)
    start, end = int(params["start_timestamp"]) / 1000, int(params["end_timestamp"]) / 1000
    named = (
        _numbered(params["currency"], events(params["currency"], start, min(end, now)))
        if params["currency"] in SYMBOLS
        else []
    )
    rows = [
        {
            "trade_id": f"{params['currency']}-{number}",
            "instrument_name": f"{params['currency']}-PERPETUAL",
            "timestamp": event.ms,
            "direction": "sell" if event.is_long == (event.number % 2 == 0) else "buy",
            "price": event.price,
            "amount": event.value,
            **({"liquidation": "T" if event.number % 2 == 0 else "M"} if event.is_liquidation else {}),
        }
        for event, number in named
    ]
    return {"jsonrpc": "2.0", "result": {"trades": rows[:count], "has_more": len(rows) > count}}


def _dydx(place: str, params: dict[str, Any], now: float) -> Any:
    symbol = place.rpartition("/")[2][:3]
    end = min(_seconds(params["createdBeforeOrAt"]), now) if "createdBeforeOrAt" in params else now
    named = _numbered(symbol, events(symbol, end - 10_800, end))[::-1][
        : min(int(params.get("limit", 100)), 1000)
    ]
    return {
        "trades": [
            {
                "id": number,
                "side": "SELL" if event.is_long else "BUY",
                "size": str(event.coins),
                "price": str(event.price),
                "type": "LIQUIDATED" if event.is_liquidation else "LIMIT",
                "createdAt": iso(event.ms),
            }
            for event, number in named
        ]
    }


def _kraken(place: str, params: dict[str, Any], now: float) -> Any:
    symbol = {"XBT": "BTC"}.get(params["symbol"][3:6], params["symbol"][3:6])
    in_usd = params["symbol"].startswith("PI_")  # and not in coins
    symbol = inverse(symbol) if in_usd else symbol
    end = min(_seconds(params["lastTime"]) - 0.0005, now) if "lastTime" in params else now
    named = _numbered(symbol, events(symbol, end - 3600, end))[::-1][:100]
    return {
        "result": "success",
        "serverTime": iso(int(now * 1000)),
        "history": [
            {
                "time": iso(event.ms),
                "trade_id": i,
                "uid": number,
                "price": event.price,
                "size": event.value if in_usd else event.coins,
                "side": "sell" if event.is_long else "buy",
                "type": "liquidation" if event.is_liquidation else "fill",
            }
            for i, (event, number) in enumerate(named)
        ],
    }


def _paradex(place: str, params: dict[str, Any], now: float) -> Any:
    size, skip = min(int(params.get("page_size", 100)), 1000), int(params.get("cursor", 0))
    start, end = int(params["start_at"]) / 1000, int(params["end_at"]) / 1000
    named = _numbered(params["market"], events(params["market"][:3], start, min(end, now)))[::-1]
    return {
        "results": [
            {
                "id": number,
                "market": params["market"],
                "side": "SELL" if event.is_long else "BUY",
                "size": str(event.coins),
                "price": str(event.price),
                "created_at": event.ms,
                "trade_type": "LIQUIDATION" if event.is_liquidation else "FILL",
            }
            for event, number in named[skip : skip + size]
        ],
        "next": str(skip + size) if skip + size < len(named) else None,
    }


def _huobi(place: str, params: dict[str, Any], now: float) -> Any:
    named = _numbered(params["contract_code"], liquidated(params["contract_code"][:3], now - 86_400, now))[
        ::-1
    ]
    return {
        "code": 200,
        "message": "Success",
        "data": [
            {
                "id": number,
                "contract_code": params["contract_code"],
                "liquidation_time": str(event.ms),
                "side": "sell" if event.is_long else "buy",
                "position_side": "long" if event.is_long else "short",
                "volume": str(event.coins * 1000),
                "amount": str(event.coins * 1000),
                "bankrupt_price": str(event.price),
                "trade_turnover": str(event.value),
            }
            for event, number in named[: int(params.get("limit", 20))]
        ],
        "ts": int(now * 1000),
    }


def _bitget(place: str, params: dict[str, Any], now: float) -> Any:
    skip = int(params.get("cursor", 0))
    rows = sorted(
        ((event, symbol) for symbol in SYMBOLS for event in liquidated(symbol, now - 3 * 86_400, now)),
        key=lambda row: -row[0].ms,
    )
    page = rows[skip : skip + int(params.get("limit", 20))]
    return {
        "code": "00000",
        "msg": "success",
        "requestTime": int(now * 1000),
        "data": {
            "list": [
                {
                    "symbol": f"{symbol}USDT",
                    "side": "buy" if event.is_long else "sell",
                    "price": str(event.price),
                    "amount": str(event.coins),
                    "ts": str(event.ms),
                }
                for event, symbol in page
            ],
            "cursor": str(skip + len(page)),
        },
    }


def _okx(place: str, params: dict[str, Any], now: float) -> Any:
    if params.get("instType") == "OPTION":
        return None
    end = min(int(params["after"]) / 1000 - 0.0005, now) if "after" in params else now
    symbol, _, quote = params["instFamily"].partition("-")
    in_usd = quote == "USD"  # contracts of 100 USD; others are of 0.01 coins
    of = inverse(symbol) if in_usd else symbol
    rows = liquidated(of, end - 86_400, end)[::-1][: int(params.get("limit", 100))]
    details = [
        {
            "posSide": "long" if event.is_long else "short",
            "side": "sell" if event.is_long else "buy",
            "bkPx": str(event.price),
            "sz": str(event.value / 100 if in_usd else event.coins * 100),
            "ts": str(event.ms),
        }
        for event in rows
    ]
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
