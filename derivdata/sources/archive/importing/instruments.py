"""Names of markets and instruments: their symbol, venue, expiry, strike and side; names made of these."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.plan import ImportPlan, is_of_contracts
from derivdata.sources.archive.importing.values import Rejections, Words, distinct
from derivdata.support import times
from derivdata.tables.contracts import VENUES, contract, hip3_contract, venue_slug
from derivdata.tables.expiries import expiry, iso_of

RANK = "quote_rank"
CONTRACT = "contract_name"
_MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()

_DATE = r"\d{1,2}(?:JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)\d{2}(?:\d{2})?|\d{6}|20\d{6}"
_OPTION = re.compile(
    rf"(?P<base>[A-Z0-9]+?)(?:[-_/](?P<quote>USD[TC]?|EUR))?(?::[A-Z]+)?[-_](?P<date>{_DATE})"
    r"[-_](?P<strike>\d+(?:[D._]\d+)?)[-_](?P<side>C|P|CALL|PUT)(?:[-_][A-Z]+)?",
    re.IGNORECASE,
)
"""``BTC-27MAR26-90000-C``, ``XRP_USDC-3JUL26-1d5-C``, ``BTC-USD-260703-1000-P``."""
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
_NAUTILUS = re.compile(r"(?P<name>.+)\.(?P<venue>[A-Z][A-Z0-9_]+)")
"""NautilusTrader: ``BTCUSDT-PERP.BINANCE``."""
_CCDATA = re.compile(r"(?P<base>[A-Z0-9]+)-(?P<quote>[A-Z]+)-(?P<margin>VANILLA|INVERSE|QUANTO)-PERPETUAL")
"""CCData (CryptoCompare): ``BTC-USDT-VANILLA-PERPETUAL``."""
_BITFINEX = re.compile(r"t?(?P<base>[A-Z0-9]+)F0:(?P<quote>[A-Z]+)F0")
"""Bitfinex: ``tBTCF0:USTF0`` is a perpetual in USDT."""
_VENUE_WORDS = re.compile(r"(futures?|fts|swap|usdm|coinm|linear|inverse|perps?|dm|derivatives)$")


class Market(NamedTuple):
    """What a name says: the base symbol, and of the rest what it states."""

    symbol: str
    name: str
    venue: str = ""
    kind: str = "perpetual"  # or "future", "option", "spot", "symbol", "unknown"
    expiry: int | None = None  # [µs]
    strike: float | None = None
    side: str = ""
    rank: int = 0


@lru_cache(maxsize=65_536)
def market_of(name: str) -> Market:
    """Return what the name of a market says; a name of no known pattern is of the kind ``unknown``."""
    text = name.strip()
    found = _vendor(text) or _option(text) or _dated(text) or _cme(text)
    if found is not None:
        return found
    plain = contract(text)
    is_plain = re.fullmatch(r"[\w$.]+|[\w-]+:[\w$.-]+", plain.symbol) is not None
    is_unknown = not is_plain or re.search(r"\d{6}", plain.symbol) is not None
    kind = "unknown" if is_unknown else "perpetual" if plain.quote else "symbol"
    return Market(plain.symbol, text, kind=kind, rank=plain.rank)


def _vendor(text: str) -> Market | None:
    """Read a name that states the venue, or one of a vendor's own patterns."""
    if match := _COIN_METRICS.fullmatch(text):
        inner = market_of(match["name"])
        kind = "spot" if match["kind"] == "spot" else inner.kind
        kind = "perpetual" if kind in ("symbol", "unknown") and match["kind"] == "future" else kind
        return inner._replace(venue=_venue(match["venue"]), kind=kind)
    if match := _COIN_API.fullmatch(text):
        plain = contract(f"{match['base']}-{match['quote']}")
        found = Market(plain.symbol, text, _venue(match["venue"]), rank=plain.rank)
        kind = {"PERP": "perpetual", "FTS": "future", "OPT": "option", "SPOT": "spot"}[match["kind"]]
        expiry = None if match["date"] is None else _expiry(match["date"])
        strike = None if match["strike"] is None else float(match["strike"])
        side = _side(match["side"] or "")
        if expiry is not None and strike is not None and side:
            found = found._replace(name=_made_name(plain.symbol, expiry, strike, side))
        return found._replace(kind=kind, expiry=expiry, strike=strike, side=side)
    if match := _CCDATA.fullmatch(text):
        plain = contract(f"{match['base']}-{match['quote']}")
        return Market(plain.symbol, text, rank=plain.rank)
    if match := _BITFINEX.fullmatch(text):
        plain = contract(f"{match['base']}-{'USDT' if match['quote'] == 'UST' else match['quote']}")
        return Market(plain.symbol, text, rank=plain.rank)
    match = _NAUTILUS.fullmatch(text)
    if match is not None and _venue(match["venue"]) in VENUES:
        return market_of(match["name"])._replace(venue=_venue(match["venue"]))
    return None


def _venue(word: str) -> str:
    """Return the slug of a venue's name, with or without the word for its kind of contracts."""
    lower = word.lower().replace("_", "")
    slug = venue_slug(lower)
    return slug if slug in VENUES else venue_slug(_VENUE_WORDS.sub("", lower))


def _option(text: str) -> Market | None:
    match = _OPTION.fullmatch(text)
    expiry = None if match is None else _expiry(match["date"])
    if match is None or expiry is None:
        return None
    strike = float(re.sub("[dD_]", ".", match["strike"]))
    plain = contract(match["base"])
    side = _side(match["side"])
    name = text if re.fullmatch(r"[\w-]+", text) else _made_name(plain.symbol, expiry, strike, side)
    return Market(plain.symbol, name, kind="option", expiry=expiry, strike=strike, side=side)


def _side(word: str) -> str:
    return {"C": "call", "P": "put"}.get(word[:1].upper(), "")


def _dated(text: str) -> Market | None:
    match = _DATED.fullmatch(text)
    expiry = None if match is None else _expiry(match["date"])
    if match is None or expiry is None:
        return None
    plain = contract(match["base"] + (match["quote"] or ""))
    return Market(plain.symbol, text, kind="future", expiry=expiry)


def _cme(text: str) -> Market | None:
    """Read a dated contract of CME; its expiry needs the decade of the row."""
    match = _CME.fullmatch(text)
    if match is None or match["root"] not in _CME_SYMBOLS:
        return None
    return Market(_CME_SYMBOLS[match["root"]], text, "cme", "future")


def cme_expiry(name: str, year: int) -> int | None:
    """Return when a contract of CME expires [µs]: the last Friday of its month, 16:00 in London.

    `year` is that of a row; a contract with one digit is of the ten years from it on.
    """
    match = _CME.fullmatch(name)
    if match is None:
        return None
    digits = match["year"]
    of = 2000 + int(digits) if len(digits) == 2 else year + (int(digits) - year) % 10
    month = _CME_MONTHS.index(match["month"]) + 1
    last = dt.date(of, month, calendar.monthrange(of, month)[1])
    friday = last - dt.timedelta(days=(last.weekday() - calendar.FRIDAY) % 7)
    stamp = pd.Timestamp(friday).tz_localize("Europe/London") + pd.Timedelta(16, "h")
    return times.us(stamp.tz_convert("UTC"))


@lru_cache(maxsize=4096)
def _expiry(text: str) -> int | None:
    """Return the instant [µs] of a date in a name: ``27MAR26``, ``260327``, ``20260327``."""
    return None if iso_of(text) is None else times.us(expiry(text))


def read_names(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Replace the names of markets by their symbols; fill in venue and instrument where these say them."""
    table = plan.table
    if "symbol" not in table.columns:
        return
    if "symbol" not in columns and "instrument_name" in columns:
        columns["symbol"] = columns["instrument_name"]
    if "symbol" not in columns:
        return
    words: Words = columns["symbol"]
    markets = [market_of(text) for text in words.texts]
    columns[CONTRACT] = words
    columns[RANK] = np.array([*(market.rank for market in markets), 0])[words.codes]
    if "exchange" in table.columns and "exchange" not in columns and any(m.venue for m in markets):
        columns["exchange"] = distinct([m.venue or None for m in markets], words.codes)
    if "instrument_name" in table.columns and "instrument_name" not in columns:
        named = [m.name if m.kind in ("option", "future") else None for m in markets]
        if any(named):
            columns["instrument_name"] = distinct(named, words.codes)
    columns["symbol"] = distinct([market.symbol for market in markets], words.codes)
    if "exchange" in columns and any(":" in text for text in columns["symbol"].texts):
        _name_hip3_contracts(columns, rejections)
    _refuse_others(words, markets, plan, rejections)


def _name_hip3_contracts(columns: dict[str, Any], rejections: Rejections) -> None:
    """Give contracts of Hyperliquid's dexes the venue and symbol that the adapters give them."""
    venues = columns["exchange"]
    symbols = columns["symbol"]
    known = ~venues.is_missing & ~symbols.is_missing
    code = np.where(known, venues.codes.astype(np.int64) * len(symbols.texts) + symbols.codes, -1)
    codes, places = np.unique(code, return_inverse=True)
    renamed: list[tuple[str | None, str | None]] = []
    for place, pair in enumerate(codes.tolist()):
        venue, symbol = divmod(pair, len(symbols.texts)) if pair >= 0 else (-1, -1)
        if pair < 0:
            renamed.append((None, None))
            continue
        names = venues.texts[venue], symbols.texts[symbol]
        try:
            renamed.append(hip3_contract(*names))
        except ValueError as problem:
            renamed.append(names)
            rejections.reject(places == place, str(problem))
    columns["exchange"] = distinct([venue for venue, _ in renamed], places)
    columns["symbol"] = distinct([symbol for _, symbol in renamed], places)


def _refuse_others(words: Words, markets: list[Market], plan: ImportPlan, rejections: Rejections) -> None:
    """Reject names that are of no known pattern, and contracts that a table of perpetuals does not hold."""
    reasons: dict[int, str] = {}
    for place, market in enumerate(markets):
        if market.kind == "unknown":
            reasons[place] = (
                f"symbol={market.name!r} is not a known name of a market: say which symbol it is with "
                f"--map-value symbol:{market.name}=BTC"
            )
        elif is_of_contracts(plan.table) and market.kind in ("option", "future"):
            other = "options_snapshot" if market.kind == "option" else "futures_history"
            what = "an option" if market.kind == "option" else "a dated future"
            reasons[place] = (
                f"symbol={market.name!r} is {what}, and {plan.table.name} is of perpetual contracts: "
                f"leave it out, or import it as {other}"
            )
        elif market.kind == "spot" and plan.table.name not in ("prices_spot", "prices_history"):
            reasons[place] = f"symbol={market.name!r} is a spot market: leave it out"
    for place, why in reasons.items():
        rejections.reject(words.codes == place, why)


def complete(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    """Take expiry, strike and side from the names of options and futures, or the names from these."""
    table = plan.table
    if "instrument_name" not in table.columns or "expiry" not in table.columns:
        return
    name = plan.constants.get("instrument_name")
    if name is not None and "strike" in table.columns and market_of(name).kind != "option":
        raise ArchiveError(
            f"instrument_name={name!r} is not the name of an option, and cannot be that of all rows: leave "
            "it out, and names are made of symbol, expiry, strike and side"
        )
    if "instrument_name" in columns:
        _from_names(columns, plan, rejections)
    elif {"symbol", "expiry", "strike", "side"} <= columns.keys() and "strike" in table.columns:
        columns["instrument_name"] = _made_names(columns)


def _from_names(columns: dict[str, Any], plan: ImportPlan, rejections: Rejections) -> None:
    words: Words = columns["instrument_name"]
    markets = [market_of(text) for text in words.texts]
    columns["instrument_name"] = distinct(
        [m.name if m.kind == "option" else text for m, text in zip(markets, words.texts, strict=True)],
        words.codes,
    )
    year = _year(columns)
    expiries = [
        m.expiry if m.expiry is not None or year is None else cme_expiry(m.name, year) for m in markets
    ]
    named = np.array(
        [*(np.iinfo(np.int64).min if e is None else e for e in expiries), np.iinfo(np.int64).min]
    )
    stamps = named[words.codes].view("datetime64[us]")
    if "expiry" not in columns:
        columns["expiry"] = pd.DatetimeIndex(stamps).tz_localize("UTC")
    elif "strike" in plan.table.columns:
        stated = times.naive_utc(columns["expiry"])
        differs = (
            ~np.isnat(stamps) & ~stated.isna() & (stated.floor("D") != pd.DatetimeIndex(stamps).floor("D"))
        )
        texts = words.strings()
        rejections.reject(
            np.asarray(differs),
            lambda row: f"instrument_name={texts[row]!r} expires on another day than expiry={stated[row]}",
        )
    if "strike" not in plan.table.columns:
        return
    strikes = np.array([*(np.nan if m.strike is None else m.strike for m in markets), np.nan])[words.codes]
    sides = distinct([m.side or None for m in markets], words.codes)
    if "strike" not in columns:
        columns["strike"] = strikes
    else:
        stated = columns["strike"]
        differs = np.abs(strikes - stated) > 1e-9 * np.maximum(np.abs(stated), 1.0)
        texts = words.strings()
        rejections.reject(
            differs, lambda row: f"instrument_name={texts[row]!r} has another strike than {stated[row]:g}"
        )
    if "side" not in columns:
        columns["side"] = sides
    else:
        named_sides = sides.strings()
        stated_sides = columns["side"].strings()
        differs = ~sides.is_missing & ~columns["side"].is_missing & (named_sides != stated_sides)
        texts = words.strings()
        rejections.reject(differs, lambda row: f"instrument_name={texts[row]!r} is not a {stated_sides[row]}")


def _year(columns: dict[str, Any]) -> int | None:
    stamps = columns.get("time")
    known = None if stamps is None else stamps[~stamps.isna()]
    return None if known is None or not len(known) else int(known[0].year)


def _made_names(columns: dict[str, Any]) -> Words:
    """Return names such as Deribit's, ``BTC-27MAR26-90000-C``, of symbol, expiry, strike and side."""
    frame = pd.DataFrame(
        {
            "symbol": columns["symbol"].strings(),
            "expiry": columns["expiry"],
            "strike": columns["strike"],
            "side": columns["side"].strings(),
        }
    )
    group = frame.groupby([*frame], sort=False, dropna=False)
    firsts = frame.loc[group.head(1).index]
    names = [
        None if any(map(pd.isna, row)) else _made_name(row[0], times.us(row[1]), row[2], row[3])
        for row in firsts.itertuples(index=False)
    ]
    return distinct(names, np.asarray(group.ngroup()))


def _made_name(symbol: str, expiry: int, strike: float, side: str) -> str:
    """Return a name such as Deribit's: ``BTC-27MAR26-90000-C``."""
    stamp = pd.Timestamp(expiry, unit="us")
    day = f"{stamp.day}{_MONTHS[stamp.month - 1]}{stamp.year % 100:02}"
    return f"{symbol}-{day}-{strike:.10g}-{side[0].upper()}".replace(".", "d")
