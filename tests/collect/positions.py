"""Long against short, and what takers bought and sold: one truth in the shapes of the fake venues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from tests.collect.truth import HOUR, T0, Truth

Row = dict[str, Any]
KINDS = ("accounts", "top_accounts", "top_positions")
MARK = 50_000.0
"""Mark price [USD] of every contract on venues that publish taker volumes in coins."""


def long_share(symbol: str, kind: str, second: int) -> float:
    """The part that is long in the step that begins at a time, 0.3 to 0.7 in steps of a thousandth."""
    return 0.3 + (second // 300 * 13 + len(kind) + ord(symbol[0])) % 401 / 1000


def taken(symbol: str, second: int) -> tuple[float, float]:
    """USD that takers bought and sold in the step that begins at a time."""
    number = second // 300 + ord(symbol[0])
    return 1000.0 + number * 7 % 900, 2000.0 + number * 11 % 700


def gate(symbol: str, second: int, mark: float) -> Row:
    """Gate's figures next to open interest: ratios, and contracts of 0.0001 coins."""
    longs = (long_share(symbol, kind, second) for kind in KINDS)
    ratios = {name: long / (1 - long) for name, long in zip(_GATE, longs, strict=True)}
    sizes = zip(("long_taker_size", "short_taker_size"), taken(symbol, second), strict=True)
    return ratios | {name: usd / mark / 0.0001 for name, usd in sizes}


def answer(fakes: Any, exchange: str, place: str, params: Row) -> Any:
    """Return the body of a list of these; None for any other request."""
    for (name, ending), made in _LISTS.items():
        if name == exchange and place.endswith(ending):
            return made(place, params, int(fakes.now().timestamp()))
    return None


def _steps(params: Row, now: int, step: int, unit: int, *names: str) -> list[int]:
    """Return when the steps of a window begin, with both its ends, also the step under way."""
    first, last = (
        int(pd.Timestamp(params[name]).timestamp()) if "T" in params.get(name, "")
        else int(params.get(name, other)) // unit for name, other in zip(names, (0, 2**53), strict=True)
    )  # fmt: skip
    return [second for second in range(T0 - 3 * 86400, now + 1, step) if first <= second <= last]


def _binance(place: str, params: Row, now: int) -> Any:
    kind = dict(zip(_BINANCE, KINDS, strict=True))[place.rpartition("/")[2]]
    seconds = _steps(params, now, 300, 1000, "startTime", "endTime")[-int(params["limit"]) :]
    assert now - seconds[0] <= 30 * 86400 + 300 if seconds else True
    shares = [(second, long_share(params["symbol"], kind, second)) for second in seconds]
    return [
        {"symbol": params["symbol"], "longAccount": f"{long:.4f}", "shortAccount": f"{1 - long:.4f}",
         "longShortRatio": f"{long / (1 - long):.4f}", "timestamp": second * 1000}
        for second, long in shares
    ]  # fmt: skip


def _bybit(_: str, params: Row, now: int) -> Any:
    seconds = _steps(params, now, HOUR, 1000, "startTime", "endTime")[-int(params["limit"]) :][::-1]
    shares = [(second, long_share(params["symbol"], "accounts", second)) for second in seconds]
    rows = [
        {"symbol": params["symbol"], "buyRatio": f"{long:.4f}", "sellRatio": f"{1 - long:.4f}",
         "timestamp": str(second * 1000)}
        for second, long in shares
    ]  # fmt: skip
    return {"retCode": 0, "retMsg": "OK", "result": {"list": rows, "nextPageCursor": ""}, "time": now * 1000}


def _okx(place: str, params: Row, now: int) -> Any:
    begin, end = int(params["begin"]), int(params["end"])  # both are omitted
    seconds = [s for s in _steps({}, now, HOUR, 1, "", "")[-1440:] if begin < s * 1000 < end]
    seconds = seconds[-int(params["limit"]) :][::-1]
    if place.endswith("taker-volume-contract"):
        sides = [(s, *taken(params["instId"], s)) for s in seconds]
        data = [[str(s * 1000), str(sold), str(bought)] for s, bought, sold in sides]
    else:
        kind = dict(zip(_OKX, KINDS, strict=True))[place.rpartition("/")[2]]
        longs = [(s, long_share(params["instId"], kind, s)) for s in seconds]
        data = [[str(s * 1000), str(long / (1 - long))] for s, long in longs]
    return {"code": "0", "msg": "", "data": data}


def _bitget(place: str, params: Row, now: int) -> Any:
    seconds, data = _steps({}, now, HOUR, 1, "", "")[-30:], []
    of = "Account" if "account" in place else "Position"
    for second in seconds:
        long = long_share(params["symbol"], f"{of.lower()}s", second)
        row = {f"long{of}Ratio": f"{long:.4f}", f"short{of}Ratio": f"{1 - long:.4f}",
               f"longShort{of}Ratio": f"{long / (1 - long) / 100:.4f}"}  # fmt: skip
        if place.endswith("taker-buy-sell"):
            sides = zip(("buyVolume", "sellVolume"), taken(params["symbol"], second), strict=True)
            row = {name: str(usd / MARK) for name, usd in sides}
        data.append({**row, "ts": str(second * 1000)})
    return {"code": "00000", "msg": "success", "requestTime": now * 1000, "data": data}


def _bitget_marks(_: str, params: Row, now: int) -> Any:
    seconds = _steps(params, now, HOUR, 1000, "startTime", "endTime")[-int(params["limit"]) :]
    rows = [[str(second * 1000), *[str(MARK)] * 4, "0", "0"] for second in seconds]
    return {"code": "00000", "msg": "success", "requestTime": now * 1000, "data": rows}


def _huobi(place: str, params: Row, now: int) -> Any:
    kind = "top_accounts" if "account" in place else "top_positions"
    code = params["contract_code"]
    shares = [(s, long_share(code, kind, s)) for s in _steps({}, now, HOUR, 1, "", "")[-30:]]
    rows = [{"buy_ratio": long, "sell_ratio": 1 - long, "ts": s * 1000} for s, long in shares]
    return {
        "status": "ok",
        "data": {"symbol": code[:3], "contract_code": code, "list": rows},
        "ts": now * 1000,
    }


def _spot(_: str, params: Row, now: int) -> Any:
    """A spot price is 40,000 plus the hours since the start, open first; the following values differ."""
    names = ("startTime", "endTime") if "startTime" in params else ("start", "end")
    if "granularity" in params:
        return [
            [s, spot(s) - 9, spot(s) + 9, spot(s), 2.0, 3.0] for s in _steps(params, now, HOUR, 1, *names)
        ][::-1]
    if "pair" in params:
        seconds = _steps(params, now, HOUR, 1, "since", "end")[-720:]
        rows = [[s, str(spot(s)), str(spot(s) + 9), str(spot(s) - 9), "2", "3", "4", 5] for s in seconds]
        return {"error": [], "result": {"XXBTZUSD": rows, "last": seconds[-1]}}
    candles = [
        (s * 1000, str(spot(s)), str(spot(s) + 9), str(spot(s) - 9), "2", "3")
        for s in _steps(params, now, HOUR, 1000, *names)
    ]
    if "startTime" in params:
        return candles[: int(params["limit"])]
    texts = [[str(ms), *figures] for ms, *figures in candles][::-1]
    if "instId" in params:
        return {"code": "0", "msg": "", "data": [t for t in texts if int(t[0]) < int(params["after"])][:100]}
    result = {"category": "spot", "symbol": params["symbol"], "list": texts[:1000]}
    return {"retCode": 0, "retMsg": "OK", "result": result, "time": now * 1000}


def spot(second: int) -> float:
    """The spot price of every coin at a time."""
    return 40_000.0 + (second - T0) / HOUR


def _kraken(place: str, params: Row, now: int) -> Any:
    symbol = place.split("/")[-2].removeprefix("PF_").replace("XBT", "BTC")
    seconds = _steps(params, now, HOUR, 1, "since", "to")
    page = seconds[:50]
    longs = [round(1000 * long_share(symbol, "accounts", second)) for second in page]
    data: Row = {"longCount": longs, "shortCount": [1000 - long for long in longs]}
    if place.endswith("/cvd"):
        sides = zip(*(taken(symbol, second) for second in page), strict=True)
        names = ("buy_volume", "sell_volume")
        data = {name: [str(usd / MARK) for usd in side] for name, side in zip(names, sides, strict=False)}
    return {"result": {"timestamp": page, "more": len(page) < len(seconds), "data": data}, "errors": []}


def _kraken_marks(_: str, params: Row, now: int) -> Any:
    seconds = _steps(params, now, HOUR, 1, "from", "to")
    rows = [{"time": second * 1000, "open": str(MARK), "close": "1"} for second in seconds[:50]]
    return {"candles": rows, "more_candles": len(seconds) > 50}


def _kraken_fives(place: str, params: Row, now: int) -> Any:
    """Marks, or open interest (open, high, low and close), each five minutes."""
    seconds = _steps(params, now, 300, 1, *(("from", "to") if "from" in params else ("since", "to")))
    page, more = seconds[:500], len(seconds) > 500
    symbol = place.split("/")[-2].removeprefix("PF_").removesuffix("USD").replace("XBT", "BTC")
    states = [Truth(now).oi_at(symbol, second) for second in page]
    if place.endswith("/5m"):
        rows = [{"time": s * 1000, "open": str(mark), "close": "1"} for s, _, mark in states]
        return {"candles": rows, "more_candles": more}
    buckets = [[str(coins), str(coins + 9), str(coins - 9), str(coins + 1)] for _, coins, _ in states]
    return {"result": {"timestamp": page, "more": more, "data": buckets}, "errors": []}


def traded(second: int) -> Row:
    """A trade of an option, one each 10 minutes; each sixth shares its time with the one after."""
    number = second // 600
    return {
        "trade_id": str(number),
        "timestamp": (second - 600 * (number % 6 == 1)) * 1000,
        "instrument_name": "BTC-30JAN26-90000-C",
        "price": 0.01 + number % 7 / 1000,
        "amount": 0.5,
        "direction": "buy" if number % 3 else "sell",
        "iv": 40.0 + number % 5,
        "index_price": 90_000.0,
    }


def dvol(second: int) -> float:
    """The volatility index at the end of the hour that begins at a time [%]."""
    return 40.0 + second // HOUR % 23 / 10


def delivered(day: int) -> float:
    """The price of delivery at 08:00 of a day since 1970."""
    return 90_000.0 + day % 37 * 10


def _trades(_: str, params: Row, now: int) -> Any:
    first, last = int(params["start_timestamp"]), int(params["end_timestamp"])
    rows = [traded(second) for second in range(T0 - 3 * 86400, now + 1, 600)]
    rows = [row for row in rows if params["currency"] == "BTC" and first <= row["timestamp"] <= last]
    page = sorted(rows, key=lambda row: row["timestamp"])[: min(int(params["count"]), 20)]
    return {"result": {"trades": page, "has_more": len(page) < len(rows)}}


def _deliveries(_: str, params: Row, now: int) -> Any:
    days = [day for day in range(T0 // 86400 - 30, now // 86400 + 1) if day * 86400 + 8 * HOUR <= now][::-1]
    page = days[int(params.get("offset", 0)) :][: min(int(params["count"]), 10)]
    rows = [{"date": f"{pd.Timestamp(d, unit='D'):%Y-%m-%d}", "delivery_price": delivered(d)} for d in page]
    return {"result": {"data": rows, "records_total": len(days)}}


def _delivered_days(_: str, params: Row, now: int) -> Any:
    """Return all deliveries of a pair, stamped with the day or 08:00 of it."""
    days = [day for day in range(T0 // 86400 - 30, now // 86400 + 1) if day * 86400 + 8 * HOUR <= now]
    return [
        {"deliveryTime": 1000 * (d * 86400 + d % 2 * 8 * HOUR), "deliveryPrice": delivered(d)} for d in days
    ]


def _dvol(_: str, params: Row, now: int) -> Any:
    seconds = _steps(params, now, HOUR, 1000, "start_timestamp", "end_timestamp")[-30:]
    return {
        "result": {"data": [[s * 1000, 50.0, 50.0, 50.0, dvol(s)] for s in seconds], "continuation": None}
    }


def _okx_trades(_: str, params: Row, now: int) -> Any:
    name = f"{params['instFamily']}-260130-90000-C"
    rows = [
        {"instId": name, "tradeId": str(s), "px": "0.01", "sz": "30", "side": "buy", "fillVol": "0.4",
         "fwdPx": "90500", "idxPx": "90000", "ts": str(s * 1000)}
        for s in range(now // 3 * 3 - 300, now // 3 * 3, 3)
    ]  # fmt: skip
    return {"code": "0", "msg": "", "data": rows[::-1]}


_GATE = ("lsr_account", "top_lsr_account", "top_lsr_size")
_BINANCE = ("globalLongShortAccountRatio", "topLongShortAccountRatio", "topLongShortPositionRatio")
_OKX = (
    "long-short-account-ratio-contract",
    "long-short-account-ratio-contract-top-trader",
    "long-short-position-ratio-contract-top-trader",
)
_LISTS: dict[tuple[str, str], Callable[[str, Row, int], Any]] = {
    **{("binance", f"/{name}"): _binance for name in _BINANCE},
    ("bybit", "/account-ratio"): _bybit,
    **{("okx", f"/{name}"): _okx for name in (*_OKX, "taker-volume-contract")},
    **dict.fromkeys([("bitget", f"/{n}-long-short") for n in ("account", "position")], _bitget),
    ("bitget", "/taker-buy-sell"): _bitget,
    ("bitget", "/history-mark-candles"): _bitget_marks,
    ("huobi", "/swap_elite_account_ratio"): _huobi,
    ("huobi", "/swap_elite_position_ratio"): _huobi,
    ("kraken", "/long-short-info"): _kraken,
    ("kraken", "/cvd"): _kraken,
    ("binance", "/api/v3/klines"): _spot,
    ("bybit", "/v5/market/kline"): _spot,
    ("kraken", "/0/public/OHLC"): _spot,
    ("okx", "/history-candles"): _spot,
    ("coinbase", "/candles"): _spot,
    ("kraken", "/1h"): _kraken_marks,
    ("kraken", "/5m"): _kraken_fives,
    ("kraken", "/open-interest"): _kraken_fives,
    ("deribit", "/get_last_trades_by_currency_and_time"): _trades,
    ("deribit", "/get_delivery_prices"): _deliveries,
    ("binance", "/delivery-price"): _delivered_days,
    ("deribit", "/get_volatility_index_data"): _dvol,
    ("okx", "/option-trades"): _okx_trades,
}
