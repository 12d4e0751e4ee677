"""Tables of chains and fits: volatilities in percent, differences in points."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import exposure, smile, surface, variance
from derivdata.analysis.surface.points import points_at_expiries
from derivdata.plot.fits import verdicts

_DAYS = 365.0
_TENORS = ("7d", "14d", "30d", "60d", "90d", "180d")
_POINTS = ("atm", "rr25", "bf25", "rr10", "bf10")

FORMATS = (
    {
        "days": ".2f",
        "tenor [days]": ".0f",
        "error [points]": ".3f",
        "least g(k)": ".3f",
        "puts / calls": ".2f",
    }
    | dict.fromkeys(("quotes", "expiries"), "d")
    | dict.fromkeys(("options", "used"), ",d")
    | dict.fromkeys(("calls", "puts"), ",.1f")
    | dict.fromkeys(("forward [USD]", "max pain [USD]"), ",.2f")
    | dict.fromkeys(("ATM [%]", "strip [%]", "with wings at most [%]", "forward vol [%]"), ".2f")
    | dict.fromkeys(("30-day ATM [%]", "30-day strip index [%]"), ".2f")
    | dict.fromkeys(("RR 25Δ", "BF 25Δ", "RR 10Δ", "BF 10Δ", "fit − quote ATM"), "+.2f")
)


def expiries(table: pd.DataFrame, fit: xr.Dataset) -> pd.DataFrame:
    """Return one row per expiry: volatility, skew, fit, arbitrage, forward and model-free, positions."""
    points = points_at_expiries(fit, ("atm", "rr25", "bf25")).where(fit["method"] > 0)
    line = surface.term_structure(fit)
    free = variance.model_free(fit, method="strip")
    dates = pd.DatetimeIndex(fit["expiry"].values)
    t = fit["year_fraction"]
    listed = table.groupby("expiry", observed=True).size()
    frame = pd.DataFrame(
        {
            "expiry": dates,
            "days": _DAYS * t.values,
            "forward [USD]": fit["forward"].values,
            "options": listed.reindex(dates.tz_localize("UTC")).to_numpy(),
            "quotes": fit["n"].values,
            "ATM [%]": 100 * points["atm"].values,
            "RR 25Δ": 100 * points["rr25"].values,
            "BF 25Δ": 100 * points["bf25"].values,
            "error [points]": 100 * fit["rmse_vol"].values,
            "fit − quote ATM": (100 * fit["atm_error_vol"].values).round(2) + 0.0,  # no −0.00
            "least g(k)": smile.butterfly_check(fit)["min_g"].values,
            "what to know": verdicts(fit),
            "strip [%]": 100 * free["vol"].values,
            "with wings at most [%]": 100 * np.sqrt((free["upper"] / t).values),
            "forward vol [%]": 100 * line["forward_vol"].values,
        }
    )
    return frame.merge(_positions(table), on="expiry", how="left")


def _positions(table: pd.DataFrame) -> pd.DataFrame:
    """Return open calls and puts, their ratio and max pain, by expiry."""
    oi = exposure.open_interest(table, by=("expiry", "side"))["open_interest"]
    ratio = exposure.put_call_ratio(table, by=("expiry",))["put_call_ratio"]
    return pd.DataFrame(
        {
            "expiry": pd.DatetimeIndex(oi["expiry"].values),
            "calls": oi.sel(side="call").values,
            "puts": oi.sel(side="put").values,
            "puts / calls": ratio.values,
            "max pain [USD]": exposure.max_pain(table)["max_pain"].values,
        }
    )


def tenors(fit: xr.Dataset) -> pd.DataFrame:
    """Return volatility and skew at fixed times to expiry."""
    points = surface.constant_maturity(fit, tenors=_TENORS, points=_POINTS)
    names = {"atm": "ATM [%]"} | {
        f"{kind.lower()}{d}": f"{kind} {d}Δ" for d in (25, 10) for kind in ("RR", "BF")
    }
    columns = {label: 100 * points[name].values for name, label in names.items()}
    return pd.DataFrame({"tenor [days]": points["tenor"].values} | columns).dropna(subset="ATM [%]")


def venues(tables: dict[str, pd.DataFrame], fits: xr.Dataset) -> pd.DataFrame:
    """Return one row per venue: options listed and used, and its volatility at 30 days."""
    order = list(tables)
    fits = fits.sel(exchange=order)
    month = surface.constant_maturity(fits, tenors=("30d",), points=("atm", "rr25")).isel(tenor=0)
    free = variance.model_free(fits, method="strip")
    return pd.DataFrame(
        {
            "venue": order,
            "options": [len(tables[venue]) for venue in order],
            "used": fits["n"].sum("expiry").values,
            "expiries": fits["a"].notnull().sum("expiry").values,
            "30-day ATM [%]": 100 * month["atm"].values,
            "RR 25Δ": 100 * month["rr25"].values,
            "30-day strip index [%]": 100 * variance.volatility_index(free)["index"].values,
            "error [points]": 100 * fits["rmse_vol"].median("expiry").values,
        }
    )


def gaps(by_venue: pd.DataFrame, reference: str) -> list[str]:
    """Describe each venue's 30-day ATM volatility less the reference's, largest difference first."""
    level = by_venue.set_index("venue")["30-day ATM [%]"]
    away = (level - level[reference]).drop(reference).dropna()
    ordered = away.loc[away.abs().sort_values(ascending=False).index]
    return [f"{venue} {gap:+.2f}" for venue, gap in ordered.items()]
