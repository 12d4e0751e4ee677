"""Sums over open options: gamma, vanna and charm exposure, max pain, put-call ratios.

All functions accept the table ``options_snapshot``, a surface, or the result of `chain.clean`, of one chain
or of many: several symbols, venues and times become dims of the result. Open interest counts contracts, and
sums are in coins: `contract_size` is the number of coins per contract. An option with missing open interest
is excluded from every sum and counted in ``missing``; it never counts as zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from scipy import optimize

from derivdata.analysis.black76 import formulas
from derivdata.analysis.chain.cleaning import with_volatilities
from derivdata.analysis.chain.prepared import is_cleaned, prepare
from derivdata.analysis.labelling import by_label, keys_of
from derivdata.support.arguments import typed
from derivdata.support.times import year_fraction
from derivdata.tables.contracts import option_coins

__all__ = ["gamma_exposure", "history", "max_pain", "open_interest", "put_call_ratio", "zero_gamma"]
__dir__ = __all__.copy


Place = Literal["expiry", "strike", "side"]


@typed
def open_interest(
    chain: pd.DataFrame | xr.Dataset,
    *,
    by: Sequence[Place] = ("expiry", "strike", "side"),
    contract_size: float | Mapping[str, float] | None = None,
    at: Any = None,
) -> xr.Dataset:
    """Sum open interest by expiry, strike and side, or by some of these.

    Parameters
    ----------
    chain
        Table ``options_snapshot``, a surface, or the result of `chain.clean`, of one chain or of many.
    by
        Dims of the result.
    contract_size
        Coins per contract, one number or one by exchange. None uses the chain's column ``contract_size``.
        Without one it is 0.01 BTC or 0.1 ETH for OKX and one coin for other venues.
    at
        Timestamp of the quotes if the chain does not have ``time``.

    Returns
    -------
    Dataset, dims `by`
        ``open_interest`` [coin], NaN if unknown; ``listed``, the number of options, and ``missing``, the
        number without open interest.

    Raises
    ------
    ValueError
        A column or dim is missing, `by` has an unknown dim, `contract_size` lacks an exchange, or the size is
        unknown (OKX's options on other coins).
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
    """Compute the ratio of puts to calls by open interest or volume.

    Parameters
    ----------
    chain, contract_size, at
        As in `open_interest`.
    weight
        ``"oi"``: open interest in coins; ``"notional"``: coins times strike; ``"index_value"``: coins times
        ``index_price_usd``, or times ``underlying_price`` if that is missing; ``"premium"``: coins times the
        option's Black-76 value at its volatility; ``"volume"``: the coins traded in 24 hours, from the column
        ``volume`` [contracts].
    by
        Dims of the result, from ``"expiry"`` and ``"strike"``.

    Returns
    -------
    Dataset, dims `by`
        ``put_call_ratio`` [1], NaN without calls or without data of one side, and ``missing``, the number of
        options without a value.

    Raises
    ------
    ValueError
        An unknown `weight`; ``"side"`` in `by`; a missing column ``volume``; as in `open_interest`.
    """
    if "side" in by:
        raise ValueError("by must not contain 'side': the ratio compares the sides")
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
    calls = sums["value"].sel(side="call", drop=True)
    puts = sums["value"].sel(side="put", drop=True)
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
    """Return a row per option with ``oi_coin``, including those that `chain.clean` excluded from a fit.

    With `volatilities`, missing ones are computed from prices, as `chain.clean` does.
    """
    prepared = prepare(chain, at=at)
    options = with_volatilities(prepared).rows if volatilities else prepared.rows
    if is_cleaned(chain) and chain.attrs.get("omitted", {}).get("open_interest"):
        options = _with_omitted(options, chain.attrs["omitted"])
    size: Any = _sizes(options) if contract_size is None else contract_size
    if isinstance(contract_size, Mapping):
        size = options["exchange"].astype(object).map(contract_size)
        if size.isna().any():
            raise ValueError(
                f"contract_size does not have a size for {options.loc[size.isna(), 'exchange'].iloc[0]}: add "
                "it"
            )
    return options.assign(oi_coin=options["open_interest"] * size, contract_size=size)


def _sizes(options: pd.DataFrame) -> pd.Series:
    """Return the coins per contract of each option: of its row, or else of its venue and symbol."""
    nothing = pd.Series(np.nan, index=options.index)
    stated = options.get("contract_size", nothing).astype(np.float64)
    if "exchange" not in options:
        return stated.fillna(1.0)
    unnamed = pd.Series("", index=options.index)
    series = options["exchange"].astype(str) + " " + options.get("symbol", unnamed).astype(str)
    coins = {name: option_coins(*name.split(" ", 1)) for name in series.dropna().unique()}
    size = stated.fillna(series.map(coins).astype(np.float64))
    if size.isna().any():
        unknown = series[size.isna()].iloc[0]
        if pd.isna(unknown):
            raise ValueError(
                "chain has a row without a symbol or an exchange: fill both columns, or pass contract_size="
            )
        raise ValueError(
            f"the contract size of options of {unknown} is unknown: pass contract_size=, the coins of one "
            "contract"
        )
    return size


def _volume(options: pd.DataFrame) -> pd.Series:
    """Return the volume of each option in 24 hours [coins]."""
    if "volume" not in options or not options["volume"].notna().any():
        raise ValueError(
            "weight='volume' needs the column 'volume', which chain does not have: read the chain from an "
            "archive"
        )
    traded: pd.Series = options["volume"].astype(np.float64) * options["contract_size"]
    return traded


def _with_omitted(options: pd.DataFrame, omitted: Mapping[str, list[Any]]) -> pd.DataFrame:
    """Add the options without a usable volatility, whose open interest and volume `chain.clean` recorded."""
    more = pd.DataFrame(dict(omitted))
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
    # Without any key, all options form one group.
    groups = frame.groupby(names or np.zeros(len(frame)), observed=True)
    counts = groups[["missing", "listed"]].sum()
    # The sum of missing values only is missing, not 0.
    sums = groups[name].sum(min_count=1)
    table = counts.assign(**{name: sums}).reset_index()
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
    """Compute the payout of the writers of each expiry at each of its strikes, and its minimum.

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
        ``lower`` and ``upper``, the lowest and the highest listed strike [USD] with the minimum pain, which
        differ only in a tie, and ``max_pain``, their middle; ``pain`` also over ``strike`` [USD or coin], at
        the listed strikes of the expiry, elsewhere NaN. All are NaN for an expiry that lacks open interest on
        one side. ``missing`` over ``expiry`` is the number of options without open interest or volume.

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
    # 1. Sum the coins at each strike.
    options = sized(chain, contract_size, at)
    coins = options["oi_coin"] if weight == "oi" else _volume(options)
    sums = summed(options, "open_interest", coins, ("expiry", "strike", "side"), "coin")
    if not sums.sizes["strike"]:
        raise ValueError("chain must have at least one option with a time, expiry, strike and side")

    # 2. Compute the payout of the writers for a settlement at each strike.
    strike = sums["strike"].to_numpy()
    apart = np.maximum(strike[:, None] - strike, 0.0)  # (settlement - strike)⁺
    both = sums["open_interest"].reindex(side=["call", "put"])
    coins = both.fillna(0.0)
    paid = _contracted(coins.sel(side="call"), apart) + _contracted(coins.sel(side="put"), apart.T)
    if settle == "coin":
        paid = paid / sums["strike"]

    # 3. Find the listed strikes with the smallest payout.
    listed = (sums["listed"] > 0).any("side")
    total = both.sum("strike", min_count=1)
    pain = paid.where(listed & (total > 0).all("side"))
    cheapest = pain["strike"].where(pain <= pain.min("strike") * (1.0 + _TIE))
    ends = {"lower": cheapest.min("strike"), "upper": cheapest.max("strike")}
    result = xr.Dataset({"max_pain": (ends["lower"] + ends["upper"]) / 2.0, **ends, "pain": pain})
    for name in result:
        result[name].attrs = {"units": "USD"}
    if settle == "coin":
        result["pain"].attrs = {"units": "coin"}
    return result.assign(missing=sums["missing"].sum(["strike", "side"]))


def _contracted(coins: xr.DataArray, payoff: Any) -> xr.DataArray:
    """Return the sum over the strikes of `coins` times the payoff, at every strike as settlement."""
    settled = xr.DataArray(payoff, dims=("settlement", "strike"))
    paid: xr.DataArray = xr.dot(coins, settled, dim="strike").rename(settlement="strike")
    return paid.assign_coords(strike=coins["strike"])


_SCAN = np.linspace(0.7, 1.3, 241)
_UNITS = {"gamma": "USD per 1 %", "vanna": "USD per point of volatility", "charm": "USD per day"}


@typed
def gamma_exposure(
    chain: pd.DataFrame | xr.Dataset,
    *,
    dealer: Mapping[str, float] | None = None,
    by: Sequence[Place] = ("expiry", "strike"),
    contract_size: float | Mapping[str, float] | None = None,
    at: Any = None,
) -> xr.Dataset:
    """Compute the underlying traded per 1 % move, ``sign · Γ · OI · F² · 0.01``, by expiry and strike.

    Parameters
    ----------
    chain, by, contract_size, at
        As in `open_interest`.
    dealer
        Sign of the dealers' position by side. ``{"call": 1, "put": -1}``, long calls and short puts, is a
        heuristic of equity indices, not observed in crypto. None counts every option with +1, which gives the
        total gamma of all hedgers.

    Returns
    -------
    Dataset, dims `by`
        ``gamma_exposure_usd`` [USD per 1 %], NaN where no option has both open interest and gamma;
        ``listed``, the number of options, and ``missing``, the number without open interest or gamma. Gamma
        is the Black-76 gamma at the option's `underlying_price`, not the venue's.

    Raises
    ------
    ValueError
        As in `open_interest`; `dealer` lacks a side.
    """
    traded = history(chain, which=("gamma",), dealer=dealer, by=by, contract_size=contract_size, at=at)
    return traded.rename(gamma_usd="gamma_exposure_usd")


@typed
def history(
    chains: pd.DataFrame | xr.Dataset,
    *,
    which: Sequence[Literal["gamma", "vanna", "charm"]] = ("gamma", "vanna", "charm"),
    dealer: Mapping[str, float] | None = None,
    by: Sequence[Place] = ("expiry", "strike"),
    contract_size: float | Mapping[str, float] | None = None,
    at: Any = None,
) -> xr.Dataset:
    """Compute the amount that hedgers of all open options must trade, by expiry and strike, over time.

    Parameters
    ----------
    chains
        Chains of one time or of many: ``dd.options.surface_history``, or a table ``options_snapshot``.
    which
        ``"gamma"``: per 1 % that the underlying moves, ``Γ F² · 0.01``; ``"vanna"``: per point of
        volatility, ``∂Δ/∂σ F · 0.01``; ``"charm"``: per day that passes, ``∂Δ/∂t F / 365``.
    dealer
        Sign of the dealers' position by side, as in `gamma_exposure`; None counts every option with +1.
    by, contract_size, at
        As in `open_interest`.

    Returns
    -------
    Dataset, dims `by`, and the labels that differ (``time``)
        ``gamma_usd`` [USD per 1 %], ``vanna_usd`` [USD per point], ``charm_usd`` [USD per day], each the sum
        over options of sign times open interest times the greek; NaN where no option has both open interest
        and the greek; ``listed``, the number of options, and ``missing``, the number without open interest or
        the greek. Greeks are computed as in `gamma_exposure`.

    Raises
    ------
    ValueError
        As in `gamma_exposure`; `which` is empty.
    """
    if not len(which):
        raise ValueError("which must name at least one of gamma, vanna, charm")
    options = sized(chains, contract_size, at, volatilities=True)
    signs = _signs(options, dealer)
    position = "unsigned" if dealer is None else str(dict(dealer))
    snapshots = []
    for name in which:
        traded = signs * _traded_usd(options, name, 1.0)
        snapshot = summed(options, f"{name}_usd", traded, by, _UNITS[name])
        snapshot[f"{name}_usd"].attrs["dealer"] = position
        snapshots.append(snapshot)
    return xr.merge(snapshots, compat="override", join="exact")


@typed
def zero_gamma(
    chain: pd.DataFrame | xr.Dataset,
    *,
    dealer: Mapping[str, float],
    contract_size: float | Mapping[str, float] | None = None,
    at: Any = None,
) -> xr.Dataset:
    """Find the price nearest to the current one at which the dealers' gamma changes sign.

    Parameters
    ----------
    chain, contract_size, at
        As in `open_interest`.
    dealer
        Sign of the dealers' position by side, as in `gamma_exposure`. Required, because gamma never changes
        its sign if calls and puts have the same one.

    Returns
    -------
    Dataset, one value per chain
        ``ratio`` [1] of that price to the current one, NaN if gamma does not change sign within 30 % of it,
        and ``price_usd`` [USD], the ratio times the median `underlying_price` of the first expiry.

    Notes
    -----
    Each option keeps its volatility (sticky strike), and all forwards move in proportion. The search samples
    ratios every 0.25 % and refines roots to 1e-12.
    """
    options = sized(chain, contract_size, at, volatilities=True)
    signs = _signs(options, dealer)
    names = keys_of(options)
    rows = []
    groups: Any = options.groupby(names, observed=True) if names else [((), options)]
    for labels, group in groups:
        current_price = group.loc[group["expiry"] == group["expiry"].min(), "underlying_price"].median()
        ratio = _nearest_root(group, signs.loc[group.index])
        rows.append((*labels, ratio, ratio * current_price))
    table = pd.DataFrame(rows, columns=[*names, "ratio", "price_usd"])
    return by_label(table, [], {"ratio": [], "price_usd": []}, {"ratio": "1", "price_usd": "USD"})


def _signs(options: pd.DataFrame, dealer: Mapping[str, float] | None) -> Any:
    """Return the sign of the dealer's position in each option; 1 without an assumption."""
    if dealer is None:
        return pd.Series(1.0, index=options.index)
    if set(dealer) != {"call", "put"}:
        raise ValueError(f"dealer must have one sign for 'call' and one for 'put', got {dict(dealer)!r}")
    return options["side"].astype(object).map(dealer).astype(np.float64)


def _traded_usd(options: pd.DataFrame, name: Any, ratio: Any) -> Any:
    """Return the USD of underlying to trade for each option if its forward is multiplied by `ratio`.

    The amounts are in the `_UNITS` of the greek: per 1 %, per point of volatility, or per day.
    """
    columns = ["strike", "year_fraction", "iv", "side", "oi_coin", "underlying_price"]
    shape = (-1, *[1] * np.ndim(ratio))  # options along the first axis, ratios along the others
    strike, years, iv, side, coins, forward = (options[name].to_numpy().reshape(shape) for name in columns)
    level = forward * ratio
    greek = formulas.greeks(level, strike, years, iv, side, which=[name])[name]
    usd_of_unit = {"gamma": level**2 * 0.01, "vanna": level * 0.01, "charm": level / 365.0}
    return greek * coins * usd_of_unit[name]


def _nearest_root(options: pd.DataFrame, signs: pd.Series) -> float:
    """Return the ratio to the current price, nearest to 1, at which total gamma is 0; NaN without one."""

    def exposure(ratio: Any) -> Any:
        values = _traded_usd(options, "gamma", ratio) * signs.to_numpy().reshape(-1, *[1] * np.ndim(ratio))
        total = np.nansum(values, axis=0)
        gross = np.nansum(np.abs(values), axis=0)
        return np.where(np.abs(total) > 1e-13 * gross, total, 0.0)  # smaller totals are rounding errors

    scan = exposure(_SCAN)
    places = _SCAN[scan != 0.0]  # the exposure of short-dated options vanishes far from their strikes
    turns = np.flatnonzero(np.diff(np.sign(scan[scan != 0.0])))
    roots = [optimize.brentq(exposure, places[turn], places[turn + 1], xtol=1e-12) for turn in turns]
    return min(roots, key=lambda root: abs(root - 1.0), default=np.nan)
