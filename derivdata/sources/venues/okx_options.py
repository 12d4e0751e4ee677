"""OKX's options, of one family a request: volatilities, open interest, quotes and marks in four answers."""

from __future__ import annotations

from typing import Any

from derivdata.sources.venues.okx_bodies import MarkBody, OpenInterestBody
from derivdata.sources.venues.option_names import option_name
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Option, Quotes, Records
from derivdata.sources.venues.wire import Wire

__all__ = ["option_marks", "option_oi", "option_summary", "option_tickers"]


def __dir__() -> list[str]:
    return __all__


class _Summary(Wire):
    instId: str
    markVol: str
    deltaBS: str
    gammaBS: str
    vegaBS: str
    thetaBS: str
    fwdPx: str
    ts: str


class _SummaryBody(Wire):
    code: str
    data: list[_Summary]


def option_summary(reading: Reading) -> Records:
    """Read a chain: the Black-Scholes greeks, since those without BS are premium-adjusted in coin."""
    records = Records()
    for row in reading.decode(_SummaryBody).data:
        symbol, expiry, strike, side = _option(reading, row.instId)
        numbers: list[Any] = [reading.number(v) for v in (row.deltaBS, row.gammaBS, row.vegaBS, row.thetaBS)]
        numbers += [None, reading.number(row.fwdPx) or None]  # open interest comes with another answer
        records.options.append(
            Option(
                row.instId,
                symbol,
                reading.ms(row.ts),
                expiry,
                strike,
                side,
                reading.number(row.markVol) or None,
                *numbers,
            )
        )
    return records


def _option(reading: Reading, name: str) -> tuple[str, int, float, str]:
    base, _, rest = name.partition("-")
    return option_name(reading, f"{base}-{rest.partition('-')[2]}")


def option_oi(reading: Reading) -> Records:
    """Read open interest of the options of one family, in contracts."""
    records = Records()
    for row in reading.decode(OpenInterestBody).data:
        symbol, expiry, strike, side = _option(reading, row.instId)
        amount = reading.required(row.oi)
        time = reading.ms(row.ts)
        records.options.append(Option(row.instId, symbol, time, expiry, strike, side, open_interest=amount))
    return records


class _OptionTicker(Wire):
    instId: str
    bidPx: str
    askPx: str
    vol24h: str
    ts: str


class _OptionTickerBody(Wire):
    code: str
    data: list[_OptionTicker]


def option_tickers(reading: Reading) -> Records:
    """Read quotes of the options of one family, in coin where they are settled in coin."""
    records = Records()
    for row in reading.decode(_OptionTickerBody).data:
        symbol, expiry, strike, side = _option(reading, row.instId)
        bid, ask = reading.number(row.bidPx) or None, reading.number(row.askPx) or None
        quotes = Quotes(_in_coin(row.instId), bid, ask, volume=reading.number(row.vol24h))
        time = reading.ms(row.ts)
        records.options.append(Option(row.instId, symbol, time, expiry, strike, side, quotes=quotes))
    return records


def option_marks(reading: Reading) -> Records:
    """Read mark prices of the options of one family, in coin where they are settled in coin."""
    records = Records()
    for row in reading.decode(MarkBody).data:
        symbol, expiry, strike, side = _option(reading, row.instId)
        quotes = Quotes(_in_coin(row.instId), mark=reading.required(row.markPx))
        time = reading.ms(row.ts)
        records.options.append(Option(row.instId, symbol, time, expiry, strike, side, quotes=quotes))
    return records


def _in_coin(name: str) -> bool:
    """Whether an option of a name such as BTC-USD-240329-32000-C is priced and settled in its coin."""
    return name.split("-")[1] == "USD"
