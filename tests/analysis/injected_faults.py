"""Faults put into recorded funding, one at a time, and how `dd.quality` finds them.

``python -m tests.analysis.injected_faults`` prints the table of docs/methods/quality.md.
"""

import sys
from collections.abc import Callable

import numpy as np
import pandas as pd

from derivdata.analysis.quality import quality
from tests.support.recorded_funding import first_set

SERIES = (("BTC", "binance"), ("BTC", "bybit"), ("BTC", "gate"), ("ETH", "kucoin"), ("ETH", "mexc"))
_SPAN = ("2021-06-01", "2023-12-31")
_TRIES = 8

Fault = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]


def recorded() -> pd.DataFrame:
    """Read settlements of seven venues, BTC and ETH, June 2021 to December 2023, with their intervals."""
    parts = []
    for (symbol, venue), rows in first_set().items():
        parts.append(
            pd.DataFrame(
                {
                    "symbol": symbol,
                    "exchange": venue,
                    "time": rows.index.tz_localize("UTC"),
                    "rate_bps_8h": rows.to_numpy(),
                    "interval_hours": 1.0 if venue == "dydx" else 8.0,
                    "kind": "settled",
                }
            )
        )
    whole = pd.concat(parts, ignore_index=True)
    whole = whole[(whole["time"] >= _SPAN[0]) & (whole["time"] < _SPAN[1])]
    instant = whole["time"].dt.round("1min")
    both = whole.assign(instant=instant).pivot_table("rate_bps_8h", ["exchange", "instant"], "symbol")
    other = both.rename(columns={"BTC": "ETH", "ETH": "BTC"}).stack().rename("other_bps_8h")
    return (
        whole.assign(instant=instant).join(other, on=["exchange", "instant", "symbol"]).reset_index(drop=True)
    )


def _scaled(factor: float) -> Fault:
    def fault(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        return series.assign(rate_bps_8h=series["rate_bps_8h"] * factor)

    return fault


def _from_the_middle_on(factor: float) -> Fault:
    def fault(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        first = int(len(series) * rng.uniform(0.3, 0.7))
        scale = np.where(np.arange(len(series)) < first, 1.0, factor)
        return series.assign(rate_bps_8h=series["rate_bps_8h"] * scale)

    return fault


def _late(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return series.assign(rate_bps_8h=series["rate_bps_8h"].shift(1))


def _paid_twice(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    again = series.sample(1, random_state=int(rng.integers(1 << 30)))
    return pd.concat([series, again.assign(time=again["time"] + pd.Timedelta("30s"))])


def _of_another_symbol(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    values = series["rate_bps_8h"].to_numpy().copy()
    row = int(rng.integers(0, len(series) - 30))
    values[row : row + 30] = series["other_bps_8h"].to_numpy()[row : row + 30]
    return series.assign(rate_bps_8h=values)


def _rows(pick: Callable[[int, np.random.Generator], np.ndarray]) -> Fault:
    """Keep the rows that `pick` selects."""

    def fault(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        return series.iloc[pick(len(series), rng)]

    return fault


def _without(first: int, number: int, size: int, every: int = 1) -> np.ndarray:
    return np.setdiff1d(np.arange(size), np.arange(first, first + number * every, every))


def _shifted(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return series.assign(time=series["time"] + pd.Timedelta(int(rng.choice([-1, 1])), "h"))


def _spiked(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    row = int(rng.integers(50, len(series) - 50))
    values = series["rate_bps_8h"].to_numpy().copy()
    values[row] = rng.choice([-30.0, 30.0])
    return series.assign(rate_bps_8h=values)


def _frozen(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    values = series["rate_bps_8h"].to_numpy().copy()
    floor = pd.Series(values).mode().iloc[0]  # where the rate sits anyhow, for up to 80 settlements in a row
    row = int(rng.choice(np.flatnonzero(values[50:-100] != floor) + 50))
    values[row : row + 61] = values[row]
    return series.assign(rate_bps_8h=values)


def _hundredfold(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    values = series["rate_bps_8h"].to_numpy().copy()
    row = int(rng.integers(50, len(series) - 150))
    values[row : row + 61] *= 100.0
    return series.assign(rate_bps_8h=values)


def _repeated(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    row = int(rng.integers(0, len(series) - 10))
    return pd.concat([series, series.iloc[row : row + 10]])


def _conflicting(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    rows = series.sample(10, random_state=int(rng.integers(1 << 30)))
    return pd.concat([series, rows.assign(rate_bps_8h=rows["rate_bps_8h"] + 1.0)])


def _hourly(series: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Put rows an hour apart from the middle on, with an interval that still states 8 hours."""
    first = int(len(series) * rng.uniform(0.3, 0.7))
    hours = np.append(np.arange(first) * 8, (first - 1) * 8 + np.arange(1, len(series) - first + 1))
    return series.assign(time=series["time"].min().floor("h") + pd.to_timedelta(hours, "h"))


SCALES = {"×2": 2.0, "/2": 0.5, "×4": 4.0, "/4": 0.25, "×8": 8.0, "/8": 1 / 8, "×100": 100.0, "/100": 0.01}

# Each fault, and the columns of the report in which it must show.
FAULTS: dict[str, tuple[Fault, tuple[str, ...]]] = {
    **{
        f"{name} from the middle on": (_from_the_middle_on(by), ("scale_change",))
        for name, by in SCALES.items()
    },
    **{f"{name} throughout": (_scaled(by), ("peer_scale",)) for name, by in SCALES.items()},
    "other sign from the middle on": (_from_the_middle_on(-1.0), ("sign_change",)),
    "other sign throughout": (_scaled(-1.0), ("peer_sign",)),
    "shift of an hour": (_shifted, ("off_schedule",)),
    "values late by an interval": (_late, ("peer_lag",)),
    "30 rows of another symbol": (_of_another_symbol, ("other_symbol",)),
    "a payment again after 30 seconds": (_paid_twice, ("duplicates",)),
    "every second row missing": (_rows(lambda n, rng: np.arange(int(rng.integers(2)), n, 2)), ("missing",)),
    "12 alternate rows missing": (
        _rows(lambda n, rng: _without(int(rng.integers(50, n - 100)), 12, n, 2)),
        ("missing",),
    ),
    "30 rows missing": (
        _rows(lambda n, rng: np.sort(rng.choice(np.arange(1, n - 1), n - 32, replace=False))),
        ("missing",),
    ),
    "hole of 20 rows": (_rows(lambda n, rng: _without(int(rng.integers(50, n - 100)), 20, n)), ("missing",)),
    "start clamped": (_rows(lambda n, rng: np.arange(int(rng.integers(5, 200)), n)), ("clamped",)),
    "end clamped": (_rows(lambda n, rng: np.arange(n - int(rng.integers(5, 200)))), ("clamped_end",)),
    "a spike of 30 bps": (_spiked, ("spikes", "outliers")),
    "61 rows ×100": (_hundredfold, ("outliers", "scale_change")),
    "frozen for 61 rows": (_frozen, ("stale",)),
    "ten rows twice": (_repeated, ("duplicates", "repeated_pages")),
    "ten rows with another value": (_conflicting, ("conflicts",)),
    "hourly rows said to pay 8 hours": (_hourly, ("wrong_interval", "interval_changes")),
}
NEUTRAL = {"scale_change": 1.0, "peer_scale": 1.0, "peer_sign": 1.0}
MIN = {"×2 from the middle on": 0.8, "values late by an interval": 0.2, "30 rows of another symbol": 0.8}
"""Minimum share of detected faults; 0.9 for the faults not listed."""
DAYS = 90
"""Length of the windows in which faults are looked for, next to the whole recording."""


def window(table: pd.DataFrame, attempt: int) -> pd.DataFrame:
    """Cut a window of `DAYS` out of a recording."""
    whole = pd.Timestamp(_SPAN[1], tz="UTC") - pd.Timestamp(_SPAN[0], tz="UTC") - pd.Timedelta(DAYS, "D")
    first = pd.Timestamp(_SPAN[0], tz="UTC") + whole * np.random.default_rng(attempt).uniform()
    first = first.floor("D")
    inside = (table["time"] >= first) & (table["time"] < first + pd.Timedelta(DAYS, "D"))
    return table[inside].reset_index(drop=True)


def examined(table: pd.DataFrame, of: pd.DataFrame | None = None) -> pd.DataFrame:
    """Report on a table over the span of another one, its own by default."""
    span = table if of is None else of
    start, end = span["time"].min().floor("D"), span["time"].max().ceil("D")
    return quality(table, start=start, end=end).set_index(["symbol", "exchange"])


def raised(report: pd.DataFrame, clean: pd.DataFrame, column: str) -> pd.Series:
    """Where a column says more of a series than of the clean recording."""
    neutral = NEUTRAL.get(column, 0.0)
    figure, before = report[column].fillna(neutral), clean[column].fillna(neutral)
    return (figure != neutral) & (figure != before)


def recall(fault: str, table: pd.DataFrame, clean: pd.DataFrame, tries: int = _TRIES) -> float:
    """Share of the faults put into each of the five series that show in their columns."""
    put, columns = FAULTS[fault]
    results = []
    for number, (symbol, venue) in enumerate(SERIES):
        chosen = (table["symbol"] == symbol) & (table["exchange"] == venue)
        others = table[((table["symbol"] == symbol) | (table["exchange"] == venue)) & ~chosen]
        for attempt in range(tries):
            rng = np.random.default_rng([number, attempt])
            faulty = pd.concat([others, put(table[chosen], rng)], ignore_index=True)
            report = examined(faulty, table)
            row = report.loc[[(symbol, venue)]]
            results.append(any(raised(row, clean.loc[row.index], column).item() for column in columns))
    return float(np.mean(results))


def false_alarms(clean: pd.DataFrame) -> float:
    """Count false alarms on the clean recording per 1,000 rows: flagged points and findings on series.

    htx settled once more than its schedule on 2021-10-28, off the hours of its interval: no false alarm.
    """
    points = clean[["outliers", "spikes", "stale"]].fillna(0).to_numpy().sum()
    points += clean["off_schedule"].drop("htx", level="exchange").sum()
    flags = sum(
        int((clean[column].fillna(neutral) != neutral).sum())
        for column, neutral in (NEUTRAL | {"sign_change": 0.0, "wrong_interval": 0.0}).items()
    )
    return float(1_000 * (points + flags) / clean["present"].sum())


def alarmed_series(clean: pd.DataFrame) -> dict[str, int]:
    """Count the series of a clean recording of which each comparison with others claims something."""
    told = NEUTRAL | {"sign_change": 0.0, "peer_lag": 0.0, "other_symbol": 0.0, "duplicates": 0.0}
    return {name: int((clean[name].fillna(at) != at).sum()) for name, at in told.items()}


def main() -> None:
    table = recorded()
    clean, parts = examined(table), [window(table, attempt) for attempt in range(_TRIES)]
    reports = [examined(part) for part in parts]
    lines = []
    for fault in FAULTS:
        short = [recall(fault, *item, tries=1) for item in zip(parts, reports, strict=True)]
        lines.append(f"| {fault} | {recall(fault, table, clean):.0%} | {np.mean(short):.0%} |\n")
    sys.stdout.writelines([f"| fault | found | in {DAYS} days |\n|---|---|---|\n", *lines])
    sys.stdout.write(f"\nfalse alarms per 1,000 rows: {false_alarms(clean):.2f}\n")
    windows = [alarmed_series(examined(window(table, 1_000 + number))) for number in range(30)]
    sys.stdout.write(f"series with a claim: {alarmed_series(clean)} of {len(clean)}\n")
    total = {name: sum(item[name] for item in windows) for name in windows[0]}
    sys.stdout.write(f"in {DAYS} days: {total} of {30 * len(clean)}\n")


if __name__ == "__main__":
    main()
