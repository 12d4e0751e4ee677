"""Results of a backtest: equity, positions, attribution and trades, with their units."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest.book import Account, Portfolio
from derivdata.analysis.backtest.market import Market
from derivdata.support.arguments import typed
from derivdata.support.arrays import Floats
from derivdata.support.text import described
from derivdata.tables.frames import joined_provenance
from derivdata.tables.panels import provenance
from derivdata.units import APR_UNIT, HOUR_UNIT, HOURS_PER_YEAR, USD_UNIT

DAYS_PER_YEAR = 365.0
_WAVES = 8
_STEEPEST = 0.97
FIGURES = {
    "funding_usd": "received; negative where the position paid",
    "price_usd": "gain by the difference of the two venues' prices",
    "fees_usd": "paid",
    "slippage_usd": "paid",
    "traded_usd": "notional of all trades",
}
_BY_TRADE = (
    "entry_usd", "exit_usd", "funding_usd", "price_usd", "fees_usd", "slippage_usd", "net_usd",
    "missing_hours", "unmarked_hours",
)  # fmt: skip
_IN_COIN = ("long_coin", "short_coin")
"""P&L of coin-settled legs, if the backtest has any."""
_OF_TRADES = ("symbol", "long", "short", "entry", "exit", *_BY_TRADE, "reason")
"""Columns of the table of trades, variables of a result after ``trade_``."""


class Reason(IntEnum):
    """Reason for closing a position."""

    RULE = 0
    """The rule closed the pair or selected another one."""
    LIQUIDATION = 1
    """A leg fell below its maintenance margin; both legs were closed."""
    END = 2
    """The data ended."""
    NO_MARK = 3
    """The legs lacked a common mark for too long, as after a delisting. Both were closed at the last common
    mark."""


def provenance_of(*data: xr.DataArray | xr.Dataset | None) -> dict[str, str]:
    """Return the attrs with the joined sources of the data, empty without any."""
    given = [array for array in data if array is not None]
    origins = [provenance(array) if "provenance" in array.attrs else None for array in given]
    return {"provenance": json.dumps(joined_provenance(origins), sort_keys=True)} if any(origins) else {}


def dataset(market: Market, journal: Any, account: Account, rule: Any, attrs: dict[str, Any]) -> xr.Dataset:
    """Return the result of a backtest; see `derivdata.analysis.backtest.carry`."""
    # 1. Collect the variables over symbol and time, and over time.
    variables: dict[str, Any] = {}
    for (name, long_name), values in zip(FIGURES.items(), journal.figures, strict=True):
        variables[name] = (("symbol", "time"), values.T, {"units": USD_UNIT, "long_name": long_name})
    equity, drawdown = equity_of(journal.earned[:, 0], account.capital)
    variables |= {
        "equity_usd": ("time", equity, {"units": USD_UNIT}),
        "drawdown": ("time", drawdown, {"units": "fraction"}),
        "refused_entries": ("time", journal.refused[:, 0], {"units": "count"}),
    }

    # 2. Add trades, and the arguments of the backtest.
    labels = {"symbol": list(market.symbols), "exchange": list(market.venues), "time": market.times}
    result = xr.Dataset(variables, labels, attrs).assign(_trade_variables(market, journal.closed))
    result.attrs |= {
        "kind": "settled" if market.settled else "sampled",
        "capital_usd": account.capital,
        "rule": described(rule),
    }
    if not isinstance(rule, Portfolio):
        result.attrs |= {"leg_usd": account.leg_usd, "leverage": account.leverage}
        # Index −1 means no position and gives the empty name.
        venues = np.array([*market.venues, ""], dtype=object)
        attributes = {"long_name": "venue, empty text without a pair"}
        for leg, name in enumerate(("long_venue", "short_venue")):
            result[name] = (("symbol", "time"), venues[journal.legs[:, leg].T], attributes)

    # 3. Add scalars computed from these variables.
    return result.assign(_totals(result, market))


def _trade_variables(market: Market, closed: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the columns of the closed positions over ``trade``, by entry and then by symbol."""
    # 1. Join the positions of all rows.
    frame = pd.DataFrame(columns=["symbol", "long", "short", "entry_row", "exit_row", "reason", *_BY_TRADE])
    if closed:
        # Concatenate arrays by column, because a frame for each closing would take longer than the
        # simulation.
        frame = pd.DataFrame({name: np.concatenate([row[name] for row in closed]) for name in closed[0]})
    frame["net_usd"] = frame["funding_usd"] + frame["price_usd"] - frame["fees_usd"] - frame["slippage_usd"]
    frame = frame.sort_values(["entry_row", "symbol"], kind="stable")

    # 2. Replace indices by labels, and add units to amounts.
    symbols = np.asarray(market.symbols, dtype=str)
    venues = np.asarray(market.venues, dtype=str)
    variables: dict[str, Any] = {}
    for name, labels in (("symbol", symbols), ("long", venues), ("short", venues)):
        variables[f"trade_{name}"] = ("trade", labels[frame[name].to_numpy(np.intp)])
    for end in ("entry", "exit"):
        variables[f"trade_{end}"] = ("trade", market.times[frame[f"{end}_row"].to_numpy(np.intp)])
    units = dict.fromkeys(_BY_TRADE, USD_UNIT)
    units |= {"missing_hours": HOUR_UNIT, "unmarked_hours": HOUR_UNIT}
    units |= {name: "coin" for name in _IN_COIN if name in frame}
    for name, unit in units.items():
        variables[f"trade_{name}"] = ("trade", frame[name].to_numpy(np.float64), {"units": unit})
    meanings = " ".join(reason.name.lower() for reason in Reason)
    flags = {"flag_values": np.array(list(Reason), dtype=np.int8), "flag_meanings": meanings}
    return variables | {"trade_reason": ("trade", frame["reason"].to_numpy(np.int8), flags)}


def equity_of(earned: Floats, capital: float) -> tuple[Floats, Floats]:
    """Return the equity after each row [USD], and the drawdown as a fraction of the peak."""
    equity = capital + np.cumsum(earned)
    peak = np.maximum.accumulate(np.maximum(equity, capital))
    return equity, 1.0 - equity / peak


class Totals(NamedTuple):
    """Totals of a backtest; see `derivdata.analysis.backtest.carry`."""

    net_usd: float
    apr: float
    sharpe: float
    sharpe_adjusted: float
    max_drawdown: float
    turnover: float
    liquidations: int


def totals_of(
    market: Market, equity: Floats, drawdown: Floats, capital: float, traded: float, liquidations: int
) -> Totals:
    """Compute the totals of a backtest from its equity and the notional of its trades."""
    years = float(market.since[-1]) / HOURS_PER_YEAR or np.nan
    net = float(equity[-1]) - capital
    returns = returns_by_day(market.times, equity, capital)
    spread = float(returns.std(ddof=1)) if returns.size > 1 else np.nan
    sharpe = float(returns.mean()) / spread * np.sqrt(DAYS_PER_YEAR) if spread > 0.0 else np.nan
    adjusted = sharpe / np.sqrt(long_run_ratio(returns)[0])
    turnover = traded / capital / years
    return Totals(
        net_usd=net, apr=net / capital / years, sharpe=sharpe, sharpe_adjusted=adjusted,
        max_drawdown=float(np.max(drawdown)), turnover=turnover, liquidations=liquidations,
    )  # fmt: skip


def _totals(result: xr.Dataset, market: Market) -> dict[str, Any]:
    """Return the variables of a result that have no time."""
    lost = int((result["trade_reason"] == int(Reason.LIQUIDATION)).sum())
    totals = totals_of(
        market,
        result["equity_usd"].to_numpy(),
        result["drawdown"].to_numpy(),
        float(result.attrs["capital_usd"]),
        float(result["traded_usd"].sum()),
        lost,
    )
    about: dict[str, dict[str, str]] = {
        "net_usd": {"units": USD_UNIT},
        "apr": {"units": APR_UNIT},
        "sharpe": {"units": "1", "long_name": "annualised, of daily returns on the capital"},
        "sharpe_adjusted": {"units": "1", "long_name": "the same, for dependent days"},
        "max_drawdown": {"units": "fraction"},
        "turnover": {"units": "1/year", "long_name": "notional traded a year, of the capital"},
        "liquidations": {"units": "count"},
    }
    figures: dict[str, Any] = {name: ((), getattr(totals, name), attrs) for name, attrs in about.items()}
    for name in ("missing_hours", "unmarked_hours"):
        figures[name] = ((), float(result[f"trade_{name}"].sum()), {"units": HOUR_UNIT})
    return figures


def daily_returns(result: xr.Dataset) -> Floats:
    """Return the change of the equity in each whole UTC day, as a fraction of the capital.

    A day counts if its rows reach within one usual step of its start and end.
    """
    capital = float(result.attrs["capital_usd"])
    return returns_by_day(result["time"].to_numpy(), result["equity_usd"].to_numpy(), capital)


def returns_by_day(times: Any, equity: Floats, capital: float) -> Floats:
    """Return daily returns as `daily_returns` does, from the times of rows and the equity after each."""
    if times.size < 2:
        return np.empty(0)
    step = np.median(np.diff(times))
    day = np.timedelta64(1, "D")
    first = (times[0] - step).astype("datetime64[D]") + day
    stop = (times[-1] + step).astype("datetime64[D]")
    midnights = np.arange(first, stop + day, day)
    before = np.searchsorted(times, midnights, side="left")  # number of rows before each midnight
    levels = np.append(capital, equity)[before]
    return np.asarray(np.diff(levels) / capital)


def long_run_ratio(returns: Floats) -> tuple[float, int]:
    """Return the long-run variance of returns over their variance, and the degrees of freedom of the former.

    The ratio is 1 for independent days. The variance of sums over q days is q times the daily variance times
    this ratio, which gives the Sharpe ratio over many days: the daily one divided by the root of the ratio
    (Lo 2002, Financial Analysts Journal 58(4)). NaN for fewer than four returns or constant returns.

    Notes
    -----
    The estimate is the mean of the squared cosine coefficients of the eight lowest frequencies, which is
    about χ² with eight degrees of freedom (Lazarus, Lewis, Stock and Watson 2018, Journal of Business and
    Economic Statistics 36(4)). Before that, an autoregression with a bias-corrected slope is removed from the
    returns (Andrews and Monahan 1992, Econometrica 60(4)).
    """
    # 1. Compute the daily variance.
    size = returns.size
    away = returns - returns.mean() if size else returns
    waves = min(_WAVES, size // 4)
    variance = float((away**2).sum()) / max(size - 1, 1)
    if not waves or not variance > 0.0:
        return float("nan"), 0

    # 2. Remove an autoregression, with a slope that is corrected for bias and below 1.
    slope = float((away[1:] * away[:-1]).sum() / (away**2).sum())
    slope = min(max((size * slope + 1.0) / max(size - 4.0, 1.0), 0.0), _STEEPEST)
    shocks = away[1:] - slope * away[:-1]

    # 3. Compute the power at the lowest frequencies of the residuals, and restore the autoregression.
    phases = np.pi / shocks.size * np.outer(np.arange(1, waves + 1), np.arange(shocks.size) + 0.5)
    squares = (np.cos(phases) @ shocks) ** 2 * 2.0 / shocks.size
    return float(squares.mean() / (1.0 - slope) ** 2 / variance), waves


@typed
def trades(result: xr.Dataset) -> pd.DataFrame:
    """Return the positions that a backtest held, one row each, the earliest entry first.

    Parameters
    ----------
    result
        Result of `carry`.

    Returns
    -------
    DataFrame
        ``symbol``, ``long``, ``short``, ``entry`` and ``exit`` (UTC), ``entry_usd`` and ``exit_usd``
        (notional of both legs), ``funding_usd``, ``price_usd``, ``fees_usd``, ``slippage_usd`` and
        ``net_usd`` (funding and price minus fees and slippage), ``missing_hours`` (of both legs, whose
        payments are unknown and not in ``funding_usd``), ``unmarked_hours`` (hours with an overdue mark, in
        which ``price_usd`` is constant) and ``reason``; with ``contracts=`` also ``long_coin`` and
        ``short_coin``, the earnings of coin-settled legs in their coin after fees (NaN for other legs).

    Raises
    ------
    ValueError
        `result` does not come from a backtest.
    """
    wanted = [f"trade_{name}" for name in _OF_TRADES]
    missing = [name for name in wanted if name not in result or result[name].dims != ("trade",)]
    if missing:
        raise ValueError(
            f"result does not have {missing[0]} of each trade: pass the result of backtest.carry"
        )
    names = [str(name) for name in result.data_vars if str(name).startswith("trade_")]
    frame = pd.DataFrame({name.removeprefix("trade_"): result[name].to_numpy() for name in names})
    for end in ("entry", "exit"):
        frame[end] = pd.DatetimeIndex(frame[end]).as_unit("us").tz_localize("UTC")
    words = {reason.value: reason.name.lower() for reason in Reason}
    frame["reason"] = frame["reason"].map(words).astype("str")
    frame.attrs = {"provenance": result.attrs["provenance"]} if "provenance" in result.attrs else {}
    return frame
