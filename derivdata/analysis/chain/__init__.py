"""Prepare raw option chains for fitting smiles.

::

    options = chain.clean(snapshot)        usable options, others counted by reason
    quotes = chain.smiles(options)         one volatility per strike over log-moneyness, with forwards
    chain.arbitrage(quotes)                arbitrage between the quotes themselves
    chain.executable(snapshot)             arbitrage that can be traded at bid and ask, net of fees
    chain.basis(chain.forwards(options), spot=...)
    chain.greeks(snapshot)                 in one unit over venues, next to the venues' own

A chain is the table ``options_snapshot`` or a surface. Several symbols, venues and times may be in one table,
and become dims of the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.black76 import formulas
from derivdata.analysis.black76.kernels import Greek
from derivdata.analysis.chain.cleaning import arbitrage, clean, smiles, with_volatilities
from derivdata.analysis.chain.forward import basis, forwards, row_terms
from derivdata.analysis.chain.prepared import prepare
from derivdata.analysis.chain.static_arbitrage import executable
from derivdata.analysis.labelling import keys_of
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats

__all__ = ["arbitrage", "basis", "clean", "executable", "forwards", "greeks", "smiles"]
__dir__ = __all__.copy


GREEKS: tuple[Greek, ...] = ("delta", "gamma", "vega", "theta")
GreekUnit = Literal["usd", "coin"]
_PLACE = ("instrument_name", "expiry", "strike", "side", "iv", "year_fraction")
_SCALE = {"delta": 1.0, "gamma": 1.0, "vega": 1.0 / 100.0, "theta": 1.0 / 365.0}


class VenueUnit(NamedTuple):
    """The unit of a venue's greeks in ``options_snapshot``, and whether recorded values confirm it."""

    unit: GreekUnit
    is_confirmed: bool


VENUE_UNITS = {
    # Ticker of ETH-30JUL21-2800-C, recorded 2021-07-22 (cryptofeed 57d5f18d): Black-76 to all digits.
    "deribit": VenueUnit("usd", True),
    # Tickers of BTC-26JAN24-39000-C, 2023-11-10 (ccxt 4.5.90): Black-76 to 1e-4.
    "bybit": VenueUnit("usd", True),
    # Marks of BTC-231229-40000-C (ccxt 4.5.90) and BTC-250712-110000-C (nbgsmk/GEC ae5d17e5): theta and gamma
    # give the forward, vega the expiry, and these two the delta.
    "binance": VenueUnit("usd", True),
    # Slim ticker of an ETH call, recorded 2026-05-28 (nautilus_trader a95c8042): theta to 4 digits, and vega
    # gives an expiry at 08:00 UTC.
    "derive": VenueUnit("usd", True),
    # The fields with BS of opt-summary are Black-Scholes greeks to spot at an unpublished rate: 1 to 27 %
    # from Black-76 (BTC-USD-240329-32000-C of 2023-11-10 in ccxt 4.5.90, BTC-USD-251226-100000-C of
    # 2025-07-09 in nbgsmk/GEC ae5d17e5).
    "okx": VenueUnit("usd", False),
}
# The fields without BS of the same two records: Black-76 to 4e-4.
_CONFIRMED_IN_COIN = ("okx",)
"""Units by venue. A venue that is not listed has no converted greeks."""


@typed
def greeks(
    chain: pd.DataFrame | xr.Dataset,
    *,
    at: Any = None,
    venue_units: Mapping[str, GreekUnit] | None = None,
    interest_rate: float | None = None,
) -> pd.DataFrame:
    """Compute the greeks of each option in one unit, and convert the venue's own greeks to it.

    Parameters
    ----------
    chain
        The table ``options_snapshot``, of one chain or of many, a cleaned chain, or a surface. A missing
        ``iv`` is computed from prices, as in `clean`.
    at
        Timestamp of the quotes if the chain does not have ``time``.
    venue_units
        Unit of the greeks of a venue if it differs from the library's readers: ``"usd"``, or ``"coin"``
        (premium-adjusted and in coin, such as OKX's fields without ``BS``, which Tardis' files have).
    interest_rate
        Continuous rate [1/year] at which premiums are discounted; None uses the chain's column
        ``interest_rate``, or 0 without one.

    Returns
    -------
    DataFrame
        One row per option, with ``forward`` [USD], and three columns for each greek. ``delta`` [coins of the
        forward per coin of the option], ``gamma`` [1/USD], ``vega`` [USD per volatility point] and ``theta``
        [USD per day, forward fixed] are Black-76 greeks of an option on one coin, at the row's own
        volatility; delta is not discounted. ``delta_venue`` and so on are the values that the venue
        published, and ``delta_converted`` and so on the same values in the units of this table.
        ``venue_unit`` is the unit of the venue's greeks, and ``is_confirmed`` states whether recorded values
        agree with Black-76. NaN if a volatility, a forward or the venue's greek is missing, or the venue's
        unit is unknown.

    Raises
    ------
    ValueError
        As `clean`; `venue_units` names a venue that the chain does not have.

    Warns
    -----
    DataNotice
        Volatilities were missing and were computed from prices.

    Notes
    -----
    In coin, with the premium ``v`` in coin and the forward ``F``, OKX publishes ``delta = F v'`` and ``gamma
    = F² v''``. The value in USD is ``F v``, so its delta is ``delta + v`` and its gamma ``(2 delta + gamma) /
    F``; vega and theta are multiplied by ``F``. ``v`` follows from Black-76. Checked on
    BTC-USD-240329-32000-C (ccxt 4.5.90), on BTC-USD-251226-100000-C of 2025-07-09 (nbgsmk/GEC ae5d17e5) and
    on the documentation's BTC-USD-241013-70000-P.

    Examples
    --------
    >>> table = dd.analysis.chain.greeks(dd.options.snapshot("BTC", "deribit"))
    >>> float((table["delta"] - table["delta_converted"]).abs().max()) < 0.01
    True
    """
    # 1. Compute Black-76 greeks of an option on one coin.
    prepared = with_volatilities(prepare(chain, at=at, interest_rate=interest_rate))
    rows = prepared.rows
    forward = row_terms(prepared).forward.to_numpy(np.float64)
    rate = rows["interest_rate"].to_numpy(np.float64) if "interest_rate" in rows else 0.0
    strike, years, iv = (rows[name].to_numpy(np.float64) for name in ("strike", "year_fraction", "iv"))
    side = rows["side"].to_numpy()
    values = formulas.greeks(forward, strike, years, iv, side, which=GREEKS, interest_rate=rate)
    premium = formulas.price(forward, strike, years, iv, side, interest_rate=rate, premium="inverse")

    # 2. Add the venue's own greeks, and convert them to the same unit.
    units = _units(rows, venue_units or {})
    names = [*keys_of(rows), *(name for name in _PLACE if name in rows)]
    table = rows[names].assign(forward=forward)
    for name in GREEKS:
        table[name] = values[name] * _SCALE[name]
    own: dict[str, Floats] = {name: _numbers(rows, name) for name in GREEKS}
    converted = _converted(own, forward, premium, units["venue_unit"])
    for name in GREEKS:
        table[f"{name}_venue"] = own[name]
        table[f"{name}_converted"] = converted[name]
    return table.assign(**units)


def _numbers(rows: pd.DataFrame, name: str) -> Floats:
    if name not in rows:
        return np.full(len(rows), np.nan)
    values: Floats = rows[name].to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _units(rows: pd.DataFrame, named: Mapping[str, GreekUnit]) -> dict[str, pd.Series]:
    """Return the unit of each row's greeks, and whether recorded values confirm it."""
    nowhere = pd.Series("", index=rows.index)
    venues = rows["exchange"].astype(object).fillna("") if "exchange" in rows else nowhere
    absent = sorted(set(named) - set(venues))
    if absent:
        raise ValueError(f"venue_units has {', '.join(absent)}, which the chain does not have")
    unit = dict.fromkeys(set(venues), "unknown")
    is_confirmed = dict.fromkeys(set(venues), False)
    for venue in set(venues) & (VENUE_UNITS.keys() | named.keys()):
        if venue in named:
            unit[venue] = named[venue]
            is_confirmed[venue] = named[venue] == "coin" and venue in _CONFIRMED_IN_COIN
        else:
            unit[venue], is_confirmed[venue] = VENUE_UNITS[venue]
    return {"venue_unit": venues.map(unit), "is_confirmed": venues.map(is_confirmed).astype(bool)}


def _converted(
    own: Mapping[str, Floats], forward: Floats, premium: Floats, unit: pd.Series
) -> dict[str, Floats]:
    """Return a venue's greeks in USD of an option on one coin."""
    in_coin = {
        "delta": own["delta"] + premium,
        "gamma": (2.0 * own["delta"] + own["gamma"]) / forward,
        "vega": own["vega"] * forward,
        "theta": own["theta"] * forward,
    }
    is_usd = (unit == "usd").to_numpy()
    is_coin = (unit == "coin").to_numpy()
    return {name: np.where(is_usd, own[name], np.where(is_coin, in_coin[name], np.nan)) for name in GREEKS}
