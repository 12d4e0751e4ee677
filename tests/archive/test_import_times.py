"""Times of files: zones, the hours when clocks change, numbers since 1970."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from derivdata.sources.archive.importing import Imported
from derivdata.sources.archive.importing.row_checks import refuse_local_times
from tests.archive.rates import EVER


def taken(folder: Path, times: list[str], tz: str | None, symbols: str = "A") -> tuple[list[str], Imported]:
    folder.mkdir(exist_ok=True)
    path = folder / "in.csv"
    named = symbols.split() * len(times)
    lines = [f"{symbol},{time},5" for symbol, time in zip(named, times, strict=False)]
    path.write_text("\n".join(["symbol,time,oi_usd", *lines]))
    result = import_files("oi_history", path, folder / "to", set={"exchange": "x"}, tz=tz)
    rows = open_archive(folder / "to").read("oi_history", *EVER)
    return [stamp.strftime("%Y-%m-%dT%H:%M:%S.%f").rstrip("0").rstrip(".") for stamp in rows["time"]], result


@pytest.mark.parametrize(
    ("given", "tz", "utc"),
    [
        ("2020-01-01 03:00:00", "UTC+3", "2020-01-01T00:00:00"),
        ("2020-01-01 03:00:00.000", "+03:00", "2020-01-01T00:00:00"),
        ("2020-01-01 03:00:00", "UTC-3:30", "2020-01-01T06:30:00"),
        ("2020-01-01T03:00:00.005", "UTC", "2020-01-01T03:00:00.005"),
        ("2020-01-01", "UTC", "2020-01-01T00:00:00"),
        ("2023-07-01 01:00", "Europe/London", "2023-07-01T00:00:00"),
        ("2023-01-01 01:00", "Europe/London", "2023-01-01T01:00:00"),
        ("2020-01-01T00:00:00Z", "Europe/London", "2020-01-01T00:00:00"),
        ("2020-01-01T03:00:00+03:00", None, "2020-01-01T00:00:00"),
        ("2020-01-01T01:00:00+01:00[Europe/Berlin]", None, "2020-01-01T00:00:00"),
        ("2020-01-01 01:00:00 CET", None, "2020-01-01T00:00:00"),
        ("2020-01-01D03:00:00.005000000", None, "2020-01-01T03:00:00.005"),
        ("2020-01-01 03:00:00+00", None, "2020-01-01T03:00:00"),
        ("1577836800", None, "2020-01-01T00:00:00"),
        ("1577836800.5", "Europe/London", "2020-01-01T00:00:00.5"),
        ("1577836800123", None, "2020-01-01T00:00:00.123"),
        ("1577836800123456", None, "2020-01-01T00:00:00.123456"),
        ("1577836800123456789", None, "2020-01-01T00:00:00.123456"),
        ("1.5778368e9", None, "2020-01-01T00:00:00"),
    ],
)
def test_one_instant(tmp_path: Path, given: str, tz: str | None, utc: str) -> None:
    assert taken(tmp_path, [given], tz)[0] == [utc]


def test_repeated_local_hour_is_resolved_by_neighbouring_rows(tmp_path: Path) -> None:
    """On 29 October 2023 London's clock showed 01:00 at 00:00 and at 01:00 UTC."""
    eight_hourly = ["2023-10-28 17:00", "2023-10-29 01:00", "2023-10-29 08:00"]
    found, _ = taken(tmp_path, eight_hourly, "Europe/London")
    assert found == ["2023-10-28T16:00:00", "2023-10-29T00:00:00", "2023-10-29T08:00:00"]
    hourly = [f"2023-10-29 0{hour}:00" for hour in (0, 0, 1, 1, 1, 1, 2, 2)]
    found, result = taken(tmp_path / "hourly", hourly, "Europe/London", "A B")
    one = ["2023-10-28T23:00:00", "2023-10-29T00:00:00", "2023-10-29T01:00:00", "2023-10-29T02:00:00"]
    assert found == one * 2
    assert result.written == 8
    twice = [f"2023-10-29 0{hour}:00" for hour in (0, 0, 1, 1, 2, 2)]
    found, result = taken(tmp_path / "twice", twice, "Europe/London")
    assert found == ["2023-10-28T23:00:00", "2023-10-29T00:00:00", "2023-10-29T02:00:00"]
    assert (result.written, result.present) == (3, 3)
    forward = ["00:30", "01:00", "01:30", "01:00", "01:30", "02:00"]
    hours = [
        "2023-10-28T23:30",
        "2023-10-29T00:00",
        "2023-10-29T00:30",
        "2023-10-29T01:00",
        "2023-10-29T01:30",
    ]
    for name, order in (("a", forward), ("b", forward[::-1])):
        found, result = taken(tmp_path / name, [f"2023-10-29 {t}" for t in order], "Europe/London")
        assert found == [f"{hour}:00" for hour in [*hours, "2023-10-29T02:00"]]
        assert result.rejected == 0


def test_descending_file_resolves_the_repeated_local_hour(tmp_path: Path) -> None:
    """New York set its clock back on 2 November 2025 at 06:00 UTC; each row's price is its hour in UTC."""
    local = ["00:00", "01:00", "01:00", "02:00", "03:00"]
    lines = [f"A,x,2025-11-02 {hour},{utc}" for utc, hour in zip((4, 5, 6, 7, 8), local, strict=True)]
    path = tmp_path / "in.csv"
    path.write_text("\n".join(["symbol,exchange,time,oi_usd", *lines[::-1]]))
    import_files("oi_history", path, tmp_path / "to", tz="America/New_York")
    rows = open_archive(tmp_path / "to").read("oi_history", *EVER)
    assert [(t.hour, usd) for t, usd in zip(rows["time"], rows["oi_usd"], strict=True)] == [
        (hour, float(hour)) for hour in (4, 5, 6, 7, 8)
    ]


def test_repeated_local_hour_in_an_unsorted_file_is_rejected(tmp_path: Path) -> None:
    shuffled = [f"2023-10-29 {t}" for t in ("03:00", "01:00", "00:00", "04:00", "01:00", "02:00")]
    found, result = taken(tmp_path, shuffled, "Europe/London")
    assert found == [f"2023-10-{day}:00:00" for day in ("28T23", "29T02", "29T03", "29T04")]
    assert result.first_rejected == (
        "in.csv, line 3: time='2023-10-29 01:00' occurs twice because the clock was set back, and the file "
        "is not sorted: sort it by time"
    )
    shuffled = [f"2023-10-29 {t}" for t in ("03:00", "01:00", "00:00", "04:00", "02:00")]
    found, result = taken(tmp_path / "once", shuffled, "Europe/London")
    assert found == [f"2023-10-{day}:00:00" for day in ("28T23", "29T00", "29T02", "29T03", "29T04")]
    assert result.rejected == 0
    found, result = taken(tmp_path / "skipped", ["2023-03-26 00:30", "2023-03-26 01:30"], "Europe/London")
    assert found == ["2023-03-26T00:30:00"]
    assert result.first_rejected == (
        "in.csv, line 3: time='2023-03-26 01:30' does not exist in Europe/London, because the clock was "
        "set forward"
    )
    times = ["2020-01-01 03:00", "2020-01-01T03:00Z", "1577836800"]
    found, _ = taken(tmp_path / "mixed", times, "UTC+3", "A B C")
    assert found == ["2020-01-01T00:00:00", "2020-01-01T03:00:00", "2020-01-01T00:00:00"]


def test_a_numeric_column_of_parquet_is_read_since_1970(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"symbol": "A", "exchange": "x", "time": [1577836800123, 1577836801123], "oi_usd": [1, 2]}
    )
    frame.to_parquet(tmp_path / "in.parquet")
    import_files("oi_history", tmp_path / "in.parquet", tmp_path / "to")
    rows = open_archive(tmp_path / "to").read("oi_history", *EVER)
    assert rows["time"].iloc[0] == pd.Timestamp("2020-01-01T00:00:00.123", tz="UTC")


@pytest.mark.parametrize("tz", ["UTC+24", "Mars/Base", "../etc/passwd", ""])
def test_invalid_time_zones_raise(tmp_path: Path, tz: str) -> None:
    with pytest.raises(ValueError, match="tz="):
        taken(tmp_path, ["2020-01-01"], tz)


def test_times_without_a_zone_are_read_as_utc_and_reported(tmp_path: Path) -> None:
    stored, result = taken(tmp_path, ["2026-03-01 00:00", "2026-03-01 01:00"], None)
    assert stored == ["2026-03-01T00:00:00", "2026-03-01T01:00:00"]
    assert (
        "zone      UTC, because the times have no zone (pass --tz ZONE if they are local times)"
        in result.understood
    )
    _, zoned = taken(tmp_path / "zoned", ["2026-03-01T00:00Z", "2026-03-01T01:00Z"], None)
    assert "zone      from the file" in zoned.understood


def test_rows_off_the_utc_grid_ask_for_the_zone(tmp_path: Path) -> None:
    """Rows each 8 hours of London are at 00, 08 and 16 in winter, and at 01, 09 and 17 in summer."""
    winter = [f"2026-03-2{day} {hour}:00" for day in (7, 8) for hour in ("00", "08", "16")]
    summer = [f"2026-03-{day} {hour}:00" for day in (30, 31) for hour in ("01", "09", "17")]
    with pytest.raises(
        ArchiveError, match="6 rows, first 2026-03-30 01:00, are not at a multiple of 8 hours"
    ):
        taken(tmp_path, winter + summer, None)
    stored, result = taken(tmp_path, winter + summer, "Europe/London")
    assert result.written == 12
    assert stored[6] == "2026-03-30T00:00:00"
    assert taken(tmp_path / "utc", winter, None)[1].written == 6


def test_an_hour_that_is_missing_as_clocks_are_set_forward_asks_for_the_zone(tmp_path: Path) -> None:
    hours = [f"2026-03-29 {hour:02}:00" for hour in (0, 2, 3, 4, 5)]  # London's clock skips 01:00
    with pytest.raises(ArchiveError, match="jump to 2026-03-29 02:00, as when clocks are set forward"):
        taken(tmp_path, hours, None)
    stored, _ = taken(tmp_path, hours, "Europe/London")
    assert stored == [f"2026-03-29T0{hour}:00:00" for hour in range(5)]
    assert taken(tmp_path / "utc", hours, "UTC")[1].written == 5


def test_an_hour_twice_where_clocks_are_set_back_asks_for_the_zone(tmp_path: Path) -> None:
    """Berlin, 2025-10-26: 02:00 comes twice, at 00:00 and 01:00 UTC."""
    local = pd.date_range("2025-10-25 22:00", "2025-10-26 03:00", freq="1h", tz="UTC").tz_convert(
        "Europe/Berlin"
    )
    lines = [f"{time:%d.%m.%Y %H:%M},BTC,{8e9 + place}" for place, time in enumerate(local)]
    path = tmp_path / "okx_berlin.csv"
    path.write_text("\n".join(["time,symbol,oi_usd", *lines]) + "\n")
    with pytest.raises(
        ArchiveError, match="the hour 2025-10-26 02:00 occurs twice, as when clocks are set back"
    ):
        import_files(None, path, tmp_path / "to")
    assert import_files(None, path, tmp_path / "to", tz="Europe/Berlin").written == 6
    rows = open_archive(tmp_path / "to").read("oi_history", *EVER)
    assert rows["oi_usd"].tolist() == [8e9 + place for place in range(6)]


def test_midnight_repeated_in_two_pages_is_not_a_clock_change(tmp_path: Path) -> None:
    """Hourly UTC rows of October 2025 in daily pages that share midnight, Sundays included."""
    days = pd.date_range("2025-10-01", "2025-10-31", freq="D")
    pages = [pd.date_range(day, periods=25, freq="1h") for day in days]
    times = [f"{stamp:%Y-%m-%d %H:%M}" for page in pages for stamp in page]
    assert len(taken(tmp_path, times, None)[0]) == 31 * 24 + 1


def test_bitmex_pays_at_four_and_its_candles_begin_at_midnight() -> None:
    for hour, column, is_right in (
        (0, "price_usd", True), (4, "rate_bps_8h", True), (0, "rate_bps_8h", False), (3, "price_usd", False)
    ):  # fmt: skip
        stamps = pd.date_range(f"2025-06-01 {hour:02}:00", periods=40, freq="8h", tz="UTC")
        frame = pd.DataFrame({"symbol": "BTC", "exchange": "bitmex", "time": stamps, column: 1.0})
        if is_right:
            refuse_local_times(frame)
        else:
            with pytest.raises(ArchiveError, match="not at a multiple of 8 hours"):
                refuse_local_times(frame)
