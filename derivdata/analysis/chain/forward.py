"""Forward and basis of each expiry and contract of a chain, from the first of five methods that applies.

Each method gives a table by expiry and contract, NaN if the chain lacks its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy import special

from derivdata.analysis.black76.formulas import sign
from derivdata.analysis.chain.prepared import (
    PreparedChain,
    Quoted,
    black,
    prepare,
    require_price_units,
    timestamps,
)
from derivdata.analysis.labelling import by_label, elementwise, keys_of, previous
from derivdata.analysis.panels import require_beside, require_numbers, require_variables
from derivdata.analysis.status import Status
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Bools, Floats
from derivdata.tables.contracts import expiries

_AT_MIN = 3
_SPREAD = 0.005
_PARITY_STRIKES = 5
ForwardMethod = Literal["given", "parity", "underlying", "delta", "spot"]

_FIT_STRIKES = 5
_DISCOUNTS = (0.5, 1.05)
_SAME_IV = 1.5e-4  # 1.5 ticks: calls and puts that agree within it were computed from one volatility
_SAME_UNDERLYING = 1e-6
_DELTAS = (0.1, 0.9)
_TEXTS = ("symbol", "exchange")
_SUSPECT = 0.05
_DISCOUNT_NOISE = 0.005
_DISCOUNT_RATE = 0.10


class Evidence(NamedTuple):
    """Rows of options, their positions in `table`, and values from the caller.

    `discount` is ``"fit"`` or a factor for each row of `table`.
    """

    options: pd.DataFrame
    prices: Quoted
    place: pd.Series
    table: pd.DataFrame
    given: Any
    spot: Any
    discount: Any


def forward_from_delta(strike: Any, years: Any, iv: Any, side: Any, delta: Any) -> Any:
    """Return the forward [USD] at which options have the forward delta ``±N(±d1)``.

    ``ln F = ln K + iv√T·N⁻¹(Δ) - iv²T/2``, for a put with ``N⁻¹(1 + Δ)``; NaN for a delta that is impossible
    for its side.
    """
    probability = np.where(sign(side) < 0.0, 1.0, 0.0) + delta
    probability = np.where((probability > 0) & (probability < 1), probability, np.nan)
    with np.errstate(invalid="ignore"):
        s = iv * np.sqrt(years)
    return strike * np.exp(s * special.ndtri(probability) - 0.5 * s * s)


def joined(table: pd.DataFrame, value: Any, argument: str) -> pd.Series:
    """Broadcast a number, a mapping by expiry, or a labelled Series or DataArray to the rows of `table`."""
    if value is None or isinstance(value, int | float | np.number):
        return pd.Series(np.nan if value is None else float(value), index=table.index)
    if getattr(value, "ndim", 1) == 0:
        return joined(table, value.item(), argument)
    # 1. Convert the value to a column with labels; a single unnamed level is the expiry.
    series = _series(value, argument)
    if series.index.nlevels == 1 and series.index.name is None:
        series.index.name = "expiry"
    names = list(series.index.names)
    strange = [name for name in names if name not in table]
    if strange:
        has = [*keys_of(table), "expiry"]
        raise ValueError(
            f"{argument} has the labels {strange}, which the chain does not have; its labels: {has}"
        )
    labels = series.rename("value").reset_index()
    if "time" in names:
        labels["time"] = timestamps(labels["time"], f"{argument}: its time")
    if "expiry" in names:
        labels["expiry"], _ = expiries(labels["expiry"], f"{argument}: its expiry")
        _require_listed(labels["expiry"], table["expiry"], argument)
    if labels.duplicated(names).any():
        raise ValueError(
            f"{argument} must have one value for each label, got two for "
            f"{labels.loc[labels.duplicated(names), names[0]].iloc[0]}"
        )

    # 2. Join it with the rows of the table, in their order.
    keys = table[names].astype({name: object for name in names if name in _TEXTS})
    return keys.merge(labels, on=names, how="left")["value"].set_axis(table.index)


def by_listed_expiry(value: Any, rows: pd.DataFrame, argument: str) -> Any:
    """Return values by expiry with the timestamps of the rows as keys; raise for an unlisted expiry.

    A number, and values without an expiry, are returned unchanged.
    """
    if value is None or isinstance(value, int | float | np.number) or getattr(value, "ndim", 1) == 0:
        return value
    series = _series(value, argument)
    if series.index.nlevels == 1 and series.index.name in (None, "expiry"):
        series.index.name = "expiry"
    names = list(series.index.names)
    if "expiry" not in names:
        return value
    labels = series.index.to_frame(index=False)
    labels["expiry"], _ = expiries(labels["expiry"], f"{argument}: its expiry")
    _require_listed(labels["expiry"], rows["expiry"], argument)
    index = pd.MultiIndex.from_frame(labels) if len(names) > 1 else pd.Index(labels["expiry"])
    return series.set_axis(index)


def of_expiries(value: Any, rows: pd.DataFrame) -> Any:
    """Restrict a result of `by_listed_expiry` to the expiries of some rows."""
    if not isinstance(value, pd.Series) or "expiry" not in value.index.names:
        return value
    return value[value.index.get_level_values("expiry").isin(rows["expiry"].unique())]


def _require_listed(labels: pd.Series, listed: pd.Series, argument: str) -> None:
    """Raise for expiries that the chain does not list."""
    unlisted = labels[~labels.isin(listed)]
    if len(unlisted):
        texts = ", ".join(f"{stamp:%Y-%m-%dT%H:%MZ}" for stamp in listed.drop_duplicates().sort_values())
        raise ValueError(
            f"{argument} has a value for {unlisted.iloc[0]:%Y-%m-%dT%H:%MZ}, which is not an expiry of the "
            f"chain; its expiries: {texts}"
        )


def _series(value: Any, argument: str) -> pd.Series:
    """Return a Series by expiry from a mapping, Series or DataArray of numbers."""
    if isinstance(value, xr.DataArray):
        require_numbers(value, argument)
        return value.to_series()
    if not isinstance(value, Mapping | pd.Series):
        raise TypeError(
            f"{argument} must be a number, a mapping by expiry, a Series or a DataArray, got "
            f"{type(value).__name__}"
        )
    try:
        return pd.Series(value, dtype=np.float64)
    except (ValueError, TypeError):
        raise TypeError(f"{argument} must have numeric values") from None


def _spot(evidence: Evidence) -> pd.DataFrame:
    """Return the caller's spot, otherwise the underlying price, as forward."""
    spot = joined(evidence.table, evidence.spot, "spot")
    return _undiscounted(spot.fillna(evidence.table["underlying_price"]))


def _undiscounted(forward: pd.Series) -> pd.DataFrame:
    """Return forwards with a discount factor of 1."""
    return pd.DataFrame({"forward": forward, "discount": 1.0})


def _underlying(evidence: Evidence) -> pd.DataFrame:
    """Return the median underlying price as forward if the venue publishes one by expiry, otherwise NaN.

    It does if prices differ more between the expiries of a chain than within them.
    """
    names = [*keys_of(evidence.table), "contract"]
    prices = evidence.options["underlying_price"].groupby(evidence.place)
    frame = evidence.table.assign(within=prices.max() - prices.min())
    groups = frame.groupby(names, observed=True, dropna=False)
    medians = groups["underlying_price"]
    between = medians.transform("max") - medians.transform("min")
    spread = medians.transform("std", ddof=0)
    is_by_expiry = between > 2.0 * groups["within"].transform("median")
    is_by_expiry &= spread > _SAME_UNDERLYING * medians.transform("mean")
    return _undiscounted(frame["underlying_price"].where(is_by_expiry))


def _delta(evidence: Evidence) -> pd.DataFrame:
    """Return the forward of each expiry, from the deltas and volatilities of its options."""
    options = evidence.options
    if "delta" not in options:
        return _undiscounted(pd.Series(np.nan, index=evidence.table.index))
    size = options["delta"].abs()
    used = options[(size > _DELTAS[0]) & (size < _DELTAS[1]) & (options["year_fraction"] > 0)]
    columns = ("strike", "year_fraction", "iv", "side", "delta")
    by_option = forward_from_delta(*(used[name].to_numpy() for name in columns))
    forward = pd.Series(by_option, used.index)
    return _undiscounted(_agreed(forward, evidence.place[used.index]).reindex(evidence.table.index))


def _agreed(forward: pd.Series, place: pd.Series) -> pd.Series:
    """Return the median by slice, if there are enough estimates with a narrow interquartile range."""
    groups = forward.groupby(place)
    median = groups.median()
    spread = (groups.quantile(0.75) - groups.quantile(0.25)) / median
    return median.where((spread < _SPREAD) & (groups.count() >= _AT_MIN))


def _parity(evidence: Evidence) -> pd.DataFrame:
    """Return forwards from quotes; if they disagree, from marks unless the venue publishes its forward."""
    by_quotes = _parity_of(evidence)
    unknown = by_quotes["forward"].isna()
    if unknown.any():
        unknown &= _underlying(evidence)["forward"].isna()
    lost = (evidence.place.map(unknown) & evidence.prices.mark.notna()).to_numpy()
    if not lost.any():
        return by_quotes
    options = evidence.options[lost]
    nothing = pd.Series(np.nan, index=options.index)
    marks = Quoted(nothing, nothing, evidence.prices.mark[lost], evidence.prices.inverse[lost])
    by_marks = _parity_of(evidence._replace(options=options, prices=marks, place=evidence.place[lost]))
    return by_quotes.where(by_quotes["forward"].notna(), by_marks)


def _parity_of(evidence: Evidence) -> pd.DataFrame:
    """Return the forwards of expiries from put-call parity at the strikes nearest the money."""
    pairs = _pairs(evidence)
    if isinstance(evidence.discount, str):
        return _fitted(pairs).reindex(evidence.table.index)
    # Gaps in coin and in USD cannot be compared, so the nearest strikes are selected separately for each
    # currency.
    near = pairs["gap"].abs().groupby([pairs["place"], pairs["inverse"]]).rank(method="first")
    used = pairs[near <= _PARITY_STRIKES]
    strike = used["strike"]
    gap = used["gap"] / used["place"].map(evidence.discount)
    # Linear premium C - P = D (F - K), inverse (coin) premium c - p = D (1 - K/F).
    by_strike = (strike + gap).mask(used["inverse"], strike / (1.0 - gap))
    forward = _agreed(by_strike, used["place"]).reindex(evidence.table.index)
    return pd.DataFrame({"forward": forward, "discount": evidence.discount})


def _pairs(evidence: Evidence) -> pd.DataFrame:
    """Pair calls with puts: by quotes, otherwise by marks, otherwise by volatilities."""
    # 1. Choose the kind of price that the chain has.
    options = evidence.options
    prices = evidence.prices
    place = evidence.place
    frame = pd.DataFrame({"place": place, "strike": options["strike"], "iv": options["iv"]})
    quotes, marks = (_chains_with(price, evidence) for price in (prices.ask, prices.mark))
    frame = frame.assign(
        price=prices.mid.where(quotes, prices.mark),
        spread=(prices.ask - prices.bid).where(quotes, 1.0),
        inverse=prices.inverse,
        rebuilt=~(quotes | marks),
    )
    if frame["rebuilt"].any():
        frame.loc[frame["rebuilt"], "price"] = black(options[frame["rebuilt"]])
    frame = frame.dropna(subset=None if frame["iv"].notna().any() else ["place", "strike", "price", "spread"])

    # 2. Pair calls and puts of one strike. Equal volatilities come from one fit and are uninformative.
    is_call = options["side"].loc[frame.index] == "call"
    keys = ["place", "strike", "inverse", "rebuilt"]
    pairs = frame[is_call].merge(frame[~is_call], on=keys, suffixes=("_call", "_put"))
    apart = (pairs["iv_call"] - pairs["iv_put"]).abs().groupby(pairs["place"]).transform("median")
    pairs = pairs[~pairs["rebuilt"] | (apart > _SAME_IV)]

    # 3. Compute the gap and the weight of each pair.
    pairs["gap"] = pairs["price_call"] - pairs["price_put"]
    pairs["weight"] = (pairs["spread_call"] + pairs["spread_put"]) ** -2.0
    return pairs[np.isfinite(pairs["weight"])]


def _chains_with(price: pd.Series, evidence: Evidence) -> Bools:
    """Return a mask of options whose chain has at least one price of a kind, such as marks."""
    table = evidence.table
    keys = keys_of(table) or np.zeros(len(table))
    number = table.groupby(keys, observed=True, dropna=False).ngroup()
    priced = evidence.place[price.notna().to_numpy()].unique()
    has_price = number.isin(number.loc[priced])
    return np.asarray(has_price.to_numpy()[evidence.place.to_numpy()])


def _fitted(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return forward and discount by the weighted regression of ``gap`` on strike that fits most strikes."""
    # 1. Sum deviations from the weighted means, because strikes are large relative to their differences.
    keys = [pairs["place"], pairs["inverse"]]
    weight = pairs["weight"]
    sums = {"weight": weight, "x": weight * pairs["strike"], "y": weight * pairs["gap"]}
    total = pd.DataFrame(sums).groupby(keys).transform("sum")
    dx = pairs["strike"] - total["x"] / total["weight"]
    dy = pairs["gap"] - total["y"] / total["weight"]
    line = pd.DataFrame({"xx": weight * dx * dx, "xy": weight * dx * dy}).groupby(keys).sum()
    mean = (total[["x", "y"]].div(total["weight"], axis=0)).groupby(keys).first()

    # 2. Fit a line by slice and currency: its slope is −D, or in coin −D/F with the intercept D.
    slope = line["xy"] / line["xx"]
    intercept = mean["y"] - slope * mean["x"]
    discount = intercept.where(slope.index.get_level_values("inverse"), -slope)
    n = weight.groupby(keys).count()
    is_plausible = (n >= _FIT_STRIKES) & (discount > _DISCOUNTS[0]) & (discount < _DISCOUNTS[1])
    lines = pd.DataFrame({"forward": -intercept / slope, "discount": discount, "n": n})[is_plausible]
    ordered = lines.sort_values("n", ascending=False, kind="stable").reset_index("inverse")
    return ordered[~ordered.index.duplicated()][["forward", "discount"]]


ESTIMATES: dict[ForwardMethod, Callable[[Evidence], pd.DataFrame]] = {
    "given": lambda evidence: _undiscounted(joined(evidence.table, evidence.given, "given")),
    "parity": _parity,
    "underlying": _underlying,
    "delta": _delta,
    "spot": _spot,
}
METHODS: tuple[ForwardMethod, ...] = tuple(ESTIMATES)


def slice_forwards(
    chain: PreparedChain,
    *,
    given: Any = None,
    spot: Any = None,
    methods: Sequence[ForwardMethod] = METHODS,
    discount: float | Literal["fit"] = 1.0,
) -> pd.DataFrame:
    """Return the forwards of `derivdata.analysis.chain.forwards` by label of a prepared chain."""
    # 1. Choose the discount factor of each slice: from the rate, as given, or fitted with the forward.
    options = chain.rows
    table = _slices(chain)
    place = pd.Series(chain.place, index=options.index)
    by_rate = np.exp(-table["interest_rate"] * table["year_fraction"])
    is_rate = discount == 1.0 and bool((table["interest_rate"] != 0.0).any())
    factor: Any = discount
    if is_rate:
        factor = by_rate
    elif not isinstance(discount, str):
        factor = pd.Series(float(discount), index=table.index)

    # 2. Use the forward of the first method that has a result.
    table["underlying_price"] = options["underlying_price"].astype(np.float64).groupby(place).median()
    table = table.assign(forward=np.nan, discount=np.nan, forward_source="")
    evidence = Evidence(options, chain.prices, place, table, given, spot, factor)
    for name in methods:
        # The caller's values are always read, so that a wrong label raises.
        if name not in ("given", "spot") and bool(table["forward"].notna().all()):
            continue
        estimate = ESTIMATES[name](evidence)
        # Wrong prices may give a negative forward.
        taken = table["forward"].isna() & (estimate["forward"] > 0.0)
        table["forward"] = table["forward"].mask(taken, estimate["forward"])
        table["discount"] = table["discount"].mask(taken, estimate["discount"])
        table["forward_source"] = table["forward_source"].mask(taken, name)
    if is_rate:
        table["discount"] = by_rate.where(table["forward"].notna())
    table["forward_status"] = _status(table, fitted=isinstance(discount, str), by_rate=is_rate)
    return table


def _status(table: pd.DataFrame, *, fitted: bool, by_rate: bool) -> np.ndarray[Any, Any]:
    """Return the status bits of forwards and discounts; `by_rate` are discounts from an interest rate."""
    source = table["forward_source"]
    distance = (table["forward"] / table["underlying_price"] - 1.0).abs()
    status = np.where(source == "spot", Status.FORWARD_IS_SPOT, 0)
    status |= np.where(distance > _SUSPECT, Status.FORWARD_SUSPECT, 0)
    log_discount = np.log(table["discount"]).abs()
    is_large = (log_discount > _DISCOUNT_NOISE) & (log_discount > _DISCOUNT_RATE * table["year_fraction"])
    is_suspect = is_large & (not by_rate)
    is_suspect |= fitted & ~source.isin(["parity", ""])  # a discount that could not be fitted is 1
    status |= np.where(is_suspect, Status.DISCOUNT_SUSPECT, 0)
    status |= np.where(table["forward"].isna(), Status.BAD_INPUT, 0)
    return status.astype(np.int32)


def _slices(chain: PreparedChain) -> pd.DataFrame:
    """Return the labels of a chain with their time to expiry, open interest and interest rate."""
    groups = chain.rows.groupby(chain.place)
    columns = {
        "year_fraction": groups["year_fraction"].first(),
        "open_interest": groups["open_interest"].sum(),
        "interest_rate": groups["interest_rate"].median() if "interest_rate" in chain.rows else 0.0,
    }
    return chain.labels.assign(**columns)


def spot_prices(chain: PreparedChain, spot: Any = None) -> pd.DataFrame | None:
    """Return the spot price [USD] of each chain, from `spot` or the index price; None if no chain has one."""
    options = chain.rows
    if spot is None and "index_price_usd" not in options:
        return None
    # 1. Read the index price of the chain's rows.
    names = keys_of(options)
    if spot is None:
        price = pd.to_numeric(options["index_price_usd"]).astype(np.float64)
        by_chain = price.where(price > 0.0).groupby(chain.numbers(names)).median()
        if not names:
            return pd.DataFrame({"spot": by_chain})
        # Chains are numbered in the order of their labels.
        table = chain.labels[names].drop_duplicates(ignore_index=True).assign(spot=by_chain)
        return table.dropna(subset=names, ignore_index=True)

    # 2. Use the caller's spot, which may have labels.
    slices = _slices(chain)
    table = slices[names].assign(spot=joined(slices, spot, "spot"))
    if not names:
        return table[["spot"]].median().to_frame().T
    return table.groupby(names, observed=True, sort=True)["spot"].median().reset_index()


def main_contracts(table: pd.DataFrame) -> pd.DataFrame:
    """Return the row of `slice_forwards` with the most open interest for each expiry.

    Contracts whose forward is spot are used last.
    """
    ranked = table.assign(weak=table["forward_source"].isin(["spot", ""]))
    ranked = ranked.sort_values(["weak", "open_interest", "contract"], ascending=[True, False, True])
    names = [*keys_of(table), "expiry"]
    return ranked.drop_duplicates(names).drop(columns="weak").sort_index()


class RowTerms(NamedTuple):
    """Forward [USD] and discount factor of every option."""

    forward: pd.Series
    discount: pd.Series


def row_terms(chain: PreparedChain) -> RowTerms:
    """Return forward and discount of every option, with the venue's own forward if it is quoted."""
    options = chain.rows
    table = slice_forwards(chain, methods=("underlying", "parity", "delta", "spot"))
    place = pd.Series(chain.place, index=options.index)
    is_quoted = place.map(table["forward_source"] == "underlying")
    forward = options["underlying_price"].where(is_quoted, place.map(table["forward"]))
    return RowTerms(forward, place.map(table["discount"]).fillna(1.0))


_UNITS = {"forward": "USD", "underlying_price": "USD", "discount": "1", "year_fraction": "years"}


@typed
def forwards(
    chain: pd.DataFrame | xr.Dataset,
    *,
    given: Any = None,
    spot: Numbers | None = None,
    methods: Sequence[ForwardMethod] = METHODS,
    discount: float | Literal["fit"] = 1.0,
    interest_rate: float | None = None,
    at: Any = None,
) -> xr.Dataset:
    """Return the forward of each expiry, by the first of `methods` that the chain allows.

    Parameters
    ----------
    chain
        The table ``options_snapshot``, a surface, or the result of `clean`; prices as in `clean`.
    given
        Known forwards [USD], for example from a futures curve: a mapping from expiry, or a Series or
        DataArray labelled by expiry and, if necessary, symbol, exchange, time.
    spot
        Spot [USD], a number or labelled in the same way, for the method ``"spot"``.
    methods
        Tried in this order:

        - ``"given"``: `given`.
        - ``"parity"``: median forward implied by call and put at the 3 to 5 strikes nearest the money, from
          mid prices, or prices rebuilt from `iv` for a venue without them. Marks are used if a venue has no
          quotes, or if those of an expiry disagree and it has no underlying price. Prices in coin pair with
          prices in coin. Rebuilt prices of calls and puts with equal volatility carry no information and are
          skipped.
        - ``"underlying"``: median ``underlying_price``, if expiries have their own.
        - ``"delta"``: median forward at which an option has the venue's delta, 0.1 to 0.9 in size.
        - ``"spot"``: `spot`, or the underlying price if all expiries have the same; assumes zero carry.

        Parity and delta skip an expiry with fewer than 3 estimates, or with an interquartile range over 0.5
        %.
    discount
        Discount factor of the premiums, for parity; ``"fit"`` estimates it from the regression of call minus
        put on strike, over at least five strikes, and rejects values outside (0.5, 1.05).
    interest_rate
        Continuous rate [1/year] at which premiums are discounted, ``exp(-rate · T)``, instead of `discount`.
        None uses the chain's column ``interest_rate`` (Binance publishes one), or 0 without one.
    at
        Timestamp of the quotes if the chain does not have ``time``.

    Returns
    -------
    Dataset, dim ``expiry``, preceded by ``symbol``, ``exchange``, ``time`` where several occur
        ``forward`` [USD], ``forward_source`` (a method's name, empty if none applied), ``discount``, the
        median ``underlying_price`` [USD], ``forward_status`` with bits ``FORWARD_IS_SPOT``,
        ``FORWARD_SUSPECT`` (over 5 % from the underlying price), ``DISCOUNT_SUSPECT`` (a fitted discount
        differs from 1 by over 0.5 % and by more than 10 % a year, or could not be fitted and is 1),
        ``BAD_INPUT`` (no forward; NaN); coordinate ``year_fraction`` [years]. If two contracts share an
        expiry (coin and USDC), the values are of the one with more open interest.

    Raises
    ------
    ValueError
        An unknown method, labels that the chain does not have, no time, volatilities in percent, prices in
        another unit than their column name states.
    """
    prepared = prepare(chain, at=at, interest_rate=interest_rate)
    require_price_units(prepared)
    table = slice_forwards(prepared, given=given, spot=spot, methods=methods, discount=discount)
    table = main_contracts(table)
    names = ["forward", "forward_source", "discount", "underlying_price", "forward_status", "year_fraction"]
    return by_label(table, ["expiry"], {name: ["expiry"] for name in names}, _UNITS).set_coords(
        "year_fraction"
    )


@typed
def basis(forward: xr.Dataset, *, spot: Numbers | None = None) -> xr.Dataset:
    """Compute the basis curve that is implied by option forwards.

    Parameters
    ----------
    forward
        Result of `forwards`.
    spot
        Spot [USD], a number or a DataArray over the dims of the chains. With None, results that depend on
        spot are NaN.

    Returns
    -------
    Dataset, the dims of `forward`
        ``basis`` (F/S - 1, fraction), ``basis_apr`` (basis over the years, simple), ``carry`` (ln(F/S)/T,
        continuous) and ``forward_carry``, the growth of the forward since the previous expiry, or since spot
        for the first [all 1/year, decimal]. NaN without a forward.

    Notes
    -----
    A forward that was taken from spot (status ``FORWARD_IS_SPOT``) does not contain a basis, so the results
    are NaN.
    """
    require_variables(forward, "forward", ("forward", "forward_status", "year_fraction"), dims=("expiry",))
    if not forward.sizes["expiry"]:
        raise ValueError("forward must have at least one expiry")
    forward = forward.chunk(expiry=-1) if forward.chunks else forward
    if spot is not None:
        require_beside(spot, "spot", forward)
    not_spot_forward = forward["forward"].where((forward["forward_status"] & Status.FORWARD_IS_SPOT) == 0)
    years = forward["year_fraction"]
    ratio = not_spot_forward / (np.nan if spot is None else spot)
    start = xr.full_like(ratio.isel(expiry=0, drop=True), np.nan) if spot is None else spot
    inputs = (np.log(not_spot_forward), years, np.log(start))
    core = [["expiry"], ["expiry"], []]
    grown = elementwise(_growth, *inputs, core=core, out=[["expiry"]])
    curve = xr.Dataset(
        {
            "basis": ratio - 1.0,
            "basis_apr": (ratio - 1.0) / years,
            "carry": np.log(ratio) / years,
            "forward_carry": grown,
        }
    )
    for name in curve:
        curve[name].attrs["units"] = "fraction" if name == "basis" else "1/year"
    return curve.transpose(*forward["forward"].dims)


def _growth(level: Floats, years: Floats, start: Floats) -> Floats:
    """Return the slope of `level` along the last axis since the previous known value or the start."""
    level, years, start = np.broadcast_arrays(level, years, np.asarray(start)[..., None])
    at = previous(years, np.isfinite(level))
    place = np.maximum(at, 0)
    last = np.where(at < 0, start, np.take_along_axis(level, place, -1))
    since = np.where(at < 0, 0.0, np.take_along_axis(years, place, -1))
    return np.asarray((level - last) / (years - since))
