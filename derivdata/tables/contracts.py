"""Base symbols of contract names: quote currencies and separators removed, quotes in order of priority."""

from __future__ import annotations

import re
from typing import NamedTuple

from derivdata.arguments import typed

__all__ = ["QUOTES", "Contract", "contract"]

QUOTES = ("USDT", "USD", "USDC", "BUSD", "UST")
"""Quote currencies by priority: where a symbol has several, the first of these is the one to take."""

_SEPARATORS = re.compile(r"[-_/:]")
_PERPETUAL = frozenset({"PERP", "PERPETUAL", "SWAP"})
_VENUE_MARKS = frozenset({"PF", "PI"})
_ALIASES = {"XBT": "BTC"}
_JOINED = re.compile(
    r"(?P<base>\w+?)(?:(?P<quote>USDT|USDC|BUSD)M?(?:PERP)?|(?P<usd>(?<=\w{2})USD)M?(?:PERP)?"
    r"|(?P<ust>(?<=\w{3})UST)|(?<=\w{2})PERP)"
)
_ASSETS = frozenset(
    "AUSD BUSD CUSD CRVUSD DUSD FDUSD GUSD LUSD MUSD PYUSD RLUSD SUSD TUSD USDC USDT FRXUSD LISUSD".split()
)


class Contract(NamedTuple):
    """What a contract's name says: base symbol, and the quote currency or none."""

    symbol: str
    quote: str

    @property
    def rank(self) -> int:
        """Priority of the quote from 0, a plain symbol before all."""
        return QUOTES.index(self.quote) + 1 if self.quote else 0


@typed
def contract(name: str) -> Contract:
    """Base symbol and quote of a venue's name for a perpetual.

    ``BTC-USDT``, ``BTCUSDT``, ``BTC/USDT:USDT``, ``BTC-USDT-SWAP``, ``BTC-PERP``, ``XBTUSDTM`` and ``btc``
    are all ``BTC``. A name that is none of these patterns, a dated future or ``xyz:TSLA`` say, stays whole.

    Notes
    -----
    Rule 5 of the API's section 1. Names joined without a separator are split only where the rest cannot
    be a stablecoin's own name such as ``FDUSD``; ``UST`` only after three letters or more.
    """
    text = name.upper() if name.islower() else name
    tokens = [token for token in _SEPARATORS.split(text) if token]
    if len(tokens) > 1 and tokens[0] in _VENUE_MARKS:
        tokens = tokens[1:]
    while len(tokens) > 1 and tokens[-1] in _PERPETUAL:
        tokens = tokens[:-1]
    if len(tokens) == 1:
        return _joined(tokens[0])
    if len(tokens) == 2 and tokens[1] in QUOTES:
        return _plain(tokens[0], tokens[1])
    if len(tokens) == 3 and tokens[1] in QUOTES and tokens[2] in (*QUOTES, tokens[0]):
        return _plain(tokens[0], tokens[1])
    return Contract(text, "")


def _joined(text: str) -> Contract:
    match = None if text in _ASSETS else _JOINED.fullmatch(text)
    if match is None:
        return _plain(text, "")
    return _plain(match["base"], match["quote"] or match["usd"] or match["ust"] or "")


def _plain(base: str, quote: str) -> Contract:
    return Contract(_ALIASES.get(base, base), quote)
