"""The options of one symbol on one venue."""

from __future__ import annotations

from typing import Any

import pandas as pd

from derivdata import api
from derivdata.service import buckets, wire
from derivdata.service.answers.asking import Ask
from derivdata.service.refusal import bad_request
from derivdata.service.view import View

__all__ = ["require_pair", "snapshot"]

_GREEKS = ("delta", "gamma", "vega", "theta")
_COLUMNS = (
    "instrument_name",
    "expiry",
    "strike",
    "side",
    "iv",
    *_GREEKS,
    "open_interest",
    "underlying_price",
)


def snapshot(ask: Ask) -> dict[str, Any]:
    """``GET /options/snapshot``: the newest chain, at most an hour old; greeks where there are any.

    Pairs of the document's matrix are answered, and those that the source holds besides.
    """
    view, symbol, exchange = ask.view, ask.params["symbol"], ask.params["exchange"]
    chain = require_pair(view, symbol, exchange)
    chain = chain[chain["expiry"] > view.now]
    shown = [name for name in _COLUMNS if name not in _GREEKS or chain[name].notna().any()]
    return {
        "symbol": symbol,
        "exchange": exchange,
        "count": len(chain),
        "instruments": wire.rows({name: chain[name] for name in shown}),
    }


def require_pair(view: View, symbol: str, exchange: str) -> pd.DataFrame:
    """The newest chain of a pair, which may be empty.

    Raises
    ------
    Refusal
        The pair is neither in the document's matrix nor held now (400), or there are no options at all (404).
    """
    if exchange not in view.exchanges:
        raise bad_request(f"exchange={exchange!r} is not an exchange; slugs are lower case, like 'deribit'")
    view.need("options_snapshot")
    chain = view.store.latest(
        "options_snapshot", view.now, within=buckets.HOLD, symbols=[symbol], exchanges=[exchange]
    )
    if chain.empty and exchange not in api.OPTIONS_MATRIX.get(symbol, ()):
        raise bad_request(f"no options of {symbol} on {exchange}; there is no fallback to another venue")
    return chain
