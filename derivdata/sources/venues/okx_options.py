"""OKX's options, of one family a request: volatilities, open interest, quotes and marks in four answers."""

from __future__ import annotations

from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Quotes, Records
from derivdata.sources.venues.wire import Data, Wire


class OpenInterest(Wire):
    """Open interest of an instrument, option or not: in contracts, in coins and, of some, in USD."""

    instId: str
    oi: str
    oiCcy: str
    ts: str
    oiUsd: str | None = None


class Mark(Wire):
    """Mark price of an instrument, option or not."""

    instId: str
    markPx: str
    ts: str


class _Summary(Wire):
    instId: str
    ts: str
    markVol: str | None = None
    deltaBS: str | None = None
    gammaBS: str | None = None
    vegaBS: str | None = None
    thetaBS: str | None = None
    fwdPx: str | None = None


def option_summary(reading: Reading) -> Records:
    """Read a chain: the Black-Scholes greeks, since those without BS are premium-adjusted in coin."""
    number, records = reading.number, Records()
    for row in reading.decode(Data[list[_Summary]]).data:
        option = reading.option(
            row.instId,
            reading.ms(row.ts),
            iv=number(row.markVol) or None,
            delta=number(row.deltaBS),
            gamma=number(row.gammaBS),
            vega=number(row.vegaBS),
            theta=number(row.thetaBS),
            underlying=number(row.fwdPx) or None,
        )
        records.options.append(option)
    return records


def option_oi(reading: Reading) -> Records:
    """Read open interest of the options of one family, in contracts."""
    return Records(
        options=[
            reading.option(row.instId, reading.ms(row.ts), open_interest=reading.required(row.oi))
            for row in reading.decode(Data[list[OpenInterest]]).data
        ]
    )


class _OptionTicker(Wire):
    instId: str
    ts: str
    bidPx: str | None = None
    askPx: str | None = None
    vol24h: str | None = None


def option_tickers(reading: Reading) -> Records:
    """Read quotes of the options of one family, in coin where they are settled in coin."""
    number, records = reading.number, Records()
    for row in reading.decode(Data[list[_OptionTicker]]).data:
        bid, ask = number(row.bidPx) or None, number(row.askPx) or None
        quotes = Quotes(_in_coin(row.instId), bid, ask, volume=number(row.vol24h))
        records.options.append(reading.option(row.instId, reading.ms(row.ts), quotes=quotes))
    return records


def option_marks(reading: Reading) -> Records:
    """Read mark prices of the options of one family, in coin where they are settled in coin."""
    records = Records()
    for row in reading.decode(Data[list[Mark]]).data:
        quotes = Quotes(_in_coin(row.instId), mark=reading.required(row.markPx))
        records.options.append(reading.option(row.instId, reading.ms(row.ts), quotes=quotes))
    return records


def _in_coin(name: str) -> bool:
    """Whether an option of a name such as BTC-USD-240329-32000-C is priced and settled in its coin."""
    return name.split("-")[1] == "USD"
