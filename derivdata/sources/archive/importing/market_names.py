"""Parse names in files and paths: columns in twelve languages, markets, instruments and venues."""

from __future__ import annotations

import calendar
import datetime as dt
import itertools
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from derivdata.sources.venues.registry import VENUES as ADAPTERS
from derivdata.support import times
from derivdata.tables.contracts import HIP3_DEXES, OPTIONS_ONLY, VENUES, contract, expiry, iso_of, venue_slug
from derivdata.tables.venue_facts import fact_value

_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()

_DATE = r"\d{1,2}(?:JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)\d{2}(?:\d{2})?|\d{6}|20\d{6}"
_OPTION = re.compile(
    rf"(?P<base>[A-Z0-9]+?)(?:[-_/](?P<quote>USD[TC]?|EUR))?(?::[A-Z]+)?[-_](?P<date>{_DATE})"
    r"[-_](?P<strike>\d+(?:[D._]\d+)?)[-_](?P<side>C|P|CALL|PUT)(?:[-_][A-Z]+)?",
    re.IGNORECASE,
)
"""``BTC-27MAR26-90000-C``, ``XRP_USDC-3JUL26-1d5-C``, ``BTC-USD-260703-1000-P``."""
_DELTA = re.compile(
    r"(?P<side>[CP])-(?P<base>[A-Z0-9]+)-(?P<strike>\d+(?:\.\d+)?)-(?P<day>\d{2})(?P<month>\d{2})(?P<year>\d{2})"
)
"""Delta Exchange: ``C-BTC-29000-130723`` expired on 2023-07-13 at 12:00 UTC (its settlements in ccxt 4.0)."""
_DATED = re.compile(
    rf"(?:F[FI]_)?(?P<base>[A-Z0-9]+?)(?:[-_/]?(?P<quote>USD[TC]?))?(?::[A-Z]+)?[-_](?P<date>{_DATE})(?:-FUTURES?)?",
    re.IGNORECASE,
)
"""``BTCUSD_261225``, ``BTC-USD-261225``, ``BTC-25DEC26``, ``BTCUSDT-25DEC26``, ``FI_XBTUSD_261225``."""
_CME = re.compile(r"(?P<root>BTC|MBT|ETH|MET|BFF|BTIC)(?P<month>[FGHJKMNQUVXZ])(?P<year>\d{1,2})")
"""CME's months: January is F, December Z; one digit of the year is of the decade of the row."""
_CME_SYMBOLS = {"BTC": "BTC", "MBT": "BTC", "BFF": "BTC", "ETH": "ETH", "MET": "ETH"}
_CME_MONTHS = "FGHJKMNQUVXZ"

_COIN_METRICS = re.compile(r"(?P<venue>[a-z0-9.]+)-(?P<name>.+)-(?P<kind>future|option|spot)")
"""Coin Metrics: ``binance-BTCUSDT-future``, ``deribit-BTC-27MAR26-100000-C-option``."""
_COIN_API = re.compile(
    r"(?P<venue>[A-Z0-9]+)_(?P<kind>PERP|FTS|OPT|SPOT)_(?P<base>[A-Z0-9]+)_(?P<quote>[A-Z0-9]+)"
    r"(?:_(?P<date>\d{6}))?(?:_(?P<strike>[\d.]+)_(?P<side>[CP]))?"
)
"""CoinAPI: ``BINANCEFTS_PERP_BTC_USDT``, ``DERIBIT_FTS_BTC_USD_261225``, ``DERIBIT_OPT_BTC_..._90000_C``."""
_KINDS_OF_COIN_API = {"PERP": "perpetual", "FTS": "future", "OPT": "option", "SPOT": "spot"}
_NAUTILUS = re.compile(r"(?P<name>.+)\.(?P<venue>[A-Z][A-Z0-9_]+)")
"""NautilusTrader: ``BTCUSDT-PERP.BINANCE``."""
_COINALYZE = re.compile(r"(?P<pair>[A-Z0-9_]+?)(?P<perpetual>_PERP)?\.(?P<code>[0-9A-HWVY])")
"""Coinalyze: ``BTCUSDT_PERP.A``, ``BTCUSDT.6``, ``BTC_USDT.Y``."""
_COINALYZE_VENUES = {
    "A": "binance", "6": "bybit", "3": "okx", "0": "bitmex", "2": "deribit", "4": "huobi", "7": "phemex",
    "8": "dydx", "F": "bitfinex", "H": "hyperliquid", "W": "woox", "V": "vertex", "Y": "gateio",
}  # fmt: skip
"""Codes of ``GET /exchanges`` of api.coinalyze.net/v1, 2025-10 and 2026-08, of venues with perpetuals."""
_COINALYZE_PERPETUALS = ("6", "Y", "4")
"""Codes of venues whose perpetuals have no ``_PERP`` in their names."""
_TRADINGVIEW = re.compile(r"(?P<venue>[A-Z]+):(?P<name>[A-Z0-9]+?)(?:\.P|PERP)(?:_[A-Z_]+)?")
"""TradingView: ``BINANCE:BTCUSDT.P`` is a perpetual, ``BINANCE:BTCUSDT.P_OI`` its open interest (2026)."""
_TRADINGVIEW_SPOT = re.compile(r"(?P<venue>[A-Z]+):(?P<name>[A-Z0-9]+USD[TC]?)")
"""TradingView: ``BINANCE:BTCUSDT`` is the spot market next to ``BINANCE:BTCUSDT.P`` (2026)."""
_CCDATA = re.compile(r"(?P<base>[A-Z0-9]+)-(?P<quote>[A-Z]+)-(?P<margin>VANILLA|INVERSE|QUANTO)-PERPETUAL")
"""CCData (CryptoCompare): ``BTC-USDT-VANILLA-PERPETUAL``."""
_BITFINEX = re.compile(r"t?(?P<base>[A-Z0-9]+)F0:(?P<quote>[A-Z]+)F0")
"""Bitfinex: ``tBTCF0:USTF0`` is a perpetual in USDT."""
_PHEMEX = re.compile(r"\.(?P<base>[A-Z0-9]+?)(?P<quote>USDT|USD)?FR8H")
"""Phemex: ``.BTCUSDTFR8H`` is the funding rate of BTCUSDT, ``.BTCFR8H`` that of BTCUSD."""
_VENUE_WORDS = re.compile(
    r"(futures?|fts|swaps?|usdtm|usdm|coinm|linear|inverse|perps?|perpetuals?|delivery|dm|derivatives|options?|europeanoptions|v\d)$"
)


_MARGIN_WORDS = re.compile(r"(?<=USD)[ _-]?CM(?=$| )|(?<=USD[TC])[ _-]?UM(?=$| )")
"""Binance's words for the margin of a contract: ``BTCUSD CM Perpetual`` of its web export."""
_DEX = re.compile(r"hyperliquid[_:. -](?P<dex>\w+)", re.IGNORECASE)
"""``hyperliquid_xyz``: a dex of Hyperliquid, whose contracts others trade on a venue of its name."""
_VENUES_OF_DEXES = {dex: venue for venue, dex in HIP3_DEXES.items()}

_VENUE_CODES = {
    "binc": "binance", "bbit": "bybit", "okex": "okx", "drbt": "deribit", "krkn": "kraken", "huob": "huobi",
    "cryptofacilities": "kraken",
}  # fmt: skip
"""Names of vendors for venues: codes of Kaiko's reference data (2025), and Tardis' name of Kraken Futures."""
_OTHER_VENUES = (
    "aevo bitfinex bitmex btse coindcx delta drift dydx ftx gmx kraken phemex vertex whitebit".split()
)
"""Venues that occur in files but not in the API (names from ccxt 4.5.90 and the sites of the venues)."""
KNOWN_VENUES = frozenset({*VENUES, *OPTIONS_ONLY, *ADAPTERS, *_OTHER_VENUES})


_COINS = frozenset(
    "BTC ETH SOL XRP BNB DOGE ADA AVAX LTC BCH TRX PEPE SHIB AAVE SUI XLM XMR EOS HBAR ICP TIA WIF BONK LDO "
    "CRV MKR WLD PENDLE RUNE ORDI GALA ZEC FLOKI".split()
)
"""Coins recognised in a file name without a quote currency, also in small letters."""
_COINS_IN_CAPITALS = frozenset("LINK DOT UNI ATOM NEAR TON APT ARB OP FIL INJ SEI ENA HYPE JUP ETC".split())
"""Coins recognised in a file name in capitals only, as the words have other meanings."""
CURRENCIES = frozenset("EUR GBP JPY KRW TRY BRL AUD CAD CHF CNY INR RUB IDR MXN ZAR".split())
"""Currencies other than USD in which venues quote coins."""
_OTHER_QUOTES = "|".join(sorted(CURRENCIES | {"BTC", "ETH", "BNB"}))
_CROSS = re.compile(
    rf"(?:{'|'.join(sorted(_COINS))})(?:{_OTHER_QUOTES})|[A-Z0-9]{{2,10}}[-_/](?:{_OTHER_QUOTES})|"
    rf"(?:{'|'.join(sorted(CURRENCIES))})[-_/][A-Z0-9]{{2,10}}"
)
"""``ETHBTC``, ``BTC/EUR``, ``KRW-BTC``: pairs whose prices are not in USD."""
_COINS_BY_NAME = {
    spelling: symbol
    for word, symbol in (
        ("bitcoin", "BTC"), ("ethereum", "ETH"), ("solana", "SOL"), ("ripple", "XRP"), ("dogecoin", "DOGE"),
        ("cardano", "ADA"), ("avalanche", "AVAX"), ("litecoin", "LTC"), ("binancecoin", "BNB"),
        ("bitcoin-cash", "BCH"), ("chainlink", "LINK"), ("polkadot", "DOT"), ("tron", "TRX"),
    )
    for spelling in (word, word.title())
}  # fmt: skip
"""Names of coins, as CoinGecko, Santiment and dashboards write them; ``BITCOIN`` is another coin."""


_TOPIC_OF_KUCOIN = re.compile(r"^/contract(Market)?/\w+:")
"""``/contract/instrument:XBTUSDTM``: the market of a message of its WebSocket (2026)."""
_OF_DVOL = re.compile(r"(?<=[A-Z])[-_ ]?DVOL$|^DVOL[-_ ]?(?=[A-Z])", re.IGNORECASE)
"""The name of Deribit's volatility index next to that of its coin: ``BTC-DVOL``, ``BTCDVOL``."""


class Market(NamedTuple):
    """Parsed market name: the base symbol and the other parts."""

    symbol: str
    name: str
    venue: str = ""
    kind: str = "perpetual"  # or "future", "option", "spot", "symbol", "cross", "unknown"
    expiry: int | None = None  # [µs]
    strike: float | None = None
    side: str = ""
    rank: int = 0


@lru_cache(maxsize=65_536)
def market_of(name: str) -> Market:
    """Parse the name of a market; a name of an unknown pattern has the kind ``unknown``."""
    text = _COINS_BY_NAME.get(name.strip(), name.strip())
    text = _OF_DVOL.sub("", text)
    text = _TOPIC_OF_KUCOIN.sub("", text)
    market = _vendor(text) or _option(text) or _delta(text) or _dated(text) or _cme(text)
    if market is not None:
        return market
    if _CROSS.fullmatch(text):
        return Market(text, text, kind="cross")
    plain = contract(_MARGIN_WORDS.sub("", text))
    is_plain = re.fullmatch(r"[\w$][\w$.]*|[\w-]+:[\w$.-]+", plain.symbol) is not None
    kind = "perpetual" if plain.quote else "symbol"
    # Six digits are a date that no pattern of instruments has.
    if not is_plain or re.search(r"\d{6}", plain.symbol) is not None:
        kind = "unknown"
    return Market(plain.symbol, text, kind=kind, rank=plain.rank)


def _vendor(text: str) -> Market | None:
    """Parse a name with a venue, or of a vendor's own pattern."""
    if match := _COIN_METRICS.fullmatch(text):
        return _coin_metrics(match)
    if match := _COIN_API.fullmatch(text):
        return _coin_api(text, match)
    if match := _CCDATA.fullmatch(text):
        plain = contract(f"{match['base']}-{match['quote']}")
        return Market(plain.symbol, text, rank=plain.rank)
    if match := _BITFINEX.fullmatch(text):
        quote = {"UST": "USDT"}.get(match["quote"], match["quote"])
        plain = contract(f"{match['base']}-{quote}")
        return Market(plain.symbol, text, rank=plain.rank)
    if match := _PHEMEX.fullmatch(text):
        plain = contract(f"{match['base']}-{match['quote'] or 'USD'}")
        return Market(plain.symbol, text, rank=plain.rank)
    return _coinalyze(text) or _with_venue(text)


def _with_venue(text: str) -> Market | None:
    """Parse a market name joined with the name of its venue, as TradingView and NautilusTrader write it."""
    for pattern in (_TRADINGVIEW, _NAUTILUS):
        match = pattern.fullmatch(text)
        if match is not None and venue_of_word(match["venue"]) in KNOWN_VENUES:
            return market_of(match["name"])._replace(venue=venue_of_word(match["venue"]))
    match = _TRADINGVIEW_SPOT.fullmatch(text)
    if match is not None and venue_of_word(match["venue"]) in KNOWN_VENUES:
        plain = contract(match["name"])
        return Market(plain.symbol, text, venue_of_word(match["venue"]), "spot", rank=plain.rank)
    return None


def _coin_metrics(match: re.Match[str]) -> Market:
    """Return the market of a name of Coin Metrics, whose last word is the kind."""
    market = market_of(match["name"])._replace(venue=venue_of_word(match["venue"]))
    if match["kind"] == "spot":
        return market._replace(kind="spot")
    if match["kind"] == "future" and market.kind in ("symbol", "unknown"):
        return market._replace(kind="perpetual")
    return market


def _coin_api(text: str, match: re.Match[str]) -> Market:
    plain = contract(f"{match['base']}-{match['quote']}")
    market = Market(plain.symbol, text, venue_of_word(match["venue"]), rank=plain.rank)
    market = market._replace(kind=_KINDS_OF_COIN_API[match["kind"]], side=_side(match["side"] or ""))
    if match["date"] is not None:
        market = market._replace(expiry=_expiry(match["date"]))
    if match["strike"] is not None:
        market = market._replace(strike=float(match["strike"]))
    if market.expiry is not None and market.strike is not None and market.side:
        name = made_name(market.symbol, market.expiry, market.strike, market.side)
        market = market._replace(name=name)
    return market


def _coinalyze(text: str) -> Market | None:
    """Parse a name with the code of its venue; names without ``_PERP`` are spot markets on most venues."""
    match = _COINALYZE.fullmatch(text)
    if match is None or match["code"] not in _COINALYZE_VENUES:
        return None
    plain = contract(match["pair"])
    is_perpetual = match["perpetual"] is not None or match["code"] in _COINALYZE_PERPETUALS
    kind = "perpetual" if is_perpetual else "spot"
    return Market(plain.symbol, text, _COINALYZE_VENUES[match["code"]], kind, rank=plain.rank)


@lru_cache(maxsize=4096)
def venue_of_word(word: str) -> str:
    """Return the slug of a venue's name, which may include a kind of contract or be a vendor's code.

    ``binance-futures``, ``BINANCEFTS`` and Kaiko's ``binc`` are ``binance``. Another name is its own slug.
    """
    slug = venue_slug(word)
    if slug in KNOWN_VENUES:
        return slug
    dex = _DEX.fullmatch(word)
    if dex is not None and dex["dex"].lower() in _VENUES_OF_DEXES:
        return _VENUES_OF_DEXES[dex["dex"].lower()]
    lower = re.sub(r"[\W_]", "", word.lower())
    if lower in _VENUE_CODES:
        return _VENUE_CODES[lower]
    shorter = ""
    while shorter != lower:
        if venue_slug(lower) in KNOWN_VENUES:
            return venue_slug(lower)
        shorter = lower
        lower = _VENUE_WORDS.sub("", lower)
    return slug


def pays_hourly(venue: str) -> bool:
    """Return whether a venue pays each hour on all contracts."""
    listed = VENUES.get(venue)
    return venue in _HOURLY or (listed is not None and listed.interval_hours == 1.0)


def known_interval(venue: str, symbol: str) -> float | None:
    """Return the hours between payments of a contract; None for contracts whose interval changes.

    Venues change the intervals of coins other than BTC and ETH.
    """
    if pays_hourly(venue):
        return 1.0
    if symbol not in _LEADERS:
        return None
    return fact_value(venue, "interval_hours", symbol)


def venues_of(words: Iterable[str]) -> set[str]:
    """Return the slugs of the venues that these words name."""
    return {venue_of_word(word) for word in words}


def symbols_of(names: Iterable[str]) -> set[str]:
    """Return the symbols of the markets of some names."""
    return {market_of(name).symbol for name in names}


def known_intervals(venues: Iterable[str], symbols: Iterable[str]) -> set[float | None]:
    """Return the hours between payments of some symbols on some venues; None for those that change."""
    return {known_interval(venue, symbol) for venue, symbol in itertools.product(venues, symbols)}


_LEADERS = frozenset({"BTC", "ETH"})
ALWAYS_HOURLY = frozenset(
    {"hyperliquid", *HIP3_DEXES, "dydx", "drift", "lighter", "nado", "pacifica", "vertex"}
)
"""Venues that have paid each hour on all contracts since they opened (their documentation, 2022 to 2026).

Rows that are further apart are some of the payments, or samples, and not payments of several hours.
"""
_HOURLY = frozenset({"aevo", "derive", "drift", "dydx", "ftx", "kraken", "vertex"})
"""Venues that pay each hour and that the API does not list (their documentation, 2022 to 2026)."""


def _option(text: str) -> Market | None:
    """Parse the name of an option with symbol, date, strike and side."""
    match = _OPTION.fullmatch(text)
    if match is None:
        return None
    expiry = _expiry(match["date"])
    if expiry is None:
        return None
    strike = float(re.sub("[dD_]", ".", match["strike"]))
    symbol = contract(match["base"]).symbol
    side = _side(match["side"])
    # A name with other marks, such as that of ccxt, is written as Deribit's.
    name = text if re.fullmatch(r"[\w-]+", text) else made_name(symbol, expiry, strike, side)
    return Market(symbol, name, kind="option", expiry=expiry, strike=strike, side=side)


def _delta(text: str) -> Market | None:
    """Parse the name of an option of Delta Exchange, whose date has the day first."""
    match = _DELTA.fullmatch(text)
    if match is None:
        return None
    date = pd.to_datetime(f"20{match['year']}-{match['month']}-{match['day']}T12:00Z", errors="coerce")
    if pd.isna(date):
        return None
    return Market(
        contract(match["base"]).symbol,
        text,
        "delta",
        kind="option",
        expiry=times.us(date),
        strike=float(match["strike"]),
        side=_side(match["side"]),
    )


def _side(word: str) -> str:
    """Return the type of an option by the first letter of a word; empty for another letter."""
    return {"C": "call", "P": "put"}.get(word[:1].upper(), "")


def _dated(text: str) -> Market | None:
    """Parse the name of a dated future."""
    match = _DATED.fullmatch(text)
    if match is None:
        return None
    expiry = _expiry(match["date"])
    if expiry is None:
        return None
    plain = contract(match["base"] + (match["quote"] or ""))
    return Market(plain.symbol, text, kind="future", expiry=expiry)


_HAS_DATE = r"[A-Za-z].*(\d{6}|\d{1,2}[A-Za-z]{3}\d{2,4}|[FGHJKMNQUVXZ]\d{2})(-FUTURES?)?$"
_OF_FILES = re.compile(r"file|path|folder|url|batch|run|job", re.IGNORECASE)
"""Names of columns whose texts have the date of a file or a run."""
_DATED_WITHOUT_MARK = re.compile(r"(?P<base>[A-Z]+?)(?:USD[TC]?)?(?:(?P<date>\d{6})|[FGHJKMNQUVXZ]\d{2})")
"""HTX's ``BTC211231``, Bybit's ``BTCUSDZ24`` and BitMEX's ``XBTZ24`` (2021 to 2024)."""
_OF_MARKETS = ("symbol", "instrument_name")
FRIDAY = 4
"""Weekday on which dated futures of all venues in coins and USDT expire."""


def may_name_dated_contracts(name: str, values: pa.ChunkedArray) -> bool:
    """Return whether a column has texts that end in a date as the names of dated contracts do.

    If the column's name does not indicate markets, such as ``id`` or ``note``, all of its first texts must be
    names of contracts.
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    is_text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    if not is_text or _OF_FILES.search(name):
        return False
    if not is_of_markets(name):
        for text in values.slice(0, _FIRST_TEXTS).unique().drop_null().to_pylist():
            if text.strip() and symbol_of_contract(text.strip()) is None:
                return False
    return bool(pc.any(pc.match_substring_regex(values, _HAS_DATE)).as_py())


_FIRST_TEXTS = 1_000


def is_of_markets(name: str) -> bool:
    """Return whether the name of a column indicates markets, such as ``contract_code``."""
    return meaning_of(name) in _OF_MARKETS


@lru_cache(maxsize=65_536)
def symbol_of_contract(text: str) -> str | None:
    """Return the symbol of a perpetual, or of a future with a possible expiry; None for another text.

    Dates other than Fridays belong to identifiers such as ``BTC-260202``.
    """
    market = market_of(text)
    if market.kind in ("perpetual", "symbol") and symbol_of_dated(text) is None:
        return market.symbol
    expiry_us = market.expiry
    match = _DATED_WITHOUT_MARK.fullmatch(text)
    if match is not None and match["date"] is not None:
        expiry_us = _expiry(match["date"])
        if expiry_us is None:
            return None
    if expiry_us is not None and pd.Timestamp(expiry_us, unit="us").weekday() != FRIDAY:
        return None
    return symbol_of_dated(text)


@lru_cache(maxsize=65_536)
def symbol_of_dated(text: str) -> str | None:
    """Return the symbol of a dated future by its name; None for another text."""
    market = market_of(text)
    if market.kind == "future":
        return market.symbol
    match = _DATED_WITHOUT_MARK.fullmatch(text)
    return None if match is None else contract(match["base"]).symbol


def _cme(text: str) -> Market | None:
    """Parse a dated contract of CME, whose expiry needs the decade of the row."""
    match = _CME.fullmatch(text)
    if match is None or match["root"] not in _CME_SYMBOLS:
        return None
    return Market(_CME_SYMBOLS[match["root"]], text, "cme", "future")


def cme_expiry(name: str, year: int) -> int | None:
    """Return the expiry of a contract of CME [µs]: the last Friday of its month, 16:00 in London.

    `year` is the year of a row; a contract with one digit is in the ten years from it on.
    """
    match = _CME.fullmatch(name)
    if match is None:
        return None
    digits = match["year"]
    # One digit is in the ten years from that of the row on.
    expiry_year = year + (int(digits) - year) % 10
    if len(digits) == 2:
        expiry_year = 2000 + int(digits)
    month = _CME_MONTHS.index(match["month"]) + 1
    _, days = calendar.monthrange(expiry_year, month)
    last = dt.date(expiry_year, month, days)
    friday = last - dt.timedelta(days=(last.weekday() - calendar.FRIDAY) % 7)
    stamp = pd.Timestamp(friday).tz_localize("Europe/London") + pd.Timedelta(16, "h")
    return times.us(stamp.tz_convert("UTC"))


@lru_cache(maxsize=4096)
def _expiry(text: str) -> int | None:
    """Return the time [µs] of a date in a name: ``27MAR26``, ``260327``, ``20260327``."""
    if iso_of(text) is None:
        return None
    return times.us(expiry(text))


def made_name(symbol: str, expiry: int, strike: float, side: str) -> str:
    """Return a name such as Deribit's: ``BTC-27MAR26-90000-C``."""
    stamp = pd.Timestamp(expiry, unit="us")
    day = f"{stamp.day}{_MONTHS[stamp.month - 1]}{stamp.year % 100:02}"
    return f"{symbol}-{day}-{strike:.10g}-{side[0].upper()}".replace(".", "d")


_WORD = re.compile(r"[^A-Za-z0-9]+")
_FOLDERS = 4
_MAX_FOLDERS = 6
"""Maximum number of folders to search for a venue if the nearest `_FOLDERS` have none."""


def names_in_path(path: str) -> dict[str, str]:
    """Return the only venue and the only contract in the names of a file and its folders.

    The folder nearest to the file counts for the contract where the name of the file has no contract.
    """
    folders = path.split("/")[-_FOLDERS:]
    venues = _venues_in(folders) or _venues_in(path.split("/")[-_MAX_FOLDERS:-_FOLDERS])
    stem = folders[-1].split(".")[0]
    if not venues and _BULK_FILE.fullmatch(stem):
        venues = {"binance"}
    symbols = _symbols_in(stem)
    if not any(map(_may_be_coin, _WORD.split(stem))):
        for folder in reversed(folders[:-1]):
            symbols = symbols or _symbols_in(folder)
    named: dict[str, str] = {}
    if len(venues) == 1:
        named["exchange"] = venues.pop()
    if len(symbols) == 1:
        named["symbol"] = symbols.pop()
    return named | _partitions(path.split("/")[:-1])


_BULK_FILE = re.compile(
    r"[A-Z0-9]+(USDT|USDC|BUSD|USD_PERP|USD_\d{6})-(bookTicker|bookDepth|aggTrades|trades|metrics|fundingRate|"
    r"liquidationSnapshot)-\d{4}-\d{2}(-\d{2})?"
)
"""Names of files of data.binance.vision, 2020 to 2026."""


def _venues_in(folders: Sequence[str]) -> set[str]:
    """Return the venues in these names of files and folders."""
    words = {word.lower() for folder in folders for word in _WORD.split(folder)}
    venues = {venue_slug(word) for word in words if not word.isdigit()}  # 01 of a date is not the venue 01
    return venues & KNOWN_VENUES


def _may_be_coin(word: str) -> bool:
    """Return whether a word in a file name may be a coin, so that the folder name is not searched."""
    if word.isupper():
        return _MAYBE_COIN.fullmatch(word) is not None and word not in _NO_COINS
    lower = word.lower()
    if not re.fullmatch(r"[a-z]{2,6}", lower) or lower in _PLAIN_WORDS or meaning_of(lower) is not None:
        return False
    return venue_of_word(lower) not in KNOWN_VENUES


_PLAIN_WORDS = frozenset(
    "liq liqs force orders option chain chains quote quotes book books depth level levels trade trades "
    "fill fills candle kline klines bar bars ohlc ohlcv perp perps swap swaps future fut linear inverse usd "
    "usdt usdc coinm usdtm usdm um cm rates hist export data file files daily hourly weekly month months "
    "min mins raw final clean all full new old part page day days hours jan feb mar apr may jun jul aug sep "
    "oct nov dec long short ratio ratios taker vol vols dvol basis spread curve ticks bulk dump api rest ws "
    "csv json bidask l1 l2 lob stats info log logs out output result merged test sample batch prices marks "
    "greeks term smile skew surface of by the and for from to in per with utc "
    "train valid eval split shard".split()
)
"""Words in names of files that are not coins."""
_MAYBE_COIN = re.compile(r"(?=.*[A-Z])[A-Z0-9]{2,10}")
_NO_COINS = frozenset(
    "OI FR LSR USD USDT USDC UTC API CSV JSON OHLCV PERP SWAP 1M 5M 15M 1H 4H 8H 1D".split()
)
"""Words in capitals in names of files that are not coins."""
_PAIR = re.compile(r"[A-Z0-9]{2,}[-_]?(?:USDT|USDC|USD)(?![A-Z])")
_BITFINEX_PAIR = re.compile(r"t(?P<base>[A-Z0-9]+?)F0[-_:]?USTF0")
_LOWER_PAIR = re.compile(r"[a-z0-9]{2,}?(?:usdt|usdc)|(?:btc|eth|sol|xrp|xbt)usd")


def _symbols_in(name: str) -> set[str]:
    """Return the contracts, or else the coins, in the name of a file or folder."""
    words = _WORD.split(name)
    pairs = [f"{base}USDT" for base in _BITFINEX_PAIR.findall(name)]
    pairs += [*_PAIR.findall(name), *filter(_LOWER_PAIR.fullmatch, words)]
    symbols = {contract(pair.upper().replace("_", "-")).symbol for pair in pairs}
    if symbols or CURRENCIES & {*_WORD.split(name.upper())} or pair_of_coins(name):
        return symbols
    coins = {_COINS_BY_NAME.get(word, word.upper()) for word in words} & _COINS
    return coins | (_COINS_IN_CAPITALS & {*words})


_QUOTE_COINS = "BTC|ETH|BNB|XBT|BITCOIN|ETHEREUM"
_IN_COINS = re.compile(
    rf"(?<![A-Z0-9])[A-Z0-9]{{2,10}}[-_ ](?:VS|OVER|PER|IN)[-_ ](?:{_QUOTE_COINS})(?![A-Z0-9])", re.IGNORECASE
)
"""``pepe_vs_btc``."""
_PAIR_OF_COINS = re.compile(
    rf"(?<![A-Z0-9])(?P<base>[A-Z0-9]{{2,10}})(?P<mark>[-_]?)(?P<quote>{_QUOTE_COINS})(?![A-Z0-9])",
    re.IGNORECASE,
)
"""``PEPE-BTC``, ``link_btc``, ``ETHBTC``."""


def pair_of_coins(name: str) -> str:
    """Return the pair of coins in a file name such as ``pepe_vs_btc``; empty without one."""
    match = _IN_COINS.search(name)
    if match is not None:
        return match[0]
    for match in _PAIR_OF_COINS.finditer(name):
        base = match["base"]
        is_coin = base.upper() in _COINS | _COINS_IN_CAPITALS
        if match["mark"] and not is_coin:
            is_coin = _is_coin_in_capitals(base)
        if is_coin and base.upper() != match["quote"].upper():
            return match[0]
    return ""


def _is_coin_in_capitals(word: str) -> bool:
    """Return whether a word in capitals may be a coin, and is neither a venue nor another known word."""
    if not (word.isalpha() and word.isupper()) or word in _NO_COINS or word.lower() in _PLAIN_WORDS:
        return False
    return meaning_of(word) is None and venue_of_word(word) not in KNOWN_VENUES


_PARTITION = re.compile(r"(?P<name>[a-z_]+)=(?P<value>[^=]+)", re.IGNORECASE)


def _partitions(folders: Sequence[str]) -> dict[str, str]:
    """Return venue and symbol of folders such as ``exchange=binance``, the layout of Hive and Spark."""
    stated: dict[str, str] = {}
    for folder in folders:
        match = _PARTITION.fullmatch(folder)
        if match is None:
            continue
        meaning = meaning_of(match["name"])
        if meaning == "symbol":
            stated["symbol"] = market_of(match["value"]).symbol
        elif meaning == "exchange":
            stated["exchange"] = venue_of_word(match["value"])
    return stated


_LETTERS = str.maketrans({"ı": "i", "ł": "l", "ß": "ss", "ø": "o"})
"""Letters that are not an ASCII letter with an accent."""


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """Return a name in lower case without accents and separators."""
    decomposed = unicodedata.normalize("NFKD", name.lower().translate(_LETTERS))
    letters = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFC", letters))


@cache
def names_by_meaning() -> dict[str, list[str]]:
    """Return the plain names of each meaning; if a file has several, the first one is used."""
    listed: dict[str, str] = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))
    return {meaning: [plain_name(name) for name in names.split()] for meaning, names in listed.items()}


@cache
def _meanings() -> dict[str, str]:
    meanings: dict[str, str] = {}
    for meaning, names in names_by_meaning().items():
        for name in names:
            meanings.setdefault(name, meaning)
    return meanings


def meaning_of(name: str) -> str | None:
    """Return the meaning of a column name; None for an unknown name."""
    return _meanings().get(plain_name(name))


_WORDS_OF_SCALES = (
    (1e3, "k thousand thousands tsd tausend miles тыс 千"),
    (1e4, "万 萬 만"),
    (1e5, "lakh lakhs"),
    (1e6, "m mm mn mln mio million millions millionen millones milhões milhoes milioni млн 百万 百萬 백만"),
    (1e7, "crore crores"),
    (1e8, "亿 億 억"),
    (1e9, "b bn billion billions mrd mld milliarden milliards miliardi млрд 十亿 十億 십억"),
)
_SCALES = {word: scale for scale, words in _WORDS_OF_SCALES for word in words.split()}
_SCALES |= {"mil millones": 1e9, "mil milhões": 1e9}
"""Scale of amounts by the word in a column name. ``mil`` alone is ambiguous: a million or a thousand."""
_LONGEST_FIRST = sorted(_SCALES, key=len, reverse=True)
_IDEOGRAPHIC = re.compile("[\u4e00-\u9fff\uac00-\ud7a3]+")
_LONG_SCALES = "|".join(word for word in _LONGEST_FIRST if len(word) > 1 and not _IDEOGRAPHIC.match(word))
_EASTERN_SCALES = "|".join(word for word in _LONGEST_FIRST if _IDEOGRAPHIC.match(word))
_SCALED = re.compile(
    rf"(?<![^\W\d_])(?P<long>{_LONG_SCALES})(?=usd|[\W\d_]|$)"
    rf"|(?P<eastern>{_EASTERN_SCALES})"
    r"|(?P<mark>\$|(?<![a-z])usd)[ _]?(?P<short>[kmb])(?![a-z])"
    r"|(?<![a-z])(?P<before>[kmb])(?=[ _]?(?:\$|usd(?![a-z])))"
    r"|[(\[](?P<alone>[kmb])[)\]]",
    re.IGNORECASE,
)
"""``open_interest_mln_usd``, ``OI ($M)``, ``Liquidations (USD, millions)``, ``Open Interest (Mio. USD)``."""
_OF_AMOUNTS = re.compile(
    r"\$|usd[tc]?|dollars?|美元|美金|(?<![^\W\d_])(in|of|en|em|de|von|di)(?![^\W\d_])", re.IGNORECASE
)
"""Words next to a scale in the name of a column."""
_UNREAD_SCALE = re.compile(r"(?<![a-z])(mil|mill|trillions?|tn|hundreds?)(?![a-z])", re.IGNORECASE)
"""Words that may be scales of amounts but are not supported."""


def scale_in_name(name: str) -> tuple[str, float]:
    """Return a column name without its scale (thousands, millions, billions), and the scale."""
    match = _SCALED.search(name)
    if match is None:
        return name, 1.0
    scale = match["long"] or match["eastern"] or match["short"] or match["before"] or match["alone"]
    rest = _OF_AMOUNTS.sub(" ", f"{name[: match.start()]} {name[match.end() :]}")
    if re.search(r"usd|\$|dollar|美元|美金", name, re.IGNORECASE) is not None:
        rest = f"{rest} usd"
    return rest, _SCALES[scale.lower()]


def unread_scale(name: str) -> str:
    """Return a word in a column name that may be a scale but is not supported; empty without one."""
    _, scale = scale_in_name(name)
    match = _UNREAD_SCALE.search(name)
    if scale != 1.0 or match is None:
        return ""
    return match[0]
