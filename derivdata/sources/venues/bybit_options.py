"""Bybit's options: USDC- and USDT-settled ones in one list, which differ by their names."""

from __future__ import annotations

from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Quotes, Records
from derivdata.sources.venues.wire import Page, Result, Wire


class _OptionTicker(Wire):
    symbol: str
    markIv: str | None = None
    delta: str | None = None
    gamma: str | None = None
    vega: str | None = None
    theta: str | None = None
    openInterest: str | None = None
    underlyingPrice: str | None = None
    bid1Price: str | None = None
    ask1Price: str | None = None
    markPrice: str | None = None
    indexPrice: str | None = None
    volume24h: str | None = None


class _OptionsBody(Result[Page[_OptionTicker]]):
    time: int


def option_tickers(reading: Reading) -> Records:
    """Read a chain; a bid, an ask or a volatility of 0 is none."""
    body, number = reading.decode(_OptionsBody), reading.number
    time, records = reading.ms(body.time), Records()
    for row in body.result.rows:
        quotes = Quotes(
            False,
            number(row.bid1Price) or None,
            number(row.ask1Price) or None,
            number(row.markPrice),
            number(row.indexPrice),
            number(row.volume24h),
        )
        option = reading.option(
            row.symbol,
            time,
            iv=number(row.markIv) or None,
            delta=number(row.delta),
            gamma=number(row.gamma),
            vega=number(row.vega),
            theta=number(row.theta),
            open_interest=number(row.openInterest),
            underlying=number(row.underlyingPrice),
            quotes=quotes,
        )
        records.options.append(option)
    return records


class _Listed(Wire):
    symbol: str
    baseCoin: str


def option_instruments(reading: Reading) -> Records:
    """Read the list of options."""
    result = reading.decode(Result[Page[_Listed]]).result
    records = Records(cursor=result.nextPageCursor or None)
    for row in result.rows:
        option = reading.option(row.symbol, reading.at)
        if option.symbol != row.baseCoin:
            reading.fail(f"{row.symbol}: the body states the base coin {row.baseCoin}")
        records.options.append(option)
    return records
