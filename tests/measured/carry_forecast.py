"""``python -m tests.measured.carry_forecast``: forecasts of carry, out of sample, on recorded settlements.

Prints the results of docs/methods/carry.md: the forecast of every pair against three common forecasts from a
pair's past, on common rows; and the record of the pair that each rule selects.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr

from derivdata.analysis import funding
from derivdata.analysis.funding.accrual import summed_history
from derivdata.analysis.funding.carry_forecast import DECISIONS, walks_of
from derivdata.analysis.funding.forecast_errors import outcome_figures, pair_distribution
from derivdata.analysis.funding.pooled_regression import Plan, future_sums, pair_places
from derivdata.support.arrays import Array, Floats
from tests.support.recorded_funding import PERIODS, recorded_funding

HOLD = "7d"
STORED = Path(__file__).resolve().parents[2] / "notebooks" / "did_the_picks_pay.csv"
RULES: tuple[Literal["forecast", "last", "mean_7d"], ...] = ("forecast", "last", "mean_7d")
COSTS = (0.0, 8.0, 20.0)
"""Cost of the four trades [bps]: 2 each as maker, 5 each as taker."""
HOLDS, HISTORIES, VENUES = ("1d", "3d", "7d", "14d"), (30, 60, None), (2, 4, None)
"""Lengths of history in the table; None is the complete history."""
_PERIODS = {**PERIODS, "pooled": ("1970", "2100")}
_FOUR_WEEKS = 84
_PERIODS_A_DAY = 3
_WINDOW = 180  # periods of 8 hours: what the three others look back on
_MIN = 90
_NORMAL = 1.6448536269514722  # of a nominal 90 %
_LEVELS = np.exp(
    np.linspace(np.log(1e-4), np.log(30.0), 16)
)  # variance of the level's steps over the noise's


def forecasts(panel: xr.DataArray) -> pd.DataFrame:
    """Return a row per symbol, pair and weekly decision with every method's forecast and interval [bps]."""
    history = summed_history(panel, HOLD, "8h")
    parts = [_rows(history, number) for number in range(panel.sizes["symbol"])]
    times, figures, past = (np.concatenate(part) for part in zip(*parts, strict=True))
    frame = pd.DataFrame({"time": times, "outcome": figures[:, 3]})
    hold = history.plan.hold
    methods = {
        "forecast_carry": tuple(figures[:, :3].T),
        "AR(1) expectation, future noise": _normal(*_autoregression(past, hold)),
        "local level": _normal(*_local_level(past, hold)),
        "mean of 60 days": _normal(*_window_mean(past, hold)),
    }
    for name, (mean, low, high) in methods.items():
        frame[name, "mean"], frame[name, "low"], frame[name, "high"] = mean, low, high
    return frame


def scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return root mean square error, Winkler score [bps] and coverage by method and period."""
    names = list(dict.fromkeys(column[0] for column in frame.columns if isinstance(column, tuple)))
    results = []
    for period, (start, end) in _PERIODS.items():
        part = frame[(frame["time"] >= start) & (frame["time"] < end)]
        outcome = part["outcome"]
        for name in names:
            mean, low, high = (part[name, figure] for figure in ("mean", "low", "high"))
            # Winkler (1972): the width, plus 2/α per unit by which the outcome is outside
            beyond = np.maximum(low - outcome, 0.0) + np.maximum(outcome - high, 0.0)
            results.append(
                {
                    "period": period,
                    "method": name,
                    "winkler": float((high - low + 20.0 * beyond).mean()),
                    **_errors(outcome, mean, low, high),
                }
            )
    return pd.DataFrame(results)


def _errors(outcome: Any, mean: Any, low: Any, high: Any) -> dict[str, float]:
    """Return the root mean square error, coverage and median width of so many rows."""
    inside = (low <= outcome) & (outcome <= high)
    rmse, width = np.sqrt(((mean - outcome) ** 2).mean()), np.median(high - low)
    return {"rows": outcome.size, "rmse": rmse, "coverage": inside.mean(), "width": width}


def by_history(panel: xr.DataArray) -> pd.DataFrame:
    """Return coverage and errors by holding time, length of history and number of venues.

    Decided every four weeks on past days only; the venues are those of the longest history.
    """
    known = panel.notnull().any("symbol").sum("time").to_series().sort_values(ascending=False, kind="stable")
    results = []
    for hold in HOLDS:
        history = summed_history(panel, hold, "8h")
        plan, amounts = history.plan, history.amounts.transpose("symbol", "exchange", "time")
        first = -history.first % _FOUR_WEEKS + 13 * _FOUR_WEEKS
        decisions = np.arange(first, amounts.sizes["time"] - plan.hold, _FOUR_WEEKS)
        for days, number in itertools.product(HISTORIES, VENUES):
            venues = list(known.index[:number])
            parts = [
                _rows_of(part, plan, decisions, None if days is None else 3 * days)
                for part in amounts.sel(exchange=venues).to_numpy()
            ]
            mean, low, high, outcome = np.concatenate(parts, axis=1)
            if not outcome.size:
                continue
            results.append(
                {
                    "hold": hold, "days": days or "all", "venues": len(venues),
                    **_errors(outcome, mean, low, high),
                    "zero": float(np.sqrt((outcome**2).mean())), "widest": float((high - low).max()),
                }
            )  # fmt: skip
    return pd.DataFrame(results)


def by_pair(panel: xr.DataArray) -> pd.DataFrame:
    """Return coverage and decisions by holding time and history, for every pair of venues alone.

    Decided every twelve weeks, before 2023 (where the degrees of freedom were chosen) and after.
    """
    results = []
    for hold in HOLDS:
        history = summed_history(panel, hold, "8h")
        amounts = history.amounts.transpose("symbol", "exchange", "time")
        cut = int(np.searchsorted(amounts["time"].to_numpy(), np.datetime64("2023-01-01")))
        pairs = list(itertools.combinations(range(amounts.sizes["exchange"]), 2))
        for series, (number, pair) in itertools.product(amounts.to_numpy(), enumerate(pairs)):
            both = series[list(pair)]
            known = np.flatnonzero(np.isfinite(both).all(axis=0))
            first = known[0] + _MIN + number % 3 * _FOUR_WEEKS if known.size else both.shape[1]
            decisions = np.arange(first, both.shape[1] - history.plan.hold, 3 * _FOUR_WEEKS)
            for days, late in itertools.product(HISTORIES, (False, True)):
                chosen = decisions[((decisions >= cut) == late) & (decisions >= 3 * (days or 0))]
                past = None if days is None else 3 * days
                _, low, high, came = _rows_of(both, history.plan, chosen, past)
                results += [(late, days or "all", hold, item) for item in (low <= came) & (came <= high)]
    frame = pd.DataFrame(results, columns=["from 2023", "days", "hold", "covered"])
    return frame.groupby(["from 2023", "days", "hold"])["covered"].agg(["mean", "size"]).unstack("hold")


def by_week(panel: xr.DataArray, days: int = 60) -> pd.DataFrame:
    """Return coverage and errors of every two venues alone, decided every week from 2023 on.

    The first row has all weeks, with a 95 % block bootstrap interval of the coverage over dates; the others
    every twelfth week from another first one, which is what `by_pair` decides.
    """
    history = summed_history(panel, HOLD, "8h")
    amounts = history.amounts.transpose("symbol", "exchange", "time")
    times = amounts["time"].to_numpy()
    cut = int(np.searchsorted(times, np.datetime64("2023-01-01")))
    weeks = np.arange(cut - cut % history.plan.hold, len(times) - history.plan.hold, history.plan.hold)
    rows = []
    for series in amounts.to_numpy():
        for pair in itertools.combinations(range(amounts.sizes["exchange"]), 2):
            both = series[list(pair)]
            known = np.flatnonzero(np.isfinite(both).all(axis=0))
            if not known.size:
                continue
            for at, figures in _decided(
                both, history.plan, weeks[weeks >= known[0] + _MIN], _PERIODS_A_DAY * days
            ):
                rows += [(at, *row) for row in figures.T if np.isfinite(row).all()]
    frame = pd.DataFrame(rows, columns=["at", "mean", "low", "high", "outcome"])
    week = frame["at"].rank(method="dense").astype(int) % 12
    tables = [("all", frame), *((f"every 12th, {first}", frame[week == first]) for first in range(12))]
    records = []
    for name, chosen in tables:
        outcome = chosen["outcome"]
        errors = _errors(outcome, chosen["mean"], chosen["low"], chosen["high"])
        records.append({"weeks": name, **errors, "zero": float(np.sqrt((outcome**2).mean()))})
    table = pd.DataFrame(records)
    covered = (frame["low"] <= frame["outcome"]) & (frame["outcome"] <= frame["high"])
    table.attrs["interval of coverage"] = _block_interval(covered.groupby(frame["at"]).agg(["sum", "size"]))
    return table


def _block_interval(dates: pd.DataFrame, block: int = 9) -> tuple[float, float]:
    """Return the 95 % interval of a share over dates; blocks of nine weeks are drawn."""
    hits, sizes = dates["sum"].to_numpy(), dates["size"].to_numpy()
    begins = np.random.default_rng(0).integers(0, len(dates), (1999, -(-len(dates) // block), 1))
    drawn = ((begins + np.arange(block)) % len(dates)).reshape(1999, -1)[:, : len(dates)]
    low, high = np.percentile(hits[drawn].sum(axis=1) / sizes[drawn].sum(axis=1), [2.5, 97.5])
    return float(low), float(high)


def _rows_of(amounts: Floats, plan: Plan, decisions: Any, history: int | None) -> Floats:
    """Return mean, ends and outcome (4, row) of the pairs that have all, from so many periods before each."""
    rows = [row[:, np.isfinite(row).all(axis=0)] for _, row in _decided(amounts, plan, decisions, history)]
    return np.concatenate([np.empty((4, 0)), *rows], axis=1)


def _decided(
    amounts: Floats, plan: Plan, decisions: Any, history: int | None = None
) -> Iterator[tuple[int, Floats]]:
    """Yield each decision with mean, ends and outcome (4, pair), from all or so many periods before it."""
    came, (long, short) = future_sums(amounts, plan.hold), pair_places(len(amounts))
    whole = [] if history else walks_of(amounts, None, plan, decisions)
    for at in map(int, decisions):
        place, walks = at, whole
        if history is not None:
            past = amounts[:, at + 1 - history : at + 1]
            place = history - 1
            walks = walks_of(past, None, plan, np.array([place]))
        mean, scale, errors, weight, number = pair_distribution(walks[0], place)
        if number >= DECISIONS:
            mean = mean[long, short]
            low, _, high, _ = outcome_figures(mean, scale[long, short], errors, weight, 0.0, 0.9)
            yield at, np.stack([mean, low, high, came[short, at] - came[long, at]])


def picks(panel: xr.DataArray, pair_cost_bps: float) -> dict[str, xr.Dataset]:
    """Return the record of selected pairs by rule at a cost."""
    fee = pair_cost_bps / 4.0  # of each of the four trades
    return {rule: funding.pick_record(panel, hold=HOLD, fee_bps=fee, rule=rule) for rule in RULES}


def pick_table(records: dict[str, xr.Dataset]) -> pd.DataFrame:
    """Return the selected pairs of records without cost, one row each, as in the notebook."""
    frames = []
    for rule, record in records.items():
        rows = record.drop_attrs().to_dataframe().reset_index()
        frames.append(
            rows[rows["realised_net_bps"].notna() & rows["predicted_net_bps"].notna()].assign(rule=rule)
        )
    frame = pd.concat(frames, ignore_index=True)
    frame = frame.rename(columns={name: name.replace("_net", "") for name in frame.columns})
    frame = frame.rename(columns={"predicted_low_bps": "low_bps", "predicted_high_bps": "high_bps"})
    amounts = ["predicted_bps", "low_bps", "high_bps", "realised_bps"]
    frame[amounts] = frame[amounts].round(4)
    keys = ["rule", "symbol", "time"]
    return frame[[*keys, "long", "short", *amounts]].sort_values(keys).reset_index(drop=True)


def main(options: Sequence[str] = ()) -> int:
    """Print the tables; with ``--record`` only write the CSV file next to its notebook.

    With ``--history`` only that by length of history, with ``--pairs`` that of two venues alone, with
    ``--weeks`` that of two venues alone for a week on 60 days.
    """
    panel = recorded_funding()
    if "--pairs" in options:
        tables = [by_pair(panel)]
    elif "--weeks" in options:
        tables = [by_week(panel)]
        print("coverage from {:.3f} to {:.3f}".format(*tables[0].attrs["interval of coverage"]))
    elif "--history" in options:
        tables = [by_history(panel)]
    elif "--record" in options:
        pick_table(picks(panel, 0.0)).to_csv(STORED, index=False)
        return 0
    else:
        shorter = {hold: funding.pick_record(panel, hold=hold, fee_bps=0.0) for hold in HOLDS[:2]}
        tables = [scores(forecasts(panel)), *by_rule(picks(panel, 0.0) | shorter)]
    print(*(table.to_string(float_format="{:.3f}".format) for table in tables), sep="\n\n")
    return 0


def after(record: xr.Dataset, pair_cost_bps: float) -> xr.Dataset:
    """Return a record without cost as it is after a cost; equal for all pairs, it changes no selection."""
    names = ["predicted_net_bps", "predicted_low_bps", "predicted_high_bps", "realised_net_bps"]
    return record.assign({name: record[name] - pair_cost_bps for name in names})


def by_rule(free: dict[str, xr.Dataset]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the summary of selected pairs by cost, label and period, and the forecast's advantage per
    decision.
    """
    picked, ahead = [], []
    for cost in COSTS:
        records = {rule: after(record, cost) for rule, record in free.items()}
        for (rule, record), (period, (start, end)) in itertools.product(records.items(), _PERIODS.items()):
            summary = funding.pick_summary(record.sel(time=slice(start, end)), min_predicted_bps=0.0)
            figures = {str(name): float(figure) for name, figure in summary.items()}
            picked.append({"cost": cost, "rule": rule, "period": period, **figures})
        ahead += [(cost, rule, *advantage(records["forecast"], records[rule])) for rule in RULES[1:]]
    return pd.DataFrame(picked), pd.DataFrame(ahead, columns=["cost", "less", "mean", "low", "high"])


def advantage(record: xr.Dataset, other: xr.Dataset) -> tuple[float, float, float]:
    """Return by how much one record earned more a decision [bps], with a 95 % block bootstrap interval.

    A decision at which nothing was forecast to clear its cost earned 0. Runs of six decisions are drawn.
    """
    earned = [
        part["realised_net_bps"].where(part["predicted_net_bps"] > 0.0, 0.0) for part in (record, other)
    ]
    there = np.isfinite(record["predicted_net_bps"] + record["realised_net_bps"] + other["realised_net_bps"])
    apart = (earned[0] - earned[1]).where(there).transpose("time", "symbol").to_numpy()
    apart = apart[np.isfinite(apart).any(axis=1)]
    begins = np.random.default_rng(0).integers(0, len(apart), (1999, -(-len(apart) // 6), 1))
    drawn = ((begins + np.arange(6)) % len(apart)).reshape(1999, -1)[:, : len(apart)]
    low, high = np.percentile(np.nanmean(apart[drawn], axis=(1, 2)), [2.5, 97.5])
    return float(np.nanmean(apart)), float(low), float(high)


def _rows(history: Any, symbol: int) -> tuple[Array, Floats, Floats]:
    """Return by decision and pair: its time, forecast, outcome, and past spreads [bps]."""
    amounts, plan = history.amounts.isel(symbol=symbol).transpose("exchange", "time").to_numpy(), history.plan
    decisions = np.arange(-history.first % plan.hold, amounts.shape[1], plan.hold)
    long, short = pair_places(amounts.shape[0])
    times, figures, past = [], [], []
    for at, told in _decided(amounts, plan, decisions):
        if at < _WINDOW - 1:
            continue
        row, spread = told.T, (amounts[short] - amounts[long])[:, at - _WINDOW + 1 : at + 1]
        known = np.isfinite(row).all(axis=1) & (np.isfinite(spread).sum(axis=1) >= _MIN)
        times.append(np.full(known.sum(), history.amounts["time"].to_numpy()[at]))
        figures.append(row[known])
        past.append(spread[known])
    return np.concatenate(times), np.concatenate(figures), np.concatenate(past)


def _normal(mean: Floats, deviation: Floats) -> tuple[Floats, Floats, Floats]:
    return mean, mean - _NORMAL * deviation, mean + _NORMAL * deviation


def _autoregression(past: Floats, hold: int) -> tuple[Floats, Floats]:
    """Expectation of an autoregression with the bias-corrected slope, and the noise that it adds."""
    both = np.isfinite(past[:, :-1]) & np.isfinite(past[:, 1:])
    x, y, n = np.where(both, past[:, :-1], 0.0), np.where(both, past[:, 1:], 0.0), both.sum(axis=1)
    x, y = (np.where(both, part - (part.sum(axis=1) / n)[:, None], 0.0) for part in (x, y))
    own = (x * x).sum(axis=1)
    slope = (x * y).sum(axis=1) / np.where(own > 0.0, own, 1.0)
    variance = ((y - slope[:, None] * x) ** 2).sum(axis=1) / (n - 2)
    slope = np.clip((n * slope + 1.0) / (n - 3.0), 0.0, 1.0)
    mean = np.nanmean(past, axis=1)
    last = np.where(np.isfinite(past[:, -1]), past[:, -1], mean)
    powers = slope[:, None] ** np.arange(1, hold + 1)
    # A shock of k periods before the end has been felt 1 + φ + … + φ^(k − 1) times.
    felt = np.cumsum(np.concatenate([np.ones((len(past), 1)), powers[:, :-1]], axis=1), axis=1)
    expected = hold * mean + (last - mean) * powers.sum(axis=1)
    return expected, np.sqrt(variance * (felt**2).sum(axis=1))


def _local_level(past: Floats, hold: int) -> tuple[Floats, Floats]:
    """Level that walks at random under noise: Kalman filter, the ratio of variances by likelihood."""
    known = np.isfinite(past)
    first = past[np.arange(len(past)), known.argmax(axis=1)]
    best, mean, deviation = np.full(len(past), -np.inf), np.zeros(len(past)), np.zeros(len(past))
    ahead = float((np.arange(1, hold + 1) ** 2).sum())
    for ratio in _LEVELS:
        level, room = first.copy(), np.ones(len(past))
        squares, logs, seen = np.zeros(len(past)), np.zeros(len(past)), np.zeros(len(past))
        for at in range(past.shape[1]):
            room = room + ratio
            miss = np.where(known[:, at], past[:, at] - level, 0.0)
            counts = known[:, at] & (seen > 0)
            squares += np.where(counts, miss**2 / (room + 1.0), 0.0)
            logs += np.where(counts, np.log(room + 1.0), 0.0)
            gain = np.where(known[:, at], room / (room + 1.0), 0.0)
            level, room, seen = level + gain * miss, room * (1.0 - gain), seen + known[:, at]
        variance = np.maximum(squares / (seen - 1.0), 1e-12)
        likelihood = -0.5 * ((seen - 1.0) * np.log(variance) + logs)
        better = likelihood > best
        best, mean = np.where(better, likelihood, best), np.where(better, hold * level, mean)
        spread = np.sqrt(variance * (hold**2 * room + ratio * ahead + hold))
        deviation = np.where(better, spread, deviation)
    return mean, deviation


def _window_mean(past: Floats, hold: int) -> tuple[Floats, Floats]:
    """Mean of the window, with its long-run variance (Bartlett weights up to the holding time)."""
    known, mean = np.isfinite(past), np.nanmean(past, axis=1)
    centred, number = np.where(known, past - mean[:, None], 0.0), known.sum(axis=1)
    variance = (centred**2).sum(axis=1) / number
    for lag in range(1, hold + 1):
        weight = 2.0 * (1.0 - lag / (hold + 1.0))
        variance += weight * (centred[:, lag:] * centred[:, :-lag]).sum(axis=1) / number
    return hold * mean, np.sqrt(np.maximum(variance, 0.0) * hold * (1.0 + hold / number))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
