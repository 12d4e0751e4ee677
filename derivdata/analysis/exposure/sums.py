"""Open interest and what is weighed by it, summed over options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import black76
from derivdata.analysis.chain.labels import by_label
from derivdata.analysis.chain.normalise import is_cleaned, keys_of, option_rows
from derivdata.support.arguments import typed
from derivdata.support.times import year_fraction

__all__ = ["open_interest", "put_call_ratio", "sized", "summed"]

Place = Literal["expiry", "strike", "side"]


@typed
def open_interest(
    chain: pd.DataFrame | xr.Dataset,
    *,
    by: Sequence[Place] = ("expiry", "strike", "side"),
    contract_size: float | Mapping[str, float] = 1.0,
    as_of: Any = None,
) -> xr.Dataset:
    """Sum open interest by any of expiry, strike and side.

    Parameters
    ----------
    chain
        See the module.
    by
        Dims that stay.
    contract_size
        Coins per contract, one number or one by exchange.
    as_of
        Instant of the quotes, where the chain has no ``time``.

    Returns
    -------
    Dataset, dims `by`
        ``open_interest`` [coin], NaN where none is known; ``listed``, how many options there are, and
        ``missing``, how many of them have no open interest.

    Raises
    ------
    ValueError
        A column or dim is missing, `by` names another, an exchange has no contract size.
    """
    options = sized(chain, contract_size, as_of)
    return summed(options, "open_interest", options["oi_coin"], by, "coin")


@typed
def put_call_ratio(
    chain: pd.DataFrame | xr.Dataset,
    *,
    weight: Literal["oi", "notional", "premium"] = "oi",
    by: Sequence[Place] = (),
    contract_size: float | Mapping[str, float] = 1.0,
    as_of: Any = None,
) -> xr.Dataset:
    """Divide the open interest of puts by that of calls.

    Parameters
    ----------
    chain, contract_size, as_of
        As in `open_interest`.
    weight
        ``"oi"`` counts coins, ``"notional"`` coins times strike, ``"premium"`` coins times the option's
        value by its volatility.
    by
        Of ``"expiry"`` and ``"strike"``: dims that stay.

    Returns
    -------
    Dataset, dims `by`
        ``put_call_ratio``, NaN where there are no calls or nothing is known of one side, and ``missing``.

    Raises
    ------
    ValueError
        An unknown `weight`; ``"side"`` in `by`; as in `open_interest`.
    """
    if "side" in by:
        raise ValueError("by='side' leaves no ratio: the sides are what is compared")
    options = sized(chain, contract_size, as_of)
    value = options["oi_coin"]
    if weight == "notional":
        value = value * options["strike"]
    elif weight == "premium":
        contract = (options[name] for name in ("underlying_price", "strike", "year_fraction", "iv", "side"))
        value = value * black76.price(*contract)
    sums = summed(options, "value", value, [*by, "side"], "").reindex(side=["call", "put"])
    calls, puts = (sums["value"].sel(side=side, drop=True) for side in ("call", "put"))
    missing = sums["missing"].fillna(0).sum("side").astype(np.int64)
    return xr.Dataset({"put_call_ratio": puts / calls.where(calls > 0), "missing": missing})


def sized(
    chain: pd.DataFrame | xr.Dataset, contract_size: float | Mapping[str, float], as_of: Any
) -> pd.DataFrame:
    """Return a row per option with ``oi_coin``, those included that `chain.clean` left out of a fit."""
    options = option_rows(chain, as_of=as_of)
    if is_cleaned(chain) and chain.attrs.get("left_out", {}).get("open_interest"):
        options = _with_left_out(options, chain.attrs["left_out"])
    size: Any = contract_size
    if isinstance(contract_size, Mapping):
        size = options["exchange"].astype(object).map(contract_size)
        if size.isna().any():
            raise ValueError(f"contract_size has none for {options.loc[size.isna(), 'exchange'].iloc[0]}")
    return options.assign(oi_coin=options["open_interest"] * size)


def _with_left_out(options: pd.DataFrame, left_out: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Add the open interest that `chain.clean` noted of options without a usable volatility."""
    more = pd.DataFrame(dict(left_out))
    for name in ("time", "expiry"):
        if name in more:
            more[name] = pd.to_datetime(more[name], utc=True, format="ISO8601").dt.as_unit("us")
    for name in keys_of(options):
        more[name] = more[name].astype(options[name].dtype)
    more["year_fraction"] = year_fraction(more["time"], more["expiry"])
    more["side"] = more["side"].astype(options["side"].dtype)
    return pd.concat([options, more], ignore_index=True)


def summed(options: pd.DataFrame, name: str, value: Any, by: Sequence[Place], units: str) -> xr.Dataset:
    """Sum a value of each option by symbol, venue, time and the names in `by`."""
    names = [*keys_of(options), *by]
    frame = options[names].assign(**{name: value, "missing": pd.isna(value), "listed": 1})
    groups = frame.groupby(names or np.zeros(len(frame)), observed=True)
    table = groups[["missing", "listed"]].sum().assign(**{name: groups[name].sum(min_count=1)}).reset_index()
    variables = dict.fromkeys((name, "missing", "listed"), by)
    return by_label(table, by, variables, {name: units})
