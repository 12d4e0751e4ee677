"""Option chains over time for a backtest: quotes by option, surfaces, index prices, marks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import position, surface
from derivdata.analysis.black76 import formulas
from derivdata.analysis.panels import require_columns
from derivdata.analysis.smile.svi import parameter_names, slice_of, total_variance
from derivdata.analysis.surface.fitting import SurfaceMethod
from derivdata.support.arrays import Bools, Floats, Indices
from derivdata.support.text import warn_caller
from derivdata.support.times import naive_utc
from derivdata.tables.chains import snapshots
from derivdata.tables.contracts import expiries

YEAR_US = 365.0 * 86_400e6
_PLACE = ("expiry", "strike", "side")
_PRICES = ("bid_coin", "ask_coin", "bid_usd", "ask_usd")
_FACTOR = 5.0
"""Factor above which two prices of one quantity count as being in different units."""


class Contract(NamedTuple):
    """One contract: expiry [µs since 1970, 0 for none], strike [USD, 0 for none], side."""

    expiry: int
    strike: float
    side: str


class Quote(NamedTuple):
    """Bid and ask of an option in its own currency, NaN if missing."""

    bid: float
    ask: float
    in_coin: bool


class Mark(NamedTuple):
    """Inputs of one option's mark; `own` is True if its expiry has a separate fit."""

    forward: float
    years: float
    iv: float
    rate: float
    own: bool

    @property
    def is_complete(self) -> bool:
        """Return whether the option can be valued."""
        return self.forward > 0.0 and self.iv > 0.0 and self.years > 0.0


class OptionMarket:
    """The chains of one symbol on one venue, in order of time."""

    def __init__(self, chains: pd.DataFrame, surfaces: xr.Dataset | None, method: SurfaceMethod) -> None:
        rows = _checked(chains)
        self.symbol = _single(rows, "symbol")
        self.venue = _single(rows, "exchange")
        stamps = naive_utc(rows["time"]).to_numpy("datetime64[us]")
        self.times, self._place = np.unique(stamps, return_inverse=True)
        if self.times.size < 2:
            raise ValueError("chains must have at least two timestamps for a backtest, got one")
        self._expiry = naive_utc(rows["expiry"]).to_numpy("datetime64[us]").astype(np.int64)
        self._strike = rows["strike"].to_numpy(np.float64)
        self._side = rows["side"].to_numpy(dtype=object)
        self._bid, self._ask, self._in_coin = _quotes(rows)
        self._require_one_contract()
        order = np.argsort(self._place, kind="stable")  # rows of each time, in their original order
        self._rows = np.split(order, np.searchsorted(self._place[order], np.arange(1, self.times.size)))
        self._rates = _rates(rows)
        if surfaces is None:
            self.surfaces = _fitted(rows, method, self.times)
        else:
            self.surfaces = _with_times(surfaces, self.times)
        for name, label in (("symbol", self.symbol), ("exchange", self.venue)):
            _require_label(self.surfaces, name, label)
        self._slices = _Slices(self.surfaces)
        self.spot, self.spot_source = self._index_prices(rows)
        self._quotes: dict[int, dict[Contract, Quote]] = {}
        self._require_units()

    def _require_units(self) -> None:
        """Raise for quotes that are so far from the marks of the surfaces that their unit must differ."""
        # Use the first chain with quotes near the money. Far out of the money, a tick is a large factor.
        for row in range(self.times.size):
            table = self.table(row)
            ratio = (table["bid_usd"] + table["ask_usd"]) / (2.0 * table["mark_usd"])
            ratio = ratio[np.isfinite(ratio) & (table["delta"].abs() > 0.2)]
            if not ratio.empty:
                break
        else:
            return
        middle = float(ratio.median())
        if not 1.0 / _FACTOR < middle < _FACTOR:
            raise ValueError(
                f"bid and ask of chains at {pd.Timestamp(self.times[row])} UTC are {middle:.3g} times the "
                "marks of surfaces (median): expected bid_coin and ask_coin in coins or bid_usd and ask_usd "
                "in USD, per coin of the underlying, and surfaces fitted from the same chains"
            )

    def require_near(self, price: float, spot: float, expiry: pd.Timestamp) -> None:
        """Raise for a delivery price that is far from the last index price."""
        if not 1.0 / _FACTOR < price / spot < _FACTOR:
            raise ValueError(
                f"delivery has {price:g} USD for the expiry {expiry:%Y-%m-%d %H:%M} UTC, but the last index "
                f"price of chains is {spot:g} USD: pass prices of {self.symbol or 'the underlying'} in USD"
            )

    def _require_one_contract(self) -> None:
        """Raise if an option has two rows at one timestamp."""
        labels = pd.DataFrame(
            {"time": self._place, "expiry": self._expiry, "strike": self._strike, "side": self._side}
        )
        twice = labels.duplicated()
        if twice.any():
            row = labels[twice].iloc[0]
            expiry = pd.Timestamp(int(row["expiry"]), unit="us")
            raise ValueError(
                f"chains has two rows of the option {expiry:%Y-%m-%d} {row['strike']:g} {row['side']} at one "
                "timestamp: select the rows of one contract, such as those in coin, and drop duplicates"
            )

    def _index_prices(self, rows: pd.DataFrame) -> tuple[Floats, str]:
        """Return the index price at each time, otherwise the nearest forward, and the source."""
        if "index_price_usd" in rows and rows["index_price_usd"].notna().any():
            by_time = rows["index_price_usd"].astype(np.float64).groupby(self._place).median()
            spot = by_time.reindex(np.arange(self.times.size)).to_numpy()
            source = "index_price_usd"
        else:
            spot = self._slices.nearest_forward()
            source = "forward of the nearest expiry"
            warn_caller(
                "index_price_usd is missing in chains; the forward of the nearest expiry is used as the "
                "index price"
            )
        missing = np.flatnonzero(~(spot > 0.0))
        if missing.size:
            raise ValueError(
                f"the {source} of chains is missing at {pd.Timestamp(self.times[missing[0]])} UTC: remove "
                "this chain, or add the column index_price_usd"
            )
        return spot, source

    def quotes(self, row: int) -> dict[Contract, Quote]:
        """Return the quotes of a chain by contract."""
        if row not in self._quotes:
            at = self._rows[row]
            keys = map(Contract, self._expiry[at].tolist(), self._strike[at].tolist(), self._side[at])
            values = map(Quote, self._bid[at].tolist(), self._ask[at].tolist(), self._in_coin[at].tolist())
            self._quotes = {row: dict(zip(keys, values, strict=True))}
        return self._quotes[row]

    def mark(self, row: int, contract: Contract) -> Mark:
        """Return the mark of an option on a chain's surface, NaN if undefined."""
        rate = self._rates.get((row, contract.expiry), 0.0)
        return self._slices.mark(row, contract, rate) or self._between(row, contract, rate)

    def forward(self, row: int, expiry: int) -> float:
        """Return the forward of an expiry [USD], NaN if unknown."""
        return self._slices.forward(row, expiry)

    def _between(self, row: int, contract: Contract, rate: float) -> Mark:
        """Evaluate the surface at an expiry without a separate fit."""
        stamp = pd.Timestamp(contract.expiry, unit="us", tz="UTC")
        leg = {"expiry": [stamp], "strike": [contract.strike], "side": [contract.side], "quantity": [1.0]}
        at = self.surfaces.isel(time=row)
        years = (contract.expiry - self.times[row].astype(np.int64)) / YEAR_US
        if not bool((at["method"] > 0).any()):
            return Mark(np.nan, years, np.nan, rate, own=False)
        read = position.greeks(pd.DataFrame(leg), at, which=("delta",))
        return Mark(float(read["forward"][0]), years, float(read["iv"][0]), rate, own=False)

    def table(self, row: int) -> pd.DataFrame:
        """Return the quotes of a chain with marks and deltas; see `OptionState.quotes`."""
        # 1. Read forward and volatility of each option from the surface.
        at = self._rows[row]
        expiry = self._expiry[at]
        strike = self._strike[at]
        side = self._side[at]
        forward, iv = self._slices.smiles(row, expiry, strike)
        years = (expiry - self.times[row].astype(np.int64)) / YEAR_US
        rate = np.array([self._rates.get((row, stamp), 0.0) for stamp in expiry.tolist()])

        # 2. Convert quotes and marks to USD: a coin is worth the index price, not the forward.
        spot = self.spot[row]
        in_coin = self._in_coin[at]
        unit = np.where(in_coin, spot, 1.0)
        value = formulas.price(forward, strike, years, iv, side, interest_rate=rate)
        delta = formulas.greeks(forward, strike, years, iv, side, which=["delta"])["delta"]
        table = pd.DataFrame(
            {
                "expiry": pd.to_datetime(expiry, unit="us", utc=True).as_unit("us"),
                "strike": strike,
                "side": side,
                "bid_usd": self._bid[at] * unit,
                "ask_usd": self._ask[at] * unit,
                "mark_usd": value * np.where(in_coin, spot / forward, 1.0),
                "iv": iv,
                "delta": delta,
                "forward": forward,
                "days": years * 365.0,
            }
        )
        return table.sort_values(["expiry", "strike", "side"], ignore_index=True)


class _Slices:
    """Parameters and forwards of surfaces as arrays over times and expiries."""

    def __init__(self, surfaces: xr.Dataset) -> None:
        ordered = surfaces.transpose("time", "expiry", ...)
        self._expiry = ordered["expiry"].to_numpy().astype("datetime64[us]").astype(np.int64)
        self._at = {stamp: place for place, stamp in enumerate(self._expiry.tolist())}
        shape = (ordered.sizes["time"], ordered.sizes["expiry"])

        def spread(name: str) -> Floats:
            return np.broadcast_to(ordered[name].to_numpy().astype(np.float64), shape)

        self._parameters = [spread(name) for name in parameter_names(ordered)]
        self._fitted: Bools = np.asarray(ordered["method"].to_numpy() > 0)
        self._forward = spread("forward")
        self._years = spread("year_fraction")

    def nearest_forward(self) -> Floats:
        live = (self._forward > 0.0) & (self._years > 0.0)
        years = np.where(live, self._years, np.inf)
        nearest = years.argmin(axis=1)
        rows = np.arange(len(years))
        return np.where(live.any(axis=1), self._forward[rows, nearest], np.nan)

    def forward(self, row: int, expiry: int) -> float:
        place = self._at.get(expiry)
        return np.nan if place is None else float(self._forward[row, place])

    def mark(self, row: int, contract: Contract, rate: float) -> Mark | None:
        """Return the mark from the expiry's own fit; None if it was not fitted."""
        place = self._at.get(contract.expiry)
        if place is None or not self._fitted[row, place]:
            return None
        forward = float(self._forward[row, place])
        years = float(self._years[row, place])
        at = slice_of([values[row, place] for values in self._parameters])
        w = float(total_variance(np.log(contract.strike / forward), at))
        iv = np.sqrt(w / years) if w > 0.0 and years > 0.0 else np.nan
        return Mark(forward, years, float(iv), rate, own=True)

    def smiles(self, row: int, expiry: Any, strike: Floats) -> tuple[Floats, Floats]:
        """Return forward and volatility of many options from fits of their expiries, NaN without a fit."""
        place: Indices = np.array([self._at.get(stamp, -1) for stamp in expiry.tolist()], dtype=np.intp)
        forward = np.where(place >= 0, self._forward[row, place], np.nan)
        at = slice_of([values[row, place] for values in self._parameters])
        with np.errstate(all="ignore"):
            w = total_variance(np.log(strike / forward), at)
            iv = np.sqrt(w / self._years[row, place])
        usable = (place >= 0) & self._fitted[row, place] & (w > 0.0)
        return forward, np.where(usable, iv, np.nan)


def _checked(chains: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of chains with one time each, and expiries as timestamps."""
    require_columns(chains, "chains", ("strike",), others=("side", "time"), any_kind=("expiry",))
    if not any(name in chains for name in _PRICES):
        raise ValueError(
            "chains must have bid and ask (bid_coin and ask_coin, or bid_usd and ask_usd): pass rows of the "
            "table options_snapshot, as archives store them; a surface history does not include quotes"
        )
    if not len(chains):
        raise ValueError("chains is empty: check symbols, venues and the window of the request")
    for name in chains.columns.intersection((*_PRICES, "index_price_usd", "interest_rate")):
        try:
            chains[name].to_numpy(np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise ValueError(
                f"chains must have numbers in the column {name!r}, got {chains[name].dtype}"
            ) from None
    rows = snapshots(chains)
    stamps, _ = expiries(rows["expiry"], "the column 'expiry' of chains")
    rows = rows.assign(expiry=stamps)
    missing = rows[list(_PLACE)].isna().any(axis=1)
    if missing.any():
        raise ValueError(f"chains: {int(missing.sum())} rows lack an expiry, a strike or a side; remove them")
    return rows.reset_index(drop=True)


def _single(rows: pd.DataFrame, name: str) -> str:
    if name not in rows:
        return ""
    labels = rows[name].astype(object).unique()
    if len(labels) != 1:
        raise ValueError(f"chains must have one {name!r}, got {len(labels)}: select one")
    return str(labels[0])


def _quotes(rows: pd.DataFrame) -> tuple[Floats, Floats, Bools]:
    """Return bid and ask of each row, NaN if missing or crossed, and a mask of coin prices."""
    prices = dict.fromkeys(_PRICES, np.full(len(rows), np.nan))
    for name in rows.columns.intersection(_PRICES):
        prices[name] = rows[name].to_numpy(np.float64, na_value=np.nan)
    in_coin = np.isfinite(prices["bid_coin"]) | np.isfinite(prices["ask_coin"])
    in_usd = np.isfinite(prices["bid_usd"]) | np.isfinite(prices["ask_usd"])
    if (in_coin & in_usd).any():
        raise ValueError(
            "chains must have prices in one currency per option, got rows in coin and in USD: keep those of "
            "the option's currency"
        )
    if not in_usd.any() and in_coin.any():
        in_coin[:] = True  # rows without quotes belong to the same contracts
    bid = np.where(in_coin, prices["bid_coin"], prices["bid_usd"])
    ask = np.where(in_coin, prices["ask_coin"], prices["ask_usd"])
    bid = np.where(bid > 0.0, bid, np.nan)
    ask = np.where(ask > 0.0, ask, np.nan)
    crossed = bid > ask
    return np.where(crossed, np.nan, bid), np.where(crossed, np.nan, ask), in_coin


def _rates(rows: pd.DataFrame) -> dict[tuple[int, int], float]:
    """Return the rates [1/year] of discounts other than 0, by row of time and expiry."""
    if "interest_rate" not in rows:
        return {}
    rate = rows["interest_rate"].astype(np.float64).fillna(0.0)
    if not (rate != 0.0).any():
        return {}
    stamps = naive_utc(rows["time"]).to_numpy("datetime64[us]")
    place = np.unique(stamps, return_inverse=True)[1]
    expiry = naive_utc(rows["expiry"]).to_numpy("datetime64[us]").astype(np.int64)
    medians = rate.groupby([place, expiry]).median()
    return {(int(row), int(stamp)): float(value) for (row, stamp), value in medians.items() if value != 0.0}


def _fitted(rows: pd.DataFrame, method: SurfaceMethod, times: Any) -> xr.Dataset:
    """Return the surfaces of chains; a chain without a usable quote is not fitted."""
    fitted = surface.from_chain(rows, method=method)
    there = fitted.reindex(time=times)
    return there.assign(method=there["method"].fillna(0).astype(np.int8))


def _require_label(surfaces: xr.Dataset, name: str, label: str) -> None:
    """Raise for surfaces of another symbol or venue than the chains."""
    if label and name in surfaces.coords and surfaces[name].ndim == 0:
        of_surfaces = str(surfaces[name].item())
        if of_surfaces != label:
            raise ValueError(
                f"surfaces has the {name} {of_surfaces!r} but chains has {label!r}: fit the surfaces from "
                "the same chains"
            )


def _with_times(surfaces: xr.Dataset, times: Any) -> xr.Dataset:
    """Return surfaces at the times of the chains."""
    if "time" not in surfaces.dims or "forward" not in surfaces.variables:
        raise ValueError(
            "surfaces must have the dim 'time' and the coordinate 'forward': pass the result of "
            "surface.from_chain"
        )
    missing = ~np.isin(times, surfaces["time"].to_numpy().astype("datetime64[us]"))
    if missing.any():
        raise ValueError(
            f"surfaces lacks {int(missing.sum())} of {len(times)} timestamps of chains, first "
            f"{pd.Timestamp(times[missing][0])} UTC: fit the surfaces from the same chains"
        )
    return surfaces.sel(time=times)
