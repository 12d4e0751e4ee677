"""Open interest and what is weighed by it, summed over options, and the price of least payout (max pain)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.black76 import formulas
from derivdata.analysis.chain.cleaning import with_volatilities
from derivdata.analysis.chain.labels import by_label
from derivdata.analysis.chain.normalise import is_cleaned, keys_of, option_rows
from derivdata.support.arguments import typed
from derivdata.support.times import year_fraction
from derivdata.tables.contracts import option_coins

Place = Literal["expiry", "strike", "side"]


@typed
def open_interest(
    chain: pd.DataFrame | xr.Dataset,
    *,
    by: Sequence[Place] = ("expiry", "strike", "side"),
    contract_size: float | Mapping[str, float] | None = None,
    at: Any = None,
) -> xr.Dataset:
    """Sum open interest by any of expiry, strike and side.

    Parameters
    ----------
    chain
        See the module.
    by
        Dims that stay.
    contract_size
        Coins per contract, one number or one by exchange. None takes the chain's column ``contract_size``,
        and else 0.01 BTC or 0.1 ETH for OKX and one coin for other venues.
    at
        Instant of the quotes, where the chain has no ``time``.

    Returns
    -------
    Dataset, dims `by`
        ``open_interest`` [coin], NaN where none is known; ``listed``, how many options there are, and
        ``missing``, how many of them have no open interest.

    Raises
    ------
    ValueError
        A column or dim is missing, `by` names another, an exchange has no contract size, or the size is not
        known (OKX' options on other coins).
    """
    options = sized(chain, contract_size, at)
    return summed(options, "open_interest", options["oi_coin"], by, "coin")


@typed
def put_call_ratio(
    chain: pd.DataFrame | xr.Dataset,
    *,
    weight: Literal["oi", "notional", "index_value", "premium", "volume"] = "oi",
    by: Sequence[Place] = (),
    contract_size: float | Mapping[str, float] | None = None,
    at: Any = None,
) -> xr.Dataset:
    """Divide the open interest of puts by that of calls, or what was traded of them.

    Parameters
    ----------
    chain, contract_size, at
        As in `open_interest`.
    weight
        ``"oi"`` counts coins, ``"notional"`` coins times strike, ``"index_value"`` coins times
        ``index_price_usd``, or else ``underlying_price``, ``"premium"`` coins times the option's value by its
        volatility; ``"volume"`` the coins that were traded in 24 hours, of a chain with the
        column ``volume`` [contracts].
    by
        Of ``"expiry"`` and ``"strike"``: dims that stay.

    Returns
    -------
    Dataset, dims `by`
        ``put_call_ratio``, NaN where there are no calls or nothing is known of one side, and ``missing``.

    Raises
    ------
    ValueError
        An unknown `weight`; ``"side"`` in `by`; no volumes; as in `open_interest`.
    """
    if "side" in by:
        raise ValueError("by='side' leaves no ratio: the sides are what is compared")
    options = sized(chain, contract_size, at, volatilities=weight == "premium")
    value = options["oi_coin"]
    if weight == "volume":
        value = _volume(options)
    elif weight == "notional":
        value = value * options["strike"]
    elif weight == "index_value":
        index = options.get("index_price_usd", pd.Series(np.nan, index=options.index)).astype(np.float64)
        value = value * index.fillna(options["underlying_price"])
    elif weight == "premium":
        contract = (options[name] for name in ("underlying_price", "strike", "year_fraction", "iv", "side"))
        value = value * formulas.price(*contract)
    sums = summed(options, "value", value, [*by, "side"], "").reindex(side=["call", "put"])
    calls, puts = (sums["value"].sel(side=side, drop=True) for side in ("call", "put"))
    missing = sums["missing"].fillna(0).sum("side").astype(np.int64)
    ratio = (puts / calls.where(calls > 0)).assign_attrs(units="1")
    return xr.Dataset({"put_call_ratio": ratio, "missing": missing.drop_attrs()})


def sized(
    chain: pd.DataFrame | xr.Dataset,
    contract_size: float | Mapping[str, float] | None,
    at: Any,
    *,
    volatilities: bool = False,
) -> pd.DataFrame:
    """Return a row per option with ``oi_coin``, those included that `chain.clean` left out of a fit.

    With `volatilities`, missing ones are computed from prices, as `chain.clean` does.
    """
    options = option_rows(chain, at=at)
    if volatilities:
        options = with_volatilities(options)
    if is_cleaned(chain) and chain.attrs.get("left_out", {}).get("open_interest"):
        options = _with_left_out(options, chain.attrs["left_out"])
    size: Any = _sizes(options) if contract_size is None else contract_size
    if isinstance(contract_size, Mapping):
        size = options["exchange"].astype(object).map(contract_size)
        if size.isna().any():
            raise ValueError(f"contract_size has none for {options.loc[size.isna(), 'exchange'].iloc[0]}")
    return options.assign(oi_coin=options["open_interest"] * size, contract_size=size)


def _sizes(options: pd.DataFrame) -> pd.Series:
    """Return the coins of one contract of each option: of its row, or else of its venue and symbol."""
    nothing = pd.Series(np.nan, index=options.index)
    own = options.get("contract_size", nothing).astype(np.float64)
    if "exchange" not in options:
        return own.fillna(1.0)
    symbols = options["symbol"].astype(str) if "symbol" in options else pd.Series("", index=options.index)
    series = options["exchange"].astype(str) + " " + symbols
    coins = {name: option_coins(*name.split(" ", 1)) for name in series.unique()}
    size = own.fillna(series.map(coins).astype(np.float64))
    if size.isna().any():
        raise ValueError(
            f"options of {series[size.isna()].iloc[0]}: the coins of one contract are not known; "
            "pass contract_size="
        )
    return size


def _volume(options: pd.DataFrame) -> pd.Series:
    """Return the coins of each option that were traded in 24 hours."""
    if "volume" not in options or not options["volume"].notna().any():
        raise ValueError("the chain has no volume: weight='volume' needs the column of an archive")
    traded: pd.Series = options["volume"].astype(np.float64) * options["contract_size"]
    return traded


def _with_left_out(options: pd.DataFrame, left_out: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Add the options without a usable volatility, of which `chain.clean` noted what is open and traded."""
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


_TIE = 1e-12


@typed
def max_pain(
    chain: pd.DataFrame | xr.Dataset,
    *,
    settle: Literal["usd", "coin"] = "usd",
    weight: Literal["oi", "volume"] = "oi",
    contract_size: float | Mapping[str, float] | None = None,
    at: Any = None,
) -> xr.Dataset:
    """Compute what the writers of each expiry pay at each of its strikes, and find where they pay least.

    Parameters
    ----------
    chain, contract_size, at
        As in `open_interest`.
    settle
        ``"usd"``: ``Σ OI_c (S - K)⁺ + Σ OI_p (K - S)⁺`` [USD]; ``"coin"``: that over S [coin].
    weight
        ``"oi"``: open interest; ``"volume"``: the coins traded in 24 hours, of a chain with ``volume``
        [contracts].

    Returns
    -------
    Dataset, dim ``expiry``
        ``lower`` and ``upper``, the lowest and the highest listed strike [USD] with the least pain, which
        differ only in a tie, and ``max_pain``, their middle; ``pain`` also over ``strike`` [USD or coin], at
        the strikes that the expiry lists, elsewhere NaN. All NaN where an expiry has no open interest or
        only that of one side; ``missing(expiry)``.

    Raises
    ------
    ValueError
        An unknown `settle`; as in `open_interest`.

    Examples
    --------
    >>> pain = dd.analysis.exposure.max_pain(dd.options.snapshot("BTC", "deribit"))
    >>> pain["max_pain"].dims
    ('expiry',)
    """
    options = sized(chain, contract_size, at)
    coins = options["oi_coin"] if weight == "oi" else _volume(options)
    sums = summed(options, "open_interest", coins, ("expiry", "strike", "side"), "coin")
    if not sums.sizes["strike"]:
        raise ValueError("chain has no option with a time, expiry, strike and side")
    strike = sums["strike"].to_numpy()
    apart = np.maximum(strike[:, None] - strike, 0.0)  # (settlement - strike)⁺
    both = sums["open_interest"].reindex(side=["call", "put"])
    coins = both.fillna(0.0)
    paid = _contracted(coins.sel(side="call"), apart) + _contracted(coins.sel(side="put"), apart.T)
    if settle == "coin":
        paid = paid / sums["strike"]
    listed = (sums["listed"] > 0).any("side")
    total = both.sum("strike", min_count=1)
    pain = paid.where(listed & (total > 0).all("side"))
    cheapest = pain["strike"].where(pain <= pain.min("strike") * (1.0 + _TIE))
    ends = {"lower": cheapest.min("strike"), "upper": cheapest.max("strike")}
    result = xr.Dataset({"max_pain": (ends["lower"] + ends["upper"]) / 2.0, **ends, "pain": pain})
    for name in result:
        result[name].attrs = {"units": "coin" if name == "pain" and settle == "coin" else "USD"}
    return result.assign(missing=sums["missing"].sum(["strike", "side"]))


def _contracted(coins: xr.DataArray, payoff: Any) -> xr.DataArray:
    """Sum over the strikes of `coins` times the payoff, at every strike as settlement."""
    settled = xr.DataArray(payoff, dims=("settlement", "strike"))
    paid: xr.DataArray = xr.dot(coins, settled, dim="strike").rename(settlement="strike")
    return paid.assign_coords(strike=coins["strike"])
