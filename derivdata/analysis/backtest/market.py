"""What a backtest reads: rates and marks of all symbols and venues on one grid of instants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.inputs import with_symbol
from derivdata.analysis.panels import (
    Panel,
    hours,
    interval_of,
    kind_of,
    labels_of,
    require,
    require_rate,
    usual_step,
)
from derivdata.analysis.price_agreement import Apart, of_one_coin
from derivdata.analysis.settlements import merge_late_stamps, with_unknown_intervals, without_overlap
from derivdata.support.arrays import Floats
from derivdata.units import USD_UNIT

_READ_ROWS = 256


class RowBlocks:
    """Rows of an array with time innermost; blocks of rows are copied, so that a row lies together in memory.

    Two blocks are kept: a backtest reads its present row and one a little earlier.
    """

    def __init__(self, array: Floats) -> None:
        self.array = array
        self._blocks: dict[int, Floats] = {}

    def row(self, at: int) -> Floats:
        """Return one row, symbols by venues."""
        block = at // _READ_ROWS
        if block not in self._blocks:
            if len(self._blocks) > 1:
                del self._blocks[min(self._blocks)]
            self._blocks[block] = self.rows(block * _READ_ROWS, (block + 1) * _READ_ROWS)
        row: Floats = self._blocks[block][at - block * _READ_ROWS]
        return row

    def rows(self, first: int, stop: int) -> Floats:
        """Return some rows, rows first; one number for all of them is not copied."""
        part = self.array[..., first:stop]
        if not any(part.strides):
            return np.moveaxis(part, -1, 0)
        result = np.empty((part.shape[-1], *part.shape[:-1]))
        # Symbol by symbol: what one turns fits into the processor's cache, three times as fast as at once.
        for symbol, series in enumerate(part):
            result[:, symbol] = series.T
        return result


@dataclass(frozen=True)
class Market:
    """Rates and prices over ``(symbol, exchange, row)``, NaN where there is none at a row.

    Attributes
    ----------
    since
        Hours of the rows since the first.
    known_at
        Hours at which a row's rate is known: a settlement at its stamp, a sample when its bucket ends.
    rates, interval
        [bps/8h], and of settlements the hours that they pay for.
    prices
        Marks [USD], or None.
    mark_step
        Usual hours between prices; infinite without them.
    limit
        Hours that a sampled rate holds at most.
    """

    symbols: tuple[str, ...]
    venues: tuple[str, ...]
    times: NDArray[Any]
    since: Floats
    known_at: Floats
    settled: bool
    mark_step: float
    limit: float
    rates: RowBlocks
    interval: RowBlocks | None
    prices: RowBlocks | None


def market_of(panel: Panel, prices: xr.DataArray | None, apart: Apart = "raise") -> Market:
    """Check the panels and put them on one grid: every stamp of a rate, and every price between them."""
    panel = with_symbol(require_rate(panel, "exchange", "time"))
    for dim in ("symbol", "exchange"):
        if len(set(labels_of(panel, dim))) != panel.sizes[dim]:
            raise ValueError(f"panel has a {dim} more than once")
    settled = kind_of(panel) == "settled"
    interval = None
    since = hours(panel)
    if settled:
        interval = interval_of(panel)
        panel, interval = with_unknown_intervals(panel.drop_vars("interval_hours"), interval)
        panel, interval = merge_late_stamps(panel, interval)
        panel = without_overlap(panel, interval)
    panel = panel.drop_vars("interval_hours", errors="ignore")
    limit = np.inf if settled else 2.0 * usual_step(since)
    stamps = np.empty(0) if prices is None else hours(prices, name="prices")
    mark_step = usual_step(stamps) if stamps.size > 1 else np.inf
    own = panel["time"].to_numpy()
    ends = np.append(since[1:], np.inf)
    panel, interval, marks = _on_one_grid(panel, interval, prices, apart)
    since = hours(panel)
    # A bucket ends at the next stamp of a rate: the rows of prices between do not end it.
    bucket = np.searchsorted(own, panel["time"].to_numpy(), side="right") - 1
    known_at = since if settled else ends[bucket]
    return Market(
        tuple(labels_of(panel, "symbol")),
        tuple(labels_of(panel, "exchange")),
        panel["time"].to_numpy(),
        since,
        known_at,
        settled,
        mark_step,
        limit,
        *(None if part is None else RowBlocks(part.to_numpy()) for part in (panel, interval, marks)),  # type: ignore[arg-type]
    )


def _on_one_grid(
    panel: xr.DataArray, interval: xr.DataArray | None, prices: Panel | None, apart: Apart
) -> tuple[xr.DataArray, xr.DataArray | None, xr.DataArray | None]:
    """Order dims and venues by the alphabet, and add the instants of prices as rows without rates."""
    order = ("symbol", "exchange", "time")
    venues = sorted(labels_of(panel, "exchange"))
    labels = {"symbol": labels_of(panel, "symbol"), "exchange": np.array(venues)}
    rows = panel["time"].to_numpy()
    if prices is not None:
        prices = with_symbol(require(prices, "exchange", "time", units=USD_UNIT, name="prices"))
        prices = of_one_coin(prices, "prices", apart)
        hours(prices, name="prices")
        stamps = prices["time"].to_numpy()
        between = stamps[(stamps > rows[0]) & (stamps < rows[-1])]
        rows = np.union1d(rows, between.astype(rows.dtype))
    arrays: list[Any] = [panel, interval, prices]
    for place, part in enumerate(arrays):
        if part is not None:
            part = part.transpose(*order)
            same = part.sizes["time"] == rows.size and bool((part["time"].to_numpy() == rows).all())
            alike = all(
                part.sizes[dim] == len(names) and bool((labels_of(part, dim) == names).all())
                for dim, names in labels.items()
            )
            arrays[place] = part if same and alike else part.reindex({**labels, "time": rows})
    return arrays[0], arrays[1], arrays[2]
