"""Bybit's options: USDC- and USDT-settled ones in one list."""

from __future__ import annotations

from typing import Any

import msgspec

from derivdata.sources.venues.option_names import option_name
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Option, Quotes, Records
from derivdata.sources.venues.wire import Wire

__all__ = ["option_instruments", "option_tickers"]


def __dir__() -> list[str]:
    return __all__


class _OptionTicker(Wire):
    symbol: str
    markIv: str
    delta: str
    gamma: str
    vega: str
    theta: str
    openInterest: str
    underlyingPrice: str
    bid1Price: str
    ask1Price: str
    markPrice: str
    indexPrice: str
    volume24h: str


class _OptionTickers(Wire):
    rows: list[_OptionTicker] = msgspec.field(name="list")


class _OptionsBody(Wire):
    retCode: int
    result: _OptionTickers
    time: int


def option_tickers(reading: Reading) -> Records:
    """Read a chain; USDC- and USDT-settled options are in one list and differ by their names."""
    body = reading.decode(_OptionsBody)
    records = Records()
    for row in body.result.rows:
        symbol, expiry, strike, side = option_name(reading, row.symbol.removesuffix("-USDT"))
        numbers: list[Any] = [
            reading.number(v)
            for v in (row.delta, row.gamma, row.vega, row.theta, row.openInterest, row.underlyingPrice)
        ]
        records.options.append(
            Option(
                row.symbol,
                symbol,
                reading.ms(body.time),
                expiry,
                strike,
                side,
                reading.number(row.markIv) or None,
                *numbers,
            )._replace(quotes=_quotes(reading, row))
        )
    return records


def _quotes(reading: Reading, row: _OptionTicker) -> Quotes:
    """Return the prices in USD; a bid or ask of 0 is none."""
    bid, ask = reading.number(row.bid1Price) or None, reading.number(row.ask1Price) or None
    rest = [reading.number(v) for v in (row.markPrice, row.indexPrice, row.volume24h)]
    return Quotes(False, bid, ask, *rest)


class _Listed(Wire):
    symbol: str
    status: str
    baseCoin: str
    quoteCoin: str


class _ListedList(Wire):
    rows: list[_Listed] = msgspec.field(name="list")
    nextPageCursor: str | None = None


class _ListedBody(Wire):
    retCode: int
    result: _ListedList


def option_instruments(reading: Reading) -> Records:
    """Read the list of options."""
    result = reading.decode(_ListedBody).result
    records = Records(cursor=result.nextPageCursor or None)
    for row in result.rows:
        symbol, expiry, strike, side = option_name(reading, row.symbol.removesuffix("-USDT"))
        if symbol != row.baseCoin:
            reading.fail(f"{row.symbol}: the body states the base coin {row.baseCoin}")
        records.options.append(Option(row.symbol, symbol, reading.at, expiry, strike, side))
    return records
