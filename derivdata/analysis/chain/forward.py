"""The forward of each expiry, from what the chain itself says, and the basis that it implies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.chain.estimates import ESTIMATES, Evidence, ForwardMethod, joined
from derivdata.analysis.chain.labels import by_label
from derivdata.analysis.chain.normalise import expiry_slices, keys_of, option_rows
from derivdata.analysis.chain.option_prices import require_price_units
from derivdata.analysis.inputs import require_beside, require_variables
from derivdata.analysis.labelling import elementwise, previous
from derivdata.analysis.status import Status
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

METHODS: tuple[ForwardMethod, ...] = tuple(ESTIMATES)
_SUSPECT = 0.05
_DISCOUNT_NOISE, _DISCOUNT_RATE = 0.005, 0.10
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
        The table ``options_snapshot``, a surface, or what `clean` gave; prices as in `clean`.
    given
        Forwards [USD] that are known, of a futures curve: a mapping from expiry, or a Series or
        DataArray labelled by expiry and, where they matter, symbol, exchange, time.
    spot
        Spot [USD], a number or labelled alike, for the method ``"spot"``.
    methods
        Tried in this order:

        - ``"given"``: `given`.
        - ``"parity"``: median over the 3 to 5 strikes nearest the money of what call and put imply, from
          mid prices, or marks where a venue has no quotes, or prices rebuilt from `iv` where it has
          neither. Prices in coin pair with prices in coin. Calls and puts of one volatility (a mark) hold
          no information and are passed over.
        - ``"underlying"``: median ``underlying_price``, if expiries have their own.
        - ``"delta"``: median forward at which an option has the venue's delta, 0.1 to 0.9 in size.
        - ``"spot"``: `spot`, or the underlying price where it is one for all expiries; zero carry.

        Parity and delta refuse an expiry with fewer than 3 estimates, or where the middle half of them
        spreads over 0.5 %.
    discount
        Discount factor of the premiums, for parity; ``"fit"`` takes it from the line of call less put on
        strike, over at least five strikes, and refuses one outside (0.5, 1.05).
    interest_rate
        Continuous rate [1/year] at which premiums are discounted, ``exp(-rate · T)``, in place of `discount`.
        None takes the chain's column ``interest_rate``, as Binance states one, and else 0.
    at
        Instant of the quotes, where the chain has no ``time``.

    Returns
    -------
    Dataset, dim ``expiry``, before it ``symbol``, ``exchange``, ``time`` as far as they differ
        ``forward`` [USD], ``forward_source`` (a method's name, empty where none served), ``discount``,
        the median ``underlying_price`` [USD], ``forward_status`` with bits ``FORWARD_IS_SPOT``,
        ``FORWARD_SUSPECT`` (over 5 % from the underlying price), ``DISCOUNT_SUSPECT`` (a fitted discount off
        1 by over 0.5 % and by more than 10 % a year, or 1 where none could be fitted), ``BAD_INPUT`` (no
        forward; NaN); coordinate ``year_fraction`` [years]. Where two contracts share an expiry (coin and
        USDC), these are of the one with more open interest.

    Raises
    ------
    ValueError
        An unknown method, labels that the chain does not have, no time, volatilities in percent, prices in
        the other unit than their name says.
    """
    options = option_rows(chain, at=at, interest_rate=interest_rate)
    require_price_units(options)
    table = slice_forwards(options, given=given, spot=spot, methods=methods, discount=discount)
    table = main_contracts(table)
    names = ["forward", "forward_source", "discount", "underlying_price", "forward_status", "year_fraction"]
    return by_label(table, ["expiry"], {name: ["expiry"] for name in names}, _UNITS).set_coords(
        "year_fraction"
    )


def slice_forwards(
    options: pd.DataFrame,
    *,
    given: Any = None,
    spot: Any = None,
    methods: Sequence[ForwardMethod] = METHODS,
    discount: float | Literal["fit"] = 1.0,
) -> pd.DataFrame:
    """Return what `forwards` returns as a table: one row per chain, expiry and contract."""
    table, place = expiry_slices(options)
    by_rate = np.exp(-table["interest_rate"] * table["year_fraction"])
    is_rate = discount == 1.0 and bool((table["interest_rate"] != 0.0).any())
    if not isinstance(discount, str):
        known = by_rate if is_rate else pd.Series(discount, index=table.index)
    table["underlying_price"] = options["underlying_price"].astype(np.float64).groupby(place).median()
    table = table.assign(forward=np.nan, discount=np.nan, forward_source="")
    evidence = Evidence(options, place, table, given, spot, discount if isinstance(discount, str) else known)
    for name in methods:
        # What the caller gave is read in any case, so that a wrong label is refused.
        if name not in ("given", "spot") and bool(table["forward"].notna().all()):
            continue
        estimate = ESTIMATES[name](evidence)
        taken = table["forward"].isna() & estimate["forward"].notna()
        for column, value in (("forward", estimate["forward"]), ("discount", estimate["discount"])):
            table[column] = table[column].mask(taken, value)
        table["forward_source"] = table["forward_source"].mask(taken, name)
    if is_rate:
        table["discount"] = by_rate.where(table["forward"].notna())
    table["forward_status"] = _status(table, fitted=isinstance(discount, str), by_rate=is_rate)
    return table


def _status(table: pd.DataFrame, *, fitted: bool, by_rate: bool) -> np.ndarray[Any, Any]:
    forward = table["forward"]
    apart = (forward / table["underlying_price"] - 1.0).abs()
    status = np.where(table["forward_source"] == "spot", Status.FORWARD_IS_SPOT, 0)
    status |= np.where(apart > _SUSPECT, Status.FORWARD_SUSPECT, 0)
    size = np.log(table["discount"]).abs()
    far = (size > _DISCOUNT_NOISE) & (size > _DISCOUNT_RATE * table["year_fraction"]) & (not by_rate)
    far |= fitted & ~table["forward_source"].isin(["parity", ""])  # 1, as none could be fitted
    status |= np.where(far, Status.DISCOUNT_SUSPECT, 0)
    status |= np.where(forward.isna(), Status.BAD_INPUT, 0)
    return status.astype(np.int32)


def spot_prices(options: pd.DataFrame, spot: Any = None) -> pd.DataFrame | None:
    """Return the spot price [USD] of each chain: `spot`, or its index price; None where no chain has one."""
    if spot is None and "index_price_usd" not in options:
        return None
    names = keys_of(options)
    if spot is None:
        price = pd.to_numeric(options["index_price_usd"]).astype(np.float64)
        table = options[names].assign(spot=price.where(price > 0.0))
    else:
        slices, _ = expiry_slices(options)
        table = slices[names].assign(spot=joined(slices, spot, "spot"))
    if not names:
        return table[["spot"]].median().to_frame().T
    return table.groupby(names, observed=True, sort=True)["spot"].median().reset_index()


def main_contracts(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row of `slice_forwards` for each expiry: of the contract with the most open interest.

    A contract whose forward is only spot comes after the others.
    """
    ranked = table.assign(weak=table["forward_source"].isin(["spot", ""]))
    ranked = ranked.sort_values(["weak", "open_interest", "contract"], ascending=[True, False, True])
    names = [*keys_of(table), "expiry"]
    return ranked.drop_duplicates(names).drop(columns="weak").sort_index()


class RowTerms(NamedTuple):
    """Forward [USD] and discount factor of every option."""

    forward: pd.Series
    discount: pd.Series


def row_terms(options: pd.DataFrame) -> RowTerms:
    """Return forward and discount of every option: the venue's own forward where the venue quotes one."""
    table = slice_forwards(options, methods=("underlying", "parity", "delta", "spot"))
    _, place = expiry_slices(options)
    own = place.map(table["forward_source"] == "underlying")
    forward = options["underlying_price"].where(own, place.map(table["forward"]))
    return RowTerms(forward, place.map(table["discount"]).fillna(1.0))


@typed
def basis(forward: xr.Dataset, *, spot: Numbers | None = None) -> xr.Dataset:
    """Compute the basis curve that the options imply.

    Parameters
    ----------
    forward
        What `forwards` gave.
    spot
        Spot [USD], a number or a DataArray over the dims of the chains. None leaves what needs it NaN.

    Returns
    -------
    Dataset, the dims of `forward`
        ``basis`` (F/S - 1, fraction), ``basis_apr`` (that over the years, simple), ``carry`` (ln(F/S)/T,
        continuous) and ``forward_carry``, the growth of the forward since the expiry before, or since
        spot for the first [all 1/year, decimal]. NaN where there is no forward.

    Notes
    -----
    A forward that is only spot (status ``FORWARD_IS_SPOT``) has no basis: it counts as missing.
    """
    require_variables(forward, "forward", ("forward", "forward_status", "year_fraction"), dims=("expiry",))
    if not forward.sizes["expiry"]:
        raise ValueError("forward has no expiries")
    forward = forward.chunk(expiry=-1) if forward.chunks else forward
    if spot is not None:
        require_beside(spot, "spot", forward)
    not_spot_forward = forward["forward"].where((forward["forward_status"] & Status.FORWARD_IS_SPOT) == 0)
    years = forward["year_fraction"]
    ratio = not_spot_forward / (np.nan if spot is None else spot)
    start = xr.full_like(ratio.isel(expiry=0, drop=True), np.nan) if spot is None else spot
    parts, core = (np.log(not_spot_forward), years, np.log(start)), [["expiry"], ["expiry"], []]
    grown = elementwise(_growth, *parts, core=core, out=[["expiry"]])
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
    """Return the slope of `level` along the last axis since the known one before it, or the start."""
    level, years, start = np.broadcast_arrays(level, years, np.asarray(start)[..., None])
    at = previous(years, np.isfinite(level))
    last, when = (np.take_along_axis(part, np.maximum(at, 0), -1) for part in (level, years))
    return np.asarray((level - np.where(at < 0, start, last)) / (years - np.where(at < 0, 0.0, when)))
