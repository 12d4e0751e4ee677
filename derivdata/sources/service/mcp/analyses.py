"""Analyses as tools for a language model: figures with units and the provenance of their data."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata import funding, liquidations, options
from derivdata.analysis import exposure, quality, surface
from derivdata.analysis import funding as carry
from derivdata.analysis import liquidations as bursts
from derivdata.errors import DataNotice
from derivdata.support import times
from derivdata.tables.panels import panel, provenance

_SYMBOL = {"type": "string", "minLength": 1, "description": "Base symbol, such as BTC."}
_VENUE = {
    "type": "string",
    "description": "Venue with options, such as deribit.",
    "default": "deribit",
    "minLength": 1,
}
_TOP = {"type": "integer", "minimum": 1, "maximum": 50, "default": 10, "description": "Rows to return."}
_FEE = {
    "type": "number",
    "minimum": 0,
    "default": 5.0,
    "description": "Fee of one trade [bps of notional]; a pair trades four times.",
}
_NAIVE_DEALER = {"call": 1.0, "put": -1.0}
_PROVENANCE = ("source", "synthetic", "as_of", "attribution", "notices")


class AnalysisTool(NamedTuple):
    """One analysis: its description, its arguments as JSON schemas, and the function that runs it."""

    description: str
    arguments: dict[str, dict[str, Any]]
    required: tuple[str, ...]
    run: Callable[..., dict[str, Any]]


def _since(days: int, data: str) -> dict[str, Any]:
    text = f"Start of the {data}: a lookback such as {days}d, or an ISO 8601 time."
    return {"type": "string", "minLength": 1, "default": f"{days}d", "description": text}


def best_pairs(symbol: str, since: str = "30d", fee_bps: float = 5.0, top: int = 10) -> dict[str, Any]:
    """Return the pairs of venues with the widest mean funding spread, before and after fees."""
    rates = funding.history(symbol, since)
    by_venue = panel(rates).sel(symbol=symbol)
    mean = by_venue.mean("time")
    is_covered = by_venue.notnull().mean("time") >= 0.5
    level = mean.sel(exchange=mean["exchange"].values[is_covered.values])
    spread = (level.rename(exchange="short") - level.rename(exchange="long")).to_series()
    wide = spread[spread > 0.0].nlargest(top)
    days = float(np.ptp(by_venue["time"].values) / np.timedelta64(1, "D"))
    gross_bps = wide * 3.0 * days  # three periods of 8 hours a day
    rows = pd.DataFrame(
        {
            "long": wide.index.get_level_values("long"),
            "short": wide.index.get_level_values("short"),
            "mean_spread_bps_8h": wide.to_numpy(),
            "earned_bps": gross_bps.to_numpy(),
            "earned_after_fees_bps": (gross_bps - 4.0 * fee_bps).to_numpy(),
            "days_to_pay_fees": (4.0 * fee_bps / (wide * 3.0)).to_numpy(),
        }
    )
    units = {
        "mean_spread_bps_8h": "bps of notional per 8 hours",
        "earned_bps": f"bps of one leg's notional over the {days:.1f} days of the window",
        "earned_after_fees_bps": f"the same after four trades of {fee_bps:g} bps",
        "days_to_pay_fees": "days at the mean spread",
    }
    note = "Means of the past, not forecasts. Venues with rates in less than half of the window are left out."
    return _result(rows, units, note, rates)


def carry_forecast(
    symbol: str, since: str = "90d", hold: str = "7d", fee_bps: float = 5.0, top: int = 10
) -> dict[str, Any]:
    """Return the pairs with the highest forecast carry after fees, with a 90 % interval."""
    rates = funding.history(symbol, since)
    forecast = carry.forecast_carry(panel(rates).sel(symbol=symbol), hold=hold, fee_bps=fee_bps)
    names = [
        "net_bps",
        "net_low_bps",
        "net_high_bps",
        "gross_bps",
        "probability_net_positive",
        "decisions",
    ]
    figures = forecast[names].drop_indexes(["long", "short"])  # to_dataframe leaves out indexed coordinates
    rows = figures.to_dataframe().reset_index()[["long", "short", *names]]
    units = dict.fromkeys(names[:4], f"bps of one leg's notional over {hold}") | {
        "probability_net_positive": "fraction",
        "decisions": "independent past decisions behind the interval",
    }
    note = (
        f"Net of four trades of {fee_bps:g} bps; low and high are a 90 % interval from past forecast errors. "
        "Prices of the legs are not included. The largest of many forecasts is partly luck."
    )
    return _result(rows.dropna(subset="net_bps").nlargest(top, "net_bps"), units, note, rates)


def surface_summary(symbol: str = "BTC", exchange: str = "deribit") -> dict[str, Any]:
    """Return at-the-money volatility, risk reversals and butterflies at fixed tenors."""
    chain = options.snapshot(symbol, exchange)
    fit = surface.from_chain(chain)
    fixed = surface.constant_maturity(fit)
    points = ["atm", "rr25", "bf25", "rr10", "bf10"]
    rows = fixed[points].to_dataframe().reset_index()[["tenor", *points]].rename(columns={"tenor": "days"})
    units = {"days": "days to expiry"} | dict.fromkeys(
        points, "implied volatility, decimal, per square root of a year"
    )
    note = (
        f"SVI without arbitrage, {fit.sizes['expiry']} expiries, {len(chain)} options; delta is the forward "
        f"delta. {_unfitted(fit)}"
    )
    return _result(rows.dropna(how="all", subset=points), units, note, chain)


def data_quality(symbol: str, since: str = "30d") -> dict[str, Any]:
    """Return gaps, duplicates, frozen values, outliers and scale errors of funding rates by venue."""
    rates = funding.history(symbol, since)
    checked = quality.quality(rates)
    names = [
        "exchange",
        "expected",
        "present",
        "missing",
        "gaps",
        "longest_gap_hours",
        "duplicates",
        "frozen",
    ]
    names += ["outliers", "spikes", "scale_change", "peer_scale"]
    worst = checked.sort_values(["missing", "outliers"], ascending=False)[names]
    units = {
        "longest_gap_hours": "hours",
        "frozen": "longest run of equal values [points]",
        "scale_change": "factor within the series; 1 means no change",
        "peer_scale": "factor against other venues; 1 means equal",
    }
    return _result(worst, units, str(checked.attrs["summary"]), rates)


def liquidation_cascades(
    since: str = "24h", symbol: str | None = None, min_usd: float = 1e6, top: int = 10
) -> dict[str, Any]:
    """Return the largest bursts of liquidations: orders at most 10 seconds apart."""
    orders = liquidations.events(since=since, symbols=symbol)
    runs = bursts.clusters(orders, gap="10s", by=("symbol",))
    largest = bursts.cascades(runs, min_count=2, min_usd=min_usd, quantile=0.0)
    names = ["symbol", "start", "end", "count", "value_usd", "imbalance", "venues", "price_move"]
    units = {
        "count": "orders",
        "value_usd": "USD",
        "imbalance": "(long - short) / total: 1 is only longs liquidated",
        "venues": "venues with an order in it",
        "price_move": "fraction, first to last order",
    }
    counted = f"{len(orders):,} orders, {len(runs):,} bursts."
    note = f"{counted} Venues throttle their feeds, so values are lower bounds."
    return _result(largest.nlargest(top, "value_usd")[names], units, note, orders)


def option_exposure(symbol: str = "BTC", exchange: str = "deribit") -> dict[str, Any]:
    """Return put/call ratio, max pain by expiry and the price of zero gamma for naive dealers."""
    chain = options.snapshot(symbol, exchange)
    pain = exposure.max_pain(chain)["max_pain"].to_series()
    by_expiry = exposure.open_interest(chain, by=("expiry",))
    name = next(iter(by_expiry.data_vars))
    rows = pd.DataFrame({"expiry": pain.index, "max_pain_usd": pain.to_numpy()})
    rows["open_interest_coins"] = by_expiry[name].reindex(expiry=pain.index).to_numpy()
    zero = exposure.zero_gamma(chain, dealer=_NAIVE_DEALER)
    result = _result(
        rows,
        {
            "max_pain_usd": "USD",
            "open_interest_coins": "coins",
            "put_call_ratio": "open interest of puts divided by open interest of calls",
            "zero_gamma_usd": "USD",
        },
        "Zero gamma assumes that dealers are long calls and short puts, which no venue publishes.",
        chain,
    )
    ratio = exposure.put_call_ratio(chain)["put_call_ratio"]
    figures = {"put_call_ratio": float(ratio), "zero_gamma_usd": float(zero["price_usd"])}
    return {**result, "figures": {name: _plain(value) for name, value in figures.items()}}


TOOLS: dict[str, AnalysisTool] = {
    "analysis_best_pairs": AnalysisTool(
        "Which pairs of venues had the widest funding spread of a symbol, before and after fees?",
        {"symbol": _SYMBOL, "since": _since(30, "rates"), "fee_bps": _FEE, "top": _TOP},
        ("symbol",),
        best_pairs,
    ),
    "analysis_carry_forecast": AnalysisTool(
        "What are pairs of venues forecast to earn after fees over a holding time, with an interval?",
        {
            "symbol": _SYMBOL,
            "since": _since(90, "rates that the forecast is fitted to"),
            "hold": {"type": "string", "default": "7d", "description": "Holding time, such as 7d."},
            "fee_bps": _FEE,
            "top": _TOP,
        },
        ("symbol",),
        carry_forecast,
    ),
    "analysis_surface_summary": AnalysisTool(
        "What does the option market imply: at-the-money volatility, skew and wings at fixed tenors?",
        {"symbol": {**_SYMBOL, "default": "BTC"}, "exchange": _VENUE},
        (),
        surface_summary,
    ),
    "analysis_data_quality": AnalysisTool(
        "Can the funding rates of a symbol be trusted: gaps, frozen values, outliers, scale, by venue?",
        {"symbol": _SYMBOL, "since": _since(30, "rates")},
        ("symbol",),
        data_quality,
    ),
    "analysis_liquidation_cascades": AnalysisTool(
        "Which bursts of liquidations were the largest?",
        {
            "since": _since(1, "orders"),
            "symbol": _SYMBOL,
            "min_usd": {
                "type": "number",
                "minimum": 0,
                "default": 1e6,
                "description": "Minimum value of a burst [USD].",
            },
            "top": _TOP,
        },
        (),
        liquidation_cascades,
    ),
    "analysis_exposure": AnalysisTool(
        "How is the open interest of options distributed: max pain by expiry, put/call ratio, zero gamma?",
        {"symbol": {**_SYMBOL, "default": "BTC"}, "exchange": _VENUE},
        (),
        option_exposure,
    ),
}
"""Name of a tool to its analysis."""


def run(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Run an analysis; its notices are part of the result."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataNotice)
        result = TOOLS[name].run(**arguments)
    notices = [str(warning.message) for warning in caught if issubclass(warning.category, DataNotice)]
    origin = result["provenance"]
    origin["notices"] = list(dict.fromkeys([*origin["notices"], *notices]))
    return result


def _result(rows: pd.DataFrame, units: Mapping[str, str], note: str, data: pd.DataFrame) -> dict[str, Any]:
    """Return rows with their units and the provenance of their data."""
    records = [{str(name): _plain(value) for name, value in row.items()} for row in rows.to_dict("records")]
    origin = provenance(data)
    return {
        "rows": records,
        "units": dict(units),
        "note": note,
        "provenance": {name: origin[name] for name in _PROVENANCE if name in origin},
    }


def _plain(value: Any) -> Any:
    """Convert a value for JSON: six significant digits, times as ISO 8601, missing as null."""
    if isinstance(value, pd.Timestamp):
        return times.iso(value if value.tzinfo is not None else value.tz_localize("UTC"))
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    return None if value is pd.NaT or value is pd.NA else value


def _unfitted(fit: xr.Dataset) -> str:
    """Return a sentence with the number of expiries without a fit, or an empty text."""
    missing = int(fit["a"].isnull().sum()) if "a" in fit else 0
    return f"{missing} expiries were not fitted." if missing else ""
