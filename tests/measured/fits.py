"""How close is each surface to recorded quotes, and is it free of arbitrage?

``python -m tests.measured.fits`` fits every recorded chain of the test data by every method and prints a
table for docs/methods/surfaces.md. `violations` are counted by formulas apart from the package's on a grid of
20,001 places over ±10 deviations: Durrleman's g at the expiries and halfway in w between them, and total
variance from expiry to expiry.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import black76, chain, smile, surface
from derivdata.analysis.labelling import where
from derivdata.analysis.surface.fitting import at_the_money_of
from tests.analysis.deribit import STAMPS_2026, chain_2025, chain_2026
from tests.analysis.violations import violations

_NAMES = {"svi": "`svi`", "essvi": "`essvi`", "slices": "`slices` (each alone)"}
METHODS: dict[str, dict[str, Any]] = {
    f"{name}, {weights}": {"method": method, "weights": weights}
    for method, name in _NAMES.items()
    for weights in ("vega", "price", "equal")
}
METHODS['`svi`, `loss="bid_ask"`'] = {"bid_ask": True}


def recorded() -> list[xr.Dataset]:
    """Quotes of all recorded chains: BTC and ETH of January 2026, BTC of December 2025."""
    january = chain.clean(pd.concat([chain_2026(stamp) for stamp in STAMPS_2026], ignore_index=True))
    december = chain.clean(chain_2025(), at="2025-12-05T01:10", iv_unit="percent")
    return [chain.smiles(january), chain.smiles(december)]


def errors(quotes: xr.Dataset, fitted: xr.Dataset) -> pd.DataFrame:
    """Return one row per expiry: errors in volatility points, and the share inside bid and ask."""
    k, iv, t = quotes["log_moneyness"], quotes["iv"], quotes["year_fraction"]
    model = smile.iv(fitted, k)
    error = 100.0 * abs(model - iv)
    side = where(k > 0.0, "call", "put")
    delta = abs(black76.greeks(quotes["forward"], quotes["strike"], t, iv, side, which=["delta"])["delta"])
    bid, ask = quotes["iv_bid"].fillna(0.0), quotes["iv_ask"].fillna(np.inf)
    inside = ((model >= bid) & (model <= ask)).where(quotes["iv_ask"].notnull() & iv.notnull())
    columns = {
        "all": error.median("strike"),
        "25 delta": error.where(abs(delta - 0.25) <= 0.05).mean("strike"),
        "10 delta": error.where(abs(delta - 0.10) <= 0.03).mean("strike"),
        "atm": 100.0 * abs(fitted["atm_error_vol"]),
        "inside": inside.sum("strike"),
        "quoted": inside.count("strike"),
        "half": 100.0 * at_the_money_of(k, (quotes["iv_ask"] - quotes["iv_bid"]) / 2, "strike"),
    }
    frame = xr.Dataset(columns).reset_coords(drop=True).to_dataframe()
    return frame[fitted["a"].notnull().to_series().reindex(frame.index).to_numpy()]


def row(method: dict[str, Any], chains: list[xr.Dataset]) -> dict[str, float]:
    """Figures of one method over all chains."""
    frames, counts, seconds = [], np.zeros(3, int), 0.0
    for quotes in chains:
        given = {name: value for name, value in method.items() if name != "bid_ask"}
        if method.get("bid_ask"):
            given |= {"iv_bid": quotes["iv_bid"], "iv_ask": quotes["iv_ask"]}
        arrays = (quotes["log_moneyness"], quotes["iv"], quotes["year_fraction"])
        begin = time.process_time()
        fitted = surface.fit(*arrays, **given)
        seconds += time.process_time() - begin
        frames.append(errors(quotes, fitted))
        counts += violations(fitted)
    table = pd.concat(frames)
    return {
        "all": table["all"].median(),
        "atm": table["atm"].median(),
        "25": table["25 delta"].median(),
        "10": table["10 delta"].median(),
        "inside": 100.0 * table["inside"].sum() / table["quoted"].sum(),
        "half": 100.0 * (table["atm"] <= table["half"])[table["half"].notna() & table["atm"].notna()].mean(),
        "butterflies": counts[0],
        "crossings": counts[1],
        "between": counts[2],
        "seconds": seconds,
    }


if __name__ == "__main__":
    quotes = recorded()
    print(
        pd.DataFrame({name: row(method, quotes) for name, method in METHODS.items()}).T.round(2).to_string()
    )
