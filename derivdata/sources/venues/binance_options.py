"""Binance's options: volatilities, quotes and open interest come in three answers."""

from __future__ import annotations

from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Quotes, Records
from derivdata.sources.venues.wire import Wire


class _Mark(Wire):
    symbol: str
    markPrice: str | None = None
    markIV: str | None = None
    delta: str | None = None
    gamma: str | None = None
    vega: str | None = None
    theta: str | None = None


def option_marks(reading: Reading) -> Records:
    """Read volatilities and greeks of all options."""
    number, records = reading.number, Records()
    for row in reading.decode(list[_Mark]):
        iv = number(row.markIV)
        option = reading.option(
            row.symbol,
            reading.at,
            iv=iv if iv and iv > 0 else None,  # -1 is none
            delta=number(row.delta),
            gamma=number(row.gamma),
            vega=number(row.vega),
            theta=number(row.theta),
            quotes=Quotes(False, mark=number(row.markPrice)),
        )
        records.options.append(option)
    return records


class _OptionTicker(Wire):
    symbol: str
    exercisePrice: str | None = None
    bidPrice: str | None = None
    askPrice: str | None = None
    volume: str | None = None


def option_tickers(reading: Reading) -> Records:
    """Read quotes and the index that each option settles on; volatilities come with the marks."""
    number, records = reading.number, Records()
    for row in reading.decode(list[_OptionTicker]):
        index = number(row.exercisePrice) or None
        bid, ask = number(row.bidPrice) or None, number(row.askPrice) or None
        quotes = Quotes(False, bid, ask, index_price=index, volume=number(row.volume))
        records.options.append(reading.option(row.symbol, reading.at, underlying=index, quotes=quotes))
    return records


class _OptionOi(Wire):
    symbol: str
    sumOpenInterest: str
    timestamp: str


def option_oi(reading: Reading) -> Records:
    """Read open interest of the options of one expiry, in contracts."""
    return Records(
        options=[
            reading.option(
                row.symbol, reading.ms(row.timestamp), open_interest=reading.required(row.sumOpenInterest)
            )
            for row in reading.decode(list[_OptionOi])
        ]
    )
