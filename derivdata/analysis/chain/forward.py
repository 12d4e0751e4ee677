"""The forward of each expiry, from what the chain itself says, and the basis that it implies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.chain.prepared import prepare, require_price_units
from derivdata.analysis.chain.slice_forwards import METHODS, ForwardMethod, main_contracts, slice_forwards
from derivdata.analysis.inputs import require_beside, require_variables
from derivdata.analysis.labelling import by_label, elementwise, previous
from derivdata.analysis.status import Status
from derivdata.support.arguments import Numbers, typed
from derivdata.support.arrays import Floats

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
    parts = (np.log(not_spot_forward), years, np.log(start))
    core = [["expiry"], ["expiry"], []]
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
