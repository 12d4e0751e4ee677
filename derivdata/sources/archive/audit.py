"""Checks of rows before they are written: one spelling of names, and questions about suspicious values.

A wrong unit cannot be detected later: a rate that is eight times too small still looks like a rate. Rows are
therefore checked before they are written, and suspicious ones raise an error with a question to resolve:
rates smaller than any venue pays, rates of one symbol that differ between venues by a typical factor, an
interval that is not the spacing of rows, payments off their venue's schedule, open interest in coins, and
times in the future.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.types import union_categoricals

from derivdata import units
from derivdata.errors import ArchiveError
from derivdata.support import times
from derivdata.support.text import escape_controls
from derivdata.tables.contracts import contract, venue_slug
from derivdata.tables.definitions import MAX_PAID
from derivdata.tables.history_rows import level_changes, rate_changes
from derivdata.tables.payments import (
    HOUR_US,
    confirmed_runs,
    contradicted,
    ends_other_interval,
    payment_time,
)
from derivdata.tables.schema import Column, Kind, Table

AUDITS = ("unit", "interval", "schedule", "venues", "future")
"""Names of the questions, for `accept`."""

_PAYMENT_COLUMNS = ("rate_bps_8h", "interval_hours")
_SERIES_ROWS = 100  # first rows of each series, which are enough to check a unit
_MIN_ROWS = 30
TINY_BPS_8H = 0.01
"""Rate [bps per 8 hours] below which half of the rates may not be without a stated unit."""
_HUGE_BPS_8H = 50.0
_HUGE_BPS_8H_OF_ONE = 300.0
_FLOOR_PERCENT = 0.01  # the most common rate, 1 bps, in percent
_HUGE_OI_USD = 1e11
_TINY_OI_USD = 1e6
_LARGE_COINS = ("BTC", "ETH")
_MAX_CLOCK_LEAD = pd.Timedelta(5, "min")

# Factors by which a mistake multiplies a rate, and the question: hourly rates read as rates per eight hours
# (8) or per day (24), percentages (100) or fractions (10,000) read as basis points.
_MISTAKE_FACTORS = {8.0: "interval_hours", 24.0: "interval_hours", 100.0: "unit", 10_000.0: "unit"}
_NEAR_FACTOR = 1.15
_SAME_GAP_HOURS = 1 / 60
_INTERVAL_TOLERANCE = 0.05  # of an interval
_MULTIPLE = 1.7  # spacing over interval, from which a spacing is a multiple of the interval
_MIN_SYMBOLS = 3
_POWER_TOLERANCE = 0.06  # tolerance in log10, about 15 %
# Venues that pay so many hours apart count from 00:00 UTC, or begin with half an interval, as kucoin does at
# 04:00, 12:00 and 20:00.
_COUNTED_FROM_MIDNIGHT = (2.0, 4.0, 8.0, 12.0, 24.0)

Read = Callable[[Collection[str], pd.Timestamp, pd.Timestamp], pd.DataFrame]
"""Reads the archive's rows of some symbols in a window."""


class Normalised(NamedTuple):
    """Normalised rows, the number of rows in a lower quote, and contracts with a quote currency."""

    frame: pd.DataFrame
    other_quotes: int
    contracts: Mapping[str, str] = MappingProxyType({})


def normalise(table: Table, frame: pd.DataFrame) -> Normalised:
    """Return rows with base symbols, venue slugs and the API's words in lower case.

    If a table has one row per symbol, venue and time, only the contract with the highest-priority quote
    currency is used.
    """
    changed = {}
    for name, change in _changes(table).items():
        if name in frame.columns and (frame[name].dtype == object or frame[name].dtype.kind not in "fiub"):
            values = _mapped_words(frame[name].reset_index(drop=True), change)
            if values is not None:
                changed[name] = values
    if not changed:
        return Normalised(frame, 0)
    result = frame.reset_index(drop=True).assign(**changed)
    result.attrs = dict(frame.attrs)
    if "symbol" not in changed or set(table.key) != {"symbol", "exchange", "time"}:
        return Normalised(result, 0)
    # The rank uses the original name: BTC-USDT before BTC-USDC.
    rank = _mapped_words(frame["symbol"].reset_index(drop=True), lambda word: contract(word).rank)
    series = [result[name].astype(object) for name in ("exchange", "symbol")]
    is_first = (rank == rank.groupby(series).transform("min")).to_numpy()
    names = frame["symbol"].astype(object).to_numpy()[is_first]
    result = result[is_first]
    contracts = quoted_contracts(result["exchange"].astype(str), result["symbol"].astype(str), names)
    return Normalised(result, len(frame) - len(result), contracts)


def quoted_contracts(venues: Iterable[str], symbols: Iterable[str], words: Iterable[str]) -> dict[str, str]:
    """Return the venues' names of contracts with a quote currency, by venue and base symbol of rows."""
    series = dict.fromkeys(zip(venues, symbols, words, strict=True))
    return {f"{venue} {symbol}": word for venue, symbol, word in series if contract(word).quote}


class Question(ArchiveError):
    """Rows suggest a mistake: the `finding`, and after it what to do about it."""

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(f"{finding}: {remedy}")
        self.finding = finding


class OtherContract(ArchiveError):
    """Rows are of another contract than the stored ones of their series."""


def refuse_other_contracts(table: Table, stored: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise if rows of another contract of the same symbol and venue are stored."""
    for series, word in new.items():
        before = stored.get(series, word)
        if contract(before).quote != contract(word).quote:
            raise OtherContract(
                f"{table.name}: {word} would continue the series of {before} ({series}), but they are two "
                "contracts. Use one of them, or store the other in a separate archive"
            )


def speller(column: Column) -> Callable[[str], str]:
    """Return a function that maps a word to the allowed word in any case, else to lower case."""
    spelling = {word.lower(): word for word in column.allowed}
    return lambda word: spelling.get(word.strip().lower(), word.strip().lower())


def _changes(table: Table) -> dict[str, Callable[[str], Any]]:
    """Return, by column, the function that normalises its words."""
    changes: dict[str, Callable[[str], Any]] = {
        name: speller(column) for name, column in table.columns.items() if column.allowed
    }
    if "symbol" in table.columns:
        changes["symbol"] = lambda word: contract(word).symbol
    if "exchange" in table.columns:
        changes["exchange"] = venue_slug
    return changes


def audit(
    table: Table,
    rows: pd.DataFrame,
    venues: Collection[str],
    read: Read,
    *,
    unit: str | None = None,
    accept: Collection[str] = (),
    synthetic: bool = False,
) -> None:
    """Raise for conformed rows whose values suggest a mistake.

    `venues` are those with stored rows, and `read` returns such rows. `unit` is the unit that the user
    stated, and `accept` has the checks to skip.
    """
    if rows.empty:
        return
    questions = set(AUDITS) - set(accept)
    refuse_impossible(table, rows)
    if "future" in questions and not synthetic:
        last = rows["time"].max()
        if last > future_limit():
            raise Question(
                (
                    f"time: the newest row is at {times.iso(last)}, which is in the future by the clock of "
                    "this machine"
                ),
                "correct its unit or zone, or pass accept=['future'] (--accept future)",
            )
    _refuse_scaled_prices(table, rows, read, questions)
    if {"symbol", "exchange", "time"} <= set(table.key):
        _ask_about_series(table, rows, {*venues}, read, questions, unit)


def _ask_about_series(
    table: Table, rows: pd.DataFrame, venues: set[str], read: Read, questions: set[str], unit: str | None
) -> None:
    """Raise for suspicious rows of tables by symbol, venue and time."""
    heads = _heads_of_series(rows)
    if "rate_bps_8h" in table.columns:
        _ask_about_rates(heads, venues, read, questions, unit)
        if "schedule" in questions and "interval_hours" in table.columns:
            _refuse_schedules(_heads_of_series(_payments(rows)))
        if "interval" in questions and "interval_hours" in table.columns:
            payments = _payments(rows)
            if len(payments):
                _refuse_intervals(payments)
    elif table.name == "oi_history" and "unit" in questions:
        _refuse_coins(heads)
    if "unit" in questions:
        _refuse_unit_changes(table, rows)
        if "rate_bps_8h" in table.columns:
            _refuse_mixed_units(rows)


def _refuse_scaled_prices(table: Table, rows: pd.DataFrame, read: Read, questions: Collection[str]) -> None:
    """Raise for prices that are 100 times the stored ones of their symbol and time, or a higher power of ten.

    A ratio below 1 counts too. Such prices are fixed-point numbers of a vendor, or prices of 1,000 coins.
    """
    is_of_prices = {"symbol", "price_usd"} <= {*table.columns} and "time" in table.key
    if "unit" not in questions or not is_of_prices:
        return
    _refuse_no_prices(table, rows)
    day = pd.Timedelta(1, "D")
    symbols = list(rows["symbol"].astype(object).unique())
    stored = read(symbols, rows["time"].min() - day, rows["time"].max() + day)
    if stored.empty:
        return
    new_medians = rows.groupby("symbol", observed=True)["price_usd"].median()
    stored_medians = stored.groupby("symbol", observed=True)["price_usd"].median()
    ratios = (new_medians / stored_medians).dropna()
    power = np.log10(ratios[ratios > 0])
    wrong = power[(power.abs() > 1.5) & ((power - power.round()).abs() < _POWER_TOLERANCE)]
    if len(wrong):
        symbol = wrong.index[0]
        raise Question(
            f"{table.name}.price_usd: the prices of {symbol} are {10 ** wrong.iloc[0]:.3g} times the "
            f"stored prices of these days (median {new_medians[symbol]:.6g} against "
            f"{stored_medians[symbol]:.6g})",
            (
                "divide them by the power of ten, or name the contract as the venue does (1000PEPE); or pass "
                "--accept unit (accept=['unit']) if they are right"
            ),
        )


def future_limit() -> pd.Timestamp:
    """Return the latest time that a row may have, by the machine's clock."""
    return pd.Timestamp(times.machine_now()).tz_convert("UTC").as_unit("us") + _MAX_CLOCK_LEAD


def _mapped_words(values: pd.Series, change: Callable[[str], Any]) -> Any:
    """Map the words; return None if nothing changes, or if a value is not text, which the table rejects."""
    is_categorical = isinstance(values.dtype, pd.CategoricalDtype)
    if is_categorical and _are_all_unchanged(values.cat.categories, change):
        return None  # without a look at which categories occur, which would read every row
    words = values.dropna().unique()
    if not all(isinstance(word, str) for word in words) or _are_all_unchanged(words, change):
        return None
    return values.astype(object).map({word: change(word) for word in words})


def _are_all_unchanged(words: Iterable[Any], change: Callable[[str], Any]) -> bool:
    """Return whether all words are text that needs no change."""
    return all(isinstance(word, str) and change(word) == word for word in words)


def _ask_about_rates(
    heads: pd.DataFrame, venues: set[str], read: Read, questions: set[str], unit: str | None
) -> None:
    """Raise for rates in another unit, or that differ from other venues by the factor of a mistake."""
    if "unit" in questions:
        _refuse_unit_of_rates(heads, named=unit is not None)
    if len(heads) < _MIN_ROWS:
        return
    if "venues" in questions and len(venues | {*heads["exchange"].cat.categories}) > 1:
        _refuse_factors(heads, read)


def _payments(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of settled rates, because rates of the next settlement may have any time before it."""
    if "rate_kind" not in rows.columns:
        return rows
    return rows[rows["rate_kind"] == "settled"]


def refuse_impossible(table: Table, rows: pd.DataFrame) -> None:
    """Raise for conformed rows with impossible numbers, times or words."""
    for name, column in table.columns.items():
        if column.kind in (Kind.TEXT, Kind.LABEL):
            _refuse_hidden(f"{table.name}.{name}", rows[name])
            continue
        if column.kind is Kind.FLAG:
            continue
        wrong, limit = _impossible_values(column, rows[name])
        if wrong.any():
            first = rows[wrong].iloc[0]
            shown = first[name]
            if column.kind is not Kind.TIME:
                shown = f"{shown:g}"
            message = (
                f"{wrong.sum()} rows have impossible values, first {shown} ({_key_text(table, first)}){limit}"
            )
            raise Question(f"{table.name}.{name}: {message}", "correct or omit them")
    if {*_PAYMENT_COLUMNS} <= table.columns.keys():
        _refuse_large_payments(table, rows)


def _refuse_large_payments(table: Table, rows: pd.DataFrame) -> None:
    """Raise for payments above the maximum, by their rate and interval."""
    bps = pd.to_numeric(rows["rate_bps_8h"]).to_numpy(float, na_value=np.nan)
    hours = pd.to_numeric(rows["interval_hours"]).to_numpy(float, na_value=np.nan)
    share = np.abs(bps) * hours / 8.0 / units.BPS
    large = np.flatnonzero(share > MAX_PAID)
    if large.size:
        key = _key_text(table, rows.iloc[large[0]])
        raise Question(
            (
                f"{table.name}: {large.size} rows pay more than {MAX_PAID:.0%} of notional, first "
                f"{share[large[0]]:.4g} ({key}: {bps[large[0]]:g} bps per 8 h for {hours[large[0]]:g} h)"
            ),
            "correct the rates or intervals, or omit the rows",
        )


def _key_text(table: Table, row: pd.Series) -> str:
    return ", ".join(str(row[name]) for name in table.key)


def _impossible_values(column: Column, values: pd.Series) -> tuple[npt.NDArray[np.bool_], str]:
    """Return a mask of impossible times or numbers, and a clause with the first limit that they exceed."""
    if column.kind is Kind.TIME:
        return ((values < times.FIRST) | (values >= times.LAST)).to_numpy(), ""
    is_wrong = np.zeros(len(values), dtype=bool)
    numbers = pd.to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
    limit = ""
    unit = f" [{column.unit}]" if column.unit else ""
    for outside, reason in column.outside(numbers):
        if outside.any() and not limit:
            limit = f", which {reason.partition(',')[0]}{unit}"
        is_wrong |= outside
    return is_wrong, limit


def _refuse_hidden(name: str, values: pd.Series) -> None:
    """Raise for words with control or invisible characters."""
    if values.dtype == "category":
        values = values.cat.categories
    words = pa.array(values, pa.string())
    hidden = words.filter(pc.match_substring_regex(words, r"[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]"))
    if len(hidden):
        shown = escape_controls(hidden[0].as_py())
        raise Question(f"{name}: '{shown}' has control or invisible characters", "correct the name")


def _heads_of_series(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the first rows of each symbol and venue, which are enough to check a unit."""
    series = _series_codes(rows["symbol"].array, rows["exchange"].array)
    starts = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    counts = np.minimum(np.diff(np.append(starts, len(rows))), _SERIES_ROWS)
    heads = rows.filter(["symbol", "exchange", "time", "rate_bps_8h", "interval_hours", "oi_usd"])
    if counts.sum() == len(rows):
        return heads
    rows_before = np.cumsum(counts) - counts
    return heads.take(np.arange(counts.sum()) + np.repeat(starts - rows_before, counts))


def _refuse_unit_of_rates(heads: pd.DataFrame, *, named: bool) -> None:
    """Raise for rates that are too small if no unit was given, and for rates that are too large."""
    rate = np.abs(heads["rate_bps_8h"].to_numpy())
    rate = rate[rate > 0]
    if not rate.size:
        return
    at_floor = float(np.mean(np.abs(rate - _FLOOR_PERCENT) < 1e-8))
    at_percent_floor = rate.size >= _MIN_ROWS and at_floor > 0.05 and np.mean(rate < 0.1) > 0.5
    if not named and (np.mean(rate < TINY_BPS_8H) > 0.5 or at_percent_floor):
        kind = "a fraction, not bps per 8 hours"
        if at_floor > 0.05:
            kind = f"percent, not bps per 8 hours: {at_floor:.0%} of the rates are 0.01, the floor in percent"
        raise Question(
            f"rate_bps_8h looks like {kind}",
            "pass --unit native or --unit percent (and --set interval_hours=8), or --unit bps_8h "
            "if the rates are in bps per 8 hours; in Python convert with dd.units, or pass accept=['unit']",
        )
    # A coin may pay as much for days; a major one, or several at once, do not.
    huge = _HUGE_BPS_8H_OF_ONE
    symbols = set(heads["symbol"].unique())
    if len(symbols) >= _MIN_SYMBOLS or symbols & set(_LARGE_COINS):
        huge = _HUGE_BPS_8H
    if rate.size >= _MIN_ROWS and np.mean(rate > huge) >= 0.5:
        raise Question(
            f"rate_bps_8h: half of the rates are over {np.median(rate):.0f} bps per 8 hours",
            "pass the unit with --unit, or --accept unit (accept=['unit']) if it is right",
        )


def _refuse_intervals(rows: pd.DataFrame) -> None:
    """Raise for settlements whose interval column is not the time between them.

    Missing payments make some spacings a multiple of the interval. Three equal spacings in a row contradict
    it, and so do payments well before the end of their interval, and multiples in most of the rows.
    """
    series = _series_codes(rows["symbol"].array, rows["exchange"].array)
    stamps = payment_time(rows["time"].astype("datetime64[us, UTC]").astype("int64").to_numpy())
    gaps = np.append(np.nan, np.diff(stamps) / HOUR_US)
    gaps[np.append(True, series[1:] != series[:-1])] = np.nan
    stated = rows["interval_hours"].to_numpy(dtype=float, na_value=np.nan)
    ratio = gaps / stated
    is_run = confirmed_runs(np.append(False, np.abs(gaps[1:] - gaps[:-1]) < _SAME_GAP_HOURS))
    wrong = is_run & (np.abs(ratio - np.maximum(np.rint(ratio), 1.0)) > _INTERVAL_TOLERANCE)
    wrong &= ~ends_other_interval(gaps, stated)
    wrong |= contradicted(series, stamps, stated).rows
    if not wrong.any():
        ratios = pd.Series(ratio).groupby(series)
        is_thinned = (ratios.size() >= _MIN_ROWS) & (ratios.quantile(0.25) > _MULTIPLE)
        wrong = np.isin(series, is_thinned.index[is_thinned]) & (ratio > _MULTIPLE)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        first = rows.iloc[place]
        spacing = float(gaps[place])
        whose = f"{first['exchange']} {first['symbol']}"
        raise Question(
            f"interval_hours: {whose} states {stated[place]:g}, but the rows are {spacing:g} hours apart "
            f"from {times.iso(first['time'])} on ({int(wrong.sum()):,} of {len(rows):,} rows)",
            (
                "map the column of intervals, omit interval_hours to derive it from the spacing, pass --set "
                f"interval_hours={spacing:g} (and --unit), or --accept interval (accept=['interval']) if "
                "rows are missing"
            ),
        )


def _refuse_unit_changes(table: Table, rows: pd.DataFrame) -> None:
    """Raise for series whose values change their unit at some row."""
    for name in ("rate_bps_8h", "oi_usd", "price_usd"):
        if name not in table.columns:
            continue
        keys = [key for key in table.key if key != "time"]
        ordered = rows
        if table.key[-1] != "time":
            ordered = rows.sort_values([*keys, "time"], kind="stable")
        series = ordered.groupby(keys, observed=True, sort=False).ngroup().to_numpy()
        values = ordered[name].to_numpy(dtype=np.float64, na_value=np.nan)
        find = rate_changes if name == "rate_bps_8h" else level_changes
        changes = find(series, values)
        if changes:
            change = changes[0]
            first = ordered.iloc[change.row]
            raise Question(
                f"{name}: {first['exchange']} {first['symbol']} is {change.factor:.3g} times as large from "
                f"{times.iso(first['time'])} on ({change.rows:,} rows)",
                "correct the unit of these rows, or pass --accept unit (accept=['unit']) if they are right",
            )


_FLOOR_BPS_8H = 1.0
"""Rate of quiet times on most venues; as a fraction of the interval it is the same for each interval."""
_MIN_AT_FLOOR = 5
_SHARE_AT_FLOOR = 0.3
_NEAR_FLOOR = 10.0


def _refuse_mixed_units(rows: pd.DataFrame) -> None:
    """Raise for series that mix percent and fractions.

    In such rows the floor is exactly 100 times the true floor, or a hundredth of it. A series mixes units if
    many of its rows are at the moved floor (see `_are_others_near`), or if several of them follow each other
    without a row at the true floor between (see `_has_run`).
    """
    rates = rows["rate_bps_8h"].to_numpy(dtype=np.float64, na_value=np.nan)
    series = _series_codes(rows["symbol"].array, rows["exchange"].array)
    if not len(rows):
        return
    order = np.argsort(series, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(series[order]) != 0))
    rows_of = dict(zip(series[order][starts].tolist(), np.split(order, starts[1:]), strict=True))
    for factor, unit in ((100.0, "percent"), (0.01, "fractions")):
        is_moved = np.isclose(rates, factor * _FLOOR_BPS_8H, rtol=1e-9, atol=0.0)
        for code, count in zip(*np.unique(series[is_moved], return_counts=True), strict=True):
            places = rows_of[int(code)]
            is_rule = count >= max(_MIN_AT_FLOOR, _SHARE_AT_FLOOR * places.size)
            is_rule = is_rule and _are_others_near(rates[places], factor * _FLOOR_BPS_8H)
            if is_rule or _has_run(rates[places], factor * _FLOOR_BPS_8H):
                first = rows.iloc[places[np.argmax(is_moved[places])]]
                raise Question(
                    f"rate_bps_8h: {count:,} rows of {first['exchange']} {first['symbol']}, first at "
                    f"{times.iso(first['time'])}, are {factor:g} times the usual floor, so they may be "
                    f"{unit}",
                    "write one file for each unit, or pass --accept unit (accept=['unit']) if they are right",
                )


def _has_run(rates: npt.NDArray[np.float64], moved_floor: float) -> bool:
    """Return whether rows at a moved floor follow each other without one at the true floor.

    Half of the rates between them must be near the moved floor too: a venue that rounds to 0.01 bps has such
    rates among larger ones.
    """
    is_moved = np.isclose(rates, moved_floor, rtol=1e-9, atol=0.0)
    is_floor = np.isclose(rates, _FLOOR_BPS_8H, rtol=1e-9, atol=0.0)
    if is_floor.sum() < _MIN_AT_FLOOR:
        return False
    places = np.flatnonzero(is_moved | is_floor)
    kinds = is_moved[places]
    starts = np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1]))
    ends = np.append(starts[1:], kinds.size)
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if not kinds[start] or end - start < _MIN_AT_FLOOR:
            continue
        sizes = np.abs(rates[places[start] : places[end - 1] + 1])
        if bool(_is_near(np.nanmedian(sizes), moved_floor)):
            return True
    return False


def _are_others_near(rates: npt.NDArray[np.float64], moved_floor: float) -> bool:
    """Return whether rates that are at neither floor are near the moved one, in the share of a rule.

    A venue that rounds to 0.01 bps may have many such rates, and most others are larger.
    """
    sizes = np.abs(rates[np.isfinite(rates) & (rates != 0.0)])
    for floor in (moved_floor, _FLOOR_BPS_8H):
        sizes = sizes[~np.isclose(sizes, floor, rtol=1e-9, atol=0.0)]
    return not sizes.size or float(_is_near(sizes, moved_floor).mean()) >= _SHARE_AT_FLOOR


def _is_near(sizes: Any, moved_floor: float) -> Any:
    """Return whether sizes are within a factor of 10 of the moved floor."""
    return (sizes >= moved_floor / _NEAR_FLOOR) & (sizes <= moved_floor * _NEAR_FLOOR)


def _refuse_schedules(heads: pd.DataFrame) -> None:
    """Raise for payments that are all off the schedule by the same hours, as in another time zone."""
    interval = heads["interval_hours"].to_numpy(dtype=float)
    is_counted = np.isin(interval, _COUNTED_FROM_MIDNIGHT)
    counted = heads[is_counted]
    hours = (counted["time"] - counted["time"].dt.normalize()).dt.total_seconds().to_numpy() / 3600
    schedules = counted[["symbol", "exchange"]].assign(
        offset=np.round(hours) % interval[is_counted], step=interval[is_counted]
    )
    grouped = schedules.groupby(["symbol", "exchange"], observed=True)
    medians = grouped.median()[grouped.size() >= _MIN_ROWS]
    is_off = (medians["offset"] != 0.0) & (medians["offset"] != medians["step"] / 2.0)
    for (symbol, exchange), (apart, step) in medians[is_off].iterrows():
        offsets = grouped.get_group((symbol, exchange))["offset"]
        if np.mean(offsets == apart) > 0.9:
            raise Question(
                f"time: {exchange} {symbol} pays every {step:g} hours from 00:00 UTC, but these payments "
                f"are {apart:g} hours later",
                (
                    f"pass the zone of the file with --tz (--tz UTC+{apart:g} if its clock is ahead), or "
                    "--accept schedule (accept=['schedule']) if these times are UTC"
                ),
            )


def _refuse_factors(heads: pd.DataFrame, read: Read) -> None:
    """Raise for a venue whose rates differ from other venues by the factor of a typical mistake."""
    series = _series_codes(heads["symbol"].array, heads["exchange"].array)
    heads = heads[(np.bincount(series) >= _MIN_ROWS)[series]]
    if heads.empty:
        return
    # 1. The median size of each series, new and stored rows together, by symbol and venue.
    others = read(list(heads["symbol"].unique()), heads["time"].min(), heads["time"].max())
    symbols = union_categoricals([heads["symbol"], others["symbol"]])
    venues = union_categoricals([heads["exchange"], others["exchange"]])
    rates = np.abs(np.append(heads["rate_bps_8h"].to_numpy(), others["rate_bps_8h"].to_numpy()))
    series = _series_codes(symbols, venues)[rates > 0]
    sizes = pd.Series(rates[rates > 0]).groupby(series).agg(["median", "size"])
    medians_of_size = sizes["median"][sizes["size"] >= _MIN_ROWS]
    symbol, venue = np.divmod(medians_of_size.index.to_numpy(), len(venues.categories))
    names = [symbols.categories[symbol], venues.categories[venue]]
    medians = pd.Series(medians_of_size.to_numpy(), pd.MultiIndex.from_arrays(names)).unstack()
    has_median = medians.notna().to_numpy(dtype=bool)
    values = medians.to_numpy()
    # 2. The ratio of each venue with new rows to the median of the others, by symbol.
    for exchange in sorted(set(heads["exchange"].unique()) & set(medians.columns)):
        place = medians.columns.get_loc(exchange)
        both = has_median[:, place] & np.delete(has_median, place, axis=1).any(axis=1)
        if not both.any():
            continue
        common_symbols = medians.index[both]
        ratios = values[both, place] / np.nanmedian(np.delete(values[both], place, axis=1), axis=1)
        ratio = float(np.median(ratios))
        # 3. A typical factor, or its inverse, for most symbols.
        for factor, what in _MISTAKE_FACTORS.items():
            near = np.maximum(ratios / factor, factor / ratios) < _NEAR_FACTOR
            near |= np.maximum(ratios * factor, 1 / (ratios * factor)) < _NEAR_FACTOR
            # Markets differ, so a single symbol is evidence only for the two large factors.
            enough = factor >= 100 or len(ratios) >= _MIN_SYMBOLS
            if enough and near.mean() > 0.5:
                size = f"{ratio:.3g} times"
                if ratio <= 1:
                    size = f"1/{1 / ratio:.3g} of"
                raise Question(
                    f"rate_bps_8h: rates of {exchange} are {size} those of other venues for "
                    f"{', '.join(map(str, common_symbols[near][:5]))}",
                    f"correct their {what}, or pass --accept venues (accept=['venues']) if it is right",
                )


_MIN_PRICES = {"BTC": 100.0, "ETH": 1.0}
"""Prices [USD] under which no perpetual or dated future of a coin has ever traded."""


def _refuse_no_prices(table: Table, rows: pd.DataFrame) -> None:
    """Raise for BTC and ETH prices that are another quantity: a rate, a volatility, another unit."""
    for symbol, minimum in _MIN_PRICES.items():
        prices = rows["price_usd"][(rows["symbol"] == symbol).to_numpy()]
        median = prices.median()
        if 0 < median < minimum:
            raise Question(
                (
                    f"{table.name}.price_usd: prices of {symbol} have the median {median:.6g} USD, but were "
                    f"never below {minimum:g} USD"
                ),
                (
                    "pass the table and the column of these values, or --accept unit (accept=['unit']) if "
                    "they are prices"
                ),
            )


def _series_codes(symbols: pd.Categorical, venues: pd.Categorical) -> np.ndarray[Any, Any]:
    """Return a number for the symbol and venue of each row, for faster grouping."""
    codes: np.ndarray[Any, Any] = symbols.codes.astype(np.int64) * len(venues.categories) + venues.codes
    return codes


def _refuse_coins(heads: pd.DataFrame) -> None:
    """Raise for open interest whose median is implausible in USD."""
    sizes = heads.groupby(["symbol", "exchange"], observed=True)["oi_usd"].agg(["median", "size"])
    for (symbol, exchange), median, size in sizes.itertuples():
        guess = ""
        # A contract that has just been listed has little open interest, and none has ever had so much.
        if symbol in _LARGE_COINS and size >= _MIN_ROWS and 0 < median < _TINY_OI_USD:
            guess = "coins or contracts"
        elif median > _HUGE_OI_USD:
            guess = "another currency or unit"
        if guess:
            raise Question(
                f"oi_usd: the median of {exchange} {symbol} is {median:,.0f}: possibly {guess}, not USD",
                "pass --unit coins (with --map price_usd=COLUMN, or prices in the archive), multiply it by "
                "the price or the contract's size first, or pass --accept unit (accept=['unit']) for USD",
            )
