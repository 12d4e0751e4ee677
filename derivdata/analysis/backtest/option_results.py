"""Results of option backtests as a dataset with units, the attribution of each step, and the notices."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis.backtest.option_book import OptionBook, Step, Tally
from derivdata.analysis.backtest.option_market import OptionMarket
from derivdata.analysis.position.pnl_terms import leg_terms
from derivdata.analysis.position.sensitivities import Legs
from derivdata.support.text import warn_caller
from derivdata.tables.joining import joined_provenance
from derivdata.tables.panels import provenance

TRADED = 0
DELIVERED = 1
TERMS = (
    "theta", "delta", "gamma", "speed", "vega", "volga", "vanna", "charm", "veta", "settlement", "carry",
    "residual",
)  # fmt: skip
_GAP = 1.5  # of the usual step between two chains


class OptionRow(NamedTuple):
    """What one time gave, and what is held after it."""

    time: int
    is_chain: bool
    equity: float
    tally: Tally
    delta: float
    net_delta: float
    gamma: float
    vega: float
    theta: float
    hedge_quantity: float
    margin: float
    option_legs: int


def dataset(
    market: OptionMarket,
    book: OptionBook,
    rows: list[OptionRow],
    rule: Any,
    data: tuple[Any, ...],
    capital: float,
) -> xr.Dataset:
    """Return the result of a backtest; see `derivdata.analysis.backtest.options`."""
    currency = "coin" if book.account.in_coin else "usd"
    unit = "coin" if book.account.in_coin else "USD"
    times = np.array([row.time for row in rows], dtype=np.int64).view("datetime64[us]")
    equity = np.array([row.equity for row in rows])
    peak = np.maximum.accumulate(np.maximum(equity, capital))
    variables: dict[str, Any] = {
        f"equity_{currency}": ("time", equity, {"units": unit}),
        "drawdown": ("time", 1.0 - equity / peak, {"units": "fraction"}),
    }
    for name in ("option_pnl", "underlying_pnl", "hedge_pnl", "funding", "fees", "spread"):
        values = np.array([getattr(row.tally, name) for row in rows])
        variables[f"{name}_{currency}"] = ("time", values, {"units": unit})
    units = {
        "delta": "coin",
        "net_delta": "coin",
        "gamma": f"{unit}/USD^2",
        "vega": f"{unit} per 1.00 of volatility",
        "theta": f"{unit}/year",
        "hedge_quantity": "coin, or USD of an inverse perpetual",
        "option_legs": "count",
    }
    for name, its_unit in units.items():
        variables[name] = ("time", np.array([getattr(row, name) for row in rows]), {"units": its_unit})
    margin = np.array([row.margin for row in rows])
    variables[f"margin_{currency}"] = ("time", margin, {"units": unit})
    counts = {"unmarked": "unmarked_options", "interpolated": "interpolated_marks"}
    counts |= {"refused": "refused_trades", "unhedged": "unhedged"}
    for name, public in counts.items():
        values = np.array([getattr(row.tally, name) for row in rows])
        variables[public] = ("time", values, {"units": "count"})
    contribution = _contributions(book, len(rows))
    variables[f"contribution_{currency}"] = (("term", "time"), contribution, {"units": unit})
    variables |= _fills(book, times, currency, unit)
    missing = sum(row.tally.missing_funding_hours for row in rows)
    variables |= {
        f"net_{currency}": ((), equity[-1] - capital, {"units": unit}),
        "max_drawdown": ((), float(np.max(1.0 - equity / peak)), {"units": "fraction"}),
        "margin_calls": ((), int((margin > equity).sum()), {"units": "count"}),
        "missing_funding_hours": ((), missing, {"units": "h"}),
        "gap_hours": ((), _gap_hours(rows), {"units": "h"}),
    }
    result = xr.Dataset(variables, {"time": times, "term": list(TERMS)})
    result.attrs = {
        "symbol": market.symbol,
        "exchange": market.venue,
        f"capital_{currency}": capital,
        "rule": repr(rule),
        "index_price": market.spot_source,
    }
    _warn(result)
    return result.assign_attrs(_origin(data))


def _origin(data: tuple[Any, ...]) -> dict[str, str]:
    given = [table for table in data if hasattr(table, "attrs")]
    origins = [provenance(table) if "provenance" in table.attrs else None for table in given]
    return {"provenance": json.dumps(joined_provenance(origins), sort_keys=True)} if any(origins) else {}


def _fills(book: OptionBook, times: Any, currency: str, unit: str) -> dict[str, Any]:
    fills = book.fills
    expiry = [fill.contract.expiry or None for fill in fills]
    stamps = pd.to_datetime(pd.Series(expiry, dtype="object"), unit="us").to_numpy("datetime64[us]")
    flags = {"flag_values": np.array([TRADED, DELIVERED], dtype=np.int8), "flag_meanings": "trade delivery"}
    price = {"units": f"{unit}; USD of futures, perpetuals and spot"}
    return {
        "fill_time": ("fill", times[[fill.row for fill in fills]] if fills else times[:0]),
        "fill_side": ("fill", np.array([fill.contract.side for fill in fills], dtype=str)),
        "fill_expiry": ("fill", stamps),
        "fill_strike": (
            "fill",
            np.array([fill.contract.strike or np.nan for fill in fills], float),
            {"units": "USD"},
        ),
        "fill_quantity": ("fill", np.array([fill.quantity for fill in fills], float)),
        "fill_price": ("fill", np.array([fill.price for fill in fills], float), price),
        "fill_mark": ("fill", np.array([fill.mark for fill in fills], float), price),
        f"fill_fee_{currency}": ("fill", np.array([fill.fee for fill in fills], float), {"units": unit}),
        "fill_reason": ("fill", np.array([fill.reason for fill in fills], dtype=np.int8), flags),
    }


def _gap_hours(rows: list[OptionRow]) -> float:
    """Return the hours beyond the usual step between chains in which options were held."""
    chains = [row for row in rows if row.is_chain]
    hours = np.diff([row.time for row in chains]) / 3_600e6
    if not hours.size:
        return 0.0
    usual = float(np.median(hours))
    held = np.array([row.option_legs > 0 for row in chains[:-1]])
    return float((hours - usual)[held & (hours > _GAP * usual)].sum())


def _warn(result: xr.Dataset) -> None:
    """Give a notice with the counts of what was missing."""
    parts = {
        "unmarked_options": "{} marks of options were missing, and the last ones are kept",
        "interpolated_marks": "{} marks are of expiries without a fit of their own",
        "refused_trades": "{} changes of the position were not traded for want of a quote or mark",
        "unhedged": "{} hedges were not traded for want of a price",
        "missing_funding_hours": "{} hours of funding payments are missing",
        "gap_hours": "chains are missing in {} hours in which options were held",
    }
    messages = []
    for name, words in parts.items():
        count = float(result[name].sum())
        if count:
            messages.append(words.format(f"{count:g}"))
    if messages:
        warn_caller("backtest of options: " + "; ".join(messages))


def _contributions(book: OptionBook, rows: int) -> Any:
    """Return what each term gave at each time."""
    total = np.zeros((len(TERMS), rows))
    if not book.steps:
        return total
    terms = step_terms(book.steps, book.account.premium)
    place = np.array([step.row for step in book.steps])
    for at, name in enumerate(TERMS):
        np.add.at(total[at], place, terms[name])
    return total


def step_terms(steps: list[Step], premium: str) -> dict[str, Any]:
    """Divide the P&L of each step of an option by the terms of `derivdata.analysis.position.attribution`.

    A value is Black's value times the ratio of currencies R: what moved Black's value counts at R of before,
    and the change of R at Black's value of after is ``carry``.
    """

    def over(values: list[Any], kind: Any = np.float64) -> xr.DataArray:
        return xr.DataArray(np.array(values, dtype=kind), dims="leg")

    before = [step.before for step in steps]
    after = [step.after for step in steps]
    quantity = over([step.quantity for step in steps])
    ratio = over([value.ratio for value in before])
    ratio_after = over([value.ratio for value in after])
    base = over([value.base for value in before])
    base_after = over([value.base for value in after])
    forward, forward_after = (over([value.mark.forward for value in values]) for values in (before, after))
    iv = over([value.mark.iv for value in before])
    years = over([value.mark.years for value in before])
    years_after = over([value.mark.years for value in after])
    settled = years_after <= 0.0
    iv_after = xr.where(settled, iv, over([value.mark.iv for value in after]))  # type: ignore[no-untyped-call]
    rate = over([value.mark.rate for value in before])
    legs = Legs(
        strike=over([step.contract.strike for step in steps]),
        side=over([step.contract.side for step in steps], object),
        quantity=quantity * ratio,
        year_fraction=years,
        forward=forward,
        cut=None,  # type: ignore[arg-type]
        origin=None,  # type: ignore[arg-type]
        rules=None,
        dated=None,  # type: ignore[arg-type]
        is_option=over([True] * len(steps), bool),
        entry=over([np.nan] * len(steps)),
    )
    later = legs._replace(year_fraction=years_after)
    move = forward_after - forward
    parts = leg_terms(legs, later, (iv, iv), (move, move, iv_after - iv), rate, premium)
    terms = {str(name): parts.sel(term=name).to_numpy() for name in parts["term"].to_numpy()}
    is_settled = settled.to_numpy()
    for name, values in terms.items():
        terms[name] = np.where(is_settled & np.isnan(values), 0.0, values)
    del terms["rho"]  # all of a forward's move is in delta
    moved = (quantity * ratio * (base_after - base)).to_numpy()
    rest = moved - sum(terms.values())
    terms["settlement"] = np.where(is_settled, rest, 0.0)
    terms["carry"] = (quantity * base_after * (ratio_after - ratio)).to_numpy()
    terms["residual"] = np.where(is_settled, 0.0, rest)
    return terms
