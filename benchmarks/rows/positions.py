"""The implied distribution of the price and the value of positions, against differences and loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.optimize import least_squares

from benchmarks.row import OURS, Check, Made, Row, faster, stated
from benchmarks.rows.surfaces import YEARS, boards
from derivdata.analysis import black76, business_time, chain, position, risk_neutral, smile, surface
from derivdata.support.arrays import Floats
from tests.analysis.made_chains import daily_chains

__all__ = ["ROWS", "made_surfaces"]

_SURFACES = 100
_AS_OF = np.datetime64("2026-01-01T08:00", "us")
_EXPIRIES = _AS_OF + np.round(YEARS * 365).astype(np.int64) * np.timedelta64(1, "D")
_LEGS, _SOME = 200, 20
_SPOTS, _VOLS, _DAYS = np.linspace(-0.2, 0.2, 21), np.linspace(-0.1, 0.1, 5), np.arange(0.0, 8.0)
_DIFFERENCES = "second differences of Black prices of the same smiles, without checks"
_GENERAL = "scipy least_squares, the curve alone, surface by surface"
_CLEAN = "limit: the chains cleaned once"
_LOOP = "a loop over legs and scenarios with scipy's normal distribution, 1/10 of the legs"


def made_surfaces(count: int) -> xr.Dataset:
    k, iv = boards(count)
    fitted = surface.fit(k, iv, YEARS, method="essvi", weights="price").drop_vars("covariance")
    fitted = fitted.rename({dim: "board" for dim in fitted.dims if dim != "expiry"})
    return fitted.assign_coords(expiry=_EXPIRIES, forward=("expiry", np.full(YEARS.size, 100_000.0)))


def _density(_: Path) -> Made:
    fitted = made_surfaces(_SURFACES)
    k = np.linspace(-1.0, 1.0, 201)
    strike = xr.DataArray(np.exp(k), dims="log_moneyness", coords={"log_moneyness": k})

    def differences() -> xr.DataArray:
        step = 1e-3
        prices = [
            black76.price(
                1.0, strike + shift, fitted["year_fraction"],
                smile.iv(fitted, np.log(strike + shift), extrapolate=True), "call",
            )
            for shift in (-step, 0.0, step)
        ]  # fmt: skip
        return strike * (prices[0] - 2 * prices[1] + prices[2]) / step**2

    def checks() -> list[Check]:
        apart = float(abs(risk_neutral.density(fitted, k)["density"] - differences()).max())
        return [Check("largest difference of the two densities", f"{apart:.0e}", "≤ 0.05", apart <= 0.05)]

    return Made({OURS: lambda: risk_neutral.density(fitted, k), _DIFFERENCES: differences}, checks=checks)


def _local(_: Path) -> Made:
    fitted = made_surfaces(_SURFACES)
    k, t = np.linspace(-0.5, 0.5, 41), np.linspace(0.01, 0.9, 30)
    return Made(
        {
            OURS: lambda: surface.local_volatility(fitted, k, t),
            "limit: total variance at the same places": lambda: surface.iv(fitted, k, t) ** 2 * t[:, None],
        }
    )


def _legs() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "expiry": pd.DatetimeIndex(rng.choice(_EXPIRIES[2:], _LEGS)).tz_localize("UTC"),
            "strike": np.round(100_000 * np.exp(0.2 * rng.standard_normal(_LEGS)), -3),
            "side": rng.choice(["call", "put"], _LEGS),
            "quantity": rng.integers(-10, 11, _LEGS).astype(float),
        }
    )


def _scenarios(_: Path) -> Made:
    fitted, legs = made_surfaces(1).isel(board=0), _legs()
    moves = {"spot_change": _SPOTS, "vol_change": _VOLS, "elapsed": [f"{day:g}d" for day in _DAYS]}
    some = legs.iloc[:: _LEGS // _SOME]

    def loop(book: pd.DataFrame) -> list[float]:
        """Every scenario's value, an option at a time; each keeps its volatility."""
        now = position.greeks(book, fitted)
        iv, t = (now[name].to_numpy().tolist() for name in ("iv", "year_fraction"))
        rows = list(zip(book["strike"], book["side"], book["quantity"], iv, t, strict=True))
        return [
            sum(q * _black(1e5 * (1 + s), k, x - d / 365, v + u, side) for k, side, q, v, x in rows)
            for s in _SPOTS.tolist()
            for u in _VOLS.tolist()
            for d in _DAYS.tolist()
        ]

    def checks() -> list[Check]:
        ours = position.scenarios(some, fitted, **moves)["value"].sel(currency="usd").to_numpy().ravel()
        apart = float(np.nanmax(np.abs(ours - loop(some))))
        return [Check("largest difference of values [USD]", f"{apart:.0e}", "≤ 0.001", apart <= 0.001)]

    return Made(
        {OURS: lambda: position.scenarios(legs, fitted, **moves), _LOOP: lambda: loop(some)},
        parts={_LOOP: _SOME / _LEGS},
        checks=checks,
    )


def _black(forward: float, strike: float, years: float, iv: float, side: str) -> float:
    from math import erfc, log, sqrt

    sign = 1.0 if side == "call" else -1.0
    if years <= 0.0:
        return max(sign * (forward - strike), 0.0)
    root = iv * sqrt(years)
    d1 = log(forward / strike) / root + root / 2
    ends = [0.5 * erfc(-sign * d / sqrt(2)) for d in (d1, d1 - root)]
    return sign * (forward * ends[0] - strike * ends[1])


def _attribution(_: Path) -> Made:
    both, legs = made_surfaces(2), _legs()
    one, two = both.isel(board=0), both.isel(board=1)
    later = two.assign_coords(year_fraction=two["year_fraction"] - 1 / 365 / 24)
    return Made(
        {
            OURS: lambda: position.attribution(legs, one, later),
            "limit: greeks of both ends": lambda: [position.greeks(legs, each) for each in (one, later)],
        }
    )


def _business_time(_: Path) -> Made:
    fitted = made_surfaces(_SURFACES)
    w = smile.total_variance(fitted, 0.0).to_numpy()

    def general(row: Floats) -> Any:
        """Fit three parameters of the curve only, with weekends as other days."""

        def residual(x: Floats) -> Floats:
            model = x[0] * YEARS + (x[1] - x[0]) * -np.expm1(-x[2] * YEARS) / x[2]
            return np.asarray((model - row) / (2 * np.sqrt(row * YEARS)))

        return least_squares(residual, [0.25, 0.25, 5.0], bounds=([0, 0, 0.1], np.inf))

    return Made(
        {
            OURS: lambda: business_time.fit(fitted, measure="atm"),
            _GENERAL: lambda: [general(row) for row in w],
        }
    )


def _executable(_: Path) -> Made:
    rows = daily_chains(2)
    usd = black76.price(
        rows["underlying_price"], rows["strike"],
        (rows["expiry"] - rows["time"]) / pd.Timedelta("365D"), rows["iv"], rows["side"],
    )  # fmt: skip
    quoted = rows.assign(bid_usd=usd * 0.995, ask_usd=usd * 1.005)
    return Made({OURS: lambda: chain.executable(quoted), _CLEAN: lambda: chain.clean(quoted)})


ROWS = [
    Row(
        "density",
        what="risk-neutral densities with mass and martingale checks",
        given=f"{_SURFACES} surfaces of 10 expiries × 201 places",
        make=_density,
        goals={_DIFFERENCES: stated()},
        rounds=3,
    ),
    Row(
        "local-volatility",
        what="Dupire's local volatility",
        given=f"{_SURFACES} surfaces × 30 times × 41 places",
        make=_local,
        goals={"limit: total variance at the same places": stated()},
        rounds=3,
    ),
    Row(
        "scenarios",
        what="scenarios of spot × volatility × time",
        given=f"{_LEGS} legs × 21 × 5 × 8, in USD and in coin",
        make=_scenarios,
        goals={_LOOP: faster(3)},
        rounds=3,
    ),
    Row(
        "attribution",
        what="P&L of a position attributed to ten terms",
        given=f"{_LEGS} legs, two surfaces, in USD and in coin",
        make=_attribution,
        goals={"limit: greeks of both ends": stated()},
        rounds=3,
    ),
    Row(
        "business-time",
        what="weekend weights fitted to term structures",
        given=f"{_SURFACES} surfaces of 10 expiries",
        make=_business_time,
        goals={_GENERAL: stated()},
        rounds=3,
    ),
    Row(
        "executable",
        what="static arbitrage at bid and ask, across expiries",
        given="2 chains of 11 expiries, some 800 options each",
        make=_executable,
        goals={_CLEAN: stated()},
        rounds=3,
    ),
]
