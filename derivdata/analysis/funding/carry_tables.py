"""Forecasts of carry as the table that a desk reads: a row per pair, the best first."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.funding.status import FundingStatus
from derivdata.analysis.inputs import require_columns, require_variables
from derivdata.analysis.labelling import origin_attrs
from derivdata.support.arguments import typed
from derivdata.units import BPS, HOURS_PER_YEAR

_APR = {"net_apr": "net_bps", "net_low_apr": "net_low_bps", "net_high_apr": "net_high_bps"}


@typed
def carry_table(forecast: xr.Dataset) -> pd.DataFrame:
    """Return a forecast of carry as a table: pairs, net APR with its interval, and the chance to earn at all.

    Parameters
    ----------
    forecast
        What `forecast_carry` returned, for all pairs, some or one.

    Returns
    -------
    DataFrame
        One row per symbol and pair, the highest ``net_apr`` first: ``symbol`` (where there is one), ``long``,
        ``short``, ``net_apr``, ``net_low_apr`` and ``net_high_apr`` (a year's fractions of one leg's
        notional, simple, of the outcome after cost over the holding time), ``chance`` (that it is above 0),
        ``net_bps`` and ``cost_bps`` [bps] over ``hold_hours`` [h], and ``status``, its reasons by name. A
        pair without a forecast stands last, with NaN and its reason.

    Raises
    ------
    ValueError
        `forecast` is not that of `forecast_carry`, or has a dim ``time``: choose an instant.

    Notes
    -----
    The best of many forecasts is in part the luckiest: `pick_record` says what such picks earned.

    Examples
    --------
    >>> history = dd.funding.settlements("BTC", "60d", venues=["binance", "hyperliquid", "okx"])
    >>> table = dd.analysis.carry_table(dd.analysis.funding.forecast_carry(history, hold="3d", fee_bps=1.0))
    >>> table.columns[:3].tolist(), len(table)
    (['symbol', 'long', 'short'], 6)
    """
    numbers = [*_APR.values(), "probability_net_positive", "cost_bps", "hold_hours", "status"]
    require_variables(forecast, "forecast", numbers)
    if "time" in forecast.dims:
        raise ValueError("forecast is of many times: choose one, forecast.isel(time=-1)")
    if "pair" not in forecast.dims:
        forecast = forecast.expand_dims("pair")
    figures = forecast[numbers].drop_indexes([leg for leg in ("long", "short") if leg in forecast.xindexes])
    frame = figures.reset_coords(drop=False).drop_vars("time", errors="ignore").to_dataframe()
    require_columns(frame, "forecast", others=("long", "short"))
    frame = frame.reset_index().rename(columns={"probability_net_positive": "chance"})
    years = frame["hold_hours"] / HOURS_PER_YEAR
    for name, source in _APR.items():
        frame[name] = frame[source] / BPS / years
    frame["status"] = [
        " ".join(str(bit.name).lower() for bit in FundingStatus if bits & bit) for bits in frame["status"]
    ]
    columns = ["long", "short", *_APR, "chance", "net_bps", "cost_bps", "hold_hours", "status"]
    columns = [name for name in frame if name not in {*columns, *_APR.values(), "pair"}] + columns
    order = np.lexsort((frame["short"], frame["long"], -frame["net_apr"]))  # NaN comes last
    table = frame.iloc[order][columns].reset_index(drop=True)
    table.attrs = origin_attrs(forecast)
    return table
