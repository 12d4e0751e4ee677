"""Exposure to moves of the underlying, of volatility and of time: what hedgers must trade."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from scipy import optimize

from derivdata.analysis.black76 import formulas
from derivdata.analysis.chain.labels import by_label
from derivdata.analysis.chain.normalise import keys_of
from derivdata.analysis.exposure.sums import Place, sized, summed
from derivdata.support.arguments import typed

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
        heuristic of equity indices, not observed in crypto. None counts every option with +1: the gamma
        that hedgers face in total.

    Returns
    -------
    Dataset, dims `by`
        ``gamma_exposure_usd`` [USD per 1 %], NaN where no option has open interest and gamma; ``listed``
        and ``missing`` (open interest or gamma). Gamma is our own, to the venue's `underlying_price` of
        the option.

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
    """Compute what hedgers of all open options must trade, by expiry and strike, over time.

    Parameters
    ----------
    chains
        Chains of one instant or of many: ``dd.options.surface_history``, or a table ``options_snapshot``.
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
        ``gamma_usd`` [USD per 1 %], ``vanna_usd`` [USD per point], ``charm_usd`` [USD per day], each summed
        over sign times open interest of the options; NaN where none has both open interest and the greek;
        ``listed`` and ``missing`` (open interest or greek). Greeks are our own, as in `gamma_exposure`.

    Raises
    ------
    ValueError
        As in `gamma_exposure`; no greek.
    """
    if not len(which):
        raise ValueError("which is empty: it takes of gamma, vanna, charm")
    options = sized(chains, contract_size, at, volatilities=True)
    signs = _signs(options, dealer)
    parts = [
        summed(options, f"{name}_usd", signs * _traded_usd(options, name, 1.0), by, _UNITS[name])
        for name in which
    ]
    result = xr.merge(parts, compat="override", join="exact")
    for name in which:
        result[f"{name}_usd"].attrs["dealer"] = "unsigned" if dealer is None else str(dict(dealer))
    return result


@typed
def zero_gamma(
    chain: pd.DataFrame | xr.Dataset,
    *,
    dealer: Mapping[str, float],
    contract_size: float | Mapping[str, float] | None = None,
    at: Any = None,
) -> xr.Dataset:
    """Find the level of the underlying, nearest to where it is, at which the dealers' gamma changes sign.

    Parameters
    ----------
    chain, contract_size, at
        As in `open_interest`.
    dealer
        As in `gamma_exposure`; without a sign there is no such level.

    Returns
    -------
    Dataset, a value per chain
        ``ratio`` of that level to the present one, NaN if none lies within 30 %, and ``price_usd`` [USD],
        the ratio times the median `underlying_price` of the first expiry.

    Notes
    -----
    Each option keeps its volatility (sticky strike), all forwards move in proportion. Roots are looked for
    every 0.25 % and refined to 1e-12.
    """
    options = sized(chain, contract_size, at, volatilities=True)
    signs = _signs(options, dealer)
    names = keys_of(options)
    rows = []
    for labels, group in options.groupby(names, observed=True) if names else [((), options)]:
        first = group.loc[group["expiry"] == group["expiry"].min(), "underlying_price"].median()
        ratio = _nearest_root(group, signs.loc[group.index])
        rows.append((*labels, ratio, ratio * first))
    table = pd.DataFrame(rows, columns=[*names, "ratio", "price_usd"])
    return by_label(table, [], {"ratio": [], "price_usd": []}, {"ratio": "1", "price_usd": "USD"})


def _signs(options: pd.DataFrame, dealer: Mapping[str, float] | None) -> Any:
    if dealer is None:
        return pd.Series(1.0, index=options.index)
    if set(dealer) != {"call", "put"}:
        raise ValueError(f"dealer={dict(dealer)!r} must give one sign for 'call' and one for 'put'")
    return options["side"].astype(object).map(dealer).astype(np.float64)


def _traded_usd(options: pd.DataFrame, name: Any, ratio: Any) -> Any:
    """Return the USD of underlying to trade of each option, its forward times `ratio`."""
    strike, years, iv, side, coins, forward = (
        options[column].to_numpy().reshape(-1, *[1] * np.ndim(ratio))
        for column in ("strike", "year_fraction", "iv", "side", "oi_coin", "underlying_price")
    )
    level = forward * ratio
    greek = formulas.greeks(level, strike, years, iv, side, which=[name])[name]
    return greek * coins * {"gamma": level**2 * 0.01, "vanna": level * 0.01, "charm": level / 365.0}[name]


def _nearest_root(options: pd.DataFrame, signs: pd.Series) -> float:
    def exposure(ratio: Any) -> Any:
        values = _traded_usd(options, "gamma", ratio) * signs.to_numpy().reshape(-1, *[1] * np.ndim(ratio))
        total, gross = np.nansum(values, axis=0), np.nansum(np.abs(values), axis=0)
        return np.where(np.abs(total) > 1e-13 * gross, total, 0.0)  # the rest is rounding

    scan = exposure(_SCAN)
    places = _SCAN[scan != 0.0]  # far from the strikes of short options nothing is left
    turns = np.flatnonzero(np.diff(np.sign(scan[scan != 0.0])))
    roots = [optimize.brentq(exposure, places[turn], places[turn + 1], xtol=1e-12) for turn in turns]
    return min(roots, key=lambda root: abs(root - 1.0), default=np.nan)
