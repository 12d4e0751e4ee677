"""Payout of option writers by settlement price, and the price of least payout (max pain)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.exposure.sums import open_interest
from derivdata.support.arguments import typed

__all__ = ["max_pain"]

_TIE = 1e-12


@typed
def max_pain(
    chain: pd.DataFrame | xr.Dataset,
    *,
    settle: Literal["usd", "coin"] = "usd",
    contract_size: float | Mapping[str, float] = 1.0,
    as_of: Any = None,
) -> xr.Dataset:
    """Compute what the writers of each expiry pay at each of its strikes, and find where they pay least.

    Parameters
    ----------
    chain, contract_size, as_of
        As in `open_interest`.
    settle
        ``"usd"``: ``Σ OI_c (S - K)⁺ + Σ OI_p (K - S)⁺`` [USD]; ``"coin"``: that over S [coin].

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
    sums = open_interest(chain, contract_size=contract_size, as_of=as_of)
    if not sums.sizes["strike"]:
        raise ValueError("chain has no options that say what and when they are")
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
