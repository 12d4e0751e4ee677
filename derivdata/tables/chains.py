"""Chains of options: one snapshot per chain, and the conversion to a labelled surface.

Venues and vendors stamp the rows of one chain milliseconds to minutes apart. Only this module decides which
rows form a chain; venue readers, imports, archives and analyses call it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from derivdata.support import times
from derivdata.support.arguments import typed
from derivdata.support.arrays import Array
from derivdata.support.text import warn_caller
from derivdata.tables.contracts import expiries
from derivdata.tables.definitions import COLUMNS
from derivdata.tables.frames import require_columns, require_timestamps

HOLD = pd.Timedelta(1, "h")
"""Maximum age of a row relative to the newest row of its chain. A service uses a chain for as long."""

_LINK = pd.Timedelta(30, "s")  # maximum distance between pages and tickers of one request
# Maximum share of the previous snapshot's live instruments that may be missing without a notice.
_ABSENT = 0.1
# Maximum number of live instruments that may be missing, because some options temporarily lack quotes.
_MAX_ABSENT = 4
_SERIES = ("symbol", "exchange")
_PLACE = ("expiry", "strike", "side")

_Codes = npt.NDArray[np.int64]


@typed
def snapshots(rows: pd.DataFrame, *, hold: str | pd.Timedelta = HOLD) -> pd.DataFrame:
    """Return the newest row of each instrument of each chain, with the time of the chain.

    Parameters
    ----------
    rows
        Table ``options_snapshot``, of any number of symbols, venues and chains.
    hold
        Maximum time between the first and the last row of a chain.

    Returns
    -------
    DataFrame
        The rows in their order. ``time`` is the time of the newest row of the chain. ``quoted_at`` is the
        row's own time; the column is added if a ``time`` changed. Rows that are already one chain do not
        change.

    Raises
    ------
    ValueError
        A column is missing, or a chain spans more than `hold`.

    Warns
    -----
    DataNotice
        Rows were dropped because their chain has a newer row of the same instrument. Or a snapshot lacks more
        than four and more than a tenth of the live instruments of the snapshot before: the poll may have
        failed in part.

    Notes
    -----
    Rows of one symbol and venue are one chain if they are less than `hold` apart and quote different
    instruments. A new chain begins where at least half of the instruments are quoted again: a chain that was
    polled again after a second or 40 seconds is two snapshots, whether or not its rows share a timestamp. A
    history of polls therefore keeps every poll. Fewer rows that are quoted again, and the updates of a
    stream, replace the older rows of their instruments.
    """
    result, notice = aligned(rows, times.length(hold, "hold"))
    if notice:
        warn_caller(notice)
    return result


def aligned(rows: pd.DataFrame, hold: pd.Timedelta = HOLD) -> tuple[pd.DataFrame, str]:
    """Return the rows of `snapshots`, and a notice with the number of dropped rows, or an empty text."""
    series = [name for name in _SERIES if name in rows]
    require_columns(rows, "rows", others=["time"])
    require_timestamps(rows, "rows", ["time"])
    stamps = _micros(rows["time"])
    if series:
        chain = rows.groupby(series, observed=True, sort=False).ngroup().to_numpy()
    else:
        chain = np.zeros_like(stamps)
    batch, batch_chain, batch_time = _batches(chain, stamps)
    same_chain = batch_chain[1:] == batch_chain[:-1]
    near = same_chain & (np.diff(batch_time) < times.us(hold))
    if not near.any():
        return rows, ""
    instrument = _instruments(rows)
    grouping = _Grouping(batch, batch_chain, batch_time, instrument, times.us(hold), rows)
    snapshot = grouping.snapshots(near)
    notice = grouping.lacking(snapshot)
    if snapshot[-1] == len(snapshot) - 1:
        return rows, notice
    result, dropped = _newest(rows, stamps, snapshot[batch], instrument)
    return result, "; ".join(filter(None, (dropped, notice)))


def _micros(column: pd.Series) -> _Codes:
    """Return times as microseconds since 1970."""
    return np.asarray(pd.DatetimeIndex(column).as_unit("us").asi8)


def _batches(chain: Any, stamps: _Codes) -> tuple[_Codes, _Codes, _Codes]:
    """Return the number of each row's batch, and the chain and the time of each batch.

    A batch is all rows of one chain with one timestamp. Batches are sorted by chain and time.
    """
    order = np.lexsort((stamps, chain))
    sorted_chain = chain[order]
    sorted_time = stamps[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (np.diff(sorted_chain) != 0) | (np.diff(sorted_time) != 0)
    batch = np.empty(len(order), dtype=np.int64)
    batch[order] = np.cumsum(is_first) - 1
    return batch, sorted_chain[is_first], sorted_time[is_first]


def _instruments(rows: pd.DataFrame) -> _Codes:
    """Return a number for each row's instrument, by name, else by expiry, strike and side."""
    if "instrument_name" in rows:
        names, _ = pd.factorize(rows["instrument_name"])
        if (names >= 0).all():
            return np.asarray(names, dtype=np.int64)
    require_columns(rows, "rows", any_kind=_PLACE)
    places = rows.groupby(list(_PLACE), observed=True, sort=False, dropna=False).ngroup().to_numpy()
    if "instrument_name" not in rows:
        return np.asarray(places, dtype=np.int64)
    return np.asarray(np.where(names >= 0, names + places.max() + 1, places), dtype=np.int64)


class _Grouping:
    """Grouping of batches into snapshots."""

    def __init__(
        self,
        batch: _Codes,
        batch_chain: _Codes,
        batch_time: _Codes,
        instrument: _Codes,
        hold: int,
        rows: pd.DataFrame,
    ) -> None:
        self._chain = batch_chain
        self._time = batch_time
        self._hold = hold
        self._rows = rows
        self._batch = batch
        self._instrument = instrument
        # Distinct pairs of batch and instrument, sorted by batch.
        order = np.lexsort((instrument, batch))
        pairs = np.stack([batch[order], instrument[order]])
        first = np.append(True, (np.diff(pairs) != 0).any(axis=0))
        self._pair_batch, self._pair_instrument = pairs[:, first]
        self._edges = np.searchsorted(self._pair_batch, np.arange(len(batch_time) + 1))

    def snapshots(self, near: npt.NDArray[np.bool_]) -> _Codes:
        """Return the number of each batch's snapshot.

        Batches marked `near` may share the snapshot of the previous batch.
        """
        # Batches of one poll have different instruments. A batch that quotes half of the previous batch's
        # instruments again is the next poll of the chain.
        sizes = np.diff(self._edges)
        is_repeat = 2 * self._repeated() >= np.maximum(sizes[1:], sizes[:-1])
        starts = np.append(True, ~near | is_repeat)
        for first, last in self._runs(np.append(False, near)):
            if not starts[first:last].all():
                starts[first:last] = self._starts(first, last)
        return np.cumsum(starts) - 1

    def _repeated(self) -> _Codes:
        """Count, for each batch except the first, the instruments that the previous batch quotes too."""
        order = np.lexsort((self._pair_batch, self._pair_instrument))
        batch = self._pair_batch[order]
        instrument = self._pair_instrument[order]
        twice = (np.diff(instrument) == 0) & (np.diff(batch) == 1)
        counts: _Codes = np.bincount(batch[1:][twice] - 1, minlength=len(self._time) - 1)
        return counts

    def lacking(self, snapshot: _Codes) -> str:
        """Return a notice if snapshots lack live instruments of the snapshot shortly before, else no text.

        `snapshot` has the number of each batch's snapshot. A partly failed poll gives such snapshots.
        """
        # 1. Find the snapshots that follow another one of their chain within the hold.
        time = np.zeros(snapshot[-1] + 1, dtype=np.int64)
        chain = np.zeros_like(time)
        time[snapshot] = self._time  # the last assignment counts, which is the last batch of each snapshot
        chain[snapshot] = self._chain
        follows = np.append(False, (np.diff(chain) == 0) & (np.diff(time) < self._hold))
        if not follows.any():
            return ""

        # 2. Find the instruments of each snapshot that are live at the next one, and whether it has them. A
        # pair of instrument and snapshot is one number, and the next number is that of its next snapshot.
        size = len(time)
        pairs = np.unique(self._pair_instrument * size + snapshot[self._pair_batch])
        instrument, number = np.divmod(pairs, size)
        has_next = number + 1 < size
        is_in_next = np.append(np.diff(pairs) == 1, False)
        next_number = np.minimum(number + 1, size - 1)
        is_live = self._expiry()[instrument] > time[next_number]
        is_expected = has_next & follows[next_number] & is_live

        # 3. Count those that each snapshot lacks.
        expected = np.bincount(next_number[is_expected], minlength=size)
        absent = np.bincount(next_number[is_expected & ~is_in_next], minlength=size)
        lacking = np.flatnonzero((absent > _MAX_ABSENT) & (absent > _ABSENT * expected))
        if not lacking.size:
            return ""
        last = lacking[-1]
        return (
            f"{lacking.size:,} of {size:,} option snapshots lack over 10 % of the instruments of the "
            f"previous one, less than {_text(pd.Timedelta(self._hold, 'us'))} older: the last lacks "
            f"{absent[last]:,} of {expected[last]:,}"
        )

    def _expiry(self) -> _Codes:
        """Return the expiry of each instrument [µs], or the largest number if it is not known as a time."""
        expiry = np.full(int(np.max(self._instrument)) + 1, np.iinfo(np.int64).max)
        if "expiry" in self._rows and self._rows["expiry"].dtype.kind == "M":
            is_known = self._rows["expiry"].notna().to_numpy()
            expiry[self._instrument[is_known]] = _micros(self._rows["expiry"])[is_known]
        return expiry

    @staticmethod
    def _runs(near: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
        """Return start and end of each run of batches that are near the previous batch."""
        firsts = np.flatnonzero(~near)
        return list(zip(firsts.tolist(), [*firsts[1:].tolist(), len(near)], strict=True))

    def _quoted(self, first: int, last: int) -> set[int]:
        """Return the instruments that the batches from `first` to before `last` quote."""
        return set(self._pair_instrument[self._edges[first] : self._edges[last]].tolist())

    def _starts(self, first: int, last: int) -> list[bool]:
        """Return for each batch of a run whether it begins a snapshot."""
        bursts: list[tuple[int, int]] = []
        linked = np.append(False, np.diff(self._time[first:last]) <= times.us(_LINK))
        for start, end in self._runs(linked):
            bursts += self._bursts(first + start, first + end)
        starts = [False] * (last - first)
        quoted: set[int] = set()
        opened = first
        for start, end in bursts:
            burst = self._quoted(start, end)
            # At least half of the instruments are quoted again, so a new snapshot begins.
            is_new = not quoted or 2 * len(burst & quoted) >= max(len(burst), len(quoted))
            if is_new:
                self._check_span(opened, start)
                starts[start - first] = True
                opened = start
                quoted = set()
            quoted |= burst
        self._check_span(opened, last)
        return starts

    def _bursts(self, first: int, last: int) -> list[tuple[int, int]]:
        """Split closely spaced batches at the points where half of their instruments are quoted again."""
        instruments = len(self._quoted(first, last))
        cuts = [first]
        quoted: set[int] = set()
        for start, end in self._passes(first, last):
            instruments_of_pass = self._quoted(start, end)
            if 2 * len(instruments_of_pass & quoted) >= instruments:
                cuts.append(start)
                quoted = instruments_of_pass
            else:
                quoted |= instruments_of_pass
        return list(zip(cuts, [*cuts[1:], last], strict=True))

    def _passes(self, first: int, last: int) -> list[tuple[int, int]]:
        """Divide batches into the longest runs that quote each instrument once.

        A poll whose rows have their own timestamps is one pass. A stream, which quotes instruments near the
        money often, has many short ones.
        """
        cuts = [first]
        quoted: set[int] = set()
        for batch in range(first, last):
            instruments = self._quoted(batch, batch + 1)
            if not quoted.isdisjoint(instruments):
                cuts.append(batch)
                quoted = set()
            quoted |= instruments
        return list(zip(cuts, [*cuts[1:], last], strict=True))

    def _check_span(self, first: int, end: int) -> None:
        """Raise if a chain of the batches from `first` to before `end` spans more than the hold."""
        if end == first or self._time[end - 1] - self._time[first] <= self._hold:
            return
        row = self._rows.iloc[np.flatnonzero(self._batch == first)[0]]
        label = " on ".join(str(row[name]) for name in _SERIES if name in row) or "the chain"
        start, last = (pd.Timestamp(int(self._time[i]), unit="us", tz="UTC") for i in (first, end - 1))
        hold = pd.Timedelta(self._hold, "us")
        raise ValueError(
            f"{label}: rows of one chain must span at most the hold of {_text(hold)}, got "
            f"{_text(last - start)} ({times.iso(start)} to {times.iso(last)}): select the rows of one "
            "timestamp, or call dd.tables.snapshots(rows, hold=...) with a longer hold"
        )


def _text(length: pd.Timedelta) -> str:
    """Return a length of time in hours, or below one hour in minutes."""
    hours = length / pd.Timedelta(1, "h")
    return f"{hours:.4g} h" if hours >= 1 else f"{hours * 60:.4g} min"


def _newest(
    rows: pd.DataFrame, stamps: _Codes, snapshot: _Codes, instrument: _Codes
) -> tuple[pd.DataFrame, str]:
    """Return the newest row of each instrument in each snapshot, with the snapshot's time, and a notice.

    The notice is empty if no row was dropped.
    """
    frame = pd.DataFrame({"snapshot": snapshot, "instrument": instrument, "time": stamps})
    newest = frame.groupby(["snapshot", "instrument"], sort=False)["time"].transform("max").to_numpy()
    snapshot_times = frame.groupby("snapshot", sort=False)["time"].transform("max").to_numpy()
    is_newest = stamps == newest
    row_times = rows["time"]
    time = pd.Series(snapshot_times.view("M8[us]"), index=rows.index)
    if times.has_zone(row_times):
        time = times.utc(time)
    quoted_at = rows["quoted_at"].fillna(row_times) if "quoted_at" in rows else row_times
    notice = ""
    if dropped := int((~is_newest).sum()):
        chains = len(np.unique(snapshot[~is_newest]))
        notice = (
            f"{dropped:,} of {len(rows):,} option rows were dropped, because {chains:,} snapshots have a "
            "newer row of the same instrument"
        )
    result = rows.assign(time=time.astype(row_times.dtype), quoted_at=quoted_at)[is_newest]
    result.attrs = dict(rows.attrs)
    return result, notice


if TYPE_CHECKING:
    import xarray as xr

_DIMS = ("expiry", "strike", "side")
_SIDES = pd.Index(["call", "put"], dtype="str")
_KEYS = ("symbol", "exchange", "time", "expiry", "side")
_VALUES = ("iv", "delta", "gamma", "vega", "theta", "open_interest")
_CHAIN = ("symbol", "exchange", "time", *_DIMS, *_VALUES, "underlying_price")
_HISTORY = ("symbol", "exchange", "time", *_DIMS, "iv", "open_interest", "underlying_price")


@typed
def surface(rows: pd.DataFrame) -> xr.Dataset:
    """Return options by expiry, strike and side: one chain, or the surfaces of a history.

    Parameters
    ----------
    rows
        One symbol on one venue: the table ``options_snapshot`` at one time, or ``options_surface_history``,
        which lacks greeks, at any number of times.

    Returns
    -------
    Dataset, dims ``(expiry, strike, side)``, of a history ``(time, expiry, strike, side)``
        ``iv`` [1/√year], ``open_interest`` [contracts], ``underlying_price`` [USD] by expiry (median of its
        instruments), the boolean ``observed``, and for a chain the venue's ``delta``, ``gamma``, ``vega`` and
        ``theta``; NaN where nothing is listed. Coordinates: ``year_fraction`` by expiry, in a history NaN
        from expiry on, and the scalars ``symbol``, ``exchange`` and, for a chain, ``as_of``. Times are naive
        UTC. For empty `rows`, expiries and strikes are empty, and the scalars are NaT or empty text.

    Raises
    ------
    ValueError
        The rows have several symbols or venues, or a chain has several times; a column is absent or of
        another kind.

    Warns
    -----
    DataNotice
        Two instruments have the same expiry, strike and side. The quote with the larger open interest is
        used, and ``open_interest`` is the sum of both.
    """
    if "delta" not in rows.columns:
        return _over_time(rows)
    _check(rows, _CHAIN)
    rows = rows.assign(expiry=expiries(rows["expiry"], "rows: its expiry")[0])
    rows = snapshots(rows)
    columns = {name: rows[name].array for name in _CHAIN}
    return surface_of(
        columns,
        symbol=str(_only(columns, "symbol", "")),
        exchange=str(_only(columns, "exchange", "")),
        as_of=_only(columns, "time", pd.NaT),
        provenance=_provenance(rows),
    )


def surface_of(
    columns: Mapping[str, Any],
    *,
    symbol: str,
    exchange: str,
    as_of: pd.Timestamp,
    provenance: Mapping[str, Any] | None,
) -> xr.Dataset:
    """Build a surface from the columns of one chain, sorted as in a `Table`."""
    grid = _grid(columns, _DIMS)
    if grid.crowded:
        unique = one_per_place(pd.DataFrame({name: columns[name] for name in _CHAIN}))
        columns = {name: unique[name].array for name in _CHAIN}
        grid = _grid(columns, _DIMS)
    time = times.naive_utc(as_of).to_datetime64()
    years = times.year_fraction(time, grid.labels["expiry"])
    coords = {
        "year_fraction": (("expiry",), years),
        "as_of": ((), time),
        "symbol": ((), symbol),
        "exchange": ((), exchange),
    }
    return _dataset(columns, grid, _VALUES, coords, provenance)


def _over_time(rows: pd.DataFrame) -> xr.Dataset:
    """Return the surfaces of a history, with the dim ``time``."""
    _check(rows, _HISTORY)
    rows = rows.assign(expiry=expiries(rows["expiry"], "rows: its expiry")[0])
    rows = snapshots(rows)
    rows = one_per_place(rows, ("time", *_DIMS))
    columns = {name: rows[name].array for name in _HISTORY}
    scalars = {name: ((), str(_only(columns, name, ""))) for name in ("symbol", "exchange")}
    grid = _grid(columns, ("time", *_DIMS))
    years = times.year_fraction(grid.labels["time"][:, None], grid.labels["expiry"][None, :])
    coords = {"year_fraction": (("time", "expiry"), np.where(years > 0, years, np.nan))} | scalars
    return _dataset(columns, grid, ("iv", "open_interest"), coords, _provenance(rows))


def one_per_place(rows: pd.DataFrame, dims: Sequence[str] = _DIMS) -> pd.DataFrame:
    """Return one option per position along `dims`, sorted by position.

    If there are several options, the one with the largest open interest is used, with the sum of open
    interest.
    """
    if not rows.duplicated(list(dims)).any():
        return rows
    groups = rows.groupby(list(dims), observed=True, dropna=False)["open_interest"]
    rows = rows.assign(own=rows["open_interest"], open_interest=groups.transform("sum", min_count=1))
    ordered = rows.sort_values("own", ascending=False, na_position="last", kind="stable")
    unique = ordered.drop_duplicates(list(dims)).sort_values(list(dims)).drop(columns="own")
    warn_caller(
        f"{len(rows) - len(unique)} instruments share expiry, strike and side with another one: their "
        "open interest is summed, and the quotes with the larger open interest are used"
    )
    return unique


def _check(rows: pd.DataFrame, names: Sequence[str]) -> None:
    """Raise `ValueError` unless rows have these columns, with valid times, strikes and sides."""
    numbers = [name for name in names if name not in _KEYS]
    require_columns(rows, "rows", numbers, others=[name for name in names if name in _KEYS])
    require_timestamps(rows, "rows", ("time", "expiry"))
    if rows["strike"].isna().any():
        raise ValueError("rows must have 'strike' in each row")
    if not rows["side"].isin(_SIDES).all():
        raise ValueError("the 'side' of rows must be 'call' or 'put'")


class _Grid(NamedTuple):
    """Labels of every dim, in order, and the flat index of each row's cell."""

    labels: dict[str, Array]
    cells: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(label.size for label in self.labels.values())

    @property
    def crowded(self) -> bool:
        """Return whether several rows share a cell."""
        return bool(self.cells.size and int(np.max(np.bincount(self.cells))) > 1)

    def scattered(self, values: Any, elsewhere: float | bool) -> Array:
        """Return an array with each row's value in its cell, and the value `elsewhere` in other cells."""
        flat = np.full(math.prod(self.shape), elsewhere)
        flat[self.cells] = values
        return flat.reshape(self.shape)


def _grid(columns: Mapping[str, Any], dims: Sequence[str]) -> _Grid:
    """Return the grid of rows, always with both sides."""
    labels: dict[str, Array] = {}
    places = []
    for name in dims[:-1]:
        labels[name], place = _places(columns[name])
        places.append(place)
    labels["side"] = np.array(["call", "put"])
    places.append(np.asarray(columns["side"] == "put").astype(np.intp))
    shape = tuple(label.size for label in labels.values())
    return _Grid(labels, np.ravel_multi_index(tuple(places), shape))


def _dataset(
    columns: Mapping[str, Any],
    grid: _Grid,
    names: Sequence[str],
    coords: Mapping[str, tuple[tuple[str, ...], Any]],
    provenance: Mapping[str, Any] | None,
) -> xr.Dataset:
    """Build a dataset of columns on their grid, with the median underlying price over strikes and sides."""
    import xarray as xr

    dims = tuple(grid.labels)
    data = {
        name: _variable(dims, grid.scattered(np.asarray(columns[name], dtype=np.float64), np.nan), name)
        for name in names
    }
    *around, strikes, sides = grid.shape
    underlying = pd.Series(np.asarray(columns["underlying_price"], dtype=np.float64))
    medians = underlying.groupby(grid.cells // (strikes * sides)).median()
    medians = medians.reindex(range(math.prod(around))).to_numpy().reshape(around)
    data["underlying_price"] = _variable(dims[:-2], medians, "underlying_price")
    return xr.Dataset(
        data | {"observed": _variable(dims, grid.scattered(True, False))},
        coords=_coordinates(grid.labels, coords),
        attrs={} if provenance is None else {"provenance": json.dumps(provenance, sort_keys=True)},
    )


def _coordinates(
    labels: Mapping[str, Array], others: Mapping[str, tuple[tuple[str, ...], Any]]
) -> xr.Coordinates:
    """Build the coordinates that xarray would make from the labels, in less time."""
    import xarray as xr
    from xarray.indexes import PandasIndex

    indexes = {
        dim: PandasIndex(_SIDES.view() if dim == "side" else along_dim, dim, coord_dtype=along_dim.dtype)
        for dim, along_dim in labels.items()
    }
    variables = {dim: index.create_variables()[dim] for dim, index in indexes.items()}
    unindexed = {name: _variable(dims, values) for name, (dims, values) in others.items()}
    return xr.Coordinates(variables | unindexed, indexes=indexes)


def _variable(dims: Sequence[str], values: Any, name: str = "") -> xr.Variable:
    """Wrap an array in a variable, with the unit of the column `name` if one is given."""
    import xarray as xr

    # `fastpath`, because otherwise xarray passes every array through pandas to test for a conversion.
    attrs = {"units": COLUMNS[name].unit} if name else None
    return xr.Variable(dims, np.asarray(values), attrs, fastpath=True)


def _places(values: Any) -> tuple[Array, Array]:
    """Return the sorted distinct values, and the position of each row's value among them."""
    if times.has_zone(values):
        values = times.naive_utc(values)
    labels, places = np.unique(np.asarray(values), return_inverse=True)
    return labels, places


def _only(columns: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return the only value of a column, `default` for an empty one; raise for several values."""
    values = columns[name]
    if not len(values):
        return default
    if (values == values[0]).all():  # faster than unique
        return values[0]
    raise ValueError(f"rows must have one {name} for a surface, got {len(values.unique())}")


def _provenance(rows: pd.DataFrame) -> Mapping[str, Any] | None:
    provenance: Mapping[str, Any] | None = rows.attrs.get("provenance")
    return provenance
