"""Order books of the fake venues: one truth in coins, in each venue's shape and unit of size.

Written from the specification of the venues' APIs, as `tests.collect.fakes` is. Those that are not here were
recorded, or the specification has none: mexc and huobi.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.collect.lists import iso

BIDS = ((100.0, 1.0), (99.0, 2.0))
ASKS = ((101.0, 3.0), (103.0, 4.0))
"""(price, coins), the best first."""

Row = dict[str, Any]


def book(exchange: str, place: str, params: Row, ms: int) -> Any:
    """Return the body of a venue's order book; None for another place."""
    if params.get("type") == "l2Book":
        place = "/info l2Book"
    made = next((BOOKS[key] for key in BOOKS if key[0] == exchange and key[1] in place), None)
    return None if made is None else made({"market": place.rpartition("/")[2], **params}, ms)


def _pairs(size: Callable[[float, float], Any], price: Callable[[float], Any] = str) -> dict[str, Any]:
    sides = {"bids": BIDS, "asks": ASKS}
    return {side: [[price(p), size(p, c)] for p, c in levels] for side, levels in sides.items()}


def _text(factor: float = 1.0, *more: str) -> dict[str, Any]:
    sides = _pairs(lambda _, coins: str(coins * factor))
    return {side: [[*row, *more] for row in rows] for side, rows in sides.items()}


def _named(price: str, size: str, factor: float = 1.0) -> dict[str, Any]:
    return {side: [{price: p, size: s} for p, s in rows] for side, rows in _text(factor).items()}


def _binance(_: Row, ms: int) -> Any:
    return {"lastUpdateId": 1, "E": ms, "T": ms, **_text()}


def _bitmex(params: Row, ms: int) -> Any:
    """A row a level and side, of contracts of 0.0001 coins."""
    always = {"symbol": params["symbol"], "id": 1, "timestamp": iso(ms)}
    return [
        {**always, "side": side, "size": round(coins * 10_000), "price": price}
        for side, levels in (("Sell", ASKS), ("Buy", BIDS))
        for price, coins in levels
    ]


BOOKS: dict[tuple[str, str], Callable[[Row, int], Any]] = {
    ("binance", "/fapi/v1/depth"): _binance,
    ("bybit", "/v5/market/orderbook"): lambda params, ms: {"retCode": 0, "time": ms, "result": {
        "s": params["symbol"], "b": _text()["bids"], "a": _text()["asks"], "ts": ms, "u": 1, "seq": 1
    }},
    ("okx", "/market/books"): lambda _, ms: {  # contracts of 0.01
        "code": "0", "msg": "", "data": [{**_text(100, "0", "1"), "ts": str(ms)}]
    },
    ("hyperliquid", "/info l2Book"): lambda params, ms: {"coin": params["coin"], "time": ms, "levels": [
        [{"px": str(p), "sz": str(c), "n": 1} for p, c in side] for side in (BIDS, ASKS)
    ]},
    ("gateio", "/order_book"): lambda _, ms: {  # contracts of 0.0001
        "current": ms / 1000, "update": ms / 1000, **_named("p", "s", 10_000)
    },
    ("deribit", "/get_order_book"): lambda params, ms: {"jsonrpc": "2.0", "result": {
        "instrument_name": params["instrument_name"], "timestamp": ms, "state": "open",
        **_pairs(lambda price, coins: price * coins, float)  # USD: an inverse contract
    }},
    ("paradex", "/orderbook/"): lambda params, ms: {
        "market": params["market"], "seq_no": 1, "last_updated_at": ms, **_text()
    },
    ("aster", "/fapi/v1/depth"): _binance,
    ("kucoin", "/level2/snapshot"): lambda params, ms: {"code": "200000", "data": {  # contracts of 0.001
        "symbol": params["symbol"], "ts": ms * 10**6, **_pairs(lambda _, coins: round(coins * 1000))
    }},
    ("dydx", "/orderbooks/"): lambda *_: _named("price", "size"),
    ("bingx", "/quote/depth"): lambda _, ms: {"code": 0, "msg": "", "data": {"T": ms, **_text()}},
    ("phemex", "/md/v2/orderbook"): lambda params, ms: {"error": None, "id": 0, "result": {
        "symbol": params["symbol"], "orderbook_p": _text(), "timestamp": ms * 10**6, "depth": 30
    }},
    ("bitmex", "/orderBook/L2"): _bitmex,
    ("cryptocom", "/public/get-book"): lambda params, ms: {"id": 1, "code": 0, "result": {
        "instrument_name": params["instrument_name"], "data": [{**_text(1.0, "1"), "t": ms}]
    }},
    ("edgex", "/quote/getDepth"): lambda params, _: {"code": "SUCCESS", "data": [
        {"contractId": params["contractId"], "depthType": "SNAPSHOT", **_named("price", "size")}
    ]},
    ("extended", "/orderbook"): lambda _, ms: {"status": "OK", "data": {
        "market": "BTC-USD", **{side[:-1]: rows for side, rows in _named("price", "qty").items()}
    }},
    ("grvt", "/full/v1/book"): lambda params, ms: {"result": {
        "instrument": params["instrument"], "event_time": f"{ms}000000", **_named("price", "size")
    }},
    ("pacifica", "/book"): lambda params, ms: {"success": True, "data": {
        "s": params["symbol"], "l": [*_named("p", "a").values()], "t": ms
    }, "error": None, "code": None},
    ("apex", "/v3/depth"): lambda params, _: {"data": {
        "s": params["symbol"], "b": _text()["bids"], "a": _text()["asks"], "u": 1
    }},
    ("backpack", "/depth"): lambda _, ms: {  # the best bid comes last
        **_text(), "bids": _text()["bids"][::-1], "lastUpdateId": "1", "timestamp": ms * 1000
    },
}  # fmt: skip
