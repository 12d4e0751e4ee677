"""Slippage of a leg's orders at every row, from the depth of the books or as one number."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from derivdata.analysis.backtest.market import Market
from derivdata.analysis.funding.costs import slippage_bps
from derivdata.analysis.inputs import require_labels, require_times
from derivdata.analysis.last_value import last_valid
from derivdata.support.arrays import Bools, Floats

__all__ = ["Slippage"]

_BOOK_SIDES = ["ask", "bid"]  # what a buy takes, what a sell takes


class Slippage:
    """Slippage [bps] over (side of the trade, symbol, venue), at the newest depth that is known.

    Attributes
    ----------
    costs
        Over (instant of depth, side, symbol, venue), NaN before a book was deep enough for the first time;
        later a book that is not carries the last figure, so that a position can be closed.
    fills
        Where the depth of that instant fills an order of both sides.
    """

    costs: Floats
    fills: Bools

    def __init__(self, market: Market, depth: xr.DataArray | None, leg_usd: float, flat: float) -> None:
        shape = (len(market.symbols), len(market.exchanges))
        self._times: NDArray[Any] | None = None
        if depth is None:
            self.costs, self.fills = np.full((1, 2, *shape), flat), np.ones((1, *shape), dtype=np.bool_)
            return
        if "symbol" not in depth.dims:
            depth = depth.drop_vars("symbol", errors="ignore").expand_dims(symbol=list(market.symbols[:1]))
        slippage = slippage_bps(depth, leg_usd)
        require_labels(slippage, "depth", "side", _BOOK_SIDES)
        if "time" in slippage.dims:
            require_times(slippage, "depth")
            slippage = slippage.sortby("time")
            self._times = slippage["time"].to_numpy()
        else:
            slippage = slippage.expand_dims("time")
        labels = {"symbol": list(market.symbols), "exchange": list(market.exchanges), "side": _BOOK_SIDES}
        values = slippage.reindex(labels).transpose("time", "side", "symbol", "exchange").to_numpy()
        self.fills = np.isfinite(values).all(axis=1)
        rows = np.moveaxis(last_valid(np.moveaxis(np.isfinite(values), 0, -1)), -1, 0)
        filled = np.take_along_axis(values, np.maximum(rows, 0), axis=0)
        self.costs = np.where(rows >= 0, filled, np.nan)

    def at(self, instant: Any) -> tuple[Floats, Bools]:
        """Return the slippage at an instant, and where an order can be filled."""
        if self._times is None:
            return self.costs[0], self.fills[0]
        row = int(np.searchsorted(self._times, instant, side="right")) - 1
        if row < 0:
            return np.full(self.costs.shape[1:], np.nan), np.zeros(self.fills.shape[1:], dtype=np.bool_)
        return self.costs[row], self.fills[row]
