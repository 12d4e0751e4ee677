"""Usual inputs of a desk, made once: panels of 43 venues, tables of the sample, a fitted surface."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

import derivdata as dd
from derivdata.analysis import backtest, chain, liquidations, smile, surface, variance, volatility
from derivdata.analysis.smile import svi
from derivdata.analysis.smile.evaluate import RAW
from derivdata.sources.archive import Archive

__all__ = [
    "SIZE",
    "K",
    "archive",
    "backtested",
    "bars",
    "capped",
    "cleaned",
    "events",
    "fitted",
    "folder",
    "forwards",
    "free",
    "history",
    "legs",
    "one_symbol",
    "panel",
    "picks",
    "prices",
    "quotes",
    "rates",
    "raw",
    "runs",
    "settled",
    "share",
    "table",
    "usd",
    "whole",
]

SIZE = "43 venues × 30 symbols × 30 days of hours"
K = np.linspace(-0.5, 0.5, 41)
"""Places on a smile."""


@functools.cache
def panel(symbols: int, steps: int, hours: int, seed: int = 1) -> xr.DataArray:
    """Numbers around levels that differ by venue, without a unit: (symbol, exchange, time)."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(symbols, 43, steps)).cumsum(axis=-1) * 0.05 + rng.normal(size=(symbols, 43, 1))
    coords = {
        "symbol": [f"SYM{i:03d}" for i in range(symbols)],
        "exchange": [f"venue{i:02d}" for i in range(43)],
        "time": pd.date_range("2026-01-01", periods=steps, freq=f"{hours}h").as_unit("us").to_numpy(),
    }
    return xr.DataArray(values, coords, tuple(coords))


@functools.cache
def rates(symbols: int = 30, days: int = 30) -> xr.DataArray:
    """Sampled funding rates by the hour."""
    found = panel(symbols, 24 * days, 1).rename("rate_bps_8h")
    return found.assign_attrs(units="bps/8h", kind="sampled")


@functools.cache
def settled(symbols: int = 30) -> xr.DataArray:
    """Payments of 90 days, every eight hours."""
    found = panel(symbols, 270, 8).rename("rate_bps_8h").assign_coords(interval_hours=8.0)
    return found.assign_attrs(units="bps/8h", kind="settled")


@functools.cache
def usd(name: str = "oi_usd", symbols: int = 30) -> xr.DataArray:
    """Amounts in USD next to `rates`."""
    found: xr.DataArray = np.exp(panel(symbols, 720, 1, 2) + 15.0).rename(name)
    return found.assign_attrs(units="USD")


@functools.cache
def prices() -> xr.DataArray:
    found: xr.DataArray = (100.0 * np.exp(0.01 * panel(30, 720, 1, 3))).rename("price_usd")
    return found.assign_attrs(units="USD")


@functools.cache
def share() -> xr.DataArray:
    return dd.analysis.oi.market_share(usd())


@functools.cache
def history() -> pd.DataFrame:
    """The rows of `rates` as a table."""
    frame = rates().to_series().reset_index().assign(resolution="1h", kind="sampled")
    return dd.tables.TABLES["funding_history"].conform(frame.assign(time=frame["time"].dt.tz_localize("UTC")))


@functools.cache
def one_symbol() -> pd.DataFrame:
    return history().query("symbol == 'SYM000'").reset_index(drop=True)


@functools.cache
def picks() -> xr.Dataset:
    found = settled(1)
    return dd.analysis.funding.pick_record(found, hold="3d", fee_bps=2.0)


@functools.cache
def forecast() -> xr.Dataset:
    return dd.analysis.funding.forecast_carry(rates(1, 60), hold="7d", fee_bps=2.0)


@functools.cache
def option_chains(chains: int = 93) -> tuple[pd.DataFrame, xr.Dataset]:
    """Chains of one asset on one venue every eight hours, and their surfaces."""
    end = pd.Timestamp("2026-06-29T09:00Z")
    start = end - pd.Timedelta(8 * chains, "h")
    rows = dd.sample.open().read("options_snapshot", start, end, symbols=["BTC"], venues=["deribit"])
    rows = rows[rows["time"].dt.hour % 8 == 0].reset_index(drop=True)
    return rows, surface.from_chain(rows, method="essvi", weights="price")


def option_strategy(chains: int = 93) -> xr.Dataset:
    """A strangle that is renewed each week and hedged at every chain."""
    rows, surfaces = option_chains(chains)
    fridays = pd.date_range("2025-09-05T08:00Z", "2026-06-26T08:00Z", freq="7D")
    legs = [backtest.OptionLeg(side, -1.0, "7d", delta=0.25) for side in ("call", "put")]
    return backtest.options(
        rows,
        backtest.Roll(legs),
        backtest.OptionCosts(fee_bps=5.0),
        hedge=backtest.DeltaHedge(every="8h"),
        delivery=dict.fromkeys(fridays, 100_000.0),
        surfaces=surfaces,
    )


@functools.cache
def backtested() -> xr.Dataset:
    rule = backtest.SpreadThreshold(0.5, 0.1)
    return backtest.carry(rates(), rule, backtest.Costs(1.0), leg_usd=1e4)


@functools.cache
def capped() -> xr.DataArray:
    """Depth of the books, by side and distance."""
    coords = {
        "exchange": rates()["exchange"].values,
        "side": ["bid", "ask"],
        "depth_bps": [5.0, 10.0, 25.0, 50.0, 100.0],
    }
    values = np.broadcast_to([1e5, 3e5, 1e6, 2e6, 4e6], (43, 2, 5))
    return xr.DataArray(values, coords, tuple(coords), attrs={"units": "USD"})


@functools.cache
def bars() -> xr.Dataset:
    """Days of a year of hourly prices of thirty assets on one venue."""
    price = (100.0 * np.exp(0.01 * panel(30, 8760, 1, 4).isel(exchange=[0]))).rename("price_usd")
    return volatility.bars(price.assign_attrs(units="USD"), step="1d")


@functools.cache
def table(name: str, *given: Any, **options: Any) -> Any:
    """Request a table from the sample, once."""
    return _fetcher(name)(*given, **options)


def _fetcher(name: str) -> Callable[..., Any]:
    return functools.reduce(getattr, name.split("."), dd)  # type: ignore[arg-type, return-value]


@functools.cache
def events() -> pd.DataFrame:
    return dd.liquidations.events(since="6h", limit=20_000)


@functools.cache
def runs() -> pd.DataFrame:
    return liquidations.clusters(events(), gap="10s")


@functools.cache
def cleaned() -> pd.DataFrame:
    return chain.clean(table("options.snapshot", "BTC", "deribit"))


@functools.cache
def forwards() -> xr.Dataset:
    return chain.forwards(cleaned())


@functools.cache
def quotes() -> xr.Dataset:
    return chain.smiles(cleaned())


@functools.cache
def fitted() -> xr.Dataset:
    found = quotes()
    return smile.fit(found["log_moneyness"], found["iv"], found["year_fraction"])


@functools.cache
def raw() -> svi.Raw:
    return svi.Raw(*(fitted()[name] for name in RAW))


@functools.cache
def whole() -> xr.Dataset:
    return surface.from_chain(table("options.snapshot", "BTC", "deribit"))


@functools.cache
def free() -> xr.Dataset:
    return variance.model_free(whole())


@functools.cache
def legs() -> pd.DataFrame:
    """Fifty positions in the chain."""
    options = cleaned().iloc[:: max(1, len(cleaned()) // 50)][:50]
    quantity = np.where(np.arange(len(options)) % 2, 1.0, -2.0)
    return options[["expiry", "strike", "side"]].assign(quantity=quantity).reset_index(drop=True)


@functools.cache
def folder() -> Path:
    """A folder that goes when the process ends."""
    kept = tempfile.TemporaryDirectory(prefix="derivdata-functions-")
    _KEPT.append(kept)
    return Path(kept.name)


_KEPT: list[Any] = []


@functools.cache
def archive() -> Archive:
    """An archive of `history`."""
    made = dd.open_archive(folder() / "derivs")
    made.append("funding_history", history())
    return made
