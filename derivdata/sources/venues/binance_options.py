"""Options of Binance: chains, trades, and the prices that they were exercised at."""

from __future__ import annotations

from functools import partial

from derivdata.sources.venues.endpoint import VenueEndpoint
from derivdata.sources.venues.readers import option_trades, options
from derivdata.sources.venues.reading import Reading
from derivdata.sources.venues.record_types import Delivery, Records
from derivdata.sources.venues.shapes import Bargain, Greeks, spelled
from derivdata.sources.venues.wire import Stamp, Wire

_OPTION_MARK = spelled(
    Greeks[str, str], name="symbol", iv="markIV", delta="delta", gamma="gamma", vega="vega", theta="theta",
    mark="markPrice", interest_rate="riskFreeInterest",
)  # fmt: skip
# The price of exercise is the index that each option settles on
_OPTION_TICKER = spelled(
    Greeks[str, str], name="symbol", underlying="exercisePrice", index_price="exercisePrice", bid="bidPrice",
    ask="askPrice", volume="volume",
)  # fmt: skip
_OPTION_OI = spelled(Greeks[str, str], name="symbol", open_interest="sumOpenInterest", time="timestamp")
_OPTION_TRADE = spelled(
    Bargain[str, int, str | int], name="symbol", time="time", id="id", side="side", price="price",
    amount="qty",
)  # fmt: skip


class _Exercised(Wire):
    symbol: str
    realStrikePrice: str
    expiryDate: Stamp


def exercises(reading: Reading) -> Records:
    """Read the price at which the options of each expiry were settled, a row for each option."""
    records = Records()
    for row in reading.rows(_Exercised):
        option = reading.option(row.symbol, reading.ms(row.expiryDate))
        records.times.append(option.expiry)
        price = reading.required(row.realStrikePrice)
        delivery = Delivery(option.symbol, reading.ms(row.expiryDate), price, "option:USDT")
        records.deliveries.append(delivery)
    return records


_endpoint = partial(VenueEndpoint, "binance", host="https://eapi.binance.com")

OPTION_ENDPOINTS = (
    _endpoint("chain", "/eapi/v1/mark", options(_OPTION_MARK, ""), weight=5, every=300),
    _endpoint(
        "chain", "/eapi/v1/ticker", options(_OPTION_TICKER, ""), tables=(), weight=40,
        every=300,
    ),
    _endpoint(
        "chain", "/eapi/v1/openInterest", options(_OPTION_OI, ""), tables=(),
        symbol="underlyingAsset", expiry="expiration", every=300,
    ),
    _endpoint(
        "option_trades", "/eapi/v1/blockTrades", option_trades(_OPTION_TRADE, "", is_block=True),
        params={"limit": "500"}, weight=5, every=300, note="block trades, the newest 500",
    ),
    _endpoint(
        "option_trades", "/eapi/v1/trades", option_trades(_OPTION_TRADE, ""), params={"limit": "500"},
        symbol="symbol", weight=5, note="of one option: not collected",
    ),
    _endpoint(
        "deliveries", "/eapi/v1/exerciseHistory", exercises, params={"limit": "100"}, symbol="underlying",
        weight=3, every=3600, each=("BTCUSDT", "ETHUSDT"), note="the newest 100 options",
    ),
)  # fmt: skip
