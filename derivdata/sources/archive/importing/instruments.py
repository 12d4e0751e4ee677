"""Columns of markets and instruments of a chunk: symbols, venues, expiries, strikes, sides and made names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.importing.market_names import Market, cme_expiry, made_name, market_of
from derivdata.sources.archive.importing.plan import ImportPlan, is_of_contracts
from derivdata.sources.archive.importing.values import Rejections, Words, distinct
from derivdata.support import times
from derivdata.support.arrays import Array
from derivdata.tables.contracts import hip3_contract

RANK = "quote_rank"
CONTRACT = "contract_name"


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
                f"omit it, or import it as {other}"
            )
        elif market.kind == "spot" and plan.table.name not in ("prices_spot", "prices_history"):
            reasons[place] = f"symbol={market.name!r} is a spot market: omit it"
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
            f"instrument_name={name!r} is not the name of an option, and cannot be that of all rows: omit "
            "it, and names are made of symbol, expiry, strike and side"
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
        _take_named_hours(columns, stamps)
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


def _take_named_hours(columns: dict[str, Any], stamps: Array) -> None:
    """Take the hour of expiry that a future's name gives, where the stated day is the same.

    A date without a time is 08:00 UTC; contracts of CME expire at 16:00 in London.
    """
    stated = pd.DatetimeIndex(columns["expiry"])
    named = pd.DatetimeIndex(stamps).tz_localize("UTC")
    is_same_day = np.asarray(stated.floor("D") == named.floor("D"))
    columns["expiry"] = pd.DatetimeIndex(np.where(is_same_day, named, stated))


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
        None if any(map(pd.isna, row)) else made_name(row[0], times.us(row[1]), row[2], row[3])
        for row in firsts.itertuples(index=False)
    ]
    return distinct(names, np.asarray(group.ngroup()))
