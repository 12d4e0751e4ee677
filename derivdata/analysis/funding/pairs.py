"""Pairs of venues: index, costs and payments of positions, including spot legs and inverse contracts.

The formulas of coin-settled legs are in `derivdata.analysis.backtest.book`: the coins of a leg are kept until
the exit and valued at the exit price.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from xarray.core.indexing import IndexSelResult

from derivdata.analysis.align import align
from derivdata.analysis.funding.accrual import earned, prepare, require_cover
from derivdata.analysis.labelling import elementwise
from derivdata.analysis.panels import (
    Panel,
    along,
    hours,
    hours_at,
    kind_of,
    positive,
    require,
    require_labels,
    require_numbers,
    require_rate,
    require_venues,
    usual_step,
    whole,
    with_symbol,
)
from derivdata.analysis.status import FundingStatus, flag_attrs
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats
from derivdata.support.times import TimeLike, naive_utc, timestamp
from derivdata.units import APR_UNIT, BPS, BPS_UNIT, REFERENCE_HOURS, USD_UNIT

_HOURS_A_YEAR = 365.0 * 24.0
_LINEAR = "linear"


class Leg(NamedTuple):
    """One leg of a pair."""

    name: str
    venue: str
    direction: float
    fee_bps: float
    kind: str
    settle: str
    """Symbol of the settlement coin of a quanto contract."""


def kind_of_contract(contracts: Mapping[str, str], venue: str) -> tuple[str, str]:
    """Return the kind of a venue's contracts and, of quanto contracts, the settlement coin."""
    stated = contracts.get(venue, _LINEAR)
    kind, _, coin = stated.partition(":")
    if stated not in (_LINEAR, "inverse") and not (kind == "quanto" and coin):
        raise ValueError(
            f"contracts[{venue!r}] must be 'linear', 'inverse' or 'quanto:' and the settlement coin, such as "
            f"'quanto:BTC', got {stated!r}"
        )
    return kind, coin


def earned_by_legs(
    rates: xr.DataArray,
    interval: xr.DataArray,
    prices: xr.DataArray,
    legs: tuple[Leg, Leg],
    start: np.datetime64,
    end: np.datetime64,
    leg_usd: float,
) -> xr.Dataset:
    """Return the earnings of each leg from start to end [coin, USD], by symbol; NaN if a mark is missing.

    `rates` and `interval` are of `derivdata.analysis.settlements.due_settlements`.
    """
    # 1. Read the marks at the start, the end and each payment.
    rates = with_symbol(rates)
    interval = with_symbol(interval)
    marks = with_symbol(require(prices, "exchange", "time", units=USD_UNIT, name="prices"))
    step = np.timedelta64(round(usual_step(hours(marks, name="prices")) * 3600), "s")
    stamps = rates["time"].to_numpy()
    paid = (stamps > start) & (stamps <= end)
    times = np.unique(np.concatenate([np.array([start, end]), stamps[paid]]))
    marks = align(marks, pd.DatetimeIndex(times), tolerance=pd.Timedelta(step))["value"]
    symbols = [str(symbol) for symbol in rates["symbol"].to_numpy()]
    require_labels(marks, "prices", "symbol", [*symbols, *(leg.settle for leg in legs if leg.settle)])

    # 2. Compute each leg in its settlement coin, and in USD at the last price of that coin.
    result = xr.Dataset(coords={"symbol": symbols})
    for leg, (suffix, unit) in itertools.product(legs, (("coin", "coin"), ("usd", USD_UNIT))):
        values = np.full(len(symbols), np.nan)
        result[f"{leg.name}_{suffix}"] = ("symbol", values, {"units": unit})
    payment_rows = np.searchsorted(times, stamps[paid])

    def series(panel: xr.DataArray, symbol: str, leg: Leg) -> Floats:
        values: Floats = panel.sel(symbol=symbol, exchange=leg.venue).transpose("time").to_numpy()
        return values

    for place, symbol in enumerate(symbols):
        leg_prices = [series(marks, symbol, leg) for leg in legs]
        long_price, short_price = leg_prices
        coins = leg_usd / (0.5 * (long_price[0] + short_price[0]))
        for leg, price in zip(legs, leg_prices, strict=True):
            settle = price if leg.kind == "inverse" else np.ones_like(price)
            if leg.settle:
                settle = series(marks, leg.settle, leg)
            leg_rates = series(rates, symbol, leg)[paid]
            leg_hours = series(interval, symbol, leg)[paid]
            earned = _of_leg(leg, coins, leg_rates, leg_hours, payment_rows, price, settle)
            result[f"{leg.name}_usd"][place] = earned * settle[-1]
            if leg.kind != _LINEAR:
                result[f"{leg.name}_coin"][place] = earned
    return result


def _of_leg(
    leg: Leg,
    coins: float,
    rates: Floats,
    interval: Floats,
    payment_rows: NDArray[np.intp],
    price: Floats,
    settle: Floats,
) -> float:
    """Return a leg's earnings in its settlement coin: payments and price P&L minus the fees of two trades.

    `price` and `settle` are marks from the start to the end [USD]; `payment_rows` are those of the payments.
    """
    is_paid = np.isfinite(rates) & (interval > 0.0)
    rate = -leg.direction * rates[is_paid] * interval[is_paid] / REFERENCE_HOURS / BPS
    payment_price = price[payment_rows[is_paid]]
    entry = price[0]
    final = price[-1]
    fee = leg.fee_bps / BPS
    if leg.kind == "inverse":
        notional = coins * entry
        received = (rate * notional / payment_price).sum()
        gained = leg.direction * notional * (1.0 / entry - 1.0 / final)
        return float(received + gained - fee * notional * (1.0 / entry + 1.0 / final))
    multiplier = coins / settle[0]
    received = (rate * multiplier * payment_price).sum()
    gained = leg.direction * multiplier * (final - entry)
    return float(received + gained - fee * multiplier * (entry + final))


OWNED = "spot"
BORROWED = "borrowed"
"""Names of venues whose legs are coins: the first are bought, the second are borrowed and sold."""


@typed
def with_spot(panel: Panel, *, borrow_apr: float | None = None) -> xr.DataArray:
    """Add the venues ``"spot"`` and ``"borrowed"``, whose legs are coins, to a panel of funding rates.

    Parameters
    ----------
    panel
        Funding rates [bps/8h], dims ``exchange`` and ``time``, others allowed.
    borrow_apr
        Cost of borrowed coins [fraction per year].

    Returns
    -------
    DataArray, dims of the panel
        Its venues and ``"spot"`` for long legs, with rate 0 at the times of the symbol's venue with the most
        rates. With `borrow_apr` also ``"borrowed"`` for short legs, with the negative of that rate, which the
        short leg pays. Pairs such as ``("spot", "binance")`` then work in ``forecast_carry`` and the other
        functions of pairs; a spot trade has a separate fee in ``fee_bps``, and its price comes from
        ``dd.prices.spot``.

    Raises
    ------
    ValueError, TypeError
        The panel has no rates or already has these venues; `borrow_apr` is negative or not finite.
    """
    rates = require_rate(panel, "exchange", "time")
    if borrow_apr is not None and not 0.0 <= borrow_apr < np.inf:
        raise ValueError(f"borrow_apr must be a fraction per year of 0 or more, got {borrow_apr!r}")
    legs = {OWNED: 0.0}
    if borrow_apr is not None:
        legs[BORROWED] = -1e4 * borrow_apr / (3 * 365)  # bps per 8 hours
    if taken := [str(name) for name in rates["exchange"].values if name in legs]:
        raise ValueError(f"panel already has the venue {taken[0]!r}: pass another name")
    zero_rates = free_leg(rates)
    added = [(zero_rates + rate).expand_dims(exchange=[name]) for name, rate in legs.items()]
    joined: xr.DataArray = xr.concat([rates, *added], "exchange", join="exact")
    return joined.rename(rates.name).assign_attrs(rates.attrs)


def free_leg(rates: xr.DataArray) -> xr.DataArray:
    """Return rates of 0 at the times of the venue with the most rates of each symbol."""
    if not rates.sizes["exchange"]:
        raise ValueError(
            "rates must have at least one venue along exchange: a leg without funding uses its timestamps"
        )
    most = rates.count("time").argmax("exchange").compute()
    return 0.0 * rates.isel(exchange=most).drop_vars("exchange")


def pair_costs(fee_bps: float | Mapping[str, float], venues: Sequence[str]) -> Floats:
    """Return the cost of the four trades of every pair [bps of one leg's notional], (long, short).

    Each leg is opened and closed, so a pair pays twice the cost of one trade on each venue.
    """
    if isinstance(fee_bps, Mapping):
        absent = [name for name in venues if name not in fee_bps]
        if absent:
            raise ValueError(f"fee_bps does not have a fee for {', '.join(absent)}: add the bps of one trade")
        fees = np.array([float(fee_bps[name]) for name in venues])
    else:
        fees = np.full(len(venues), float(fee_bps))
    if not np.isfinite(fees).all():
        raise ValueError("fee_bps must be finite numbers [bps]")
    return np.asarray(2.0 * (fees[:, None] + fees[None, :]), dtype=np.float64)


@typed
def realised_carry(
    panel: Panel,
    long: str,
    short: str,
    start: TimeLike,
    end: TimeLike,
    *,
    fee_bps: float | Mapping[str, float],
    min_cover: float = 0.9,
    overlap: Literal["raise", "nan"] = "raise",
    contracts: Mapping[str, str] | None = None,
    prices: Panel | None = None,
    leg_usd: float = 10_000.0,
) -> xr.Dataset:
    """Compute the payments of a pair held from start to end: the settlements in ``(start, end]``.

    Parameters
    ----------
    panel
        Settled funding rates [bps/8h], dims ``exchange`` and ``time``, in memory or lazy.
    long, short
        Venues of the two legs, of equal notional.
    start, end
        Times. A settlement at `start` is not earned, and one at `end` is. A settlement stamped up to a minute
        past a whole hour counts at that hour.
    fee_bps
        Fee of one trade [bps of the notional traded], one number or a mapping by venue. A pair makes four
        trades.
    min_cover
        Minimum fraction of the expected hours that a leg's settlements must cover, above 0 and at most 1.
    overlap
        As in `cumulative`.
    contracts, prices, leg_usd
        `prices` are marks [USD] over ``symbol``, ``exchange`` and ``time``; with them the result includes the
        price P&L of legs of `leg_usd` [USD] with the same number of coins. `contracts` are as in
        `derivdata.analysis.backtest.carry`: ``{"bitmex": "inverse"}``. The marks are the newest at the start,
        the end and each payment, no older than their usual step.

    Returns
    -------
    Dataset, the panel's dims without ``exchange`` and ``time``
        ``net_bps`` = ``gross_bps`` − ``cost_bps``; ``net_apr`` [1/year], the same as a simple fraction of one
        leg's notional per 365 days; ``gross_bps`` = ``long_bps`` + ``short_bps``, the payments of each leg;
        ``long_settlements``, ``short_settlements``; ``long_coverage``, ``short_coverage``, the paid fraction
        of the hours due; ``status``. If a settlement is missing or the panel ends before the end, the status
        is ``gap`` and the sums cover the known rows. With `prices` also ``long_usd`` and
        ``short_usd``, the earnings of each leg by payments and price after its fees, ``net_usd``, their sum,
        and ``long_coin`` and ``short_coin``, the same in a leg's settlement coin (NaN for linear legs). Below
        `min_cover` all sums are NaN.

    Raises
    ------
    TypeError, ValueError
        The panel is not settled funding in bps/8h; a venue is not in it or has no fee; start is not before
        end; settlements pay for more hours than have passed.
    """
    panel = require_rate(panel, "exchange", "time")
    if kind_of(panel) != "settled":
        raise ValueError(
            "panel must have payments, got sampled rates: pass settlements (dd.funding.settlements)"
        )
    opened = timestamp(start, "start")
    closed = timestamp(end, "end")
    if opened >= closed:
        raise ValueError(f"start must be before end, got start {opened} and end {closed}")
    require_venues(panel, long=long, short=short)
    require_cover(min_cover)

    # 1. Sum the payments of both legs within the span.
    cost = float(pair_costs(fee_bps, [long, short])[0, 1])
    prepared = prepare(panel, overlap=overlap)
    first, last = (naive_utc(stamp).to_datetime64() for stamp in (opened, closed))
    span = hours_at(np.array([first, last]), prepared.origin)
    carry = earned(prepared, span[:1], span[1:], min_cover=min_cover).isel(span=0)
    rates, interval = prepared.arrays
    settlements = rates.where((rates["time"] > first) & (rates["time"] <= last)).count("time")

    # 2. Sum the pair: a long pays the rate, and a short receives it.
    amount = carry["amount"]
    venues = {"long": long, "short": short}
    received = {
        "long_bps": -amount.sel(exchange=long, drop=True),
        "short_bps": amount.sel(exchange=short, drop=True),
    }
    gross = received["long_bps"] + received["short_bps"]
    figures = {"net_bps": gross - cost, "gross_bps": gross, **received, "cost_bps": xr.DataArray(cost)}
    result = _in_bps(figures)
    years = float(span[1] - span[0]) / _HOURS_A_YEAR
    result["net_apr"] = (result["net_bps"] / 1e4 / years).assign_attrs(units=APR_UNIT)
    for leg, venue in venues.items():
        result[f"{leg}_settlements"] = settlements.drop_attrs().sel(exchange=venue, drop=True)
        result[f"{leg}_coverage"] = carry["coverage"].sel(exchange=venue, drop=True)
    gap = (result["long_coverage"] < 1.0) | (result["short_coverage"] < 1.0)
    result["status"] = (gap * np.int32(FundingStatus.GAP)).astype(np.int32)
    result["status"].attrs = flag_attrs(FundingStatus)

    # 3. With prices, add price P&L and fees, in USD and in each leg's settlement coin.
    if prices is not None:
        in_coin = _settled_in_coin(
            rates, interval, prices, venues, contracts or {}, fee_bps, (first, last), leg_usd
        )
        for leg in venues:
            is_known = result[f"{leg}_bps"].notnull()  # with too few payments both are unknown
            for name in (f"{leg}_coin", f"{leg}_usd"):
                in_coin[name] = in_coin[name].where(is_known)
        in_coin["net_usd"] = (in_coin["long_usd"] + in_coin["short_usd"]).assign_attrs(units=USD_UNIT)
        result = result.merge(in_coin)
    elif contracts is not None:
        raise ValueError("contracts= needs prices= to value the settlement coins: pass prices")
    return result.assign_coords(venues)


def _in_bps(figures: Mapping[str, xr.DataArray]) -> xr.Dataset:
    """Return figures with their unit as the only attribute."""
    result = {}
    for name, values in figures.items():
        result[name] = values.drop_attrs().assign_attrs(units=BPS_UNIT)
    return xr.Dataset(result)


def _settled_in_coin(
    rates: xr.DataArray,
    interval: xr.DataArray,
    prices: Any,
    venues: Mapping[str, str],
    contracts: Mapping[str, str],
    fee_bps: float | Mapping[str, float],
    span: tuple[np.datetime64, np.datetime64],
    leg_usd: float,
) -> xr.Dataset:
    """Return the earnings of each leg over a span, in its settlement coin and in USD."""
    fees = fee_bps if isinstance(fee_bps, Mapping) else dict.fromkeys(venues.values(), fee_bps)
    legs = []
    for (name, venue), direction in zip(venues.items(), (1.0, -1.0), strict=True):
        kind, coin = kind_of_contract(contracts, venue)
        legs.append(Leg(name, venue, direction, float(fees[venue]), kind, coin))
    size = positive(leg_usd, "leg_usd")
    earned = earned_by_legs(rates, interval, prices, (legs[0], legs[1]), *span, size)
    return earned if "symbol" in rates.dims else earned.isel(symbol=0, drop=True)


@typed
def slippage_bps(depth_usd: xr.DataArray, size_usd: Numbers, *, dim: str = "depth_bps") -> xr.DataArray:
    """Estimate the mean distance from the mid price at which an order is filled, from the depth of the book.

    Parameters
    ----------
    depth_usd
        Depth [USD] within each distance of mid, cumulative; `dim` has the distances [bps] as coordinate.
        In memory or lazy (`dim` is put into one chunk).
    size_usd
        Size of the order [USD], a number or an array over other dims.

    Returns
    -------
    DataArray without `dim`
        [bps of the order's notional]. Depth is assumed to be spread evenly between the distances. NaN if the
        size is not filled within the last distance, or a depth is missing or decreasing.

    Raises
    ------
    TypeError, ValueError
        `depth_usd` is not in USD or lacks `dim`; the distances do not ascend from above 0.
    """
    require(depth_usd, dim, units=USD_UNIT, name="depth_usd")
    require_numbers(depth_usd[dim], f"{dim} of depth_usd")
    (size_usd,) = along(depth_usd, dim, new=True, size_usd=size_usd)
    distance = depth_usd[dim].to_numpy().astype(np.float64)
    if not distance.size:
        raise ValueError(f"depth_usd must have at least one distance along {dim!r}")
    if (np.diff(distance, prepend=0.0) <= 0.0).any():
        raise ValueError(f"the distances along {dim!r} must ascend from above 0 bps, got {distance}")
    cost = elementwise(_slippage, whole(depth_usd, dim), size_usd, core=[[dim], []], distance=distance)
    return cost.rename("slippage_bps").assign_attrs(units=BPS_UNIT)


def _slippage(depth: Floats, size: Any, *, distance: Floats) -> Floats:
    """Return the slippage [bps] of an order of `size` from the cumulative depth at distances [bps]."""
    # 1. Compute the part of the order that each distance band fills, and how far the order reaches into it.
    size = np.asarray(size, dtype=np.float64)[..., None]
    outer = np.minimum(depth, size)
    inner = np.concatenate([np.zeros_like(outer[..., :1]), np.minimum(depth[..., :-1], size)], axis=-1)
    previous = np.concatenate([np.zeros_like(depth[..., :1]), depth[..., :-1]], axis=-1)
    width = np.diff(distance, prepend=0.0)
    share = np.where(depth > previous, (outer - previous) / (depth - previous), 0.0)

    # 2. Price each part at the middle of the distances that it uses.
    filled = np.maximum(outer - inner, 0.0)
    near = distance - width
    cost = (filled * (near + 0.5 * width * np.clip(share, 0.0, 1.0))).sum(axis=-1) / size[..., 0]
    rises = (np.diff(depth, axis=-1, prepend=0.0) >= 0.0).all(axis=-1)
    return np.where(rises & (size[..., 0] > 0.0) & (depth[..., -1] >= size[..., 0]), cost, np.nan)


class PairIndex(xr.Index):
    """Index of pairs by their legs.

    Notes
    -----
    xarray's own index of several labels (`pandas.MultiIndex`) cannot be written to netCDF or zarr. This one
    can: its coordinates are plain text. A file that was read has them without the index:
    ``result.set_xindex(["long", "short"], PairIndex)`` sets it again. The coordinate ``pair`` is not part of
    it, because xarray 2026.9 could then not assign a variable (``result["double"] = 2 * result["net_bps"]``).
    """

    def __init__(self, legs: Mapping[str, Any], dim: str = "pair") -> None:
        self.legs = {name: np.asarray(venues, dtype=object) for name, venues in legs.items()}
        self.dim = dim

    @classmethod
    def from_variables(cls, variables: Mapping[Any, xr.Variable], *, options: Mapping[str, Any]) -> PairIndex:
        """Return the index of coordinates ``long`` and ``short``."""
        missing = [leg for leg in ("long", "short") if leg not in variables]
        if missing:
            raise ValueError(f"PairIndex needs the coordinates long and short: {missing[0]} is missing")
        dim = str(variables["long"].dims[0])
        return cls({leg: variables[leg].values for leg in ("long", "short")}, dim)

    def create_variables(
        self, variables: Mapping[Any, xr.Variable] | None = None
    ) -> dict[Hashable, xr.Variable]:
        """Return the legs as coordinates."""
        before = variables or {}
        made: dict[Hashable, xr.Variable] = {}
        for name, words in self.legs.items():
            attrs = None if name not in before else before[name].attrs
            made[name] = xr.Variable((self.dim,), words, attrs)
        return made

    def _pairs(self) -> pd.MultiIndex:
        return pd.MultiIndex.from_arrays(list(self.legs.values()), names=list(self.legs))

    def to_pandas_index(self) -> pd.Index:
        """Return the pairs as labels of two levels, for ``result.indexes``."""
        return self._pairs()

    def isel(self, indexers: Mapping[Any, Any]) -> PairIndex | None:
        """Return the index of some pairs; None where one pair is selected."""
        places = indexers.get(self.dim)
        if places is None:
            return self
        if isinstance(places, xr.Variable):
            places = places.values
        if not isinstance(places, slice) and np.ndim(places) != 1:
            return None
        return type(self)({leg: venues[places] for leg, venues in self.legs.items()}, self.dim)

    def sel(self, labels: dict[Any, Any], **_: Any) -> IndexSelResult:
        """Return the position of a pair, or the positions of all pairs with one of the given legs."""
        chosen = np.ones(len(self._pairs()), dtype=bool)
        for leg, label in labels.items():
            if isinstance(label, slice):
                raise TypeError(f"{leg} must be a venue or a list of venues, got a slice")
            chosen &= np.isin(self.legs[leg], np.asarray(label, dtype=object))
        places = np.flatnonzero(chosen)
        if not places.size:
            wanted = ", ".join(f"{leg}={label!r}" for leg, label in labels.items())
            listed = ", ".join("/".join(pair) for pair in self._pairs()[:5])
            raise KeyError(f"no pair matches {wanted}; available pairs: {listed}, ...")
        is_single = len(labels) == len(self.legs) and all(np.ndim(label) == 0 for label in labels.values())
        return IndexSelResult({self.dim: int(places[0]) if is_single else places})

    def equals(self, other: xr.Index, **_: Any) -> bool:
        """Return whether the pairs are the same in the same order."""
        return isinstance(other, PairIndex) and self._pairs().equals(other._pairs())

    def join(self, other: PairIndex, how: Any = "inner") -> PairIndex:
        """Return the index of the pairs in both indexes, or in either of them."""
        joined = self._pairs().join(other._pairs(), how=how)
        return type(self)({leg: joined.get_level_values(leg) for leg in self.legs}, self.dim)

    def reindex_like(self, other: PairIndex) -> dict[Hashable, Any]:
        """Return the positions of another index's pairs in this one, −1 for a missing pair."""
        return {self.dim: self._pairs().get_indexer(other._pairs())}

    @classmethod
    def concat(cls, indexes: Sequence[PairIndex], dim: Hashable, positions: Any = None) -> PairIndex:
        """Return one index with the pairs of several indexes, in order."""
        names = indexes[0].legs
        return cls({leg: np.concatenate([index.legs[leg] for index in indexes]) for leg in names}, str(dim))

    def rename(self, name_dict: Mapping[Any, Hashable], dims_dict: Mapping[Any, Hashable]) -> PairIndex:
        """Return the index under other names of its dim and its legs."""
        legs = {str(name_dict.get(leg, leg)): venues for leg, venues in self.legs.items()}
        return type(self)(legs, str(dims_dict.get(self.dim, self.dim)))


def pair_coordinates(long: Iterable[Any], short: Iterable[Any]) -> xr.Coordinates:
    """Return the coordinates ``long`` and ``short`` with their index, and ``pair``: ``"okx/bybit"``."""
    labels = np.array([f"{bought}/{sold}" for bought, sold in zip(long, short, strict=True)], dtype=object)
    coordinates = xr.Coordinates.from_xindex(PairIndex({"long": [*long], "short": [*short]}))
    return coordinates.assign(pair=("pair", labels))
