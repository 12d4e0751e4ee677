"""Units of a venue's greeks, from their ratio to our own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import black76
from derivdata.analysis.black76.sensitivities import Greek
from derivdata.analysis.chain.forward import row_forward
from derivdata.analysis.chain.normalise import option_rows
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats

__all__ = ["vendor_greeks"]

_USED = (0.1, 0.9)  # forward delta; outside greeks are small and rounded away
_CLOSE = 0.05
_READINGS = {
    "delta_forward": {"forward delta": 1.0},
    "delta_pa": {"premium-adjusted delta": 1.0},
    "gamma": {"per USD of forward": 1.0},
    "vega": {"per 1.00": 1.0, "per 1 %": 0.01},
    "theta": {"per year": 1.0, "per day": 1 / 365},
    "rho": {"per 1.00": 1.0, "per 1 %": 0.01},
}
_DECIMALS = range(1, 9)
_STEPS = 20.0  # of the last decimal that a figure must have for its rounding to be below 2.5 %


@typed
def vendor_greeks(chain: pd.DataFrame | xr.Dataset, *, as_of: Any = None) -> pd.DataFrame:
    """Compare the venue's greeks with our own, greek by greek.

    Parameters
    ----------
    chain
        The table ``options_snapshot``, a surface, or what `clean` gave; of any number of venues.
    as_of
        Instant of the quotes, where the chain has no ``time``.

    Returns
    -------
    DataFrame, a row per symbol, venue and greek that the venue gives
        ``greek`` (``delta_forward`` and ``delta_pa`` compare the one delta with both conventions), ``n``
        options with a forward delta of 0.1 to 0.9 in size, ``median_ratio`` of the venue's figure to
        `black76.greeks`, ``spread``, the width of its middle half over the median, and ``reading``, what
        the ratio says: ``"per 1 %"``, ``"per day"``, ``"unknown"`` where it is none that we know or the
        middle half is over 5 % wide. Figures that the venue rounds to fewer than twenty steps of its last
        decimal are left out, such as a gamma of 0.00003; where no others are left, the reading is
        ``"unknown"``.

    Notes
    -----
    Deribit's theta is that of the next day or of what life is left, whichever is less: a reading of
    ``"per day"`` fits its options of more than a day.
    """
    options = option_rows(chain, as_of=as_of)
    ratios, rounded_away = _ratios(options)
    names = [name for name in ("symbol", "exchange") if name in options]
    long = ratios.stack().rename("ratio").rename_axis(index=["row", "greek"]).reset_index("greek")
    long = long.join(options[names]).replace({"ratio": [np.inf, -np.inf]}, np.nan).dropna(subset="ratio")
    groups = long.groupby([*names, "greek"], observed=True, sort=True)["ratio"]
    table = pd.DataFrame({"n": groups.size(), "median_ratio": groups.median()})
    table["spread"] = (groups.quantile(0.75) - groups.quantile(0.25)) / table["median_ratio"].abs()
    table = table.reset_index()
    readings = []
    for row in table.itertuples(index=False):
        scales = _READINGS[row.greek].items()
        close = [name for name, scale in scales if abs(row.median_ratio / scale - 1.0) < _CLOSE]
        told = close and row.spread < _CLOSE and not rounded_away[row.greek]
        readings.append(close[0] if told else "unknown")
    return table.assign(reading=readings)


def _ratios(options: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, bool]]:
    """Return the venue's figures over ours, and whether rounding left none of a greek to compare."""
    contract = (row_forward(options), *(options[name] for name in ("strike", "year_fraction", "iv", "side")))
    which: tuple[Greek, ...] = ("delta", "gamma", "vega", "theta", "rho")
    own = pd.DataFrame(black76.greeks(*contract, which=which), index=options.index)
    adjusted = black76.greeks(*contract, which=["delta"], delta="pa")["delta"]
    ours = own.rename(columns={"delta": "delta_forward"}).assign(delta_pa=adjusted)
    used = own["delta"].abs().between(*_USED)
    ratios, rounded_away = {}, {}
    for name in _READINGS:
        column = name.split("_")[0]
        if column in options:
            given = options[column].astype(np.float64)
            precise = given.abs() >= _STEPS * _step(given[used].to_numpy())
            rounded_away[name] = not (precise & used).any()
            shown = given if rounded_away[name] else given.where(precise)
            ratios[name] = shown / ours[name]
    return pd.DataFrame(ratios, index=options.index)[used], rounded_away


def _step(values: Floats) -> float:
    """Return the last decimal that values are rounded to, 0 where they are not."""
    known = values[np.isfinite(values)]
    for decimals in _DECIMALS:
        scaled = known * 10.0**decimals
        if known.size and np.allclose(scaled, np.round(scaled), rtol=0.0, atol=1e-6):
            return 10.0**-decimals
    return 0.0
