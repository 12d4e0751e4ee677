"""Legs of a position as arrays: options, futures, perpetuals and spot, in coins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.inputs import require_columns
from derivdata.support.text import did_you_mean
from derivdata.support.times import naive_utc
from derivdata.tables.expiries import expiries

OPTIONS = ("call", "put")
EXPIRING = (*OPTIONS, "future")
SIDES = (*EXPIRING, "perpetual", "spot")
CONTRACTS = ("linear", "inverse")
NO_EXPIRY_YEARS = 100.0
"""Legs that are longer than this do not expire."""

_NEVER = np.datetime64("2400-01-01", "us")


class Instruments(NamedTuple):
    """What the legs are; all over ``leg``."""

    expiry: xr.DataArray
    """Naive UTC; far in the future where a leg has none."""
    strike: xr.DataArray
    option_side: xr.DataArray
    """Side of each option, ``"call"`` of other legs."""
    quantity: xr.DataArray
    """Coins, or USD of an inverse future or perpetual."""
    price: xr.DataArray
    """Price [USD] at which a future or perpetual was entered, NaN where it is not stated."""
    is_option: xr.DataArray
    is_spot: xr.DataArray
    has_no_expiry: xr.DataArray
    is_inverse: xr.DataArray
    is_dated: xr.DataArray
    """Whether the expiry came as a date."""

    @property
    def options(self) -> Instruments:
        """Return the options alone."""
        rows = np.flatnonzero(self.is_option.to_numpy())
        return Instruments(*(values.isel(leg=rows) for values in self))


def instruments(legs: pd.DataFrame) -> Instruments:
    """Read and check a table of legs; see `derivdata.analysis.position`."""
    require_columns(legs, "legs", ("quantity",), others=("side",))
    if not len(legs):
        raise ValueError("legs has no rows")
    side = legs["side"].astype(object)
    unknown = ~side.isin(SIDES)
    if unknown.any():
        name = side[unknown].iloc[0]
        raise ValueError(
            f"a leg has the side {name!r}: expected {', '.join(SIDES)}{did_you_mean(str(name), SIDES)}"
        )
    is_option = side.isin(OPTIONS)
    if is_option.any():
        require_columns(legs, "legs", ("strike",), any_kind=("expiry",))
    quantity = legs["quantity"].astype(np.float64)
    strike = _numbers(legs, "strike")
    price = _numbers(legs, "price")
    is_good = np.isfinite(quantity).all() and (strike[is_option] > 0).all()
    if not is_good:
        raise ValueError("legs need a quantity in coins and a strike above 0 in every row")
    if (strike.notna() & ~is_option).any():
        name = side[strike.notna() & ~is_option].iloc[0]
        raise ValueError(f"a leg with the side {name!r} has a strike: leave it empty")
    if not (price.isna() | (price > 0)).all():
        raise ValueError("the column 'price' of legs must be above 0 [USD], or empty")
    is_inverse = _inverse(legs, side)
    expires = side.isin(EXPIRING)
    stamps, is_dated = _expiries(legs, side, expires)
    columns = {
        "expiry": stamps,
        "strike": strike.where(is_option).to_numpy(),
        "option_side": side.where(is_option, "call").to_numpy(dtype=object),
        "quantity": quantity.to_numpy(),
        "price": price.where(~is_option).to_numpy(),
        "is_option": is_option.to_numpy(dtype=bool),
        "is_spot": (side == "spot").to_numpy(dtype=bool),
        "has_no_expiry": ~expires.to_numpy(dtype=bool),
        "is_inverse": is_inverse.to_numpy(dtype=bool),
        "is_dated": is_dated,
    }
    return Instruments(**{name: xr.DataArray(values, dims="leg") for name, values in columns.items()})


def _numbers(legs: pd.DataFrame, name: str) -> pd.Series:
    if name not in legs:
        return pd.Series(np.nan, index=legs.index)
    try:
        return pd.to_numeric(legs[name]).astype(np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"the column {name!r} of legs must hold numbers, not {legs[name].dtype}") from None


def _inverse(legs: pd.DataFrame, side: pd.Series) -> pd.Series:
    """Tell which legs are inverse contracts, whose quantity is in USD."""
    if "contract" not in legs:
        return pd.Series(False, index=legs.index)
    contract = legs["contract"].astype(object)
    unknown = contract.notna() & ~contract.isin(CONTRACTS)
    if unknown.any():
        raise ValueError(
            f"a leg has the contract {contract[unknown].iloc[0]!r}: expected 'linear' or 'inverse'"
        )
    is_inverse = contract == "inverse"
    wrong = is_inverse & ~side.isin(("future", "perpetual"))
    if wrong.any():
        raise ValueError(
            f"a leg with the side {side[wrong].iloc[0]!r} has the contract 'inverse': only futures and "
            "perpetuals have a quantity in USD; the results' dim currency has the coin value of options"
        )
    return is_inverse


def _expiries(legs: pd.DataFrame, side: pd.Series, expires: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return the expiry of each leg, a far day where it has none, and which were dates."""
    stamps = np.full(len(legs), _NEVER)
    is_dated = np.zeros(len(legs), dtype=bool)
    if not expires.any():
        return stamps, is_dated
    require_columns(legs, "legs", any_kind=("expiry",))
    rows = expires.to_numpy(dtype=bool)
    if not rows.all() and legs["expiry"][~rows].notna().any():
        name = side[~rows & legs["expiry"].notna().to_numpy()].iloc[0]
        raise ValueError(f"a leg with the side {name!r} has an expiry: leave it empty, or name it a future")
    read, dated = expiries(legs["expiry"][rows], "the column 'expiry' of legs")
    stamps[rows] = naive_utc(read).to_numpy("datetime64[us]")
    is_dated[rows] = dated
    return stamps, is_dated
