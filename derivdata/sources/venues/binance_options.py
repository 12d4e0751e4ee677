"""Binance's options: volatilities, quotes and open interest come in three answers."""

from __future__ import annotations

from derivdata.sources.venues.readers import options
from derivdata.sources.venues.shapes import Greeks, spelled

_MARK = spelled(
    Greeks[str, str], name="symbol", iv="markIV", delta="delta", gamma="gamma", vega="vega", theta="theta",
    mark="markPrice",
)  # fmt: skip
_TICKER = spelled(
    Greeks[str, str], name="symbol", underlying="exercisePrice", index_price="exercisePrice", bid="bidPrice",
    ask="askPrice", volume="volume",
)  # fmt: skip
_OPEN = spelled(Greeks[str, str], name="symbol", open_interest="sumOpenInterest", time="timestamp")

option_marks = options(_MARK, "")
option_tickers = options(_TICKER, "")  # the index is what each option settles on
option_oi = options(_OPEN, "")  # of one expiry, in contracts
