"""Open interest in coins becomes USD by the prices of the file or of the archive."""

from __future__ import annotations

import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive
from derivdata.support import times

_PRICES = ("prices_history", "markets_symbol_exchanges")
_OLDEST = pd.Timedelta(1, "h")
_KINDS = ("last", "index", "mark")  # of prices at one instant the last of these is taken


def usd_from_coins(rows: pd.DataFrame, archive: Archive) -> pd.DataFrame:
    """Return rows of ``oi_history`` whose ``oi_usd`` [coins] was multiplied by the price of its time.

    That is the row's ``price_usd``, or else the venue's newest of the hour before in the archive (mark, or
    else index, or else last), or else another venue's.
    """
    price = rows["price_usd"] if "price_usd" in rows else pd.Series(np.nan, index=rows.index)
    if price.isna().any():
        price = price.fillna(_price_in_archive(rows, archive))
    missing = np.flatnonzero(price.isna())
    if missing.size:
        first = rows.iloc[missing[0]]
        raise ArchiveError(
            f"oi_usd: {missing.size:,} of {len(rows):,} rows are in coins, and the archive has no price of "
            f"{first['symbol']} within the hour before {times.iso(first['time'])}: name the file's column of "
            "prices [USD] with --map price_usd=COLUMN, or import prices_history first"
        )
    return rows.assign(oi_usd=rows["oi_usd"] * price).drop(columns="price_usd", errors="ignore")


def _price_in_archive(rows: pd.DataFrame, archive: Archive) -> pd.Series:
    prices = _prices(rows, archive)
    wanted = rows[["symbol", "exchange", "time"]].astype({"symbol": object, "exchange": object})
    wanted = wanted.assign(row=rows.index).sort_values("time", kind="stable")
    own, other = (
        pd.merge_asof(wanted, prices[[*by, "time", "price_usd"]], on="time", by=by, tolerance=_OLDEST)
        for by in (["symbol", "exchange"], ["symbol"])
    )
    return own["price_usd"].fillna(other["price_usd"]).set_axis(own["row"])


def _prices(rows: pd.DataFrame, archive: Archive) -> pd.DataFrame:
    """Return the archive's prices of these symbols and times, in the order in which the last one counts."""
    first, last = rows["time"].min() - _OLDEST, rows["time"].max() + pd.Timedelta(1, "us")
    symbols = sorted(set(rows["symbol"].astype(object)))
    parts = [archive.read(name, first, last, symbols=symbols) for name in _PRICES]
    columns = ["symbol", "exchange", "time", "price_usd", "kind"]
    parts = [part.reindex(columns=columns).astype(dict.fromkeys(columns[:2], object)) for part in parts]
    prices = pd.concat([part.assign(kind=part["kind"].astype(object)) for part in parts], ignore_index=True)
    prices = prices[prices["price_usd"] > 0].assign(rank=lambda p: p["kind"].map(_KINDS.index, "ignore"))
    return prices.sort_values(["time", "rank", "exchange"], na_position="first", kind="stable")
