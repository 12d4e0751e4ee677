"""Payments in files of venues: intervals, rates and sums equal the schedule that wrote the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

import derivdata as dd
from derivdata.analysis import funding
from derivdata.sources.archive import import_files, open_archive
from tests.archive.rates import EVER
from tests.support.examples import some

pytestmark = pytest.mark.drawn

START = pd.Timestamp("2025-01-01", tz="UTC")


class Payment(NamedTuple):
    """One payment of a schedule: hours after the start, hours that it covers, and the fraction paid."""

    at: float
    interval: int
    rate: float


class Layout(NamedTuple):
    """How a venue or a tool writes payments."""

    name: str
    """Name of the file, with the folders that the layout has."""
    write: Callable[[Sequence[Payment]], str]
    options: dict[str, Any]
    is_hourly: bool = False
    """The layout is of a venue that pays each hour."""
    is_stated: bool = False
    """Rows state their interval."""


def _ms(payment: Payment) -> int:
    return int(START.value // 10**6) + round(payment.at * 3_600_000)


def _text(payment: Payment, form: str) -> str:
    return f"{pd.Timestamp(_ms(payment), unit='ms'):{form}}"


def _csv(head: str, line: Callable[[Payment], str]) -> Callable[[Sequence[Payment]], str]:
    return lambda payments: "".join(f"{row}\n" for row in [*filter(None, [head]), *map(line, payments)])


def _json(row: Callable[[Payment], Any]) -> Callable[[Sequence[Payment]], str]:
    return lambda payments: json.dumps([row(payment) for payment in payments])


def _rate(payment: Payment) -> str:
    return f"{payment.rate:.10f}"


LAYOUTS = {
    "okx": Layout(
        "AAA-USDT-SWAP-fundingrates-2025-01.csv",
        _csv("instrument_name,funding_rate,funding_time", lambda p: f"AAA-USDT-SWAP,{_rate(p)},{_ms(p)}"),
        {"source": "okx"},
    ),
    "gate": Layout(
        "AAA_USDT-202501.csv", _csv("", lambda p: f"{_ms(p) // 1000},{_rate(p)}"), {"source": "gate"}
    ),
    "htx": Layout(
        "AAA-USDT-fundingrates.csv",
        _csv("instId,fundingRate,fundingTime", lambda p: f"AAA-USDT,{_rate(p)},{_ms(p)}"),
        {"source": "htx"},
    ),
    "kucoin": Layout(
        "AAAUSDTM-fundingRates-2025-01.csv",
        _csv("symbol,time,fundingRate", lambda p: f"AAAUSDTM,{_ms(p)},{_rate(p)}"),
        {"source": "kucoin"},
    ),
    "ccxt": Layout(
        "funding.json",
        _json(lambda p: {"symbol": "AAA/USDT:USDT", "fundingRate": p.rate, "timestamp": _ms(p)}),
        {"set": {"exchange": "bybit"}},
    ),
    "binance files": Layout(
        "AAAUSDT-fundingRate-2025-01.csv",
        _csv(
            "calc_time,funding_interval_hours,last_funding_rate",
            lambda p: f"{_ms(p)},{p.interval},{_rate(p)}",
        ),
        {"source": "binance"},
        is_stated=True,
    ),
    "binance answers": Layout(
        "rates.json",
        _json(
            lambda p: {"symbol": "AAAUSDT", "fundingTime": _ms(p), "fundingRate": _rate(p), "markPrice": "5"}
        ),
        {"source": "binance"},
    ),
    "binance page": Layout(
        "Funding Rate History_AAAUSDT Perpetual_2025-06-18.csv",
        _csv(
            "Time,Contracts,Funding Interval,Funding Rate",
            lambda p: f"{_text(p, '%Y-%m-%d %H:%M:%S')},AAAUSDT Perpetual,{p.interval}h,{p.rate * 100:.10f}%",
        ),
        {"source": "binance", "tz": "UTC"},
        is_stated=True,
    ),
    "candlefeed": Layout(
        "binance/AAAUSDT-funding.csv",
        _csv(
            "time,funding_rate,mark_price,interval_hours",
            lambda p: f"{_text(p, '%Y-%m-%d %H:%M:%S')}+00:00,{_rate(p)},5,{p.interval}",
        ),
        {"source": "candlefeed"},
        is_stated=True,
    ),
    "coinmetrics": Layout(
        "funding.csv",
        _csv(
            "market,time,database_time,rate,period,interval",
            lambda p: (
                f"binance-AAAUSDT-future,{_text(p, '%Y-%m-%dT%H:%M:%S')}.000000000Z,"
                f"{_text(p, '%Y-%m-%dT%H:%M:%S')}.000000000Z,{_rate(p)},{_span(p)},{_span(p)}"
            ),
        ),
        {"source": "coinmetrics"},
        is_stated=True,
    ),
    "bitmex": Layout(
        "funding.csv",
        _csv(
            "timestamp,symbol,fundingInterval,fundingRate,fundingRateDaily",
            lambda p: (
                f"{_text(p, '%Y-%m-%dT%H:%M:%S')}.000Z,AAAUSD,2000-01-{1 + p.interval // 24:02d}T"
                f"{p.interval % 24:02d}:00:00.000Z,{_rate(p)},{_rate(p)}"
            ),
        ),
        {"source": "bitmex"},
        is_stated=True,
    ),
    "freqtrade": Layout(
        "binance/futures/AAA_USDT_USDT-1h-funding_rate.json",
        _json(lambda p: [_ms(p), p.rate]),
        {"source": "freqtrade"},
    ),
    "quantconnect": Layout(
        "cryptofuture/binance/margin_interest/aaausdt.csv",
        _csv("", lambda p: f"{_text(p, '%Y%m%d %H:%M:%S')},{_rate(p)}"),
        {"source": "quantconnect", "tz": "UTC"},
    ),
    "deribit": Layout(
        "AAA-USD-funding.csv",
        _csv(
            "timestamp,index_price,prev_index_price,interest_8h,interest_1h",
            lambda p: f"{_ms(p)},5,5,{p.rate * 8:.10f},{_rate(p)}",
        ),
        {"source": "deribit"},
        is_hourly=True,
    ),
    "aevo": Layout(
        "funding-history.json",
        lambda payments: json.dumps(
            {"funding_history": [["AAA-PERP", str(_ms(p) * 10**6), _rate(p), "5"] for p in payments]}
        ),
        {"source": "aevo"},
        is_hourly=True,
    ),
    "hyperliquid": Layout(
        "funding.json",
        _json(
            lambda p: {"timestamp": _ms(p), "rate": p.rate, "instrument": "AAA-PERP", "source": "hyperliquid"}
        ),
        {"source": "hyperliquid-data"},
        is_hourly=True,
    ),
}
KINDS = ("okx", "binance files", "hyperliquid")
"""Layouts whose rows have no interval, an interval, and the layout of a venue that pays each hour."""


def _span(payment: Payment) -> str:
    """Return an interval as Coin Metrics writes it."""
    return "1.00:00:00" if payment.interval == 24 else f"{payment.interval:02d}:00:00"


def cases(intervals: Sequence[int], *values: Sequence[Any], step: int = 7) -> list[Any]:
    """Combine layouts, intervals and other values; hourly venues have only intervals of one hour.

    The long profile has all combinations, the gate one of each `step`.
    """
    combinations = product(sorted(LAYOUTS), intervals, *values)
    valid = [case for case in combinations if case[1] == 1 or not LAYOUTS[case[0]].is_hourly]
    return some(valid, step)


CHANGING = some([name for name in sorted(LAYOUTS) if not LAYOUTS[name].is_hourly], 3)
"""Layouts of venues whose intervals change."""


def schedule(*phases: tuple[int, int]) -> list[Payment]:
    """Draw payments in phases of (interval, count) with random rates."""
    payments: list[Payment] = []
    at = 0
    for interval, count in phases:
        for _ in range(count):
            at += interval
            payments.append(Payment(at, interval, (len(payments) % 7 + 1) * 1e-5))
    return payments


def import_one(layout: Layout, folder: Path, name: str, payments: Sequence[Payment]) -> Any:
    """Import one file into the archive of a folder."""
    path = folder / name / layout.name
    path.parent.mkdir(parents=True)
    path.write_text(layout.write(payments), encoding="utf-8")
    result = import_files("funding_settlements", str(path), str(folder / "archive"), **layout.options)
    assert result.rejected == 0, result
    return result


def imported(layout: Layout, folder: Path, *files: Sequence[Payment]) -> pd.DataFrame:
    """Import the files in turn, and return the rows that the archive serves."""
    for number, payments in enumerate(files):
        import_one(layout, folder, str(number), payments)
    return open_archive(folder / "archive").read("funding_settlements", *EVER)


def require(rows: pd.DataFrame, paid: Sequence[Payment], missing: Sequence[Payment]) -> None:
    """Compare the stored rows and their sums with the schedule, worked out payment by payment."""
    expected = [(START + pd.Timedelta(p.at, "h"), float(p.interval), p.rate) for p in paid]
    columns = rows.sort_values("time")[["time", "interval_hours", "rate_native"]]
    result = list(columns.itertuples(index=False, name=None))
    assert [row[:2] for row in result] == [row[:2] for row in expected]
    assert [row[2] for row in result] == pytest.approx([row[2] for row in expected], rel=1e-9)
    rates = [p.rate * 1e4 * 8 / p.interval for p in paid]
    assert rows.sort_values("time")["rate_bps_8h"].tolist() == pytest.approx(rates, rel=1e-9)
    total = funding.cumulative(dd.panel(rows), gaps="skip")
    assert float(total["funding_bps"].isel(time=-1).squeeze()) == pytest.approx(
        sum(p.rate for p in paid) * 1e4, rel=1e-9
    )
    assert float(total["missing_hours"].isel(time=-1).squeeze()) == sum(p.interval for p in missing)


@pytest.mark.parametrize(
    ("venue", "interval", "place", "count"), cases([1, 4, 8], [5, 14, 22], range(1, 13), step=31)
)
def test_missing_payments_do_not_change_other_rows(
    venue: str, interval: int, place: int, count: int, tmp_path: Path
) -> None:
    payments = schedule((interval, 40))
    paid, missing = [*payments[:place], *payments[place + count :]], payments[place : place + count]
    require(imported(LAYOUTS[venue], tmp_path, paid), paid, missing)


@pytest.mark.parametrize(("venue", "interval"), cases([1, 4]))
def test_two_nearby_gaps_are_reported_as_missing(venue: str, interval: int, tmp_path: Path) -> None:
    payments = schedule((interval, 30))
    missing = [*payments[10:12], *payments[13:15]]
    paid = [payment for payment in payments if payment not in missing]
    require(imported(LAYOUTS[venue], tmp_path, paid), paid, missing)


@pytest.mark.parametrize("venue", CHANGING)
def test_series_with_changing_intervals(venue: str, tmp_path: Path) -> None:
    payments = schedule((8, 6), (4, 6), (1, 8), (6, 6), (8, 6))
    require(imported(LAYOUTS[venue], tmp_path, payments), payments, [])


def test_changed_intervals_at_midnight_are_not_taken_for_another_zone(tmp_path: Path) -> None:
    """Payments of 8 h are not at multiples of 6 h, which is the median interval."""
    payments = schedule((8, 6), (4, 6), (1, 24), (6, 40), (8, 6))
    layout = LAYOUTS["quantconnect"]._replace(options={"source": "quantconnect"})
    require(imported(layout, tmp_path, payments), payments, [])


@pytest.mark.parametrize(("venue", "interval"), cases([2, 3, 6, 12, 24]))
def test_every_valid_interval_is_inferred(venue: str, interval: int, tmp_path: Path) -> None:
    payments = schedule((interval, 12))
    require(imported(LAYOUTS[venue], tmp_path, payments), payments, [])


@pytest.mark.parametrize(("venue", "interval"), cases([1, 4], step=4))
def test_later_file_completes_the_intervals_of_a_series(venue: str, interval: int, tmp_path: Path) -> None:
    """The first day has one payment; payments 9 and 10 come in a second file, with two that are stored."""
    payments = schedule((interval, 20))
    first = [payments[0], *payments[1:9], *payments[11:]]
    rows = imported(LAYOUTS[venue], tmp_path, first[:1], first[1:], payments[8:12])
    require(rows, payments, [])


@pytest.mark.parametrize("venue", CHANGING)
def test_gaps_between_interval_changes(venue: str, tmp_path: Path) -> None:
    """Two payments of 8 h, three of 4 h, four of 1 h and two of 6 h are missing, each within its phase."""
    payments = schedule((8, 12), (4, 13), (1, 14), (6, 12), (8, 6))
    missing: list[Payment] = []
    for interval, count in ((8, 2), (4, 3), (1, 4), (6, 2)):
        phase = [payment for payment in payments if payment.interval == interval]
        missing += phase[5 : 5 + count]
    paid = [payment for payment in payments if payment not in missing]
    require(imported(LAYOUTS[venue], tmp_path, paid), paid, missing)


@pytest.mark.parametrize(("venue", "interval", "count", "seconds"), cases([1, 4, 8], [2, 5, 8], [5, 1200]))
def test_payments_after_a_halt_are_stored_as_one_row(
    venue: str, interval: int, count: int, seconds: int, tmp_path: Path
) -> None:
    """They come 7 s apart after the hour of the last of them.

    Within a minute they are of that hour. Twenty minutes later they are of the next one, with the payment
    that is due then.
    """
    payments = schedule((interval, 40))
    held = payments[15 : 15 + count]
    hour = held[-1].at
    late = [p._replace(at=hour + (seconds + 7 * place) / 3600) for place, p in enumerate(held)]
    rows = imported(LAYOUTS[venue], tmp_path, [*payments[:15], *late, *payments[15 + count :]])
    stored = hour if seconds + 7 * (count - 1) <= 60 else hour + 1
    together = [*held, *(p for p in payments[15 + count :] if p.at == stored)]
    others = [(p.at, p.interval, p.rate, 1) for p in payments if p not in together]
    one_row = (stored, sum(p.interval for p in together), sum(p.rate for p in together), len(together))
    expected = sorted([*others, one_row])
    rows = rows.sort_values("time")
    assert rows["time"].tolist() == [START + pd.Timedelta(row[0], "h") for row in expected]
    assert rows["interval_hours"].tolist() == [row[1] for row in expected]
    assert rows["payment_count"].tolist() == [row[3] for row in expected]
    assert rows["rate_native"].tolist() == pytest.approx([row[2] for row in expected], rel=1e-9)
    total = funding.cumulative(dd.panel(rows), gaps="skip").isel(time=-1)
    assert float(total["funding_bps"].squeeze()) == pytest.approx(
        sum(p.rate for p in payments) * 1e4, rel=1e-9
    )
    assert float(total["missing_hours"].squeeze()) == 0.0


RATES = {
    "distinct": lambda place: (place % 7 - 3) * 1e-5,
    "equal": lambda place: -2e-5,
    "zero": lambda place: 0.0 if 12 <= place <= 22 else 2e-5,
}


def held_back(rates: str) -> tuple[list[Payment], int, int]:
    """Payments of 40 hours, of which four come twenty minutes late; the first of them, and the next hour."""
    whole = [p._replace(rate=RATES[rates](place)) for place, p in enumerate(schedule((1, 40)))]
    hour = int(whole[18].at)
    late = [p._replace(at=hour + (1200 + 7 * place) / 3600) for place, p in enumerate(whole[15:19])]
    return [*whole[:15], *late, *whole[19:]], 15, 19


ORDERS = ["rest", "whole", "overlap", "rest first", "whole first", "whole, rest"]


@pytest.mark.parametrize(("venue", "interval", "rates", "order"), cases([1], sorted(RATES), ORDERS, step=11))
def test_payments_after_a_halt_in_files_that_end_before_the_next_one(
    venue: str, interval: int, rates: str, order: str, tmp_path: Path
) -> None:
    """The row of the hour gets the missing part as a correction, and another import changes nothing."""
    paid, first, end = held_back(rates)
    early, rest = paid[:end], paid[end:]
    files = {
        "rest": [early, rest],
        "whole": [early, paid],
        "overlap": [early, paid[first - 8 :]],
        "rest first": [rest, early],
        "whole first": [paid, early],
        "whole, rest": [paid, rest],
    }[order]
    rows = imported(LAYOUTS[venue], tmp_path, *files).sort_values("time")
    times = [*range(1, 16), *range(20, 41)]
    assert rows["time"].tolist() == [START + pd.Timedelta(hour, "h") for hour in times]
    assert rows["payment_count"].tolist() == [5 if hour == 20 else 1 for hour in times]
    assert rows["interval_hours"].tolist() == [5 if hour == 20 else 1 for hour in times]
    pays = [p.rate for p in paid]
    expected = [*pays[:first], sum(pays[first : end + 1]), *pays[end + 1 :]]
    assert rows["rate_native"].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-15)
    bps = [pay * 8e4 / hours for pay, hours in zip(expected, rows["interval_hours"], strict=True)]
    assert rows["rate_bps_8h"].tolist() == pytest.approx(bps, rel=1e-9, abs=1e-11)
    log = open_archive(tmp_path / "archive").corrections()
    reasons = log["reason"].tolist().count("later rows have more payments of a halt")
    assert reasons == (not order.startswith("whole") or order == "whole")
    for number, payments in enumerate(files):
        assert import_one(LAYOUTS[venue], tmp_path, f"again {number}", payments).written == 0
    after = open_archive(tmp_path / "archive").read("funding_settlements", *EVER).sort_values("time")
    pd.testing.assert_frame_equal(after, rows)


CUT = ([5, 45, 1200, 2400], ["distinct", "zero"], [16, 17, 18], [False, True])
"""Seconds after the hour, rates, first payment of the second file, and whether it comes first."""


def late_payments(interval: int, rates: str, seconds: int) -> list[Payment]:
    """Return 40 payments, of which the 16th to the 19th come after the hour of the 19th."""
    paid = [p._replace(rate=RATES[rates](place)) for place, p in enumerate(schedule((interval, 40)))]
    hour = paid[18].at
    late = [p._replace(at=hour + (seconds + 7 * place) / 3600) for place, p in enumerate(paid[15:19])]
    return [*paid[:15], *late, *paid[19:]]


@pytest.mark.parametrize(
    ("venue", "interval", "seconds", "rates", "cut", "is_turned"), cases([1, 8], *CUT, step=47)
)
def test_halt_split_over_two_files_is_one_row(
    venue: str, interval: int, seconds: int, rates: str, cut: int, is_turned: bool, tmp_path: Path
) -> None:
    """The stored rows equal one file's, the log lists the change, and a second import writes 0 rows."""
    if rates == "zero" and seconds == 5:
        return  # equal payments within a minute of the hour may be one
    paid = late_payments(interval, rates, seconds)
    files = [paid[cut:], paid[:cut]] if is_turned else [paid[:cut], paid[cut:]]
    rows = imported(LAYOUTS[venue], tmp_path, *files).sort_values("time")
    last = 19 * interval + (seconds + 3 * 7 > 60)  # of 45 s, the last one alone comes after the minute
    count = 5 if last == 20 else 4  # with the payment of the next hour
    numbers = [*range(1, 16), *range(16 + count, 41)]
    hours = sorted([*(number * interval for number in numbers), last])
    assert rows["time"].tolist() == [START + pd.Timedelta(hour, "h") for hour in hours]
    assert rows["payment_count"].tolist() == [count if hour == last else 1 for hour in hours]
    assert rows["interval_hours"].tolist() == [interval * (count if hour == last else 1) for hour in hours]
    pays = [p.rate for p in paid]
    expected = [*pays[:15], sum(pays[15 : 15 + count]), *pays[15 + count :]]
    assert rows["rate_native"].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-15)
    log = open_archive(tmp_path / "archive").corrections()
    assert log["reason"].tolist().count("later rows have more payments of a halt") == 1
    for number, payments in enumerate(files):
        assert import_one(LAYOUTS[venue], tmp_path, f"again {number}", payments).written == 0
    after = open_archive(tmp_path / "archive").read("funding_settlements", *EVER).sort_values("time")
    pd.testing.assert_frame_equal(after, rows)


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("interval", [1, 8])
def test_halt_is_one_row_if_only_the_last_payment_is_late(
    interval: int, is_turned: bool, tmp_path: Path
) -> None:
    """The payments of 45, 52 and 59 s are in one file, and that of 66 s begins the other."""
    paid = late_payments(interval, "distinct", 45)
    files = [paid[18:], paid[:18]] if is_turned else [paid[:18], paid[18:]]
    rows = imported(LAYOUTS["okx"], tmp_path, *files).sort_values("time")
    together = paid[15:20] if interval == 1 else paid[15:19]
    row = rows[rows["payment_count"] > 1].squeeze()
    assert row["time"] == START + pd.Timedelta(19 * interval + 1, "h")
    assert (row["payment_count"], row["interval_hours"]) == (len(together), interval * len(together))
    assert row["rate_native"] == pytest.approx(sum(p.rate for p in together), abs=1e-15)
    assert rows["rate_native"].sum() == pytest.approx(sum(p.rate for p in paid), rel=1e-9)


@pytest.mark.parametrize("venue", KINDS)
def test_files_overlapping_within_a_halt_must_be_imported_together(venue: str, tmp_path: Path) -> None:
    """The first file has payments 16 and 17, the second one 17 to 20: sums do not show which they share."""
    paid = late_payments(1, "distinct", 1200)
    first = import_one(LAYOUTS[venue], tmp_path, "first", paid[:17])
    second = import_one(LAYOUTS[venue], tmp_path, "second", paid[16:])
    assert (first.differing, second.differing) == (0, 1)
    advice = "import the files with payments of this halt in one command"
    assert any(advice in notice for notice in second.notices)
    import_one(LAYOUTS[venue], tmp_path, "whole", paid)
    rows = open_archive(tmp_path / "archive").read("funding_settlements", *EVER)
    assert rows["payment_count"].sum() == 40
    assert rows["rate_native"].sum() == pytest.approx(sum(p.rate for p in paid), rel=1e-9)


@pytest.mark.parametrize("venue", some(sorted(LAYOUTS), 5))
def test_equal_payments_after_a_halt_are_counted_despite_repeated_rows(venue: str, tmp_path: Path) -> None:
    paid, first, end = held_back("equal")
    rows = imported(LAYOUTS[venue], tmp_path, [*paid[:6], *paid[3:8], *paid[8:end], *paid[first:]])
    assert rows["payment_count"].sum() == 40
    assert rows["rate_native"].sum() == pytest.approx(40 * -2e-5, rel=1e-9)


def test_halt_with_further_missing_payments_is_a_contradiction(tmp_path: Path) -> None:
    """Next to two late payments of four, it is uncertain whether one of them belongs to the hour."""
    paid, first, end = held_back("distinct")
    venue = LAYOUTS["okx"]
    before = imported(venue, tmp_path, [*paid[: first + 1], *paid[first + 3 : end]])
    assert before["payment_count"].max() == 2
    rest = open_archive(tmp_path / "archive").read("funding_settlements", *EVER).tail(1)
    rest = rest.assign(rate_native=paid[end].rate, payment_count=1, interval_hours=1.0)
    rest = rest.assign(rate_bps_8h=paid[end].rate * 8e4)
    with pytest.raises(dd.errors.ArchiveError, match=r"AAA on okx has two rates.*nothing was appended"):
        open_archive(tmp_path / "archive").append("funding_settlements", rest)


@pytest.mark.parametrize(("venue", "interval"), cases([1, 8], step=5))
def test_single_payment_on_the_listing_day_is_counted(venue: str, interval: int, tmp_path: Path) -> None:
    """Its interval is unknown from the file unless rows state it; the next file determines it."""
    payments = schedule((interval, 8))
    rows = imported(LAYOUTS[venue], tmp_path, payments[:1])
    assert rows["rate_native"].tolist() == pytest.approx([payments[0].rate], rel=1e-9)
    if LAYOUTS[venue].is_stated or LAYOUTS[venue].is_hourly:
        assert rows["interval_hours"].tolist() == [interval]
    else:
        assert rows["interval_hours"].isna().all()
    import_one(LAYOUTS[venue], tmp_path, "rest", payments[1:])
    require(open_archive(tmp_path / "archive").read("funding_settlements", *EVER), payments, [])


@pytest.mark.parametrize("venue", KINDS)
def test_two_rates_of_one_payment_are_named(venue: str, tmp_path: Path) -> None:
    """In one file the first is used, and of two files the stored one."""
    payments = schedule((1, 12))
    other = payments[5]._replace(rate=payments[5].rate + 5e-4)
    time = "2025-01-01T06:00:00.000Z"
    both = f"has two rates: {time} with rate 6e-05 and {time} with rate 0.00056"
    in_file = import_one(LAYOUTS[venue], tmp_path, "one", [*payments[:6], other, *payments[6:]])
    assert (in_file.written, in_file.differing) == (12, 1)
    assert any(both in notice and "the first is used" in notice for notice in in_file.notices)
    later = import_one(LAYOUTS[venue], tmp_path, "two", [other])
    assert (later.written, later.differing) == (0, 1)
    assert any(both in notice and "the first is stored" in notice for notice in later.notices)
    require(open_archive(tmp_path / "archive").read("funding_settlements", *EVER), payments, [])


@pytest.mark.parametrize(
    ("factor", "count", "text"),
    [(1.0, (2, 0), "states 8 h: the stored row is kept"), (2.0, (0, 2), "has two rates")],
)
def test_payment_with_another_stated_interval_must_have_the_same_sum(
    factor: float, count: tuple[int, int], text: str, tmp_path: Path
) -> None:
    """With twice the sum the rate per 8 hours is equal, and the payment is another one."""
    payments = schedule((4, 12))
    layout = LAYOUTS["binance files"]
    import_one(layout, tmp_path, "one", payments)
    others = [p._replace(interval=8, rate=p.rate * factor) for p in payments[3:5]]
    result = import_one(layout, tmp_path, "two", others)
    assert (result.written, result.present, result.differing) == (0, *count)
    assert sum(text in notice for notice in result.notices) == 2
    require(open_archive(tmp_path / "archive").read("funding_settlements", *EVER), payments, [])


def test_stated_interval_completes_a_payment_without_clear_spacing(tmp_path: Path) -> None:
    paid = schedule((4, 2))
    before = imported(LAYOUTS["binance answers"], tmp_path, paid)
    assert before["interval_hours"].isna().all()
    result = import_one(LAYOUTS["binance files"], tmp_path, "stated", paid)
    assert (result.written, result.present) == (0, 2)
    stored = open_archive(tmp_path / "archive").read("funding_settlements", *EVER)
    assert stored["interval_hours"].tolist() == [4.0, 4.0]
    assert stored["interval_source"].astype(str).tolist() == ["row", "row"]
    assert stored["rate_bps_8h"].tolist() == pytest.approx([0.2, 0.4], rel=1e-9)
