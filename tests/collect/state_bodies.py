"""What the fake venues tell of now, in bulk, and of contracts that were taken off the list.

Written from the specification and from recorded bodies. `Truth` has the coins of open interest and the mark,
`RUNNING_BPS` the running rate of each venue in basis points of eight hours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from tests.collect.truth import HOUR, Truth, interval

if TYPE_CHECKING:
    from tests.collect.fakes import Fakes

__all__ = ["BITGET_OTHERS", "RUNNING_BPS", "bitget_suffix", "bitget_symbols", "state_body", "with_delisted"]

_SHAPES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""By venue and path, the body and the row of each contract that stands in it as ``=rows``."""

RUNNING_BPS = {
    "binance": 1.0,
    "bybit": 4.0,
    "okx": 3.0,
    "hyperliquid": 1.0,
    "gateio": 1.0,
    "bitget": 2.0,
    "deribit": 1.5,
    "lighter": 0.96,
    "paradex": 0.8,
    "aster": 1.0,
    "kraken": 0.8,
    "dydx": 0.8,
    "kucoin": 1.0,
    "mexc": 3.0,
    "derive": 1.0,
}

Row = dict[str, Any]


def state_body(fakes: Fakes, exchange: str, place: str, params: Row) -> Any:
    """Return the body of a bulk answer; None where it is none of these."""
    now = int(fakes.now().timestamp() * 1000)
    made = _BODIES.get((exchange, place))
    if made is not None:
        return made(fakes.states(), now, params)
    shape = _SHAPES.get(f"{exchange} {place}")
    if shape is None:
        return None
    shapes = shape["row"] if isinstance(shape["row"], list) else [shape["row"]]
    figures = [_figures(exchange, number, state, now) for number, state in enumerate(fakes.states())]
    rows = [_filled(row, one) for one in figures for row in shapes]
    return _filled(shape["body"], {**figures[0], "rows": rows})


def _figures(exchange: str, number: int, state: tuple[str, tuple[int, float, float]], now: int) -> Row:
    """Return what a template may name of one contract: what it is called, counted in each venue's unit."""
    symbol, (_, coins, mark) = state
    hours = interval(exchange, now // 1000)
    return {
        "i": number,
        "s": symbol,
        "xbt": "XBT" if symbol == "BTC" else symbol,
        "now": now,
        "iso": _iso(now),
        "interval": hours,
        "interval_s": HOUR * hours,
        "interval_ms": HOUR * 1000 * hours,
        "due": Truth(0).next_payment(exchange, now / 1000) * 1000,
        "contract_usd": 100 if symbol == "BTC" else 10,
        "coins": coins,
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


def _filled(shape: Any, figures: Row) -> Any:
    """Fill in a template: ``"{name}"`` is the figure as text, ``"=name"`` the figure itself."""
    if isinstance(shape, dict):
        return {key: _filled(value, figures) for key, value in shape.items()}
    if isinstance(shape, str):
        return figures[shape[1:]] if shape[:1] == "=" else shape.format(**figures)
    return shape


_BITGET_SUFFIXES = {"USDT-FUTURES": "USDT", "COIN-FUTURES": "USD", "USDC-FUTURES": "PERP"}
BITGET_OTHERS = ("BTC",)
"""Bases of bitget's coin- and USDC-margined contracts."""


def bitget_suffix(params: Row) -> str:
    """Return what follows the base in the names of a product type; no other type is answered."""
    return _BITGET_SUFFIXES[params["productType"]]


def bitget_symbols(params: Row, symbols: Sequence[str]) -> Sequence[str]:
    """Return the bases of a product type."""
    return symbols if bitget_suffix(params) == "USDT" else BITGET_OTHERS


def _bitget(states: Any, now: int, params: Row) -> Any:
    told = dict(states)
    rows = [
        {
            "symbol": f"{s}{bitget_suffix(params)}",
            "lastPr": str(mark),
            "ts": str(now),
            "change24h": "0.01",
            "quoteVolume": "777",
            "usdtVolume": "777",
            "indexPrice": str(mark),
            "markPrice": str(mark),
            "fundingRate": "0.0002",
            "holdingAmount": str(coins),
            "deliveryTime": None,
            "deliveryStatus": "delivery_normal",
        }
        for s in bitget_symbols(params, [*told])
        for _, coins, mark in [told.get(s, states[0][1])]
    ]
    return {"code": "00000", "msg": "success", "requestTime": now, "data": rows}


def _deribit(states: Any, now: int, params: Row) -> Any:
    rows = [
        {
            "instrument_name": f"{s}-PERPETUAL",
            "base_currency": s,
            "quote_currency": "USD",
            "creation_timestamp": now,
            "funding_8h": 0.00015,
            "current_funding": 0.00002,
            "open_interest": coins * mark,
            "mark_price": mark,
            "last": mark,
            "volume_usd": 777.0,
            "volume": 0.01,
            "price_change": 1.5,
            "estimated_delivery_price": mark,
        }
        for s, (_, coins, mark) in states
        if params.get("currency") == s and params.get("kind") == "future"
    ]
    return {"jsonrpc": "2.0", "result": rows, "usIn": now * 1000, "usOut": now * 1000 + 9}


def _dydx(states: Any, now: int, params: Row) -> Any:
    rows = {
        f"{s}-USD": {
            "ticker": f"{s}-USD",
            "status": "ACTIVE",
            "oraclePrice": str(mark),
            "priceChange24H": "100",
            "volume24H": "777",
            "nextFundingRate": "0.00001",
            "openInterest": str(coins),
        }
        for s, (_, coins, mark) in states
    }
    return {"markets": rows}


def _okx_options(states: Any, now: int, params: Row) -> Any:
    if params.get("instType") != "OPTION":
        return None
    base = params["instFamily"][:3]
    rows = [
        {
            "instType": "OPTION",
            "instId": f"{base}-USD-260327-{strike}-C",
            "last": "0.01",
            "askPx": "0.02",
            "askSz": "1",
            "bidPx": "0.01",
            "bidSz": "1",
            "open24h": "0.01",
            "high24h": "0.02",
            "low24h": "0.01",
            "volCcy24h": "3",
            "vol24h": "300",
            "ts": str(now),
        }
        for strike in (40000, 50000, 60000)
    ]
    return {"code": "0", "msg": "", "data": rows}


def _derive(states: Any, now: int, params: Row) -> Any:
    rows = {
        f"{s}-PERP": {
            "t": now,
            "A": "1",
            "a": str(mark + 1),
            "B": "1",
            "b": str(mark - 1),
            "f": "0.0000125",
            "option_pricing": None,
            "I": str(mark),
            "M": str(mark),
            "stats": {
                "c": "1",
                "v": "777",
                "pr": "1",
                "n": 1,
                "oi": str(coins),
                "h": "1",
                "l": "1",
                "p": "0.015",
            },
            "minp": "1",
            "maxp": "99999999",
        }
        for s, (_, coins, mark) in states
    }
    return {"id": "1", "result": rows}


def _iso(ms: int) -> str:
    return f"{pd.Timestamp(ms, unit='ms', tz='UTC'):%Y-%m-%dT%H:%M:%S}.{ms % 1000:03}Z"


_BODIES: dict[tuple[str, str], Callable[[Any, int, Row], Any]] = {
    ("bitget", "/api/v2/mix/market/tickers"): _bitget,
    ("okx", "/api/v5/market/tickers"): _okx_options,
    ("deribit", "/public/get_book_summary_by_currency"): _deribit,
    ("dydx", "/perpetualMarkets"): _dydx,
    ("derive", "/v3/public/get_tickers"): _derive,
}

_OLD = {
    ("binance", "/fapi/v1/exchangeInfo"): {"symbol": "OLDUSDT", "baseAsset": "OLD", "status": "SETTLING"},
    ("binance", "/fapi/v1/premiumIndex"): {"symbol": "OLDUSDT"},
    ("binance", "/fapi/v1/ticker/24hr"): {"symbol": "OLDUSDT"},
    ("bybit", "/v5/market/instruments-info"): {"symbol": "OLDUSDT", "baseCoin": "OLD", "status": "Closed"},
    ("bybit", "/v5/market/tickers"): {"symbol": "OLDUSDT"},
    ("okx", "/api/v5/public/instruments"): {
        "instId": "OLD-USDT-SWAP",
        "ctValCcy": "OLD",
        "uly": "OLD-USDT",
        "state": "suspend",
    },
    ("okx", "/api/v5/public/funding-rate"): {"instId": "OLD-USDT-SWAP"},
    ("okx", "/api/v5/public/open-interest"): {"instId": "OLD-USDT-SWAP"},
    ("okx", "/api/v5/public/mark-price"): {"instId": "OLD-USDT-SWAP"},
    ("okx", "/api/v5/market/tickers"): {"instId": "OLD-USDT-SWAP"},
    ("gateio", "/futures/usdt/contracts"): {"name": "OLD_USDT", "in_delisting": True, "status": "delisting"},
    ("bitget", "/api/v2/mix/market/contracts"): {
        "symbol": "OLDUSDT",
        "baseCoin": "OLD",
        "symbolStatus": "off",
    },
    ("bitget", "/api/v2/mix/market/tickers"): {"symbol": "OLDUSDT"},
    ("bitget", "/api/v2/mix/market/current-fund-rate"): {"symbol": "OLDUSDT"},
    ("deribit", "/public/get_instruments"): {
        "instrument_name": "OLD-PERPETUAL",
        "base_currency": "OLD",
        "is_active": False,
    },
    ("lighter", "/orderBookDetails"): {"symbol": "OLD", "market_id": 9, "status": "inactive"},
    ("kraken", "/derivatives/api/v3/instruments"): {
        "symbol": "PF_OLDUSD",
        "base": "OLD",
        "tradeable": False,
    },
    ("kraken", "/derivatives/api/v3/tickers"): {
        "symbol": "PF_OLDUSD",
        "pair": "OLD:USD",
        "suspended": True,
    },
    ("mexc", "/api/v1/contract/detail"): {"symbol": "OLD_USDT", "baseCoin": "OLD", "state": 3},
    ("mexc", "/api/v1/contract/ticker"): {"symbol": "OLD_USDT", "lastPrice": 0, "holdVol": 0},
    ("mexc", "/api/v1/contract/funding_rate"): {"symbol": "OLD_USDT"},
    ("huobi", "/linear-swap-api/v1/swap_contract_info"): {
        "symbol": "OLD",
        "contract_code": "OLD-USDT",
        "contract_status": 3,
    },
    ("huobi", "/linear-swap-api/v1/swap_batch_funding_rate"): {
        "symbol": "OLD",
        "contract_code": "OLD-USDT",
        "funding_time": "1613976000000",
    },
    ("derive", "/v3/public/get_all_instruments"): {
        "instrument_name": "OLD-PERP",
        "base_currency": "OLD",
        "is_active": False,
    },
}
"""By venue and path: what sets the row of OLD, which was delisted, apart from one that trades."""


_NAMES = {"symbol", "baseAsset", "baseCoin", "instId", "ctValCcy", "uly", "name", "instrument_name"}
_NAMES |= {"base_currency", "market_id", "base", "pair", "contract_code"}
"""Fields of `_OLD` that name it; the others say that it is gone."""


def with_delisted(exchange: str, place: str, params: Row, body: Any, *, gone: bool = True) -> Any:
    """Add OLD to a bulk answer, as the venue goes on to tell of it: with the figures of its last day.

    Before it is `gone` it is told of as any other contract.
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
        last = body["data"][-1]
        status = "Closed" if gone else "Open"
        body["data"].append({**last, "symbol": "OLDUSDTM", "baseCurrency": "OLD", "status": status})
    marks = _OLD.get(("binance" if exchange == "aster" else exchange, place))
    rows = _rows(body) if marks else None
    elsewhere = (
        params.get("instType") == "OPTION" or params.get("productType", "USDT-FUTURES") != "USDT-FUTURES"
    )
    if rows and not elsewhere:
        rows.append({**rows[-1], **{k: v for k, v in marks.items() if gone or k in _NAMES}})
    return body


def _rows(body: Any) -> list[Row] | None:
    """Return the first list of rows in a body."""
    if isinstance(body, list):
        return body
    if isinstance(body, dict):
        return next((found for value in body.values() if (found := _rows(value)) is not None), None)
    return None
