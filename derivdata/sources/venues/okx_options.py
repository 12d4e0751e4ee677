"""OKX's options, of one family a request: volatilities, open interest, quotes and marks in four answers."""

from __future__ import annotations

from derivdata.sources.venues.readers import options
from derivdata.sources.venues.shapes import Greeks, spelled


def _in_coin(name: str) -> bool:
    """Whether an option of a name such as BTC-USD-240329-32000-C is priced and settled in its coin."""
    return name.split("-")[1] == "USD"


_SUMMARY = spelled(
    Greeks[str, str], name="instId", time="ts", iv="markVol", delta="deltaBS", gamma="gammaBS", vega="vegaBS",
    theta="thetaBS", underlying="fwdPx",
)  # fmt: skip
_OPEN = spelled(Greeks[str, str], name="instId", time="ts", open_interest="oi")
_TICKER = spelled(Greeks[str, str], name="instId", time="ts", bid="bidPx", ask="askPx", volume="vol24h")
_MARK = spelled(Greeks[str, str], name="instId", time="ts", mark="markPx")

option_summary = options(_SUMMARY, "data")  # greeks without BS are premium-adjusted in coin
option_oi = options(_OPEN, "data")  # in contracts
option_tickers = options(_TICKER, "data", is_in_coin=_in_coin)
option_marks = options(_MARK, "data", is_in_coin=_in_coin)
