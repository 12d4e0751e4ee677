"""Order books of the fake venues: one truth in coins, in each venue's shape and unit of size.

Written from the specification of the venues' APIs, as `tests.collect.fakes` is.
mexc and huobi have none there.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

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


def _text(factor: float = 1.0) -> dict[str, Any]:
    return _pairs(lambda _, coins: str(coins * factor))


def _numbers(size: Callable[[float, float], float] = lambda _, coins: coins) -> dict[str, Any]:
    return _pairs(size, float)


def _named(price: str, size: str, factor: float = 1.0) -> dict[str, Any]:
    return {side: [{price: p, size: s} for p, s in rows] for side, rows in _text(factor).items()}


def _iso(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


def _binance(_: Row, ms: int) -> Any:
    return {"lastUpdateId": 1, "E": ms, "T": ms, **_text()}


def _bybit(params: Row, ms: int) -> Any:
    sides = _text()
    result = {"s": params["symbol"], "b": sides["bids"], "a": sides["asks"], "ts": ms, "u": 1, "seq": 1}
    return {"retCode": 0, "retMsg": "OK", "result": result, "retExtInfo": {}, "time": ms}


def _okx(_: Row, ms: int) -> Any:
    sides = {k: [[*row, "0", "1"] for row in rows] for k, rows in _text(100).items()}  # contracts of 0.01
    return {"code": "0", "msg": "", "data": [{**sides, "ts": str(ms)}]}


def _deribit(params: Row, ms: int) -> Any:
    sides = _numbers(lambda price, coins: price * coins)  # USD: an inverse contract
    result = {"instrument_name": params["instrument_name"], "timestamp": ms, "state": "open", **sides}
    return {"jsonrpc": "2.0", "result": result, "usIn": ms * 1000, "usOut": ms * 1000 + 9}


def _hyperliquid(params: Row, ms: int) -> Any:
    levels = [[{"px": str(p), "sz": str(c), "n": 1} for p, c in side] for side in (BIDS, ASKS)]
    return {"coin": params["coin"], "time": ms, "levels": levels}


def _gateio(_: Row, ms: int) -> Any:
    return {"current": ms / 1000, "update": ms / 1000, **_named("p", "s", 10_000)}  # contracts of 0.0001


def _bitget(_: Row, ms: int) -> Any:
    data = {**_numbers(), "ts": str(ms), "scale": "0.1", "precision": "scale0", "isMaxPrecision": "NO"}
    return {"code": "00000", "msg": "success", "requestTime": ms, "data": data}


def _lighter(_: Row, ms: int) -> Any:
    """Single orders, two at each price."""
    halves = {
        side: [
            {
                "order_index": 2 * number + half,
                "order_id": str(2 * number + half),
                "owner_account_index": 1,
                "initial_base_amount": str(coins),
                "remaining_base_amount": str(coins / 2),
                "price": str(price),
                "order_expiry": ms + 86_400_000,
                "transaction_time": 0,
            }
            for number, (price, coins) in enumerate(levels)
            for half in range(2)
        ]
        for side, levels in (("asks", ASKS), ("bids", BIDS))
    }
    return {"code": 200, "total_asks": len(halves["asks"]), "total_bids": len(halves["bids"]), **halves}


def _paradex(params: Row, ms: int) -> Any:
    return {"market": params["market"], "seq_no": 1, "last_updated_at": ms, **_text()}


def _kraken(_: Row, ms: int) -> Any:
    return {"result": "success", "orderBook": _numbers(), "serverTime": _iso(ms)}


def _dydx(_: Row, ms: int) -> Any:
    return _named("price", "size")


def _kucoin(params: Row, ms: int) -> Any:
    sides = _pairs(lambda _, coins: round(coins * 1000))  # contracts of 0.001
    return {"code": "200000", "data": {"symbol": params["symbol"], "sequence": 1, **sides, "ts": ms * 10**6}}


def _bingx(_: Row, ms: int) -> Any:
    return {"code": 0, "msg": "", "data": {"T": ms, **_text()}}


def _phemex(params: Row, ms: int) -> Any:
    result = {"symbol": params["symbol"], "orderbook_p": _text(), "timestamp": ms * 10**6, "depth": 30}
    return {"error": None, "id": 0, "result": result}


def _bitmex(params: Row, ms: int) -> Any:
    """A row a level and side, of contracts of 0.0001 coins."""
    always = {"symbol": params["symbol"], "id": 1, "timestamp": _iso(ms)}
    return [
        {**always, "side": side, "size": round(coins * 10_000), "price": price}
        for side, levels in (("Sell", ASKS), ("Buy", BIDS))
        for price, coins in levels
    ]


def _cryptocom(params: Row, ms: int) -> Any:
    sides = {side: [[*row, "1"] for row in rows] for side, rows in _text().items()}
    result = {"instrument_name": params["instrument_name"], "depth": 150, "data": [{**sides, "t": ms}]}
    return {"id": 1, "code": 0, "result": result}


def _edgex(params: Row, ms: int) -> Any:
    row = {
        "contractId": params["contractId"],
        "level": 200,
        "depthType": "SNAPSHOT",
        **_named("price", "size"),
    }
    return {"code": "SUCCESS", "data": [row]}


def _backpack(_: Row, ms: int) -> Any:
    """The best bid comes last."""
    sides = _text()
    return {"bids": sides["bids"][::-1], "asks": sides["asks"], "lastUpdateId": "1", "timestamp": ms * 1000}


BOOKS: dict[tuple[str, str], Callable[[Row, int], Any]] = {
    ("binance", "/fapi/v1/depth"): _binance,
    ("bybit", "/v5/market/orderbook"): _bybit,
    ("okx", "/market/books"): _okx,
    ("hyperliquid", "/info l2Book"): _hyperliquid,
    ("gateio", "/order_book"): _gateio,
    ("bitget", "/merge-depth"): _bitget,
    ("deribit", "/get_order_book"): _deribit,
    ("lighter", "/orderBookOrders"): _lighter,
    ("paradex", "/orderbook/"): _paradex,
    ("aster", "/fapi/v1/depth"): _binance,
    ("kraken", "/orderbook"): _kraken,
    ("dydx", "/orderbooks/"): _dydx,
    ("kucoin", "/level2/snapshot"): _kucoin,
    ("bingx", "/quote/depth"): _bingx,
    ("phemex", "/md/v2/orderbook"): _phemex,
    ("bitmex", "/orderBook/L2"): _bitmex,
    ("cryptocom", "/public/get-book"): _cryptocom,
    ("edgex", "/quote/getDepth"): _edgex,
    ("backpack", "/depth"): _backpack,
}
