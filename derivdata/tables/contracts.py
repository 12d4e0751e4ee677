"""Names of contracts and venues, and expiries: other spellings are read, misspelt ones raise an error.

A contract's name is read in three steps: split it at separators, drop words for "perpetual" or a venue's
book, then read the base and the quote. A name without separators is split only if the split is certain. A
wrong split would put a coin's rows under another coin; a name that is not split is at worst unknown.

The facts about venues are dated. The kind of a venue is this library's, since the API does not state it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.text import near_names

QUOTES = ("USDT", "USD", "USDC", "BUSD", "UST")
"""Quote currencies by priority: if a symbol has several, the first in this list is used.

The list equals the API's, which a test checks. Contracts in other currencies, such as USD1 of Gate and MEXC,
are read by the adapters of their venues and come after these.
"""

_OPTION_COINS = {"okx": {"BTC": 0.01, "ETH": 0.1}}
"""Coins per option, where not one: OKX's ``ctVal × ctMult``, recorded for BTC in 2024-12."""

_SEPARATORS = re.compile(r"[-_/:\s]+")
_TRADINGVIEW = re.compile(r"\.(P|PERP)$")
_PERPETUAL = frozenset({"PERP", "PERPETUAL", "PERPETUALS", "SWAP"})
# Prefixes of Kraken's linear and inverse books, Orderly and WEEX; suffixes of Coinbase International, Bitget.
_PREFIXES = frozenset({"PF", "PI", "PERP", "CMT"})
_SUFFIXES = frozenset({*_PERPETUAL, "INTX", "UMCBL", "DMCBL", "CMCBL"})
_COIN_ALIASES = {"XBT": "BTC", "XDG": "DOGE"}

# Names without separators. Only quotes end in USDT and USDC. "PERP" after two letters is more often a coin
# (SUPERP) than a perpetual, so the known perpetuals are listed. "UST" ends English words (STARDUST, ROBUST),
# and "BUSD" may also be USD after a coin in B (CKBUSD): both are quotes only after coins that were traded
# against them.
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
"""Quotes that end in USD and that the API does not have: BTCFDUSD is not split, it is not BTCFD."""

_ASSETS = frozenset(
    "AUSD BUSD CUSD CRVUSD DEUSD DUSD FDUSD FEUSD GUSD HYUSD LUSD MKUSD MSUSD MUSD PYUSD REUSD RLUSD SATUSD"
    " SDEUSD SUSD TUSD USDC USDT FRXUSD LISUSD SFRXUSD".split()
)

BUNDLED_COINS = ("BONK", "DOGS", "FLOKI", "LUNC", "NEIRO", "PEPE", "SHIB")
_THOUSANDS = re.compile(rf"(?<![A-Z0-9])K(?=(?:{'|'.join(BUNDLED_COINS)})(?:$|[^A-Z0-9]|USD|PERP))")
"""Bundles of 1,000 coins written with a small k, such as ``kPEPE``; other names in K are coins (KAVA)."""


class Contract(NamedTuple):
    """A parsed name of a contract: base symbol, and quote currency or an empty text."""

    symbol: str
    quote: str

    @property
    def rank(self) -> int:
        """Priority of the quote; 0, the highest, for a plain symbol."""
        return QUOTES.index(self.quote) + 1 if self.quote else 0


def names_coin(name: str, symbol: str) -> bool:
    """Return whether the name of a contract contains a coin, also by another code of it (XBT for BTC)."""
    codes = [symbol.upper(), *(code for code, coin in _COIN_ALIASES.items() if coin == symbol)]
    return any(code in name.upper() for code in codes)


@typed
def contract(name: str) -> Contract:
    """Return the base symbol and the quote of a venue's name for a perpetual.

    ``BTC-USDT``, ``BTCUSDT``, ``BTC/USDT:USDT``, ``BTC-USDT-SWAP``, ``BTC-PERP``, ``BTC-PERP-INTX``,
    ``PERP_BTC_USDC``, ``BTC_USDT_Perp``, ``BTCUSDT Perpetual``, ``XBTUSDTM`` and ``btc`` are all ``BTC``;
    ``XDG`` is ``DOGE`` and ``kpepe`` is ``kPEPE``, 1,000 PEPE. A name without one of these patterns, such as
    a dated future, is returned unchanged, and so is a name with a dex before a colon (``xyz:TSLA``).

    Notes
    -----
    Rule 5 of the API's section 1. Names joined without a separator are split only where the rest cannot
    be a coin's own name such as ``FDUSD``, ``STARDUST`` or ``SUPERP``.
    """
    return _contract(name)


@lru_cache(maxsize=8192)
def _contract(name: str) -> Contract:
    """Parse a name as `contract` does, without the check of the argument's type."""
    stripped = name.strip()
    if ":" in stripped and "/" not in stripped:
        return Contract(stripped, "")
    upper = _THOUSANDS.sub("k", stripped.upper()) if stripped.islower() else stripped
    text = _TRADINGVIEW.sub("", upper)
    tokens = [token for token in _SEPARATORS.split(text) if token]
    if len(tokens) > 1 and tokens[0].upper() in _PREFIXES and tokens[1] not in QUOTES:
        tokens = tokens[1:]  # except before a quote: PERP-USD is the coin PERP, PI-USDT the coin PI
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
    """Split a name without separators if the split is certain."""
    has_other_quote = any(text.endswith(coin) and len(text) > len(coin) + 1 for coin in _OTHER_STABLECOINS)
    if text in _ASSETS or has_other_quote:
        return _plain(text, "")
    match = _JOINED.fullmatch(text)
    if match is None:
        return _plain(text, "")
    base = match["base"]
    if match["quote"] == "BUSD" and base not in _AGAINST_BUSD:
        if f"{base}B" in _ENDS_IN_B:
            return _plain(f"{base}B", "USD")
        return _plain(text, "")
    if match["ust"] and base not in _AGAINST_UST:
        return _plain(text, "")
    if match["perpetual"] and (len(base) < 2 or (len(base) == 2 and base not in _PERP_AFTER_TWO)):
        return _plain(text, "")
    return _plain(base, match["quote"] or match["usd"] or match["ust"] or "")


def _plain(base: str, quote: str) -> Contract:
    return Contract(_COIN_ALIASES.get(base, base), quote)


_MULTIPLE = re.compile(
    r"(?P<many>1(?:0{3,7}))\s?(?P<after>[A-Z]\w*)|1M(?P<million>[A-Z]\w+)|k(?P<kilo>[A-Z]\w+)"
)
_BEFORE = re.compile(r"(?P<coin>[A-Z]+)(?P<many>10{3,7})")


@typed
def base(name: str) -> tuple[str, int]:
    """Return the coin of a contract, and the number of coins that its price is for.

    ``1000PEPE``, ``kPEPE``, ``1000PEPEUSDT`` and ``1000 PEPE`` are ``("PEPE", 1000)``, ``SHIB1000`` is
    ``("SHIB", 1000)``, ``1MBABYDOGE`` ``("BABYDOGE", 1000000)`` and ``BTC`` ``("BTC", 1)``. Coins whose own
    names begin with other numbers (``1INCH``, ``1CAT``) are not split.

    Parameters
    ----------
    name
        A symbol, or a venue's name of a contract.

    Returns
    -------
    tuple
        The coin's symbol, and the multiple [coins]. A rate does not depend on the multiple; a price is the
        price of so many coins.

    Notes
    -----
    Only the name is read. Whether two contracts with one name are of the same coin is not checked.

    Examples
    --------
    >>> dd.tables.base("kPEPE")
    ('PEPE', 1000)
    """
    symbol = _contract(name).symbol
    match = _MULTIPLE.fullmatch(symbol)
    if match is None:
        suffixed = _BEFORE.fullmatch(symbol)
        if suffixed is None:
            return symbol, 1
        return suffixed["coin"], int(suffixed["many"])
    if match["many"]:
        return match["after"], int(match["many"])
    if match["million"]:
        return match["million"], 1_000_000
    return match["kilo"], 1_000


HIP3_DEXES = {"tradexyz": "xyz", "hyena": "hyna", "kinetiq": "km", "paragon": "para"}
"""Dexes on Hyperliquid that the API knows as venues: slug to the dex's name.

The API publishes only slugs. The venue's ``perpDexs`` gives names and full names: xyz XYZ, hyna HyENA, km
Markets by Kinetiq, para Paragon (as two public repositories read it, the later one in 2026-08). That a slug
is the dex with that full name is inferred. ``mkts`` has the full name of ``km`` too, but the API has only one
slug, so contracts of ``mkts`` remain ``mkts:COIN`` on Hyperliquid.
"""
_SLUGS_OF_DEXES = {dex: slug for slug, dex in HIP3_DEXES.items()}


def hip3_contract(exchange: str, name: str) -> tuple[str, str]:
    """Return the venue and the symbol of a contract on Hyperliquid, named ``dex:COIN``.

    For a dex that the API has as a venue, they are its slug and the coin: ``xyz:GOLD`` is
    ``("tradexyz", "GOLD")``. A contract of any other dex remains ``("hyperliquid", "flx:GOLD")``, so that it
    is not joined with ``GOLD`` of another dex. Contracts of other venues are returned unchanged.

    Raises
    ------
    ValueError
        `exchange` is the slug of a dex, and the name has another dex.
    """
    dex, colon, coin = name.rpartition(":")
    if not colon or exchange not in ("hyperliquid", *HIP3_DEXES):
        return exchange, name
    slug = _SLUGS_OF_DEXES.get(dex)
    if exchange == "hyperliquid":
        return (exchange, name) if slug is None else (slug, coin)
    if slug != exchange:
        raise ValueError(
            f"{name!r} is a contract of the dex {dex}, but {exchange} is the dex {HIP3_DEXES[exchange]}"
        )
    return slug, coin


VENUES_AS_OF = "2026-08-15"


class KnownVenue(NamedTuple):
    """A venue: display name, kind ('cex', 'dex' or 'other'), and funding interval of BTC [h].

    The interval is BTC's on the table's date, None if unknown. It differs between symbols and over time, so
    it is for display only and never an input of a computation.
    """

    display_name: str
    kind: str
    interval_hours: float | None


_CEX = "binance bybit okx bitget bingx gateio kucoin mexc huobi cryptocom phemex".split()
_OTHER = "coinbase coinbaseus kalshi qfex".split()
_DISPLAY = {
    "coinbase": "COINBASE INTL",
    "coinbaseus": "COINBASE US",
    "huobi": "HTX",
    "woofipro": "WOOFI",
    "zo": "01",
}
_INTERVALS: dict[float | None, list[str]] = {
    8.0: "aster binance bingx bitget bybit gateio grvt hibachi huobi kalshi kucoin mexc okx paradex phemex "
    "variational woofipro".split(),
    4.0: ["edgex"],
    1.0: "bluefin bullet coinbase coinbaseus cryptocom decibel ethereal extended hotstuff hyena hyperliquid "
    "lighter nado ondo pacifica phoenix reya risex txflow vest zo".split(),
    None: "kinetiq paragon qfex tradexyz".split(),
}


_KINDS = dict.fromkeys(_CEX, "cex") | dict.fromkeys(_OTHER, "other")

_HOURS = {slug: hours for hours, slugs in _INTERVALS.items() for slug in slugs}

VENUES: dict[str, KnownVenue] = {
    slug: KnownVenue(_DISPLAY.get(slug, slug.upper()), _KINDS.get(slug, "dex"), hours)
    for slug, hours in sorted(_HOURS.items())
}

OPTIONS_ONLY = ("deribit", "derive")
"""Venues that have options, but are not among the venues of funding."""

ADAPTERS_ONLY = ("apex", "backpack", "bitmex", "dydx", "kraken")
"""Venues that ``dd.connect("venues")`` reads, but that the API document does not list."""

_KNOWN_VENUES = sorted({*VENUES, *OPTIONS_ONLY, *ADAPTERS_ONLY})
_SHORTEST_MISSPELT = 5
"""Shorter names of venues are too similar to each other: ``okx2`` may be a venue of a user's archive."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_VENUE_ALIASES = {
    "htx": "huobi",
    "huobiglobal": "huobi",
    "gate": "gateio",
    "okex": "okx",
    "binancefutures": "binance",
    "binanceusdm": "binance",
    "binancecoinm": "binance",
    "kucoinfutures": "kucoin",
    "krakenfutures": "kraken",
    "coinbaseinternational": "coinbase",
    "coinbaseintx": "coinbase",
    "cryptocomexchange": "cryptocom",
    "orderly": "woofipro",
    "orderlynetwork": "woofipro",
    "variationalomni": "variational",
    "apexomni": "apex",
    **{_NOT_IN_NAMES.sub("", venue.display_name.lower()): slug for slug, venue in VENUES.items()},
}


@lru_cache(maxsize=1024)
def venue_slug(name: str) -> str:
    """Return the API's name of a venue for one of its other names.

    ``Binance`` is ``binance``, ``htx`` is ``huobi``, ``gate`` and ``Gate.io`` are ``gateio``. An unknown
    venue is returned in lower case, without surrounding blanks.
    """
    lower = name.strip().lower()
    squeezed = _NOT_IN_NAMES.sub("", lower)
    if squeezed in VENUES:
        return squeezed
    return _VENUE_ALIASES.get(squeezed, lower)


@lru_cache(maxsize=8192)
def symbol_of(name: str) -> str:
    """Return the base symbol of an asset or a contract: ``BTC`` of ``btc``, ``BTCUSDT``, ``BTC-PERP``."""
    return _contract(name).symbol if isinstance(name, str) and name.strip() else name


@lru_cache(maxsize=1024)
def venue_of(name: str, argument: str = "venue") -> str:
    """Return the API's slug of a venue: ``huobi`` of ``htx``, ``binance`` of ``Binance``."""
    if not isinstance(name, str) or not name.strip() or name == "all":
        return name
    slug = venue_slug(name)
    if slug in _KNOWN_VENUES:
        return slug
    near = near_names(slug, _KNOWN_VENUES)
    if near and len(slug) >= _SHORTEST_MISSPELT:
        raise ValueError(f"{argument}={name!r} is not a venue; did you mean {near[0]!r}?")
    return name


def option_coins(exchange: str, symbol: str) -> float | None:
    """Return the coins per option of a venue; None if its list of contracts must be read."""
    sizes = _OPTION_COINS.get(exchange)
    return 1.0 if sizes is None else sizes.get(symbol)


EXPIRY_HOUR = 8
"""Hour [UTC] at which dated options and futures expire, for each venue with a known hour.

Deribit, Binance, Bybit, OKX and Derive (their instrument lists state the timestamp, recorded 2025 and
2026) and Paradex (docs.paradex.trade, "Expiries and listing schedule", 2026).
"""

_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
_TIME = (
    r"(?:(?:T|\s+|_|-)(?P<hh>\d{2}):?(?P<mm>\d{2})(?::?(?P<ss>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?)?"
)
_FORMS = (
    re.compile(r"(?P<y>20\d{2})(?P<dash>[-/])(?P<m>\d{1,2})(?P=dash)(?P<d>\d{1,2})" + _TIME),
    re.compile(r"(?P<y>20\d{2})(?P<m>\d{2})(?P<d>\d{2})" + _TIME),
    re.compile(r"(?P<y>\d{2})(?P<m>\d{2})(?P<d>\d{2})" + _TIME),
    re.compile(r"(?P<d>\d{1,2})[-/ ]?(?P<month>[A-Z]{3})[-/ ]?(?P<y>20\d{2}|\d{2})" + _TIME),
)
_EXAMPLES = "'2026-03-27', '27MAR26', '260327' or '2026-03-27T08:00Z'"
_EXPIRY_TIME = pd.Timedelta(EXPIRY_HOUR, "h")
_DAY = pd.Timedelta(1, "D")


def iso_of(label: str) -> tuple[str, bool] | None:
    """Return an expiry in ISO 8601, and whether it is a date without a time; None for other text.

    Midnight counts as a date, since tools write dates so and contracts do not expire at midnight. A time
    without a zone is returned without a zone.
    """
    text = label.strip().upper()
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is None:
            continue
        fields = match.groupdict()
        date = _iso_date(fields)
        if date is None:
            continue
        if fields["hh"] is None:
            return date, True
        seconds = fields["ss"] or "00"
        if fields["fraction"]:
            seconds = f"{seconds}.{fields['fraction']}"
        zone = {"UTC": "Z", "GMT": "Z", None: ""}.get(fields["zone"], fields["zone"])
        is_midnight = int(fields["hh"]) == int(fields["mm"]) == float(seconds) == 0
        if is_midnight and zone.replace(":", "") in ("", "Z", "+00", "+0000", "-00", "-0000"):
            return date, True
        return f"{date}T{fields['hh']}:{fields['mm']}:{seconds}{zone}", False
    return None


def _iso_date(fields: Mapping[str, str]) -> str | None:
    """Return the date of a parsed label; None for a date that does not exist."""
    month_name = fields.get("month")
    if month_name is None:
        month = int(fields["m"])
    elif month_name in _MONTHS:
        month = _MONTHS.index(month_name) + 1
    else:
        return None
    year = int(fields["y"])
    if len(fields["y"]) == 2:
        year += 2000
    try:
        return dt.date(year, month, int(fields["d"])).isoformat()
    except ValueError:
        return None


@typed
def expiry(label: times.TimeLike, *, name: str = "label") -> pd.Timestamp:
    """Return the timestamp of an expiry.

    Parameters
    ----------
    label
        ``"2026-03-27"``, ``"27MAR26"``, ``"27-MAR-26"``, ``"260327"`` (year first), ``"20260327"``, each with
        or without a time; or a date, datetime, Timestamp or datetime64. Without a zone it is UTC.
    name
        Name of the argument, for the error.

    Returns
    -------
    Timestamp
        In UTC. A date, or midnight, means 08:00 UTC.

    Raises
    ------
    ValueError
        The label is not an expiry.

    Examples
    --------
    >>> dd.tables.expiry("27MAR26")
    Timestamp('2026-03-27 08:00:00+0000', tz='UTC')
    """
    return stamp_of(label, name)


def stamp_of(label: Any, name: str) -> pd.Timestamp:
    """Return the timestamp of an expiry, as `expiry` does; errors have the name of the argument."""
    stamp, is_date = _read(label, name)
    return stamp + _EXPIRY_TIME if is_date else stamp


def _read(label: Any, name: str) -> tuple[pd.Timestamp, bool]:
    """Return the timestamp of a label, and whether it is a date."""
    if isinstance(label, int | np.integer) and not isinstance(label, bool):
        label = str(label)
    if isinstance(label, str):
        iso = iso_of(label)
        if iso is None:
            raise ValueError(f"{name} must be an expiry such as {_EXAMPLES}, got {label!r}")
        label = iso[0]
    stamp = times.timestamp(label, name)
    return stamp, stamp == stamp.normalize()


def expiries(values: Any, name: str, *, dates: bool | None = None) -> tuple[pd.Series, npt.NDArray[np.bool_]]:
    """Return expiries as UTC timestamps, and a mask of the values that were dates.

    Parameters
    ----------
    values
        Text, dates or timestamps; missing values stay missing.
    name
        Name of the values, for errors.
    dates
        Whether timestamps at midnight are dates; True and None treat them as dates.
    """
    column = pd.Series(values)
    if column.dtype.kind == "M":
        stamps = times.utc(column).dt.as_unit("us")
        is_date = (stamps == stamps.dt.normalize()).to_numpy()
    else:
        codes, labels = pd.factorize(column.astype(object))
        parsed = [_read(label, name) for label in labels]
        # The code of a missing value is −1, which is the appended NaT.
        distinct = pd.Series([*(stamp for stamp, _ in parsed), pd.NaT], dtype="datetime64[us, UTC]")
        stamps = distinct.take(codes).set_axis(column.index)
        is_date = np.array([*(flag for _, flag in parsed), False])[codes]
    is_date = is_date & (dates is not False)
    return stamps.where(~is_date, stamps + _EXPIRY_TIME), is_date


def nearest_listed(listed: Sequence[pd.Timestamp], label: Any, name: str) -> pd.Timestamp:
    """Return the listed expiry at the timestamp of a label, or the only one on its date."""
    stamp, is_date = _read(label, name)
    stamps = times.utc(pd.DatetimeIndex(listed))
    if is_date:
        day = stamp.normalize()
        matches = stamps[(stamps >= day) & (stamps < day + _DAY)]
    else:
        matches = stamps[stamps == stamp]
    if len(matches) != 1:
        written = ", ".join(f"{listed_stamp:%Y-%m-%dT%H:%MZ}" for listed_stamp in stamps)
        raise ValueError(
            f"{name} must match one expiry, got {label!r}, which matches {len(matches)} of {written}"
        )
    match: pd.Timestamp = matches[0]
    return match
