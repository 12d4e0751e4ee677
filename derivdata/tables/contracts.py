"""One dictionary of contract names: the base symbol and the quote that a venue's spelling stands for.

Names are read in three steps: split at separators, drop the words that say "perpetual" or name a venue's
book, then read the base and the quote. A name without separators is cut only where the cut is certain: a
wrong cut would file a coin's rows under another coin, while a name that stays whole is at worst not found.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from derivdata.arguments import typed

__all__ = ["QUOTES", "Contract", "contract"]

QUOTES = ("USDT", "USD", "USDC", "BUSD", "UST")
"""Quote currencies by priority: where a symbol has several, the first of these is the one to take."""

_SEPARATORS = re.compile(r"[-_/:\s]+")
_TRADINGVIEW = re.compile(r"\.(P|PERP)$")
_PERPETUAL = frozenset({"PERP", "PERPETUAL", "PERPETUALS", "SWAP"})
# Prefixes of Kraken's linear and inverse books, Orderly and WEEX; suffixes of Coinbase International, Bitget.
_PREFIXES = frozenset({"PF", "PI", "PERP", "CMT"})
_SUFFIXES = frozenset({*_PERPETUAL, "INTX", "UMCBL", "DMCBL", "CMCBL"})
_ALIASES = {"XBT": "BTC", "XDG": "DOGE"}

# Joined names. USDT and USDC end no other coin's name. "PERP" after two letters is more often a coin (SUPERP)
# than a perpetual, so those that are known are listed. "UST" ends English words (STARDUST, ROBUST), and
# "BUSD" is USD after a coin in B as well (CKBUSD): quotes only after coins that were traded against them.
_JOINED = re.compile(
    r"(?P<base>\w+?)(?:(?P<quote>USDT|USDC|BUSD)M?(?:PERP)?|(?P<usd>(?<=\w{2})USD)M?(?:PERP)?"
    r"|(?P<ust>UST)|(?P<perpetual>PERP))"
)
_PERP_AFTER_TWO = frozenset("AI AR BB ID IO IP OM OP ZK ZU".split())
_AGAINST_UST = frozenset(
    "ADA ATOM AVAX BCH BNB BTC DOGE DOT EOS ETC ETH LINK LTC LUNA MATIC SOL TRX UNI XBT XRP".split()
)
_AGAINST_BUSD = frozenset(
    "1000LUNC 1000SHIB AAVE ADA AGIX ANC APE APT ATOM AUCTION AVAX BCH BNB BTC CVX DODO DOGE DOT EOS ETC ETH"
    " FIL FTM FTT GAL GALA GMT ICP LDO LEVER LINK LTC LUNA2 MATIC NEAR PHB SAND SHIB SOL TLM TRB TRX UNI"
    " WAVES XBT XRP".split()
)
_ENDS_IN_B = frozenset("1000SHIB ALAB ARB BB BNB CKB OKB PHB PTB RKLB SHIB TRB".split())
"""Coins before USD that would lose their last letter to BUSD: BNBUSD is BNB against USD."""

_OTHER_STABLECOINS = ("FDUSD", "PYUSD", "RLUSD", "CRVUSD", "FRXUSD", "LISUSD")
"""Quotes that the API does not know and that end in USD: BTCFDUSD stays whole, it is not BTCFD."""

_ASSETS = frozenset(
    "AUSD BUSD CUSD CRVUSD DEUSD DUSD FDUSD FEUSD GUSD HYUSD LUSD MKUSD MSUSD MUSD PYUSD REUSD RLUSD SATUSD"
    " SDEUSD SUSD TUSD USDC USDT FRXUSD LISUSD SFRXUSD".split()
)

_THOUSANDS = re.compile(r"(?<![A-Z0-9])K(?=(?:BONK|DOGS|FLOKI|LUNC|NEIRO|PEPE|SHIB)(?:$|[^A-Z0-9]|USD|PERP))")
"""Bundles of 1,000 coins that are spelt with a small k, as ``kPEPE``; other names in K are coins (KAVA)."""


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
    """Return the base symbol and the quote of a venue's name for a perpetual.

    ``BTC-USDT``, ``BTCUSDT``, ``BTC/USDT:USDT``, ``BTC-USDT-SWAP``, ``BTC-PERP``, ``BTC-PERP-INTX``,
    ``PERP_BTC_USDC``, ``BTC_USDT_Perp``, ``BTCUSDT Perpetual``, ``XBTUSDTM`` and ``btc`` are all ``BTC``;
    ``XDG`` is ``DOGE`` and ``kpepe`` is ``kPEPE``, 1,000 PEPE. A name that is none of these patterns, a dated
    future say, stays whole, and one with a dex before a colon (``xyz:TSLA``) stays as it is.

    Notes
    -----
    Rule 5 of the API's section 1. Names joined without a separator are split only where the rest cannot
    be a coin's own name such as ``FDUSD``, ``STARDUST`` or ``SUPERP``.
    """
    stripped = name.strip()
    if ":" in stripped and "/" not in stripped:
        return Contract(stripped, "")
    upper = _THOUSANDS.sub("k", stripped.upper()) if stripped.islower() else stripped
    text = _TRADINGVIEW.sub("", upper)
    tokens = [token for token in _SEPARATORS.split(text) if token]
    if len(tokens) > 1 and tokens[0].upper() in _PREFIXES and tokens[1] not in QUOTES:
        tokens = tokens[1:]  # but PERP-USD is the coin PERP, and PI-USDT the coin PI
    while len(tokens) > 1 and tokens[-1].upper() in _SUFFIXES:
        tokens = tokens[:-1]
    if len(tokens) == 1:
        return _joined(tokens[0])
    if len(tokens) == 2 and tokens[1] in QUOTES:
        return _plain(tokens[0], tokens[1])
    if len(tokens) == 3 and tokens[1] in QUOTES and tokens[2] in (*QUOTES, tokens[0]):
        return _plain(tokens[0], tokens[1])
    return Contract(text, "")


def _joined(text: str) -> Contract:
    """Cut a name without separators, where that is certain."""
    other = any(text.endswith(coin) and len(text) > len(coin) + 1 for coin in _OTHER_STABLECOINS)
    match = None if text in _ASSETS or other else _JOINED.fullmatch(text)
    if match is None:
        return _plain(text, "")
    base = match["base"]
    if match["quote"] == "BUSD" and base not in _AGAINST_BUSD:
        return _plain(f"{base}B", "USD") if f"{base}B" in _ENDS_IN_B else _plain(text, "")
    if match["ust"] and base not in _AGAINST_UST:
        return _plain(text, "")
    if match["perpetual"] and (len(base) < 2 or (len(base) == 2 and base not in _PERP_AFTER_TWO)):
        return _plain(text, "")
    return _plain(base, match["quote"] or match["usd"] or match["ust"] or "")


def _plain(base: str, quote: str) -> Contract:
    return Contract(_ALIASES.get(base, base), quote)
