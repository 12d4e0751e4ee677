"""Status bits of results: reasons for NaN or infinity, and warnings.

Every fit and every inversion returns an ``int32`` variable ``status`` next to its numbers. It is a sum of
these bits; 0 means that none applies. `flag_attrs` makes it readable without this library, by the CF
conventions (section 3.5, flags).
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any

import numpy as np
import xarray as xr

from derivdata.support.arguments import typed

__all__ = ["Status", "flag_attrs", "flags"]


class Status(IntFlag):
    """Bits for the reasons of a NaN, an infinite value or a warning; 0 if no reason applies."""

    EXPIRED = 1 << 0
    """The option has expired: year fraction ≤ 0."""
    BAD_INPUT = 1 << 1
    """NaN, or an impossible forward, strike or volatility."""
    ZERO_TIME_VALUE = 1 << 2
    """The price is exactly intrinsic: no volatility is implied."""
    BELOW_INTRINSIC = 1 << 3
    """The price is below intrinsic."""
    UPPER_BOUND = 1 << 4
    """The price is at or above the option's maximum payoff."""
    CROSSED = 1 << 5
    """The bid is above the ask."""
    TOO_FEW_STRIKES = 1 << 6
    """Fewer strikes than the method needs."""
    FALLBACK_USED = 1 << 7
    """A simpler method than the requested one gave this result."""
    NOT_CONVERGED = 1 << 8
    """The search ended without meeting its tolerance."""
    BUTTERFLY = 1 << 9
    """Butterfly arbitrage: a negative density somewhere."""
    CALENDAR = 1 << 10
    """Calendar arbitrage: total variance falls with expiry."""
    FORWARD_IS_SPOT = 1 << 11
    """No forward is available; spot is used (zero carry)."""
    FORWARD_SUSPECT = 1 << 12
    """The forward is over 5 % away from the venue's underlying price."""
    DELTA_UNREACHABLE = 1 << 13
    """No strike has the requested delta."""
    EXTRAPOLATED = 1 << 14
    """Outside the strikes or expiries of the data."""
    SHORT_EXTRAPOLATION = 1 << 15
    """Before the first expiry: the volatility of that expiry is used."""
    EXPIRY_TIME_ASSUMED = 1 << 16
    """The expiry came as a date; 08:00 UTC is assumed."""
    NEAR_EXPIRY = 1 << 17
    """Too close to settlement for a fit, but used for exposure."""
    ONE_SIDED = 1 << 18
    """There is an ask but no bid."""
    DUPLICATE = 1 << 19
    """Several quotes have this expiry and strike; the one with the largest open interest was used."""
    OUTLIER = 1 << 20
    """The implied volatility is far from its neighbours."""
    OFF_AT_THE_MONEY = 1 << 21
    """The fit is outside bid and ask at the money."""
    FLAT = 1 << 22
    """All smiles are flat within their noise: ρ and ψ are not determined, the volatility is."""
    NOT_MARTINGALE = 1 << 23
    """The density does not sum to 1, or its mean is not the forward."""
    UNDETERMINED = 1 << 24
    """The data does not determine the parameter: it may be anything within its range."""
    DISCOUNT_SUSPECT = 1 << 25
    """The fitted discount implies a rate above 10 % a year, and differs from 1 by more than 0.5 %."""
    OFF_QUOTES = 1 << 27
    """The fit misses its own quotes in one direction by more than a volatility point and 2 % of the
    volatility.

    Causes are the calendar condition with other expiries, or a shape that the method cannot fit.
    """
    PRICES_MIXED = 1 << 26
    """Prices are mixed between two expiries, because total variance linear in time would have butterfly
    arbitrage."""


def flag_attrs(reasons: type[IntFlag] = Status) -> dict[str, Any]:
    """Return the CF attributes ``flag_masks`` (int32) and ``flag_meanings`` (names separated by spaces)."""
    return {
        "flag_masks": np.array([bit.value for bit in reasons], dtype=np.int32),
        "flag_meanings": " ".join(str(bit.name).lower() for bit in reasons),
    }


@typed
def flags(data: xr.DataArray | xr.Dataset, variable: str = "status") -> xr.Dataset:
    """Decode status bits into one boolean per reason.

    Parameters
    ----------
    data
        A result with a status variable or coordinate, or this variable itself, with the CF attributes
        ``flag_masks`` and ``flag_meanings``.
    variable
        Name of the variable of a Dataset, or of the coordinate of a DataArray.

    Returns
    -------
    Dataset, dims of the variable
        One boolean variable for each reason that is set anywhere. If every status is 0, the Dataset has no
        variables (xarray prints ``*empty*``).

    Raises
    ------
    ValueError
        The variable is missing or has no flag attributes.

    Examples
    --------
    >>> fit = dd.analysis.surface.from_chain(dd.options.snapshot("BTC", "deribit"))
    >>> sorted(dd.analysis.flags(fit)) == sorted(fit.dd.flags())
    True
    """
    if isinstance(data, xr.Dataset):
        if variable not in data:
            raise ValueError(
                f"data does not have the variable {variable!r}; available: {', '.join(map(str, data))}"
            )
        data = data[variable]
    elif variable in data.coords:
        data = data[variable]
    if "flag_masks" not in data.attrs or "flag_meanings" not in data.attrs:
        name = variable if data.name is None else data.name
        raise ValueError(f"{name} must be a status with flag_masks and flag_meanings in attrs")
    masks = np.atleast_1d(data.attrs["flag_masks"])
    meanings = str(data.attrs["flag_meanings"]).split()
    status = np.nan_to_num(data.to_numpy()).astype(np.int64)
    decoded = {name: (status & int(mask)) != 0 for name, mask in zip(meanings, masks, strict=True)}
    set_somewhere = {name: (data.dims, bits) for name, bits in decoded.items() if bits.any()}
    return xr.Dataset(set_somewhere, coords=data.coords)


class FundingStatus(IntFlag):
    """Reasons for NaN, infinity or a warning; 0 means that none applies."""

    TOO_FEW = 1 << 0
    """Fewer observations than the figure needs."""
    GAP = 1 << 1
    """Data is missing inside the span."""
    INTERVAL_UNKNOWN = 1 << 2
    """The settlement interval is not known there."""
    ANTI_PERSISTENT = 1 << 3
    """The autoregression coefficient is at or below zero, so no decay is measured."""
    UNIT_ROOT = 1 << 4
    """The autoregression coefficient is at or above one: the series does not revert, and the half-life is
    infinite."""
    CONSTANT = 1 << 5
    """The series is constant."""
    FILLED = 1 << 6
    """Too many points were carried forward."""
    UNREACHABLE = 1 << 7
    """The costs are not recovered at any holding time."""
    TOO_THIN = 1 << 8
    """The book is not deep enough for the size."""
    OPEN = 1 << 9
    """The holding time has not ended: the outcome is still unknown."""
    CANNOT_TELL = 1 << 10
    """The data does not determine an interval: a half-life may be anything from a single step to infinity, or
    a pair's own outcomes span less than a holding time."""
    FEW_DECISIONS = 1 << 11
    """Past decisions are equivalent to fewer than eight independent ones, so the result is only a rough
    estimate."""
