"""Functions that take over 50 ms on a desk's usual question: the question, and 1, 4 and 16 of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

import derivdata as dd
from benchmarks.functions import QUESTIONS, inputs
from benchmarks.row import OURS, Made, Row, growth, stated
from benchmarks.rows.positions import made_surfaces
from derivdata.analysis import (
    backtest,
    chain,
    exposure,
    funding,
    oi,
    position,
    risk_neutral,
    smile,
    surface,
    volatility,
)

__all__ = ["ROWS"]

_COPY = "limit: one copy of the input"
_SORT = "limit: the chain sorted by pandas"
_CURVES = "limit: total variance at 41 places of every expiry"
_SORTED = "limit: its rows sorted or copied"
_HISTORY = "analysis.surface.history"
_STRATEGY = "analysis.backtest.options"
_FORECASTS = "analysis.funding.forecast_history"
_WEEK = pd.Timedelta(7, "D")
_PAIR = "venue00", "venue07"

_OF_PANELS: dict[str, tuple[Callable[[], xr.DataArray], int, Callable[[xr.DataArray], Any]]] = {
    "analysis.funding.cumulative": (inputs.rates, 2, funding.cumulative),
    "analysis.funding.forecast_carry": (
        partial(inputs.rates, 1, 60),
        1,
        lambda x: funding.forecast_carry(x, hold="7d", fee_bps=2.0),
    ),
    "analysis.funding.half_life": (
        inputs.settled,
        2,
        lambda x: funding.half_life(x, method="ols", level=None),
    ),
    "analysis.funding.infer_interval": (inputs.settled, 2, funding.infer_interval),
    "analysis.funding.breakeven": (
        partial(inputs.settled, 1),
        1,
        lambda x: funding.breakeven(x, *_PAIR, fee_bps=1.0),
    ),
    "analysis.funding.period_sums": (inputs.settled, 2, lambda x: funding.period_sums(x, "1d")),
    "analysis.funding.pick_record": (
        partial(inputs.settled, 1),
        1,
        lambda x: funding.pick_record(x, hold="3d", fee_bps=2.0),
    ),
    "analysis.funding.realised_carry": (
        inputs.settled,
        2,
        lambda x: funding.realised_carry(x, *_PAIR, "2026-02-01", "2026-03-01", fee_bps=1.0),
    ),
    "analysis.oi.share_trend": (
        lambda: inputs.share().isel(symbol=[0], time=slice(None, None, 4)),
        1,
        oi.share_trend,
    ),
    "analysis.volatility.bars": (inputs.prices, 2, lambda x: volatility.bars(x, step="1d")),
    "analysis.volatility.bipower": (inputs.prices, 2, lambda x: volatility.bipower(x, "1d")),
    "analysis.backtest.sweep": (
        partial(inputs.rates, 1),
        1,
        lambda x: backtest.sweep(
            x, {str(n): backtest.SpreadThreshold(0.1 * n + 0.4, 0.1) for n in range(2)}, backtest.Costs(1.0)
        ),
    ),
}
"""Input of the question, symbols of the smallest of the growing inputs, and the function."""

_SLOW = {"analysis.backtest.sweep": 120, "analysis.funding.pick_record": 90}
"""Only the first times of these are used if the input grows."""

_OF_CHAINS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "analysis.chain.clean": chain.clean,
    "analysis.chain.forwards": lambda x: chain.forwards(chain.clean(x)),
    "analysis.exposure.max_pain": exposure.max_pain,
    "analysis.surface.from_chain": lambda x: surface.from_chain(x[x["expiry"] < x["expiry"].min() + _WEEK]),
}


_OF_SURFACES: dict[str, Callable[[xr.Dataset], Any]] = {
    "analysis.risk_neutral.moments": risk_neutral.moments,
    "analysis.risk_neutral.quantile": lambda x: risk_neutral.quantile(x, [0.05, 0.25, 0.5, 0.75, 0.95]),
    "analysis.surface.constant_maturity": surface.constant_maturity,
    "analysis.surface.at": lambda x: surface.at(x, 0.15, target_delta=0.25),
    "analysis.surface.term_structure": surface.term_structure,
    "analysis.surface.forward_variance": lambda x: surface.forward_variance(x, 0.05, 0.2),
}

_OF_LEGS: dict[str, Callable[[pd.DataFrame, xr.Dataset], Any]] = {
    "analysis.position.greeks": position.greeks,
    "analysis.position.vega_buckets": position.vega_buckets,
}


def _asked(name: str, limit: str, copy: Callable[[], Any], _: Path) -> Made:
    dd.connect("sample")
    ask = QUESTIONS[name].ask
    ask()
    return Made({OURS: ask, limit: copy})


def _copied(made: Callable[[], xr.DataArray]) -> Any:
    return made().values.copy()


def _snapshot() -> pd.DataFrame:
    found: pd.DataFrame = inputs.table("options.snapshot", "BTC", "deribit")
    return found


def _symbols(rates: xr.DataArray, count: int) -> xr.DataArray:
    """The first symbols of a panel, again and again under other names."""
    places = [n % rates.sizes["symbol"] for n in range(count)]
    return rates.isel(symbol=places).assign_coords(symbol=[f"S{n:03d}" for n in range(count)])


def _panels(name: str, _: Path, times: int) -> Callable[[], Any]:
    made, least, of = _OF_PANELS[name]
    rates = _symbols(made(), least * times)
    if name in _SLOW:
        rates = rates.isel(time=slice(_SLOW[name]))
    return lambda: of(rates)


def _chains(name: str, _: Path, times: int) -> Callable[[], Any]:
    """The same chain of so many assets."""
    dd.connect("sample")
    rows = pd.concat([_snapshot().assign(symbol=f"BTC{n:02d}") for n in range(times)], ignore_index=True)
    chains = dd.tables.TABLES["options_snapshot"].conform(rows)
    return lambda: _OF_CHAINS[name](chains)


def _history(_: Path, times: int) -> Callable[[], Any]:
    """The options of two months, hour after hour."""
    dd.connect("sample")
    rows = _chains_as_rows(times)
    chains = rows[rows["expiry"] < rows["time"].min() + pd.Timedelta(60, "D")]
    return lambda: surface.history(chains, tenors=("7d", "30d"))


def _surfaces(name: str, _: Path, times: int) -> Callable[[], Any]:
    boards = made_surfaces(4 * times)
    return lambda: _OF_SURFACES[name](boards)


def _legs(name: str, _: Path, times: int) -> Callable[[], Any]:
    """The same legs, again and again."""
    dd.connect("sample")
    legs = pd.concat([inputs.legs()] * times, ignore_index=True)
    return lambda: _OF_LEGS[name](legs, inputs.whole())


def _answers(name: str, _: Path, times: int) -> Callable[[], Any]:
    dd.connect("sample")
    return _OF_ANSWERS[name][2](times)


def _chains_as_rows(times: int) -> pd.DataFrame:
    """The options of one asset, hour after hour."""
    rows = _snapshot()
    later = [rows.assign(time=rows["time"] + pd.Timedelta(n, "h")) for n in range(times)]
    return dd.tables.TABLES["options_snapshot"].conform(pd.concat(later, ignore_index=True))


def _settlements(times: int) -> Callable[[], Any]:
    return lambda: dd.funding.settlements("BTC", f"{6 * times}d")


def _forecasts(_: Path, times: int) -> Callable[[], Any]:
    """Daily forecasts of one symbol over more and more days."""
    rates = inputs.rates(1, 91 * times)
    return lambda: funding.forecast_history(rates, hold="7d", fee_bps=2.0)


def _surface_history(times: int) -> Callable[[], Any]:
    return lambda: dd.options.surface_history("BTC", "deribit", f"{2 * times}h")


def _strategy(_: Path, times: int) -> Callable[[], Any]:
    """A strangle on more and more chains of one asset."""
    inputs.option_chains(12 * times)
    return partial(inputs.option_strategy, 12 * times)


def _grid(times: int) -> Callable[[], Any]:
    rows = _chains_as_rows(times).drop(columns="delta")
    return lambda: dd.tables.surface(rows)


_OF_ANSWERS: dict[str, tuple[Callable[[], Any], str, Callable[[int], Callable[[], Any]]]] = {
    "funding.settlements": (
        lambda: inputs.table("funding.settlements", "BTC", "30d").sort_values("time"),
        "6 days of one symbol, in the cache, and up",
        _settlements,
    ),
    "options.surface_history": (
        lambda: inputs.table("options.surface_history", "BTC", "deribit", "1d").copy(deep=True),
        "2 hourly chains of one asset, in the cache, and up",
        _surface_history,
    ),
    "tables.surface": (
        lambda: _chains_as_rows(6).sort_values("strike"),
        "one chain of one asset and up",
        _grid,
    ),
}
"""The same rows sorted or copied, and the time of a function with a multiple of its rows."""


def _row(name: str, limit: str, copy: Callable[[], Any]) -> Row:
    make = partial(_asked, name, limit, copy)
    return Row(name, f"`{name}`", QUESTIONS[name].words, make, {limit: stated()}, rounds=3)


ROWS = [
    *(_row(name, _COPY, partial(_copied, made)) for name, (made, *_) in _OF_PANELS.items()),
    *(
        _row(name, _SORT, lambda: _snapshot().sort_values(["strike", "expiry"]))
        for name in [*_OF_CHAINS, _HISTORY]
    ),
    *(
        _row(name, _CURVES, lambda: smile.total_variance(inputs.whole(), inputs.K))
        for name in [*_OF_SURFACES, *_OF_LEGS]
    ),
    *(
        growth(name, f"`{name}`", f"{least} symbol(s) on 43 venues and up", partial(_panels, name), rounds=3)
        for name, (_, least, _) in _OF_PANELS.items()
    ),
    *(
        growth(
            name,
            f"`{name}`",
            "the options of one asset and up",
            partial(_chains, name),
            rounds=3,
        )
        for name in _OF_CHAINS
    ),
    *(_row(name, _SORTED, copy) for name, (copy, *_) in _OF_ANSWERS.items()),
    *(
        growth(name, f"`{name}`", words, partial(_answers, name), rounds=3)
        for name, (_, words, _) in _OF_ANSWERS.items()
    ),
    _row(_STRATEGY, _SORT, lambda: inputs.option_chains()[0].sort_values(["strike", "expiry"])),
    growth(_STRATEGY, f"`{_STRATEGY}`", "12 chains of one asset and up, fitted before", _strategy, rounds=1),
    _row(_FORECASTS, _COPY, partial(_copied, partial(inputs.rates, 1, 365))),
    growth(
        _FORECASTS, f"`{_FORECASTS}`", "91 days of daily decisions and up, 43 venues", _forecasts, rounds=3
    ),
    growth(_HISTORY, f"`{_HISTORY}`", "one chain and up, expiries of 60 days", _history, rounds=1),
    *(
        growth(name, f"`{name}`", "4 surfaces of 10 expiries and up", partial(_surfaces, name), rounds=3)
        for name in _OF_SURFACES
    ),
    *(
        growth(name, f"`{name}`", "50 options of one chain and up", partial(_legs, name), rounds=3)
        for name in _OF_LEGS
    ),
]
