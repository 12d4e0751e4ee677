"""Delta hedges of option strategies in a perpetual: when to trade, at which price, and its funding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.panels import Panel, hours_of, require, require_rate
from derivdata.support.arrays import Floats
from derivdata.support.times import length
from derivdata.units import BPS, REFERENCE_HOURS

_US = 3_600e6
_LATE = 1.5
"""A payment is missing where the next one comes after so many intervals."""


@dataclass(frozen=True)
class DeltaHedge:
    """Hold a perpetual against the delta of the position.

    The position is hedged after each of its own trades and deliveries, and besides at an interval, at a band,
    or at both.

    Attributes
    ----------
    every
        Time between two hedges, such as ``"8h"``; None hedges at the band only.
    band
        Delta of position and hedge [coins] above which it is hedged; None hedges at the interval only.
    venue
        Venue of the perpetual, whose prices, funding and fees count; None is that of the options.
    contract
        ``"linear"``: a number of coins, settled in USD; ``"inverse"``: a number of USD, settled in coin.
    max_price_age
        Age of the newest price of the perpetual at which it is still used.
    """

    every: str | pd.Timedelta | None = None
    band: float | None = None
    venue: str | None = None
    contract: Literal["linear", "inverse"] = "linear"
    max_price_age: str | pd.Timedelta = "1h"

    def __post_init__(self) -> None:
        if self.every is None and self.band is None:
            raise ValueError("a hedge needs every= (an interval) or band= (coins of delta)")
        if self.every is not None:
            length(self.every, "every")
        if self.band is not None and not self.band > 0.0:
            raise ValueError(f"band={self.band!r} must be above 0 [coins]")
        if self.contract not in ("linear", "inverse"):
            raise ValueError(f"contract={self.contract!r} must be 'linear' or 'inverse'")
        length(self.max_price_age, "max_price_age")

    def is_due(self, hours_since: float, net_delta: float) -> bool:
        """Tell whether a hedge is due, so long after the last one and at this delta [coins]."""
        by_time = self.every is not None and hours_since >= hours_of(self.every, "every") - 1e-9
        by_delta = self.band is not None and abs(net_delta) > self.band
        return by_time or by_delta


class PerpetualPrices:
    """Prices of one perpetual [USD]; without a panel the index prices of the chains."""

    def __init__(
        self,
        prices: Panel | None,
        symbol: str,
        venue: str,
        max_age: pd.Timedelta,
        index: tuple[Floats, Floats],
    ) -> None:
        if prices is None:
            self._times, self._values = index
            self._age = 0.0
            return
        series = _of(require(prices, "time", name="prices"), "prices", symbol, venue)
        values = series.to_numpy().astype(np.float64)
        good = values > 0.0
        stamps = series["time"].to_numpy().astype("datetime64[us]").astype(np.int64)
        self._times = stamps[good].astype(np.float64)
        self._values = values[good]
        if not self._times.size:
            raise ValueError(f"prices has no price of {symbol} on {venue}")
        self._age = float(max_age / pd.Timedelta(1, "us"))

    def at(self, instant: float) -> float:
        """Return the newest price at a time [µs], NaN where it is too old."""
        place = int(np.searchsorted(self._times, instant, side="right")) - 1
        if place < 0 or instant - self._times[place] > self._age:
            return float("nan")
        return float(self._values[place])

    def newest(self, instant: float) -> float:
        """Return the newest price at or before a time [µs], however old; NaN before the first."""
        place = int(np.searchsorted(self._times, instant, side="right")) - 1
        return float("nan") if place < 0 else float(self._values[place])


class Payments:
    """Settled funding of one perpetual: when, and what a long position pays [fraction of the notional]."""

    def __init__(self, funding: Panel | None, symbol: str, venue: str) -> None:
        self.given = funding is not None
        self._times, self._share, self._hours = (np.empty(0) for _ in range(3))
        if funding is None:
            return
        panel = require_rate(funding, "time", name="funding")
        if panel.attrs.get("kind") == "sampled" or "interval_hours" not in panel.coords:
            raise ValueError(
                "funding must be settlements with interval_hours: pass the table of dd.funding.settlements"
            )
        series = _of(panel, "funding", symbol, venue)
        rates = series.to_numpy().astype(np.float64)
        hours = np.broadcast_to(series["interval_hours"].to_numpy().astype(np.float64), rates.shape)
        good = np.isfinite(rates) & (hours > 0.0)
        stamps = series["time"].to_numpy().astype("datetime64[us]").astype(np.int64)
        self._times = stamps[good].astype(np.float64)
        self._hours = hours[good]
        self._share = rates[good] / BPS * hours[good] / REFERENCE_HOURS
        if not self._times.size:
            raise ValueError(f"funding has no payment of {symbol} on {venue}")

    def within(self, after: float, until: float) -> list[tuple[float, float]]:
        """Return time [µs] and share of the payments with ``after < time <= until``."""
        first, last = np.searchsorted(self._times, [after, until], side="right")
        return list(zip(self._times[first:last].tolist(), self._share[first:last].tolist(), strict=True))

    def missing_hours(self, after: float, until: float) -> float:
        """Return the hours of a span in which a payment was due and is not in the data."""
        if not self._times.size:
            return 0.0
        starts = self._times - self._hours * _US
        ends = np.append(starts[1:], np.inf)
        begins = np.append(-np.inf, self._times)
        ends = np.append(starts[0], ends)
        shorter = np.minimum(self._hours[:-1], self._hours[1:])
        usual = np.concatenate([self._hours[:1], shorter, self._hours[-1:]]) * _US
        is_gap = ends - begins > (_LATE - 1.0) * usual
        if not np.isfinite(begins[0]):
            is_gap[0] = True
        # After the last payment the next one is due an interval later.
        begins[-1] += usual[-1] if not np.isfinite(ends[-1]) else 0.0
        overlap = np.minimum(ends, until) - np.maximum(begins, after)
        return float(np.clip(overlap[is_gap], 0.0, None).sum() / _US)


def _of(panel: xr.DataArray, argument: str, symbol: str, venue: str) -> xr.DataArray:
    """Return the series of one symbol and venue, in order of time."""
    series = panel
    for name, label in (("symbol", symbol), ("exchange", venue)):
        if name not in series.dims:
            continue
        labels = [str(item) for item in series[name].to_numpy().tolist()]
        if len(labels) > 1 or label:
            if label not in labels:
                raise ValueError(f"{argument} has no {name} {label!r}: it has {', '.join(labels)}")
            series = series.isel({name: labels.index(label)})
        else:
            series = series.isel({name: 0})
    loaded: xr.DataArray = series.compute().sortby("time")
    if not loaded.indexes["time"].is_unique:
        raise ValueError(f"{argument} has a time more than once")
    return loaded
