"""Count the quotes of each recorded chain inside bid and ask, next to the attainable maximum.

``python -m tests.measured.quotes_met`` prints the rows of docs/methods/quotes_met.csv for the recorded chains
of the test data; with files as arguments, for the chains in these (`tests.measured.public_chains`). The
programme is over undiscounted calls of one expiry at its strikes, which fall and are convex from the forward
on: no surface free of arbitrage meets more quotes of an expiry.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import linprog

from derivdata.analysis import black76, chain, smile, surface
from tests.analysis.deribit import STAMPS_2026, chain_2025, chain_2026
from tests.analysis.violations import violations
from tests.measured import public_chains


def recorded() -> dict[str, pd.DataFrame]:
    """Cleaned chains of the test data by name."""
    chains = {
        f"{stamp} {symbol}": chain.clean(frame[frame["symbol"] == symbol].reset_index(drop=True))
        for stamp in STAMPS_2026
        for frame in [chain_2026(stamp)]
        for symbol in ("BTC", "ETH")
    }
    chains["20251205T011000Z BTC"] = chain.clean(chain_2025(), at="2025-12-05T01:10", iv_unit="percent")
    return chains


def most_inside(quotes: xr.Dataset) -> float:
    """Return the percentage of quotes with an ask that arbitrage-free prices can meet, per expiry."""
    count = met = 0
    for place in range(quotes.sizes["expiry"]):
        own = quotes.isel(expiry=place)
        used = (own["iv"].notnull() & own["iv_ask"].notnull()).to_numpy()
        if used.sum() < 3:
            continue
        strike = own["strike"].to_numpy()[used] / float(own["forward"])
        t = float(own["year_fraction"])
        sides = (own[name].fillna(0.0).to_numpy()[used] for name in ("iv_bid", "iv_ask"))
        low, high = (np.asarray(black76.price(1.0, strike, t, np.minimum(iv, 14.9), "call")) for iv in sides)
        count += strike.size
        met += int((_outside(strike, low, high) < 1e-9).sum())
    return 100.0 * met / count


def _outside(strike: Any, low: Any, high: Any) -> Any:
    """Return distances outside bid and ask of the calls with the least sum in half spreads."""
    count = strike.size
    call, slack = np.eye(2 * count)[:count], np.eye(2 * count)[count:]
    rows, limits = [*(-call - slack), *(call - slack)], [*-low, *high]
    # At strike 0 a call is worth the forward, and it falls by at most the strike.
    places, calls, fixed = [0.0, *strike], [0.0 * call[0], *call], [1.0, *np.zeros(count)]
    slopes = [
        ((calls[i + 1] - calls[i]) / step, (fixed[i + 1] - fixed[i]) / step)
        for i, step in enumerate(np.diff(places))
    ]
    for (first, item), (second, two) in pairwise(slopes):
        rows.append(first - second)
        limits.append(two - item)
    rows += [-slopes[0][0], slopes[-1][0]]
    limits += [slopes[0][1] + 1.0, -slopes[-1][1]]
    width = 1.0 / np.maximum((high - low) / 2.0, 1e-9)
    costs = np.concatenate([np.zeros(count), width / width.mean()])
    solved = linprog(costs, A_ub=np.array(rows), b_ub=np.array(limits), bounds=(0.0, None), method="highs")
    return solved.x[count:]


def figures(options: pd.DataFrame) -> dict[str, Any]:
    """Figures of one chain: shares in percent, errors in volatility points, violations on a dense grid."""
    quotes = chain.smiles(options)
    fitted = surface.from_chain(options).reindex(expiry=quotes["expiry"])
    model = smile.iv(fitted, quotes["log_moneyness"], extrapolate=True)
    bid, ask, iv = quotes["iv_bid"].fillna(0.0), quotes["iv_ask"], quotes["iv"]
    used = ask.notnull() & model.notnull() & iv.notnull()
    return {
        "quotes": int(used.sum()),
        "inside": 100.0 * float(((model >= bid) & (model <= ask) & used).sum() / used.sum()),
        "most": most_inside(quotes),
        "marks": 100.0 * float(((iv >= bid) & (iv <= ask) & used).sum() / used.sum()),
        "all": 100.0 * float(abs(model - iv).median("strike").median()),
        "atm": 100.0 * float(abs(fitted["atm_error_vol"]).median()),
        "violations": sum(violations(fitted)),
    }


def _in_columns(name: str) -> str:
    """Write the name of a recorded chain as venue, coin and time."""
    stamp, coin = name.split()
    return f"deribit,{coin},{pd.Timestamp(stamp):%Y-%m-%d %H:%M}"


def lines(chains: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Yield a line of the table of the documents for each chain."""
    for name, options in chains.items():
        row = figures(options)
        shares = ",".join(f"{row[key]:.1f}" for key in ("inside", "most", "marks"))
        yield f"{name},{row['quotes']},{shares},{row['all']:.2f},{row['atm']:.2f},{row['violations']}"


if __name__ == "__main__":
    public = {
        name: chain.clean(table)
        for path in sys.argv[1:]
        for name, table in public_chains.chains(Path(path)).items()
    }
    for line in lines(public or {_in_columns(name): options for name, options in recorded().items()}):
        print(line, flush=True)
