"""How close is each surface to recorded quotes, and is it free of arbitrage?

``python -m benchmarks.fits`` fits every recorded chain of the test data by every method and prints a table
for docs/options.md. Violations are counted here by formulas of its own on a grid of 20,001 places over ±10
deviations: Durrleman's g at the expiries and halfway in w between them, and total variance from expiry to
expiry.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import black76, chain, smile, surface
from derivdata.analysis.smile import svi
from derivdata.analysis.surface.fitting import at_the_money_of
from derivdata.analysis.surface.labelling import where
from tests.analysis.deribit import STAMPS_2026, chain_2025, chain_2026

METHODS: dict[str, dict[str, Any]] = {
    "`svi`, vega (the default)": {},
    "`svi`, price": {"weights": "price"},
    "`svi`, equal": {"weights": "equal"},
    '`svi`, `loss="bid_ask"`': {"bid_ask": True},
    "`essvi`, vega": {"method": "essvi"},
    "`essvi`, price": {"method": "essvi", "weights": "price"},
    "`essvi`, equal": {"method": "essvi", "weights": "equal"},
    "`slices` (each alone), vega": {"method": "slices"},
    "`slices` (each alone), price": {"method": "slices", "weights": "price"},
    "`slices` (each alone), equal": {"method": "slices", "weights": "equal"},
}
_PLACES = np.linspace(-10.0, 10.0, 20_001)


def recorded() -> list[xr.Dataset]:
    """Quotes of all recorded chains: BTC and ETH of January 2026, BTC of December 2025."""
    january = chain.clean(pd.concat([chain_2026(stamp) for stamp in STAMPS_2026], ignore_index=True))
    december = chain.clean(chain_2025(), at="2025-12-05T01:10", iv_unit="percent")
    return [chain.smiles(january), chain.smiles(december)]


def errors(quotes: xr.Dataset, fitted: xr.Dataset) -> pd.DataFrame:
    """A row per expiry: errors in volatility points, and what of it lies inside bid and ask."""
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


def violations(fitted: xr.Dataset) -> tuple[int, int, int]:
    """Slices with a butterfly, neighbours that cross, cuts halfway between neighbours with a butterfly."""
    fitted = fitted.transpose(..., "expiry")
    shape, size = fitted["a"].shape, fitted.sizes["expiry"]
    raw = np.stack([fitted[name].to_numpy().reshape(-1, size) for name in svi.Raw._fields], axis=-1)
    years = np.broadcast_to(fitted["year_fraction"].to_numpy(), shape).reshape(-1, size)
    butterflies = crossings = between = 0
    for slices, t in zip(raw, years, strict=True):
        ordered = slices[np.isfinite(slices[:, 0])][np.argsort(t[np.isfinite(slices[:, 0])])]
        for i, late in enumerate(ordered):
            k = _PLACES * np.sqrt(max(_jet(np.zeros(1), late)[0][0], 1e-12))
            now = _jet(k, late)
            butterflies += _least(k, now) < 0.0
            if i:
                before = _jet(k, ordered[i - 1])
                crossings += (now[0] - before[0]).min() < 0.0
                between += _least(k, [(a + b) / 2.0 for a, b in zip(before, now, strict=True)]) < 0.0
    return int(butterflies), int(crossings), int(between)


def _jet(k: Any, raw: Any) -> list[Any]:
    a, b, rho, m, sigma = raw
    x = k - m
    root = np.sqrt(x * x + sigma * sigma)
    return [a + b * (rho * x + root), b * (rho + x / root), b * sigma**2 / root**3]


def _least(k: Any, jet: list[Any]) -> float:
    w, dw, d2w = jet
    g = (1.0 - k * dw / (2.0 * w)) ** 2 - dw**2 / 4.0 * (1.0 / w + 0.25) + d2w / 2.0
    return float(np.where(w > 0.0, g, -1.0).min())


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


_HEAD = (
    "method, weights", "all quotes", "ATM", "25 delta", "10 delta", "inside bid/ask",
    "ATM within half the spread",
    "butterflies", "crossings", "butterflies between", "CPU [s]",
)  # fmt: skip
_FORMATS = ("{:.2f}",) * 4 + ("{:.0f} %",) * 2 + ("{:.0f}",) * 3 + ("{:.1f}",)


def main() -> None:
    """Print the table."""
    chains = recorded()
    print("| " + " | ".join(_HEAD) + " |\n" + "|---" * len(_HEAD) + "|")
    for name, method in METHODS.items():
        figures = row(method, chains).values()
        cells = [form.format(value) for form, value in zip(_FORMATS, figures, strict=True)]
        print("| " + " | ".join([name, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
