"""Values of every (symbol, venue) now, liquidation orders from single fills, and totals of venues.

The total of a bucket is the sum of the means over time of all symbols (for volume, of the sums of their
rows), with the number of these symbols. A symbol that is listed in the middle of a bucket counts with its
mean over the time since then; a missing value does not count as 0.

A store adds up its rows at each time, which gives about a hundred times fewer numbers than rows. While the
same symbols are present at all times that reach into a bucket, their means have the same weights, and the sum
of the means is the mean of the sums. A hash shows whether the symbols are the same: the exclusive or over the
hashes of their names. If it changes, or if rows of several resolutions are present at one time, a bucket is
*unsure* and is added up from the rows of its venue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from derivdata import tables
from derivdata.sources import Query
from derivdata.sources.service.data import windows
from derivdata.sources.service.data.view import (
    Series,
    StoredColumn,
    View,
    finest_step,
    read_around,
    stated,
    without_long_rows,
)
from derivdata.sources.service.data.windows import TICK, ResponseWindow, adaptive
from derivdata.support import times
from derivdata.support.arrays import Array

TABLES = ("liquidations_fills", "liquidations_events")
LEAD = pd.Timedelta(1, "h")
"""Longest time between the fills of one order."""

_ORDER_KEY = ["exchange", "order_id"]


def liquidation_orders(
    view: View,
    start: pd.Timestamp,
    end: pd.Timestamp,
    *,
    symbols: Sequence[str] | None = None,
    venues: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the orders with ``start <= time < end``, sorted by time; an order's time is its last fill's.

    Fills before and after the window, up to the clock, are read too. So an order is complete, and belongs to
    one of two adjacent windows. If the store has both the order and its fills, the order is used.
    """
    fills_table, orders_table = TABLES
    stored_orders = view.rows(Query(orders_table, start - LEAD, end + LEAD, symbols, venues))
    fills = view.rows(Query(fills_table, start - LEAD, end + LEAD, symbols, venues))
    orders = consolidate(fills)
    if len(stored_orders) and len(orders):
        both = pd.concat([stored_orders, orders], ignore_index=True).drop_duplicates(_ORDER_KEY, keep="first")
        orders = tables.TABLES["liquidations_events"].conform(both)
    elif orders.empty:
        orders = stored_orders
    return orders[(orders["time"] >= start) & (orders["time"] < end)]


def order_values(
    view: View, start: pd.Timestamp, end: pd.Timestamp, symbols: Sequence[str] | None
) -> pd.DataFrame:
    """Return time, venue, side and value of the orders of `liquidation_orders`, in any order of rows."""
    columns = ["exchange", "order_id", "time", "side", "value_usd"]
    fills_table, orders_table = TABLES
    stored_orders = view.rows(Query(orders_table, start - LEAD, end + LEAD, symbols, columns=columns))
    fills = view.rows(Query(fills_table, start - LEAD, end + LEAD, symbols, columns=columns))
    if len(stored_orders) and len(fills):  # an order may be in both tables but counts once
        orders = liquidation_orders(view, start, end, symbols=symbols)
        return orders[["exchange", "time", "side", "value_usd"]]
    orders = stored_orders
    if len(fills):
        orders = _values_of_orders(fills)
    return orders[(orders["time"] >= start) & (orders["time"] < end)]


def _values_of_orders(fills: pd.DataFrame) -> pd.DataFrame:
    """Return one row per (exchange, order): time of the last fill, first known side, total value.

    The result equals these columns of `consolidate`, without its groupby, which is slow for a year of fills.
    """
    venue = pd.Categorical(fills["exchange"])
    side = pd.Categorical(fills["side"])
    id_codes = pd.factorize(fills["order_id"])[0]
    order, orders = pd.factorize(id_codes * len(venue.categories) + venue.codes)
    by_time = np.argsort(fills["time"].array.asi8, kind="stable")
    # If an index occurs several times in an assignment, the last value remains. The last fill therefore needs
    # chronological order, and the first known side the reverse order.
    last = np.empty(len(orders), dtype=np.intp)
    last[order[by_time]] = by_time
    first_side = np.full(len(orders), -1, dtype=side.codes.dtype)
    with_side = by_time[side.codes[by_time] >= 0][::-1]
    first_side[order[with_side]] = side.codes[with_side]
    columns = {
        "exchange": venue.take(last),
        "time": fills["time"].array.take(last),
        "side": pd.Categorical.from_codes(first_side, dtype=side.dtype),
        "value_usd": np.bincount(order, fills["value_usd"].fillna(0.0), minlength=len(orders)),
    }
    return pd.DataFrame(columns, copy=False)


def consolidate(fills: pd.DataFrame) -> pd.DataFrame:
    """Make one row per (exchange, order), ``liquidations_events``; the mean price is weighted by size."""
    if fills.empty:
        return tables.TABLES["liquidations_events"].empty()
    paid = fills["fill_price_usd"] * fills["filled_quantity"]
    grouped = fills.assign(paid=paid).sort_values("time", kind="stable").groupby(_ORDER_KEY, observed=True)
    orders = grouped.agg(
        time=("time", "last"),
        symbol=("symbol", "first"),
        side=("side", "first"),
        order_price_usd=("order_price_usd", "first"),
        quantity=("quantity", "first"),
        filled_quantity=("filled_quantity", "sum"),
        value_usd=("value_usd", "sum"),
        status=("status", "last"),
        fill_count=("fill_id", "size"),
        paid=("paid", "sum"),
    ).reset_index()
    orders["fill_price_usd"] = orders["paid"] / orders["filled_quantity"]
    return tables.TABLES["liquidations_events"].conform(orders)


_USD = ("volume_24h_usd", "volume_before_usd", "oi_usd", "oi_before_usd", "liquidation_24h_usd")
_DAY = pd.Timedelta(1, "D")
_KEYS = ["symbol", "exchange"]


def pairs(view: View) -> pd.DataFrame:
    """Return keys and figures of every pair with a current price, volume, open interest or rate.

    Unknown figures are NaN; columns with ``before`` are a day earlier. A figure comes from its history if the
    store has it, else from ``markets_symbol_exchanges``.
    """
    return view.once("pairs", lambda: _join_figures(view))


def within(frame: pd.DataFrame, venues: Sequence[str] | None) -> pd.DataFrame:
    """Keep the rows of some venues, or all rows if `venues` is None."""
    if venues is None:
        return frame
    return frame[frame["exchange"].isin(venues)]


def funding_now(view: View, symbols: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the current rate [bps/8h] of every pair: its newest sample, else its newest settlement."""
    columns = [*_KEYS, "rate_bps_8h"]
    sampled = view.current("funding_history", symbols=symbols)[columns].dropna(subset="rate_bps_8h")
    settled = view.current("funding_settlements", symbols=symbols)[columns].dropna(subset="rate_bps_8h")
    sampled_keys = pd.MultiIndex.from_frame(sampled[_KEYS].astype(object))
    settled_keys = pd.MultiIndex.from_frame(settled[_KEYS].astype(object))
    settled_only = settled[~settled_keys.isin(sampled_keys)]
    if sampled.empty:
        return settled_only
    if settled_only.empty:
        return sampled
    return pd.concat([sampled.astype(dict.fromkeys(_KEYS, object)), settled_only], ignore_index=True)


def intervals(view: View, symbols: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the newest settlement of every pair whose interval [h] is known."""
    frame = view.current("funding_settlements", symbols=symbols)
    return frame[frame["interval_hours"].notna()]


def oi_at(view: View, at: pd.Timestamp) -> pd.Series:
    """Return the open interest [USD] of every pair at a time, by (symbol, exchange)."""
    table = "oi_history" if view.has("oi_history") else "markets_symbol_exchanges"
    return _by_pair(view.current(table, at=at), "oi_usd")


def oi_ranks(view: View) -> dict[str, int]:
    """Rank symbols by open interest on the reference venue, which is the venue with the largest total."""

    def ranks() -> dict[str, int]:
        oi = oi_at(view, view.now)
        if oi.empty:
            return {}
        reference = oi.groupby(level="exchange").sum().idxmax()
        ranked = oi.xs(reference, level="exchange").rename("oi_usd").reset_index()
        ranked = ranked.sort_values(["oi_usd", "symbol"], ascending=[False, True])
        return {symbol: rank for rank, symbol in enumerate(ranked["symbol"], 1)}

    return view.once("oi_ranks", ranks)


def board(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per symbol from rows of `pairs`, ranked by open interest.

    The price is that of the venue with the largest open interest, the top rate is the highest of all venues.
    """
    frame = frame.sort_values(["symbol", "oi_usd", "exchange"], ascending=[True, False, True])
    symbols = frame.groupby("symbol", sort=True)
    total = symbols[[*_USD]].sum(min_count=1)
    first = symbols[["price_usd", "price_24h_change_pct"]].first()
    highest = frame.sort_values(["symbol", "funding_bps_8h", "exchange"], ascending=[True, False, True])
    top = highest.dropna(subset="funding_bps_8h").drop_duplicates("symbol").set_index("symbol")
    result = pd.DataFrame(
        {
            "price_usd": first["price_usd"],
            "price_24h_change_pct": first["price_24h_change_pct"],
            "volume_24h_usd": total["volume_24h_usd"].round(2),
            "volume_24h_change_pct": percent_change(total["volume_24h_usd"], total["volume_before_usd"]),
            "oi_usd": total["oi_usd"].round(2),
            "oi_24h_change_pct": percent_change(total["oi_usd"], total["oi_before_usd"]),
            "top_funding_bps": top["funding_bps_8h"].reindex(total.index),
            "top_funding_exchange": top["exchange"].reindex(total.index),
            "liquidation_24h_usd": total["liquidation_24h_usd"].round(2),
        }
    ).reset_index()
    result = result.sort_values(["oi_usd", "symbol"], ascending=[False, True], ignore_index=True)
    result.insert(0, "rank", np.arange(1, len(result) + 1))
    return result


def percent_change(now: pd.Series, before: pd.Series) -> pd.Series:
    """Return the change in percent of each label of `now`; NaN where the value before is 0 or unknown."""
    before = before.reindex(now.index)
    return ((now / before.where(before > 0) - 1) * 100).round(6)


def _join_figures(view: View) -> pd.DataFrame:
    """Join all figures of the pairs: see `pairs`."""
    market = view.current("markets_symbol_exchanges")
    volume, before = _volumes(view, market)
    columns = {
        "price_usd": _by_pair(market, "price_usd"),
        "price_24h_change_pct": _by_pair(market, "price_24h_change_pct"),
        "volume_24h_usd": volume,
        "volume_before_usd": before,
        "oi_usd": oi_at(view, view.now),
        "oi_before_usd": oi_at(view, view.now - _DAY),
        "funding_bps_8h": _by_pair(funding_now(view), "rate_bps_8h"),
        "liquidation_24h_usd": _by_pair(market, "liquidation_24h_usd"),
    }
    if view.has(*TABLES):
        orders = liquidation_orders(view, view.now - _DAY, view.horizon)
        columns["liquidation_24h_usd"] = _sum_by_pair(orders, "value_usd")
    joined = pd.concat(columns, axis=1, join="outer", sort=True).round(dict.fromkeys(_USD, 2))
    if view.has(*TABLES):
        joined["liquidation_24h_usd"] = joined["liquidation_24h_usd"].fillna(0.0)
    present = joined[["price_usd", "volume_24h_usd", "oi_usd", "funding_bps_8h"]].notna().any(axis=1)
    return joined[present].rename_axis(_KEYS).reset_index()


def _volumes(view: View, market: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Return the volume [USD] of the last 24 hours and of the 24 hours before, from rows that end in them."""
    if not view.has("volume_history"):
        return _by_pair(market, "volume_24h_usd"), _by_pair(market.iloc[:0], "volume_24h_usd")
    day_ago = view.now - _DAY
    rows = view.rows(Query("volume_history", day_ago - 2 * _DAY, view.horizon))
    ended = windows.ends(rows)
    is_before = (ended > day_ago - _DAY) & (ended <= day_ago)
    return _sum_by_pair(rows[ended > day_ago], "volume_usd"), _sum_by_pair(rows[is_before], "volume_usd")


def _by_pair(frame: pd.DataFrame, column: str) -> pd.Series:
    """Return a column by (symbol, exchange), missing values dropped."""
    frame = frame[frame[column].notna()]
    index = pd.MultiIndex.from_arrays([frame[name].astype(object) for name in _KEYS], names=_KEYS)
    return pd.Series(frame[column].to_numpy(), index=index, dtype="float64")


def _sum_by_pair(frame: pd.DataFrame, column: str) -> pd.Series:
    """Add up a column by (symbol, exchange)."""
    summed = frame.groupby(_KEYS, observed=True)[column].sum(min_count=1)
    return _by_pair(summed.reset_index(), column)


class Totals(NamedTuple):
    """Sums over symbols and their number, by time [µs] and venue."""

    time: Array
    exchange: Array
    value: Array
    symbols: Array

    def take(self, positions: Array) -> Totals:
        """Return the totals at some positions, given as numbers or as a mask."""
        return Totals(*(column[positions] for column in self))

    def between(self, start: pd.Timestamp, end: pd.Timestamp) -> Totals:
        """Return the totals with ``start <= time < end``; they must be sorted by time."""
        edges = np.searchsorted(self.time, [times.us(start), times.us(end)])
        return Totals(*(column[slice(*edges)] for column in self))


def joined(blocks: Sequence[Totals]) -> Totals:
    """Join totals, sorted by time and venue."""
    unsorted = Totals(*map(np.concatenate, zip(*blocks, strict=True)))
    venue = pd.factorize(unsorted.exchange, sort=True)[0]
    return unsorted.take(np.lexsort((venue, unsorted.time)))


def by_rows(
    rows: pd.DataFrame, value: str, width: pd.Timedelta | None, horizon: pd.Timestamp, *, added: bool
) -> Totals:
    """Combine rows by symbol and bucket (`width` None: unchanged), then add up the symbols.

    The rows are sorted as for `derivdata.sources.service.data.windows.means`.
    """
    if width is not None:
        combine = windows.sums if added else windows.means
        rows = combine(rows, value, width, horizon)
    rows = rows[rows[value].notna()]
    venue = pd.Categorical(rows["exchange"])
    names = np.asarray(venue.categories, dtype=object)
    time_code, times_of_codes = pd.factorize(rows["time"].array.asi8, sort=True)
    cell = time_code * len(names) + venue.codes
    count = np.bincount(cell, minlength=len(times_of_codes) * len(names))
    total = np.bincount(cell, rows[value], minlength=len(times_of_codes) * len(names))
    filled = np.flatnonzero(count)
    time_code, venue_code = np.divmod(filled, max(len(names), 1))
    return Totals(np.asarray(times_of_codes)[time_code], names[venue_code], total[filled], count[filled])


def by_sums(
    sums: pd.DataFrame, width: pd.Timedelta | None, horizon: pd.Timestamp, *, added: bool
) -> tuple[Totals, Totals]:
    """Return the totals of `by_rows` from sums at each time, and the unsure totals (see the module).

    Of an unsure total only time and venue are valid.
    """
    series = _sums_by_time(sums[sums["symbols"] > 0])
    time = series["time"].array.asi8
    venue = series["exchange"].cat
    symbols = series["symbols"].to_numpy()
    names = np.asarray(venue.categories, dtype=object)
    if width is None:
        all_totals = Totals(time, names[venue.codes], series["value"].to_numpy(), symbols)
        unsure = np.isnan(all_totals.value)
        return joined([all_totals.take(~unsure)]), joined([all_totals.take(unsure)])
    # 1. Find the buckets whose symbols differ between the times that reach into them.
    width_us = times.us(width)
    hold_us = 1  # a row that is added up belongs to the bucket of its time only
    if not added and len(series):
        hold_us = int(np.max(windows.holds(series["resolution"])))
    buckets = _Buckets(series, width_us, hold_us, horizon)
    # 2. Combine the sums as if each venue were one symbol.
    combine = windows.sums if added else windows.means
    combined = combine(series, "value", width, horizon)
    codes = combined["exchange"].cat.codes.to_numpy()
    start = combined["time"].array.asi8
    cell = buckets.cell_of(codes, start // width_us)
    all_totals = Totals(start, names[codes], combined["value"].to_numpy(), buckets.symbols[cell])
    # 3. Separate the unsure buckets.
    unsure = np.flatnonzero(buckets.unsure)
    codes, bucket = np.divmod(unsure, buckets.bucket_count)
    count = buckets.symbols[unsure]
    missing = Totals((bucket + buckets.first_bucket) * width_us, names[codes], count, count)
    return joined([all_totals.take(~buckets.unsure[cell])]), joined([missing])


class _Buckets:
    """Number of symbols by venue and bucket, and whether the bucket is unsure.

    A row is valid for `hold_us` [µs] in buckets of `width_us`, up to the horizon.
    """

    def __init__(self, series: pd.DataFrame, width_us: int, hold_us: int, horizon: pd.Timestamp) -> None:
        since = series["time"].array.asi8
        until = np.minimum(since + hold_us, times.us(horizon))
        until = np.maximum(until, since + 1)  # also a row at the horizon is in one bucket
        row, bucket, _ = windows.pieces(since, until, width_us)
        codes = series["exchange"].cat.codes.to_numpy()[row]
        self.first_bucket = 0
        self.bucket_count = 1
        if bucket.size:
            self.first_bucket = int(np.min(bucket))
            self.bucket_count = int(np.max(bucket)) - self.first_bucket + 1
        size = len(series["exchange"].cat.categories) * self.bucket_count
        cell = self.cell_of(codes, bucket)
        self.symbols = np.zeros(size, np.int64)
        self.symbols[cell] = series["symbols"].to_numpy()[row]
        hashes = series["symbol_hash"].to_numpy()[row]
        last = np.zeros(size, np.uint64)
        last[cell] = hashes  # the last of several rows in a cell remains, and the others are compared with it
        differing = (hashes != last[cell]) | np.isnan(series["value"].to_numpy())[row]
        self.unsure = np.bincount(cell, differing, minlength=size) > 0

    def cell_of(self, codes: Array, bucket: Array) -> Array:
        """Return the index of the cell of a venue and bucket."""
        return np.asarray(codes.astype(np.intp) * self.bucket_count + (bucket - self.first_bucket))


def _sums_by_time(sums: pd.DataFrame) -> pd.DataFrame:
    """Return one row per venue and time, whose value is NaN if the time has rows of several resolutions."""
    venue = pd.Categorical(sums["exchange"])
    time = sums["time"].array.asi8
    order = np.lexsort((time, venue.codes))
    series = sums.take(order).reset_index(drop=True)
    series = series.assign(symbol=pd.Categorical.from_codes(np.zeros(len(series), np.int8), [""]))
    series["exchange"] = venue.take(order)
    other_time = np.diff(time[order], prepend=-1) != 0
    other_venue = np.diff(venue.codes[order], prepend=-1) != 0
    is_first = np.logical_or(other_time, other_venue)  # the first row of each venue and time
    if not is_first.all():
        is_repeated = ~is_first | ~np.append(is_first[1:], True)  # also the first row of a repeated time
        series.loc[is_repeated, "value"] = np.nan
        series = series[is_first].reset_index(drop=True)
    return series


_BLOCK_ROWS = 1_000_000
"""Approximate number of rows that are read at once for unsure buckets."""


def totals(
    view: View,
    column: StoredColumn,
    window: ResponseWindow,
    resolution: str | None,
    *,
    venues: Sequence[str] | None = None,
) -> Series:
    """Add up and count the symbols of every venue and step.

    The frame has exchange (text), time, value, symbol_count; sorted by time and venue. It is shared between
    requests: take a copy before changing it.
    """
    venue_names = None
    if venues is not None:
        venue_names = tuple(sorted(venues))
    step = resolution or adaptive(window.requested)
    request = _TotalsRequest(view, column, window, step, venue_names)
    return view.once(("totals", column, window.start, window.end, step, venue_names), request.totals)


@dataclass(frozen=True)
class _TotalsRequest:
    """Request for totals; `step` is the requested resolution, or the one for the length of the window."""

    view: View
    column: StoredColumn
    window: ResponseWindow
    step: str
    venues: tuple[str, ...] | None

    def totals(self) -> Series:
        """Return the totals, at the finest resolution of the rows if all rows are coarser than the step."""

        def read(start: pd.Timestamp, end: pd.Timestamp) -> pd.DataFrame:
            query = Query(self.column.table, start, end, venues=self.venues)
            return self.view.sums(query, self.column.value)

        sums = read_around(read, self.window, times.resolution(self.step))
        used = finest_step(sums, self.step)
        sums, notices = without_long_rows(sums, self.column, self.window, used)
        width = None  # if all rows have the used resolution, they are already totals of steps
        if (sums["resolution"] != used).any():
            width = times.resolution(used)
        sure, unsure = by_sums(sums, width, self.view.horizon, added=self.column.added)
        span = (self.window.start, self.window.end)
        others = self._from_rows(sums, unsure.between(*span), width)
        in_window = joined([sure, *others]).between(*span)
        stamps = pd.DatetimeIndex(in_window.time.view("M8[us]")).tz_localize("UTC")
        columns = {
            "exchange": in_window.exchange,
            "time": stamps,
            "value": in_window.value,
            "symbol_count": in_window.symbols,
        }
        return Series(pd.DataFrame(columns), used, notices)

    def _from_rows(self, sums: pd.DataFrame, cells: Totals, width: pd.Timedelta | None) -> Iterator[Totals]:
        """Yield the unsure totals (`cells`) from the rows of their venues, about a million rows at a time."""
        if not len(cells.time):
            return
        column = self.column
        horizon = self.view.horizon
        # 1. Find the validity of a row, and the number of days with about a million rows.
        validity = pd.Timedelta(0)
        if not column.added and width is not None:
            validity = pd.Timedelta(int(np.max(windows.holds(sums["resolution"]))), "us")
        start = sums["time"].min()
        end = sums["time"].max() + TICK
        days = int(_BLOCK_ROWS * ((end - start) / _DAY) / sums["symbols"].sum())
        block = (cells.time - cells.time[0]) // (max(days, 1) * times.us(_DAY))
        for number in np.unique(block):
            # 2. Read the rows of the block's venues that reach into its cells.
            wanted = cells.take(block == number)
            first = pd.Timestamp(int(wanted.time[0]), unit="us", tz="UTC")
            last = pd.Timestamp(int(wanted.time[-1]), unit="us", tz="UTC")
            span = (max(first - validity, start), min(last + (width or TICK), end))
            names = ("symbol", "exchange", "resolution", "time", column.value)
            venues = sorted(set(wanted.exchange))
            rows = stated(self.view.rows(Query(column.table, *span, venues=venues, columns=names)))
            # Rows of other resolutions were omitted.
            rows = rows[rows["resolution"].isin(sums["resolution"].unique())]
            keys = [pd.Categorical(rows[name]).codes for name in ("exchange", "symbol")]
            rows = rows.take(np.lexsort((rows["time"].array.asi8, *keys)))
            # 3. Compute their totals for the requested cells.
            from_rows = by_rows(rows, column.value, width, horizon, added=column.added)
            yield from_rows.take(_keys(from_rows).isin(_keys(wanted)))


def _keys(totals: Totals) -> pd.MultiIndex:
    return pd.MultiIndex.from_arrays([totals.time, totals.exchange])
