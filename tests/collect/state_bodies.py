"""Current state on the fake venues, in bulk, and of delisted contracts.

Written from the specification and from recorded bodies. `Truth` has the coins of open interest and the mark,
`RUNNING_BPS` the running rate of each venue in basis points of eight hours.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from tests.collect.truth import HOUR, Truth, interval

_SHAPES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""By venue and path, the body and the row of each contract that is in it as ``=rows``."""

OKX_STRIKES = (40000, 50000, 60000)
RUNNING_BPS = {
    name: bps
    for bps, names in {
        0.5: "edgex",
        0.8: "paradex kraken dydx",
        0.96: "lighter",
        1.0: "binance hyperliquid gateio aster kucoin derive huobi phemex cryptocom "
        "variational extended grvt nado pacifica woofipro ethereal apex",
        1.5: "deribit",
        1.6: "backpack",
        2.0: "bitget bingx",
        3.0: "okx mexc bitmex",
        4.0: "bybit",
    }.items()
    for name in names.split()
}

Row = dict[str, Any]


def state_body(fakes: Any, exchange: str, place: str, params: Row) -> Any:
    """Return the body of a bulk response; None for any other request."""
    now = int(fakes.now().timestamp() * 1000)
    made = _BODIES.get((exchange, place))
    if made is not None:
        return made(fakes.states(), now, params)
    if f"{exchange} {place}" not in _SHAPES:
        return None
    figures = [_figures(exchange, number, state, now) for number, state in enumerate(fakes.states())]
    only = _SHAPES[f"{exchange} {place}"].get("only")
    figures = [item for item in figures if only in (None, item["s"])]
    named = _NAMED.get(f"{exchange} {place}")
    if named is not None:
        asked = {*params[named].split(",")}
        figures = [item for item in figures if _names_of(item) & asked]
    body = _bulk(f"{exchange} {place}", figures, now)
    if place.endswith("/quote/openInterest"):
        body["data"] = body["data"][0]
    if exchange == "grvt" and named is not None:
        body["result"] = body["result"][0]
    return body


def _names_of(one: Row) -> set[str]:
    """Names of a contract in the requests of some venues."""
    symbol = one["s"]
    return {f"{symbol}-USDT", f"300000{one['i']:02}", f"{symbol}_USDT_Perp", f"product-{symbol}"}


def _bulk(name: str, figures: list[Row], now: int) -> Any:
    """A body with a row, or several, of each contract."""
    shape, at = _SHAPES[name], {"now": now, "iso": _iso(now), "now_us": now * 1000, "out_us": now * 1000 + 9}
    shapes = shape["row"] if isinstance(shape["row"], list) else [shape["row"]]
    rows = [filled(row, at | item) for item in figures for row in shapes]
    coins = [{"coinId": "1000", "coinName": "USDC"}]
    coins += [
        {"coinId": str(item["coin_id"]), "coinName": item["s"]} for item in figures if "coin_id" in item
    ]
    return filled(shape["body"], {**at, "rows": rows, "coin_list": coins})


def _figures(exchange: str, number: int, state: tuple[str, tuple[int, float, float]], now: int) -> Row:
    """Return the placeholders of a template for one contract: its names and figures in each venue's unit."""
    symbol, (_, coins, mark) = state
    hours, due = interval(exchange, now // 1000), Truth(0).next_payment(exchange, now / 1000) * 1000
    return {
        "i": number,
        "s": symbol,
        "xbt": "XBT" if symbol == "BTC" else symbol,
        "interval": hours,
        "interval_s": HOUR * hours,
        "interval_ms": HOUR * 1000 * hours,
        "interval_min": 60 * hours,
        "clock": f"{hours:02}",
        "due": due,
        "due_s": due // 1000,
        "due_iso": _iso(due),
        "paid": due - 1000 * HOUR * hours,
        "product": 10 + number,
        "coin_id": 1001 + number,
        "contract_usd": 100 if symbol == "BTC" else 10,
        "coins": coins,
        "usd": coins * mark,
        "coins_e3": round(coins * 1000),  # contracts of 0.001
        "coins_e4": round(coins * 10000),
        "both": 2 * coins,  # sides
        "both_e3": 2 * coins * 1000,
        "both_e4": 2 * round(coins * 10000),
        "both_usd": 2 * coins * mark,
        "mark": mark,
        "index": mark - 5,
        "half": mark / 2,
        "below": mark - 1,
        "above": mark + 1,
        "of_777": 777.0 / mark,  # coins of the volume in USD
        "e5_of_mark": 0.00001 * mark,
    }


def filled(shape: Any, figures: Row) -> Any:
    """Fill in a template: ``"{name}"`` is the figure as text, ``"=name"`` the figure itself."""
    if isinstance(shape, dict):
        return {key: filled(value, figures) for key, value in shape.items()}
    if isinstance(shape, list):
        return [filled(value, figures) for value in shape]
    if isinstance(shape, str):
        return figures[shape[1:]] if shape[:1] == "=" else shape.format(**figures)
    return shape


def filled_row(name: str, **figures: Any) -> Row:
    """One row after a template."""
    return dict(filled(_SHAPES[name]["row"], figures))


_BITGET_SUFFIXES = {"USDT-FUTURES": "USDT", "COIN-FUTURES": "USD", "USDC-FUTURES": "PERP"}
BITGET_OTHERS = ("BTC",)
"""Bases of bitget's coin- and USDC-margined contracts."""


def _bitget(name: str) -> Callable[[Any, int, Row], Any]:
    def body(states: Any, now: int, params: Row) -> Any:
        told, suffix = dict(states), _BITGET_SUFFIXES[params["productType"]]
        symbols = [*told] if suffix == "USDT" else BITGET_OTHERS
        figures = [_figures("bitget", i, (s, told.get(s, states[0][1])), now) for i, s in enumerate(symbols)]
        more = {"suffix": suffix, "quote": {"PERP": "USDC"}.get(suffix, suffix)}
        return _bulk(f"bitget {name}", [item | more for item in figures], now)

    return body


def _deribit(states: Any, now: int, params: Row) -> Any:
    future, currency = params.get("kind") == "future", params.get("currency")
    asked = [pair for pair in states if future and currency == pair[0]]
    body = _bulk("deribit summary", [_figures("deribit", 0, pair, now) for pair in asked], now)
    if future and currency == "USDC":
        shape = _SHAPES["deribit linear summary"]["row"]
        figures = [{**_figures("deribit", 0, pair, now), "now": now} for pair in states]
        body["result"] = [filled(shape, item) for item in figures]
    return body


def _dydx(states: Any, now: int, params: Row) -> Any:
    body = _bulk("dydx markets", [_figures("dydx", 0, pair, now) for pair in states], now)
    return {"markets": {row["ticker"]: row for row in body}}


def _okx_options(states: Any, now: int, params: Row) -> Any:
    if params.get("instType") != "OPTION":
        return None
    return _bulk("okx options", [{"base": params["instFamily"][:3], "strike": k} for k in OKX_STRIKES], now)


def _derive(states: Any, now: int, params: Row) -> Any:
    rows = _bulk("derive tickers", [_figures("derive", 0, pair, now) for pair in states], now)
    return {"id": "1", "result": {f"{s}-PERP": row for (s, _), row in zip(states, rows, strict=True)}}


def _nado(states: Any, now: int, params: Row) -> Any:
    rows = _bulk("nado contracts", [_figures("nado", i, pair, now) for i, pair in enumerate(states)], now)
    return {row["ticker_id"]: row for row in rows}


def _iso(ms: int) -> str:
    return f"{pd.Timestamp(ms, unit='ms', tz='UTC'):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


_BODIES: dict[tuple[str, str], Callable[[Any, int, Row], Any]] = {
    **{
        ("bitget", f"/api/v2/mix/market/{name}"): _bitget(name)
        for name in ("contracts", "current-fund-rate", "tickers")
    },
    ("okx", "/api/v5/market/tickers"): _okx_options,
    ("deribit", "/public/get_book_summary_by_currency"): _deribit,
    ("dydx", "/perpetualMarkets"): _dydx,
    ("derive", "/v3/public/get_tickers"): _derive,
    ("nado", "/v2/contracts"): _nado,
}

_EXTRAS: dict[str, list[Row]] = _SHAPES.pop("extras")
"""By venue and path: what sets rows of pre-market and test symbols, of spot and stocks, apart from others."""
_ABSENT: dict[str, list[str]] = _SHAPES.pop("absent")
"""By venue and path: fields that only some contracts have, or that a venue dropped for a while."""
_OLD: dict[str, Row] = _SHAPES.pop("delisted")
"""By venue and path: the fields that mark OLD as delisted."""


_NAMED = {
    "bingx /openApi/swap/v2/quote/openInterest": "symbol",
    "edgex /api/v2/public/funding/getLatestFundingRate": "contractId",
    "edgex /api/v2/public/quote/getTicker": "contractId",
    "grvt /full/v1/ticker": "instrument",
    "ethereal /product/market-price": "productIds",
    "ethereal /funding/projected-rate": "productIds",
}
"""Responses about the contracts that a request names, and the name of the parameter."""


_NAMES = {"symbol", "baseAsset", "baseCoin", "instId", "ctValCcy", "uly", "name", "instrument_name"}
_NAMES |= {"asset", "baseCurrency", "rootSymbol", "underlying", "base_ccy", "i", "baseSymbol", "inst_type"}
_NAMES |= {"base_currency", "market_id", "base", "pair", "contract_code"}
"""Fields of `_OLD` that name it; the others say that it is gone."""


def with_delisted(exchange: str, place: str, params: Row, body: Any, *, gone: bool = True) -> Any:
    """Add OLD to a bulk response, which the venue still lists, with the figures of its last day.

    Before it is `gone` it is reported as any other contract.
    """
    coin: Row = {"name": "OLD", "szDecimals": 3, **({"isDelisted": True} if gone else {})}
    if exchange == "hyperliquid" and params.get("type") == "meta":
        body["universe"].append(coin)
    elif exchange == "hyperliquid" and params.get("type") == "metaAndAssetCtxs":
        body[0]["universe"].append(coin)
        body[1].append({**body[1][-1], **({"midPx": None} if gone else {})})
    elif exchange == "dydx" and place == "/perpetualMarkets":
        last = body["markets"]["ETH-USD"]
        status = "FINAL_SETTLEMENT" if gone else "ACTIVE"
        body["markets"]["OLD-USD"] = {**last, "ticker": "OLD-USD", "status": status}
    elif exchange == "kucoin" and place == "/api/v1/contracts/active":
        last = body["data"][-2]  # the linear one; the inverse one is after it
        status = "Closed" if gone else "Open"
        body["data"].append({**last, "symbol": "OLDUSDTM", "baseCurrency": "OLD", "status": status})
    marks = _OLD.get(f"{'binance' if exchange == 'aster' else exchange} {place}")
    rows = _market_rows(params, body) if marks else None
    if rows and marks:
        rows.append({**_usual(rows), **{k: v for k, v in marks.items() if gone or k in _NAMES}})
    return body


def with_extras(exchange: str, place: str, params: Row, body: Any) -> Any:
    """Add entries that must not be collected, and remove optional fields of the last contract."""
    key = f"{exchange} {place}"
    rows = _market_rows(params, body) if key in _EXTRAS or key in _ABSENT else None
    if rows:
        added = [{**_usual(rows), **marks} for marks in _EXTRAS.get(key, ())]
        for name in _ABSENT.get(key, ()):
            rows[-1].pop(name, None)
        rows += added
    return body


def _usual(rows: list[Row]) -> Row:
    """Return the row of a contract as most are, of USDT where rows of inverse ones are next to it."""
    return next((row for row in rows if any("USDT" in str(value) for value in row.values())), rows[0])


def _market_rows(params: Row, body: Any) -> list[Row] | None:
    """Return the rows of the market in which all contracts are; None of another market or an error."""
    others = {("instType", "OPTION"), ("instType", "FUTURES"), ("category", "inverse"), ("kind", "option")}
    elsewhere = bool(others & {*params.items()})
    elsewhere |= params.get("productType", "USDT-FUTURES") != "USDT-FUTURES"
    return None if elsewhere else _rows(body)


def _rows(body: Any) -> list[Row] | None:
    """Return the first list of rows in a body."""
    if isinstance(body, list):
        return body
    if isinstance(body, dict):
        return next((result for value in body.values() if (result := _rows(value)) is not None), None)
    return None
