"""Rows on their way into the archive, gathered into large appends, every one of them counted."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from derivdata.errors import ArchiveError
from derivdata.sources.archive.archive import Archive
from derivdata.sources.archive.audit import quoted_contracts
from derivdata.sources.archive.importing.conversion import CONTRACT, RANK, Rows
from derivdata.sources.archive.importing.plan import ImportPlan, is_of_contracts
from derivdata.support import times

FLUSH_ROWS = 500_000


class ImportReport:
    """Counts of one import."""

    def __init__(self, plan: ImportPlan, archive: Archive, best: Mapping[tuple[str, str], int]) -> None:
        self.read = self.written = self.present = self.differing = self.other_quotes = self.rejected = 0
        self.first_rejected: str | None = None
        self._plan = plan
        self._archive = archive
        self._best = best
        self._waiting: list[pd.DataFrame] = []
        self._contracts: dict[str, str] = {}

    def take(self, path: Path, chunk: Rows) -> None:
        """Count the rows of a chunk, and keep those to write."""
        self.read += len(chunk.frame) + chunk.rejected
        self.rejected += chunk.rejected
        if chunk.first is not None and self.first_rejected is None:
            self.first_rejected = f"{path.name}, {chunk.first}"
        self._waiting.append(self._of_best_quote(chunk.frame))
        if sum(map(len, self._waiting)) >= FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Append what waits."""
        if not any(map(len, self._waiting)):
            return
        rows = pd.concat([frame for frame in self._waiting if len(frame)], ignore_index=True)
        self._waiting = []
        again = rows.duplicated(list(self._plan.table.key))
        equal = rows.duplicated()
        rows = rows[~again]
        if self._plan.unit == "coins":
            rows = usd_from_coins(rows, self._archive)
        counts = self._archive.merge(
            self._plan.table.name,
            self._complete(rows),
            unit=self._plan.unit,
            accept=self._plan.accept,
            contracts=self._contracts,
        )
        self.written += counts.written
        self.present += counts.present + int((again & equal).sum())
        self.differing += counts.differing + int((again & ~equal).sum())

    def _of_best_quote(self, frame: pd.DataFrame) -> pd.DataFrame:
        if RANK not in frame.columns:
            return frame
        if self._best:
            pairs = zip(frame["exchange"], frame["symbol"], strict=True)
            best = frame[RANK].to_numpy() == [self._best[pair] for pair in pairs]
            self.other_quotes += int((~best).sum())
            frame = frame[best]
        if is_of_contracts(self._plan.table):
            self._contracts |= quoted_contracts(frame["exchange"], frame["symbol"], frame[CONTRACT])
        return frame.drop(columns=[RANK, CONTRACT])

    def _complete(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Add the table's columns that no row gives, as missing."""
        absent: dict[str, Any] = dict.fromkeys(set(self._plan.table.columns) - set(frame.columns))
        return frame.assign(**absent)


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


_TELLING = (
    "exchange symbol time side order_price_usd fill_price_usd quantity filled_quantity value_usd order_id"
).split()


def with_ids(frame: pd.DataFrame, made: tuple[str, ...], seen: Counter[str]) -> pd.DataFrame:
    """Return the frame with the columns of `made` filled; `seen` counts equal rows of one file."""
    if not made or frame.empty:
        return frame
    telling = [frame[name].tolist() for name in _TELLING if name in frame.columns and name not in made]
    ids = []
    for row in zip(*telling, strict=True):
        text = "\x1f".join(map(_text, row))
        seen[text] += 1
        number = f"\x1f{seen[text]}" if seen[text] > 1 else ""
        ids.append("row-" + hashlib.blake2b((text + number).encode(), digest_size=12).hexdigest())
    return frame.assign(**dict.fromkeys(made, ids))


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, pd.Timestamp) else repr(value)
