"""Binance's options: volatilities, quotes and open interest come in three answers."""

from __future__ import annotations

from typing import Any

from derivdata.sources.venues.option_names import option_name
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Option, Quotes, Records
from derivdata.sources.venues.wire import Wire

__all__ = ["option_marks", "option_oi", "option_tickers"]


def __dir__() -> list[str]:
    return __all__


class _Mark(Wire):
    symbol: str
    markPrice: str
    markIV: str
    delta: str
    gamma: str
    vega: str
    theta: str


def option_marks(reading: Reading) -> Records:
    """Read volatilities and greeks of all options."""
    records = Records()
    for row in reading.decode(list[_Mark]):
        symbol, expiry, strike, side = option_name(reading, row.symbol)
        iv = reading.number(row.markIV)
        greeks: list[Any] = [reading.number(v) for v in (row.delta, row.gamma, row.vega, row.theta)]
        records.options.append(
            Option(
                row.symbol, symbol, reading.at, expiry, strike, side, iv if iv and iv > 0 else None, *greeks
            )._replace(quotes=Quotes(False, mark=reading.number(row.markPrice)))
        )
    return records


class _OptionTicker(Wire):
    symbol: str
    exercisePrice: str
    bidPrice: str
    askPrice: str
    volume: str


def option_tickers(reading: Reading) -> Records:
    """Read quotes and the index that each option settles on; volatilities come with the marks."""
    records = Records()
    for row in reading.decode(list[_OptionTicker]):
        symbol, expiry, strike, side = option_name(reading, row.symbol)
        index = reading.number(row.exercisePrice) or None
        bid, ask = reading.number(row.bidPrice) or None, reading.number(row.askPrice) or None
        quotes = Quotes(False, bid, ask, index_price=index, volume=reading.number(row.volume))
        records.options.append(
            Option(row.symbol, symbol, reading.at, expiry, strike, side, underlying=index, quotes=quotes)
        )
    return records


class _OptionOi(Wire):
    symbol: str
    sumOpenInterest: str
    timestamp: str


def option_oi(reading: Reading) -> Records:
    """Read open interest of the options of one expiry, in contracts."""
    records = Records()
    for row in reading.decode(list[_OptionOi]):
        symbol, expiry, strike, side = option_name(reading, row.symbol)
        amount = reading.required(row.sumOpenInterest)
        time = reading.ms(row.timestamp)
        records.options.append(Option(row.symbol, symbol, time, expiry, strike, side, open_interest=amount))
    return records
