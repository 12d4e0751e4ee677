"""Check the columns that a function needs, join frames with attributes, and join contracts of a coin.

Renamed and reused tickers are dated facts, each confirmed by two public sources. The coin of a ticker depends
on the time: ``MATIC`` became ``POL``; ``LIT`` was Litentry, which became ``HEI``, and is Lighter now. Venues
rename on different days, so an old ticker means the new coin at any time, unless another coin uses it later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from derivdata.support.arguments import typed
from derivdata.support.calls import Provenance
from derivdata.support.text import did_you_mean, warn_caller
from derivdata.support.times import has_zone
from derivdata.tables.contracts import base
from derivdata.tables.definitions import COLUMNS, TABLES
from derivdata.units import VOLATILITY_SPELLINGS

_TIMES = ("time", "start", "end", "expiry")
_NAMES = ("symbol", "exchange", "side", "instrument_name")
# Options trade at up to 1,500 % in their last hours, while a median of 15 % is rare.
_LARGEST_MEDIAN_IV = 15.0


def require_columns(
    frame: pd.DataFrame,
    argument: str,
    numbers: Sequence[str] = (),
    *,
    others: Sequence[str] = (),
    any_kind: Sequence[str] = (),
) -> None:
    """Raise `ValueError` if a column is missing, repeated or of another kind than required.

    Columns in `numbers` must be numeric. Columns in `others` with a name of `_TIMES` or `_NAMES` must have
    times or text; columns in `any_kind` may have any values.
    """
    for name in (*others, *numbers, *any_kind):
        if name not in frame.columns:
            near = did_you_mean(name, frame.columns)
            raise ValueError(f"{argument} must have the column {name!r}{near}")
        if frame.columns.get_loc(name).__class__ is not int:
            raise ValueError(f"{argument} must have the column {name!r} once: remove duplicates")
    for name in numbers:
        if len(frame) and not pd.api.types.is_numeric_dtype(frame[name]):
            raise ValueError(
                f"{argument} must have numbers in the column {name!r}, got {frame[name].dtype}; convert a "
                "table that was read from text with dd.tables.TABLES[name].conform(table)"
            )
    if frame.empty:
        return
    for name in others:
        _require_kind(frame, argument, name, is_time=name in _TIMES, is_name=name in _NAMES)


def _require_kind(frame: pd.DataFrame, argument: str, name: str, *, is_time: bool, is_name: bool) -> None:
    """Raise `ValueError` if a column of times or names has another dtype."""
    dtype = frame[name].dtype
    if is_time and dtype.kind != "M":
        raise ValueError(f"{argument} must have times in the column {name!r}, got {dtype}")
    if is_name and dtype.kind in "biufcmM":
        raise ValueError(f"{argument} must have text in the column {name!r}, got {dtype}")


def require_zone(frame: pd.DataFrame, argument: str) -> None:
    """Raise `ValueError` if ``time`` is without a time zone: it may be any local time."""
    if not has_zone(frame["time"]):
        raise ValueError(
            f"{argument} must have times with a time zone: localize them with "
            f"{argument}['time'].dt.tz_localize('UTC')"
        )


def require_timestamps(frame: pd.DataFrame, argument: str, names: Sequence[str]) -> None:
    """Raise `ValueError` if a column has other values than times, or missing times."""
    for name in names:
        _require_kind(frame, argument, name, is_time=True, is_name=False)
        if frame[name].isna().any():
            raise ValueError(
                f"{argument} must have {name!r} in each row: fill the missing values or remove these rows"
            )


def require_decimal_volatility(iv: Any, remedy: str = "divide it by 100") -> None:
    """Raise `ValueError` for implied volatilities without a unit whose median is above 15, as in percent.

    Lazy arrays are not checked.
    """
    if getattr(iv, "attrs", {}).get("units") in VOLATILITY_SPELLINGS:
        return
    if getattr(iv, "chunks", None) is not None:
        return
    values = np.asarray(iv, dtype=np.float64)
    if not (values > _LARGEST_MEDIAN_IV).any():
        return
    finite = values[np.isfinite(values)]
    if finite.size and (median := float(np.median(finite))) > _LARGEST_MEDIAN_IV:
        raise ValueError(
            f"iv must be decimal (0.55 for 55 %), but looks like percent, its median is {median:.4g}: "
            f"{remedy}"
        )


@typed
def concat(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join tables of one kind and their provenance.

    Parameters
    ----------
    frames
        Tables with the same columns in the same order, as fetchers return them: of several symbols, venues,
        windows or sources.

    Returns
    -------
    DataFrame
        All rows, sorted as their table is. ``provenance`` has all sources, requests and notices, and is
        synthetic if any frame is; a frame without provenance adds the source ``not stated``.

    Raises
    ------
    ValueError
        `frames` is empty, or the frames have different columns.
    SchemaError
        Two rows have the same key, because windows or venues overlap.

    Examples
    --------
    >>> days = [("2026-06-01", "2026-06-02"), ("2026-06-08", "2026-06-09")]
    >>> rates = dd.concat([dd.funding.history("BTC", *day, venues=["okx"]) for day in days])
    >>> len(rates), dd.provenance(rates)["synthetic"]
    (48, True)
    """
    if len(frames) == 0:
        raise ValueError("frames is empty: pass at least one table")
    columns = list(frames[0].columns)
    for place, frame in enumerate(frames):
        if list(frame.columns) != columns:
            difference = "their order differs"
            if other := sorted(set(columns) ^ set(frame.columns)):
                difference = f"only one of them has {', '.join(map(str, other))}"
            raise ValueError(f"frames[{place}] must have the columns of frames[0], but {difference}")
    joined = pd.concat(_plain(frames), ignore_index=True)
    table = next((table for table in TABLES.values() if list(table.columns) == columns), None)
    if table is not None:
        joined = table.conform(joined)
    provenances = [frame.attrs.get("provenance") for frame in frames]
    if any(provenances):
        joined.attrs["provenance"] = joined_provenance(provenances)
    return joined


def _plain(frames: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the frames without index and attrs, with the same categories in each text column.

    pandas would join different categories to a column of objects.
    """
    plain = [frame.set_axis(frame.columns, axis=1).reset_index(drop=True) for frame in frames]
    for frame in plain:
        frame.attrs = {}
    for name in plain[0].columns:
        dtypes = [frame[name].dtype for frame in plain]
        if all(isinstance(dtype, pd.CategoricalDtype) for dtype in dtypes):
            words = sorted({word for dtype in dtypes for word in dtype.categories})
            union = pd.CategoricalDtype(pd.Index(words, dtype="str"))
            plain = [frame.astype({name: union}) for frame in plain]
    return plain


def joined_provenance(provenances: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Join several provenances; None is a frame without a source."""
    joined: dict[str, Any] = {}
    # Dictionaries instead of lists: they drop repetitions and keep the order.
    sources: dict[str, None] = {}
    notices: dict[str, None] = {}
    attributions: dict[str, None] = {}
    requests: list[Any] = []
    for provenance in provenances:
        if not provenance:
            sources["not stated"] = None
            continue
        joined |= provenance
        sources |= dict.fromkeys(provenance.get("source", "not stated").split(", "))
        notices |= dict.fromkeys(provenance.get("notices", []))
        requests += provenance.get("requests", [])
        if provenance.get("attribution"):
            attributions[provenance["attribution"]] = None
    stated = [provenance for provenance in provenances if provenance]
    joined["source"] = ", ".join(sources)
    joined["synthetic"] = any(provenance.get("synthetic", False) for provenance in stated)
    joined["as_of"] = max((p["as_of"] for p in stated if p.get("as_of")), default=None)
    joined["requests"] = requests
    joined["notices"] = list(notices)
    joined["attribution"] = "; ".join(attributions)
    return Provenance(joined)


_LATE_VENUES = np.timedelta64(90, "D")
"""Time after a renaming during which venues may still use the old ticker."""


class RenamedTicker(NamedTuple):
    """Renaming of a ticker, one old coin for one new coin."""

    old: str
    new: str
    renamed: str  # day on which the venue in the sources closed the markets of the old ticker
    reused: str  # day from which the old ticker is another coin; empty if it never is
    sources: tuple[str, ...]


RENAMED_TICKERS = (
    RenamedTicker(
        "LUNA",
        "LUNC",
        "2022-05-28",
        "2022-05-28",
        (
            "Terra, exchange migration guide (junhoyeo.github.io/terra-docs, migration)",
            "InvestorPlace, 2022-05-26, Terra's new LUNA (investorplace.com/2022/05)",
        ),
    ),
    RenamedTicker(
        "RNDR",
        "RENDER",
        "2024-07-09",
        "",
        (
            "AZC News, OKX delists RNDR futures and margin trading (azc.news, id 24185)",
            "MEXC, Render tokenomics, 2024-12-24: RENDER, formerly RNDR, 1:1 (mexc.com/price/RENDER)",
        ),
    ),
    RenamedTicker(
        "MATIC",
        "POL",
        "2024-09-10",
        "",
        (
            "CoinGape, Binance announces MATIC to POL token swap, 1:1 (coingape.com)",
            "DailyChain, Binance to halt MATIC trades for the POL swap, 1:1 (dailychain.news)",
        ),
    ),
    RenamedTicker(
        "KLAY",
        "KAIA",
        "2024-10-28",
        "",
        (
            "Binance announcement, KLAY rebranding: 1 KLAY = 1 KAIA (Square 14937325490873)",
            "CoinEx announcement 31416360577556: KLAY becomes KAIA, KLAYUSDT delisted on 2024-10-28",
        ),
    ),
    RenamedTicker(
        "FTM",
        "S",
        "2025-01-13",
        "",
        (
            "Binance announcement, FTM token swap and brand upgrade to S, 1:1 (Square 17987822306257)",
            "CoinJar, Fantom to Sonic, 2025-01-08, 1:1 (coinjar.com/learn/fantom-to-sonic)",
        ),
    ),
    RenamedTicker(
        "LIT",
        "HEI",
        "2025-02-10",
        "2025-12-30",
        (
            "Bitget announcement 12560603822009, 2025-01-25: 1 LIT = 1 HEI",
            "Litentry technical committee, proposal 35 (litentry.subsquare.io/techcomm/proposals/35)",
            "Gate news 17316738, 2025-12-30: Lighter launches LIT",
            "ChainGPT, 2025-12-31: Lighter unveils LIT token",
        ),
    ),
    RenamedTicker(
        "EOS",
        "A",
        "2025-05-22",
        "",
        (
            "PANews, 2025-05-17: OKX swaps EOS for A, 1:1, and delists its perpetuals on 2025-05-22",
            "CoinJar, EOS to Vaulta: ticker A, 1:1 (coinjar.com/uk/learn/eos-to-vaulta)",
        ),
    ),
)
"""Renamings, oldest first."""
_BY_OLD = {ticker.old: ticker for ticker in RENAMED_TICKERS}


def other_tickers(coin: str) -> list[str]:
    """Return the other tickers of a coin, former and present."""
    tickers = {coin}
    for ticker in RENAMED_TICKERS:
        if ticker.new == coin or (ticker.old == coin and not ticker.reused):
            tickers |= {ticker.old, ticker.new}
    return sorted(tickers - {coin})


def is_another_coin_from(ticker: RenamedTicker) -> pd.Timestamp | None:
    """Return the time from which an old ticker means another coin, which may be before its reuse.

    Perpetuals are listed before a coin is launched. So rows count as the other coin from 90 days after the
    renaming on, when venues have closed the old markets.
    """
    if not ticker.reused:
        return None
    late = pd.Timestamp(ticker.renamed, tz="UTC") + _LATE_VENUES
    return min(late, pd.Timestamp(ticker.reused, tz="UTC"))


def coins_at(coins: pd.Series, times: pd.Series) -> pd.Series:
    """Return the coins of tickers at some times, with old tickers replaced by new ones."""
    renamed = coins
    for old in set(coins.unique()) & _BY_OLD.keys():
        ticker = _BY_OLD[old]
        until = is_another_coin_from(ticker)
        rows = coins == old
        if until is not None:
            rows &= times < until
        renamed = renamed.mask(rows, ticker.new)
    return renamed


_KEY = ["symbol", "exchange", "time"]
_PRICE = "price_usd"
_COUNTED = ("asset", "coin", "contracts")
_OI = "oi_usd"
_OI_OF_ALL = "oi_all_contracts_usd"
PRICES_AGREE = math.log(1.05 + 1e-12)  # the margin keeps prices exactly 5 % apart within it
"""Logarithm of the largest usual factor between prices of one coin; a basis is far smaller."""
OTHER_COIN = math.log(1.25)
"""Logarithm of a factor that a squeeze does not reach at half of the timestamps of a window."""


def by_coin(table: pd.DataFrame, column: str, prices: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return a table by coin: prices are converted to one coin, and a venue's values in USD are added up."""
    require_columns(table, "table", others=(*_KEY, column))
    if column == _OI:
        table = over_all_contracts(table)
    unit = COLUMNS[column].unit if column in COLUMNS else ""
    if unit in _COUNTED:
        raise ValueError(f"{column} must be a rate, a price or a value in USD for by='coin', got {unit}")
    # 1. Replace contracts by coins, and convert prices to one coin. A table of prices is checked itself.
    names, multiples = _read(table, "table")
    coins = coins_at(names, table["time"])
    result = table.assign(symbol=coins)
    if column == _PRICE:
        prices = table
        result[_PRICE] = table[_PRICE] / multiples
    if prices is not None:
        require_columns(prices, "prices", (_PRICE,), others=_KEY)
        _check_prices(prices)

    # 2. Add up values in USD of several contracts.
    twice = result.duplicated(_KEY, keep=False)
    if not twice.any() or table.duplicated(_KEY).any():  # the caller rejects rows that repeat a key
        return result
    if unit == "USD" and column != _PRICE:
        return _added(result, column)

    # 3. Of several rates or prices of one coin, omit those of a renamed contract; others are an error.
    is_old = names != coins
    has_new = (~is_old).groupby([result[name] for name in _KEY], observed=True).transform("any")
    superseded = is_old & has_new
    if superseded.any():
        old = ", ".join(sorted(set(table.loc[superseded, "symbol"].astype(str))))
        warn_caller(
            f"{int(superseded.sum())} rows of {old} are omitted: the venue has the renamed contract at the "
            "same times"
        )
        return by_coin(table[~superseded], column, prices)
    row = result[twice].iloc[0]
    same = twice & (result[_KEY] == row[_KEY]).all(axis=1)
    names = " and ".join(map(str, table.loc[same, "symbol"]))
    raise ValueError(
        f"{row['exchange']} must have one rate or price of a coin at {row['time']}, got {names}: "
        "omit all but one"
    )


def over_all_contracts(table: pd.DataFrame) -> pd.DataFrame:
    """Return open interest over all contracts of each symbol, in the series that have it.

    Rows of such a series that lack a contract are omitted, with a notice.
    """
    if _OI_OF_ALL not in table or table[_OI_OF_ALL].isna().all():
        return table
    sums = table[_OI_OF_ALL]
    has_sums = sums.notna().groupby([table[name] for name in _KEY[:2]], observed=True).transform("any")
    lacking = has_sums & sums.isna()
    if lacking.any():
        first = table[lacking].iloc[0]
        warn_caller(
            f"{int(lacking.sum())} rows are omitted: open interest of some contracts is unknown, first "
            f"{first['symbol']} on {first['exchange']} at {first['time']}"
        )
    result = table.assign(oi_usd=sums.where(has_sums, table[_OI]))[~lacking].reset_index(drop=True)
    result.attrs = dict(table.attrs)
    return result


def _read(table: pd.DataFrame, argument: str) -> tuple[pd.Series, pd.Series]:
    """Return the coin of each row's contract, and the number of coins per unit."""
    contracts = table["symbol"].dropna().unique()
    wrong = [name for name in contracts if not isinstance(name, str)]
    if wrong:
        raise ValueError(f"{argument} must have names of contracts in the column 'symbol', got {wrong[0]!r}")
    coins = {}
    multiples = {}
    for name in contracts:
        coins[name], multiples[name] = base(name)
    symbols = table["symbol"].astype("str")
    return symbols.map(coins), symbols.map(multiples).astype("float64")


def _added(result: pd.DataFrame, column: str) -> pd.DataFrame:
    """Add up a venue's contracts of each coin; a sum with a missing value is NaN."""
    others = [name for name in result.columns if name not in (*_KEY, column)]
    groups = result.groupby(_KEY, observed=True, sort=False, dropna=False)
    sums = groups[column].agg(lambda values: values.sum(skipna=False))
    added = groups[others].first().assign(**{column: sums}).reset_index()[list(result.columns)]
    added.attrs = dict(result.attrs)
    return added


def _check_prices(prices: pd.DataFrame) -> None:
    """Raise if contracts of a coin have different prices throughout; equal names are not compared."""
    names, multiples = _read(prices, "prices")
    coins = coins_at(names, prices["time"])
    logs = np.log(prices[_PRICE].where(prices[_PRICE] > 0) / multiples)
    several = prices.groupby(coins)["symbol"].transform(lambda names: names.astype("str").nunique()) > 1
    rows = prices[several].assign(coin=coins, log=logs)
    rows = rows.astype({"symbol": "str", "exchange": "str"})
    for coin, series in rows.groupby("coin"):
        wide = series.pivot_table("log", "time", ["symbol", "exchange"], observed=True)
        values = wide.to_numpy()
        names = list(wide.columns)
        for place, (symbol, venue) in enumerate(names):
            # Median distance of the later contracts' prices from this one's.
            distances = np.asarray(pd.DataFrame(values[:, place + 1 :] - values[:, [place]]).median())
            for other in map(int, np.flatnonzero(abs(distances) > PRICES_AGREE)):
                other_symbol, other_venue = names[place + 1 + other]
                if other_symbol == symbol:
                    continue
                pair = f"{symbol} on {venue} and {other_symbol} on {other_venue}"
                ratio = math.exp(distances[other])
                factor = f"a price of {coin} on the second is {ratio:.4g} times that on the first"
                if abs(distances[other]) > OTHER_COIN:
                    raise ValueError(f"{pair} must belong to one coin: {factor}; omit one of them")
                warn_caller(f"{pair} are more than 5 % apart and are joined: {factor}")
