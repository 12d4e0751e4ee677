"""Quality finds what is wrong, in made-up series and in recorded ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from derivdata import tables
from derivdata.analysis.quality import quality
from tests.shared import shared_path


def series(hours: list[float], values: list[float] | None = None, **columns: object) -> pd.DataFrame:
    at = pd.Timestamp("2026-01-01", tz="UTC")
    numbers = np.arange(len(hours), dtype=float) if values is None else np.array(values, dtype=float)
    times = [at + pd.Timedelta(h, "h") for h in hours]
    return pd.DataFrame({"symbol": "BTC", "exchange": "a", "time": times, "rate_bps_8h": numbers, **columns})


def only(frame: pd.DataFrame, **options: object) -> pd.Series:
    report = quality(frame, **options)  # type: ignore[arg-type]
    assert len(report) == 1
    return report.iloc[0]


def test_a_whole_series_has_nothing_to_say() -> None:
    report = quality(series(list(range(48))))
    row = report.iloc[0]
    assert (row["expected"], row["present"], row["missing"], row["gaps"]) == (48, 48, 0, 0)
    assert row["step_hours"] == 1
    assert (row["duplicates"], row["repeated_pages"], row["frozen"], row["outliers"]) == (0, 0, 1, 0)
    assert report.attrs["summary"] == "1 series, 48 points, 100.00% of those expected"


def test_gaps_are_counted_in_points_and_measured_in_hours() -> None:
    row = only(series([0, 1, 2, 3, 4, 8, 9, 10, 12, 13]))
    assert (row["missing"], row["gaps"], row["longest_gap_hours"], row["expected"]) == (4, 2, 4.0, 14)
    assert row["interval_changes"] == 0, "a longer gap is missing data, not another interval"


def test_an_interval_change_is_three_gaps_in_a_row() -> None:
    row = only(series([0, 8, 16, 24, 32, 40, 44, 48, 52, 56]))
    assert row["interval_changes"] == 1
    assert row["missing"] == 0
    slower = only(series([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 20, 24]))
    assert slower["interval_changes"] == 1
    assert slower["missing"] == 0


def test_duplicates_conflicts_and_repeated_pages() -> None:
    frame = series(list(range(10)))
    paged = pd.concat([frame, frame.iloc[3:9]])
    row = only(paged)
    assert (row["duplicates"], row["conflicts"], row["repeated_pages"], row["present"]) == (6, 0, 1, 10)
    clash = pd.concat([frame, frame.iloc[[2]].assign(rate_bps_8h=99.0)])
    row = only(clash)
    assert (row["duplicates"], row["conflicts"], row["repeated_pages"]) == (1, 1, 0)
    assert "6 duplicates" in quality(paged).attrs["summary"]


def test_frozen_capped_missing_and_outlying_values() -> None:
    values = [1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 3.0, 1.5, 2.5, 500.0, np.nan, 2.0]
    row = only(series(list(range(12)), values))
    assert row["frozen"] == 4
    assert row["nulls"] == 1
    assert row["outliers"] == 1
    capped = only(series(list(range(10)), [3, 3, 1, 3, 2, 3, 3, 2, 3, 1]))
    assert (capped["at_high_share"], capped["at_low_share"]) == (0.6, 0.2)


def test_clamped_start_and_open_last_bucket_come_from_what_was_asked() -> None:
    frame = series(list(range(10)), resolution="1h")
    frame.attrs["provenance"] = {
        "as_of": "2026-01-01T09:30:00Z",
        "requests": [{"query": {"start": "2025-12-01T00:00:00Z", "symbol": "BTC"}}],
    }
    row = only(frame)
    assert row["clamped"]
    assert row["open_last_bucket"], "09:00 to 10:00 had not ended at 09:30"
    assert not only(frame, end="2026-01-01T10:00")["open_last_bucket"]
    assert not only(frame, start="2026-01-01")["clamped"]
    assert not only(frame.assign(resolution="raw"))["open_last_bucket"]


def test_series_are_kept_apart_and_tables_are_taken_as_they_are() -> None:
    two = pd.concat([series([0, 1, 2]), series([0, 1, 2, 9]).assign(exchange="b")])
    report = quality(two).set_index("exchange")
    assert report["missing"].to_dict() == {"a": 0, "b": 6}
    table = tables.FUNDING_HISTORY.conform(two.assign(resolution="1h", kind="sampled"))
    assert quality(table)["missing"].tolist() == [0, 6]
    assert quality(table.iloc[:0]).attrs["summary"] == "no rows"


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="no column 'iv2'"):
        quality(series([0, 1]), column="iv2")
    with pytest.raises(ValueError, match="no zone"):
        quality(series([0, 1]).assign(time=pd.date_range("2026", periods=2)))
    with pytest.raises(ValueError, match="which column is the value"):
        quality(pd.DataFrame({"time": pd.to_datetime(["2026-01-01T00Z"]), "x": [1.0], "y": [2.0]}))


def recorded(name: str, zone: str) -> pd.DataFrame:
    frame = pd.read_csv(shared_path(f"data/funding_2020_2023/{name}"))
    times = pd.to_datetime(frame["Date"], format="ISO8601").dt.tz_localize(zone).dt.tz_convert("UTC")
    return pd.DataFrame({"time": times, "rate": frame["Funding Rate"]})


def test_the_december_hole_of_gate_is_found() -> None:
    row = only(recorded("BTC-USDT_gate_2020-01-01_2024-01-01_funding_history.csv", "UTC"), column="rate")
    assert row["step_hours"] == 8
    assert row["longest_gap_hours"] > 30 * 24, "December 2020 is not there"
    assert 90 <= row["missing"] <= 100


def test_the_day_that_htx_lacks_is_found() -> None:
    row = only(recorded("BTC-USDT_htx_2021-01-01_2024-01-01_funding_history.csv", "Etc/GMT-3"), column="rate")
    assert row["longest_gap_hours"] == 24
    assert row["missing"] == 2


def test_dydx_is_hourly_and_its_stamps_lie_on_the_hour() -> None:
    row = only(recorded("BTC-USDT_dydx_2022-01-01_2024-01-01_funding_history.csv", "UTC"), column="rate")
    assert row["step_hours"] == 1


def test_milliseconds_in_stamps_are_no_gaps() -> None:
    row = only(
        recorded("BTC-USDT_binance_2020-01-01_2024-01-01_funding_history.csv", "Etc/GMT-3"), column="rate"
    )
    assert row["step_hours"] == pytest.approx(8, abs=1e-3)
    assert row["missing"] == 0
