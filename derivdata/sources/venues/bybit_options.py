"""Bybit's options: USDC- and USDT-settled ones in one list, which differ by their names."""

from __future__ import annotations

from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Records
from derivdata.sources.venues.shapes import Greeks, spelled
from derivdata.sources.venues.wire import Page, Result, Wire

_TICKER = spelled(
    Greeks[str, int], name="symbol", iv="markIv", delta="delta", gamma="gamma", vega="vega", theta="theta",
    open_interest="openInterest", underlying="underlyingPrice", bid="bid1Price", ask="ask1Price",
    mark="markPrice", index_price="indexPrice", volume="volume24h",
)  # fmt: skip


def option_tickers(reading: Reading) -> Records:
    """Read a chain."""
    time = reading.ms(reading.part(int, "time"))
    rows = reading.rows(_TICKER, "result.list")
    return Records(options=[reading.quoted(row)._replace(time=time) for row in rows])


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
