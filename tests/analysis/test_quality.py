import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter

from derivdata import tables
from derivdata.analysis.quality import gaps, peers, quality
from tests.analysis import injected_faults


def series(hours: list[float], values: list[float] | None = None, **columns: object) -> pd.DataFrame:
    at = pd.Timestamp("2026-01-01", tz="UTC")
    numbers = np.arange(len(hours), dtype=float) if values is None else np.array(values, dtype=float)
    times = [at + pd.Timedelta(h, "h") for h in hours]
    return pd.DataFrame({"symbol": "BTC", "exchange": "a", "time": times, "rate_bps_8h": numbers, **columns})


def only(frame: pd.DataFrame, **options: object) -> pd.Series:
    report = quality(frame, **options)  # type: ignore[arg-type]
    assert len(report) == 1
    return report.iloc[0]


def test_complete_series_has_no_findings() -> None:
    report = quality(series(list(range(48))))
    row = report.iloc[0]
    assert (row["expected"], row["present"], row["missing"], row["gaps"]) == (48, 48, 0, 0)
    assert row["step_hours"] == 1
    assert (row["duplicates"], row["repeated_pages"], row["frozen"], row["outliers"]) == (0, 0, 1, 0)
    assert report.attrs["summary"] == "1 series, 48 points, 100.00% of those expected"


def test_gaps_are_counted() -> None:
    """Hours 5, 6, 7 and 11 are missing."""
    row = only(series([0, 1, 2, 3, 4, 8, 9, 10, 12, 13]))
    assert (row["missing"], row["gaps"], row["longest_gap_hours"], row["expected"]) == (4, 2, 4.0, 14)
    assert row["interval_changes"] == 0


@pytest.mark.parametrize(
    "hours", [[0, 8, 16, 24, 32, 40, 44, 48, 52, 56], [*range(13), 16, 20, 24]], ids=["8 to 4 h", "1 to 4 h"]
)
def test_three_equal_gaps_change_the_interval(hours: list[float]) -> None:
    row = only(series(hours))
    assert row["interval_changes"] == 1
    assert row["missing"] == 0


def test_every_second_row_of_a_day_is_missing_data() -> None:
    """Hourly rows of three days, but every second row of the second day."""
    hours = [*range(24), *range(25, 49, 2), *range(49, 73)]
    row = only(series(hours))
    assert row["interval_changes"] == 0
    assert (row["missing"], row["gaps"]) == (73 - len(set(hours)), 13)


def test_payments_at_four_o_clock_are_on_schedule() -> None:
    """Some venues pay at 04:00, 12:00 and 20:00, and some a second late."""
    row = only(series([4, 12.0001, 20.0002, 28, 36.0001]))
    assert (row["missing"], row["gaps"], row["off_schedule"]) == (0, 0, 0)


def test_duplicates_conflicts_and_repeated_pages() -> None:
    frame = series(list(range(10)))
    paged = pd.concat([frame, frame.iloc[3:9]])
    row = only(paged)
    assert (row["duplicates"], row["conflicts"], row["repeated_pages"], row["present"]) == (6, 0, 1, 10)
    clash = pd.concat([frame, frame.iloc[[2]].assign(rate_bps_8h=99.0)])
    row = only(clash)
    assert (row["duplicates"], row["conflicts"], row["repeated_pages"]) == (1, 1, 0)
    assert "6 duplicates" in quality(paged).attrs["summary"]
    late = frame.iloc[[5]].assign(time=lambda f: f["time"] + pd.Timedelta("30s"))
    paid = pd.concat([frame, late]).assign(interval_hours=1.0)
    row = only(paid)
    assert (row["duplicates"], row["conflicts"], row["present"], row["missing"]) == (1, 0, 10, 0)
    assert only(paid.drop(columns="interval_hours"))["duplicates"] == 0, "samples may come every 30 seconds"


def test_clean_series_have_no_sign_finding() -> None:
    """Five venues about a common rate of 0.3, each with half a step's memory of nine: below 1 %."""
    claimed = 0
    for seed in range(40):
        rng, phi = np.random.default_rng(seed), 0.5 ** (1 / 9)
        shocks = rng.standard_normal((6, 1392))
        slow = np.sqrt(1 - phi**2) * lfilter([1.0], [1.0, -phi], shocks, axis=1)[:, 300:]
        values = 0.3 + slow[:1] + 0.7 * slow[1:]
        claimed += int(peers.compare(values, peers.median_of_others(values)).sign_change.sum())
    assert claimed <= 2
    values[2, 500:] *= -1.0
    others = peers.median_of_others(values)
    assert peers.compare(values, others).sign_change.tolist() == [False] * 2 + [True] + [False] * 2
    # As many steps in nine days: a rate may have another sign than others for so long.
    assert not peers.compare(values, others, days=9.0).sign_change.any()


def test_negative_rate_that_moves_with_peers_has_no_sign_finding() -> None:
    common = np.random.default_rng(2).uniform(-1.0, 1.0, 200)
    values = 3.0 + np.stack([common, common, common, common])
    values[0, 120:] -= 5.0
    result = peers.compare(values, peers.median_of_others(values))
    assert not result.sign_change.any()
    values[0, 120:] = -values[1, 120:]
    assert peers.compare(values, peers.median_of_others(values)).sign_change.tolist() == [True] + [False] * 3


def test_frozen_capped_missing_and_outlying_values() -> None:
    values = [1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 3.0, 1.5, 2.5, 500.0, np.nan, 2.0]
    row = only(series(list(range(12)), values))
    assert row["frozen"] == 4
    assert row["nulls"] == 1
    assert row["outliers"] == 1
    assert row["at_high_share"] == pytest.approx(1 / 11), "500 once of eleven values; the missing one is none"
    capped = only(series(list(range(10)), [3, 3, 1, 3, 2, 3, 3, 2, 3, 1]))
    assert (capped["at_high_share"], capped["at_low_share"]) == (0.6, 0.2)


def test_completeness_is_measured_within_the_requested_window() -> None:
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
    frame = series(list(range(24)))
    assert not only(frame, end="2026-01-02")["clamped_end"]
    assert not only(frame, end="2026-01-02T02:00")["clamped_end"], "two steps are no clamp"
    assert only(frame, end="2026-01-02T03:00")["clamped_end"]
    for expiry, missing in ((pd.Timestamp("2026-01-02T00:00Z"), 0), (pd.Timestamp("2026-01-05T00:00Z"), 24)):
        row = only(frame.assign(expiry=expiry), end="2026-01-03")  # nothing is missing after an expiry
        assert (row["missing"], row["clamped_end"]) == (missing, missing > 0)


def test_expected_points_are_counted_over_the_requested_window() -> None:
    """A day of hours in a window of two days and four hours; one time, whose step the table states."""
    row = only(series(list(range(24))), start="2025-12-31", end="2026-01-02T04:00")
    assert row[["expected", "present", "missing", "gaps"]].tolist() == [52, 24, 28, 2]
    assert row["longest_gap_hours"] == 24, "before the first; 5 after the last"
    row = only(series([0], resolution="1h"), start="2025-12-30T23:30", end="2026-01-01T00:30")
    assert row[["expected", "present", "missing"]].tolist() == [25, 1, 24]
    assert only(series([0]), start="2025-12-30")["expected"] == 1, "no step is known"


def listed_gaps(frame: pd.DataFrame, **options: object) -> list[tuple[str, str, str, int]]:
    """Return venue, day and hour of start and end, and missing rows of each gap."""
    table = gaps(frame, **options)  # type: ignore[arg-type]
    start, end = (table[name].dt.strftime("%m-%dT%H:%M") for name in ("start", "end"))
    return list(zip(table["exchange"], start, end, table["missing"], strict=True))


def test_gaps_lists_the_missing_rows_of_each_series_by_time() -> None:
    # Venue a lacks 05:00 to 07:00 and 11:00. Venue b has twice as many rows and lacks none, c lacks 02:00.
    first = series([0, 1, 2, 3, 4, 8, 9, 10, 12, 13])
    whole = series(list(range(30))).assign(exchange="b")
    last = series([0, 1, 3]).assign(exchange="c")
    rows = pd.concat([last, whole, first]).sample(frac=1.0, random_state=1)
    assert listed_gaps(rows) == [
        ("a", "01-01T05:00", "01-01T08:00", 3),
        ("a", "01-01T11:00", "01-01T12:00", 1),
        ("c", "01-01T02:00", "01-01T03:00", 1),
    ]
    assert list(gaps(rows)) == ["symbol", "exchange", "start", "end", "missing"]
    assert listed_gaps(whole) == []
    assert listed_gaps(rows.iloc[:0]) == []


def test_gaps_include_both_ends_of_the_requested_window() -> None:
    """Rows of one day, in windows from the day before to the next, also between rows."""
    day = series(list(range(24)))
    assert listed_gaps(day, start="2025-12-31", end="2026-01-02T04:00") == [
        ("a", "12-31T00:00", "01-01T00:00", 24),
        ("a", "01-02T00:00", "01-02T04:00", 4),
    ]
    # 21:00, 22:00 and 23:00 of the day before; 00:00 to 03:00 of the next, of which 03:00 ends at 04:00.
    assert listed_gaps(day, start="2025-12-31T20:30", end="2026-01-02T03:30") == [
        ("a", "12-31T21:00", "01-01T00:00", 3),
        ("a", "01-02T00:00", "01-02T04:00", 4),
    ]
    assert listed_gaps(day, start="2025-12-31T22:00", end="2026-01-02T02:00") == [], "two steps at each end"


def test_series_are_examined_separately_in_every_table() -> None:
    two = pd.concat([series([0, 1, 2]), series([0, 1, 2, 9]).assign(exchange="b")])
    report = quality(two).set_index("exchange")
    assert report["missing"].to_dict() == {"a": 0, "b": 6}
    table = tables.TABLES["funding_history"].conform(two.assign(resolution="1h", kind="sampled"))
    assert quality(table)["missing"].tolist() == [0, 6]
    assert quality(table.iloc[:0]).attrs["summary"] == "no rows"


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="table must have the column 'iv2'"):
        quality(series([0, 1]), column="iv2")
    with pytest.raises(ValueError, match="times with a time zone"):
        quality(series([0, 1]).assign(time=pd.date_range("2026", periods=2)))
    with pytest.raises(ValueError, match="column is required"):
        quality(pd.DataFrame({"time": pd.to_datetime(["2026-01-01T00Z"]), "x": [1.0], "y": [2.0]}))


@pytest.mark.parametrize("seconds", [1, 10, 29])
def test_steps_below_half_a_minute_are_counted(seconds: int) -> None:
    frame = series([i * seconds / 3600 for i in range(100)])
    assert quality(frame).attrs["summary"] == "1 series, 100 points, 100.00% of those expected"
    row = only(frame.drop(index=[40, 41]))
    assert (row["expected"], row["present"], row["missing"], row["gaps"]) == (100, 98, 2, 1)
    assert row["step_hours"] == pytest.approx(seconds / 3600)


def test_a_rate_at_its_floor_has_no_outliers() -> None:
    """51 % at 1.0 bps, in the two spellings that a unit conversion leaves, and the rest at 0.5."""
    rate = np.where(np.arange(200) % 100 < 51, 1.25e-5 * 1e4 * 8, 0.5)
    rate[:30] = np.nextafter(rate[:30], 2)
    assert only(series(list(range(0, 1600, 8)), rate.tolist()))["outliers"] == 0
    rate[77] = 30.0
    assert only(series(list(range(0, 1600, 8)), rate.tolist()))["outliers"] == 1
    mostly = [1.0] * 99 + [1.5]
    assert only(series(list(range(100)), mostly))["outliers"] == 0, "one step off a floor of 99 %"


def test_stated_interval_determines_missing_payments() -> None:
    hours = list(range(0, 48, 2))
    row = only(series(hours, interval_hours=1.0))
    assert (row["step_hours"], row["expected"], row["missing"], row["stated_hours"]) == (1.0, 47, 23, 1.0)
    assert not row["wrong_interval"]
    assert only(series(hours))["missing"] == 0, "nothing says that it was hourly"
    row = only(series(list(range(48)), interval_hours=8.0))
    assert row["wrong_interval"]
    report = quality(series(list(range(48)), interval_hours=8.0))
    assert "1 series of another interval than they state" in report.attrs["summary"]


def test_stale_runs_are_unusually_long_for_the_series() -> None:
    moving = np.random.default_rng(1).normal(size=200)
    stuck = np.where((np.arange(200) >= 100) & (np.arange(200) < 112), moving[100], moving)
    often = np.where(np.arange(200) % 40 < 20, 1.0, moving)
    for values, stale in ((stuck, 12), (often, 0)):
        assert only(series(list(range(200)), values.tolist()))["stale"] == stale


def test_series_is_compared_with_its_peers() -> None:
    rng = np.random.default_rng(5)
    market = 1.0 + rng.normal(size=90).cumsum() * 0.1
    frames = {
        venue: series(
            list(range(0, 720, 8)), (market + rng.normal(size=90) * 0.05).tolist(), interval_hours=8.0
        )
        for venue in "abcdefg"
    }
    frames["b"]["rate_bps_8h"] *= 100.0
    frames["c"].loc[45:, "rate_bps_8h"] *= 8.0
    frames["d"].loc[45:, "rate_bps_8h"] *= -1.0
    table = pd.concat([frame.assign(exchange=venue) for venue, frame in frames.items()])
    report = quality(table).set_index("exchange")
    assert report.loc["b", "peer_scale"] == pytest.approx(100.0, rel=0.3)
    assert report.loc["c", "scale_change"] == pytest.approx(8.0, rel=0.3)
    assert report.loc["c", "scale_change_at"] == frames["c"]["time"].iloc[45]
    assert report.loc["d", "sign_change"]
    assert not report["sign_change"].drop("d").any()
    assert (report.loc["a", ["scale_change", "peer_scale", "peer_sign"]] == 1.0).all()
    assert np.isnan(quality(table[table["exchange"] < "c"])["peer_scale"]).all(), (
        "one other venue is no peers"
    )


@pytest.mark.parametrize(
    ("factor", "first", "expected"),
    [
        (100.0, 0, {"peer_scale": 100.022 / 1.122}),
        (0.01, 0, {"peer_scale": 0.032 / 1.122}),
        (-1.0, 0, {"peer_sign": -1.0}),
        (100.0, 50, {"scale_change": 100.022 / 1.022}),
        (0.01, 50, {"scale_change": 0.032 / 1.022}),
        (1.0, 0, {}),
    ],
)
def test_only_the_odd_one_of_three_venues_is_flagged(
    factor: float, first: int, expected: dict[str, float]
) -> None:
    """Two healthy venues pay 1.0 and 1.2 bps: their mean is 1.1, and 2 % of it, 0.022, is added to sizes."""
    hours = list(range(0, 800, 8))
    rates = {"a": [1.0] * 100, "b": [1.2] * 100, "wrong": [1.0] * first + [factor] * (100 - first)}
    parts = [series(hours, values).assign(exchange=venue) for venue, values in rates.items()]
    report = quality(pd.concat(parts)).set_index("exchange")
    neutral = {"scale_change": 1.0, "sign_change": False, "peer_scale": 1.0, "peer_sign": 1.0}
    for venue in ("a", "b"):
        assert report.loc[venue, list(neutral)].to_dict() == neutral
        assert pd.isna(report.loc[venue, "scale_change_at"])
    findings = report.loc["wrong", list(neutral)].to_dict()
    assert findings == pytest.approx(neutral | expected)
    if "scale_change" in expected:  # row 50, 400 hours after January 1
        assert report.loc["wrong", "scale_change_at"] == pd.Timestamp("2026-01-17T16:00", tz="UTC")


@pytest.mark.parametrize(("length", "values"), [(100, [1.1] * 3), (100, [np.nan] * 100), (1_000, [1.1] * 45)])
def test_nearly_empty_fourth_venue_does_not_flag_the_healthy_ones(length: int, values: list[float]) -> None:
    """Most times have three values, so the mean of two peers, (1.2 + 100) / 2, follows the wrong one."""
    rates = {"a": [1.0] * length, "b": [1.2] * length, "wrong": [100.0] * length, "new": values}
    parts = [
        series(list(range(0, 8 * len(paid), 8)), paid).assign(exchange=venue) for venue, paid in rates.items()
    ]
    sizes = quality(pd.concat(parts)).set_index("exchange")["peer_scale"]
    assert sizes[["a", "b"]].tolist() == [1.0, 1.0]
    assert sizes["wrong"] == pytest.approx(100.022 / 1.122)  # 2 % of the mean of the peers, 1.1, is added


def test_series_without_a_value_are_examined_together() -> None:
    empty = [series([*range(48)], [np.nan] * 48).assign(exchange=name) for name in "abc"]
    report = quality(pd.concat(empty, ignore_index=True))
    assert report["nulls"].tolist() == [48, 48, 48]
    assert report["sign_change"].tolist() == [False, False, False]


@pytest.fixture(scope="module")
def settlements() -> tuple[pd.DataFrame, pd.DataFrame]:
    table = injected_faults.recorded()
    return table, injected_faults.examined(table)


@pytest.mark.parametrize("fault", injected_faults.FAULTS)
def test_faults_put_into_five_recorded_series_are_found(fault: str, settlements: tuple) -> None:
    table, clean = settlements
    least = injected_faults.MIN.get(fault, 0.9)
    assert injected_faults.recall(fault, table, clean, tries=1) >= least


def test_a_clean_recording_raises_few_false_alarms(settlements: tuple) -> None:
    """At most one alarm per 1,000 rows, and none for mexc, whose interest rate doubled in December 2022."""
    assert injected_faults.false_alarms(settlements[1]) <= 1.0
    assert set(injected_faults.alarmed_series(settlements[1]).values()) == {0}


def test_half_of_the_peers_rate_is_found_despite_equal_interest_rates() -> None:
    """In 90 days a factor of two is not a change of size by itself; at every third step all pay 1 or 0.5."""
    noise = np.random.default_rng(1).normal(1.0, 0.2, (4, 400))
    values = np.where(np.arange(400) % 3 == 0, 1.0, noise)
    values[1:, 200:] *= 0.5
    others, octaves = peers.median_of_others(values), peers.octaves_to_others(values)
    result = peers.compare(values, others, octaves, days=90.0)
    assert result.scale_change[0] == pytest.approx(2.0, rel=1e-9)
    assert 198 <= result.at[0] <= 201


def test_series_delayed_by_one_step_is_found() -> None:
    rng = np.random.default_rng(3)
    market = rng.normal(size=201).cumsum()
    table = np.stack([market[1:], market[:-1], rng.normal(size=200).cumsum()]) + 0.1 * rng.normal(
        size=(3, 200)
    )
    assert peers.lag_to_twin(table).tolist() == [-1.0, 1.0, 0.0]
    assert peers.lag_to_twin(table[:, :90]).tolist() == [0.0, 0.0, 0.0], "too short to tell"


def test_rows_copied_from_another_symbol_are_found_except_at_the_floor() -> None:
    """Six rows of a series that is mostly 1.0; five are not a run."""
    rng = np.random.default_rng(4)
    hours = [*range(0, 800, 8)]
    values = {name: np.where(rng.random(100) < 0.6, 1.0, rng.normal(size=100).round(6)) for name in "AB"}
    result = np.flatnonzero((values["B"] != 1.0) & (np.arange(100) >= 40))
    for rows, count in ((6, 6), (5, 0)):
        mixed = values["A"].copy()
        span = slice(int(result[0]), int(result[rows - 1]) + 1)
        mixed[span] = values["B"][span]
        table = pd.concat(
            [
                series(hours, list(value)).assign(symbol=name)
                for name, value in (("A", mixed), ("B", values["B"]))
            ]
        )
        assert quality(table)["other_symbol"].tolist() == [count, count]
    apart = table.assign(exchange=np.where(table["symbol"] == "A", "a", "b"))
    assert quality(apart)["other_symbol"].tolist() == [0, 0], "another venue may pay the same"


@pytest.mark.parametrize("key", ["kind", "instrument_name"])
def test_kinds_and_contracts_of_a_price_are_series_of_their_own(key: str) -> None:
    """Mark and index at one time are not duplicates; a spike of one mark shows against the other marks."""
    time = pd.date_range("2026-01-01", periods=200, freq="h", tz="UTC", unit="us")
    walk = 100.0 * np.exp(np.cumsum(np.random.default_rng(5).normal(0.0, 0.002, 200)))
    parts = []
    for venue in ("a", "b", "c"):
        for kind, factor in (("mark", 1.0), ("index", 0.999)):
            price = walk * factor
            if (venue, kind) == ("b", "mark"):
                price = np.where(np.arange(200) == 120, price * 1.5, price)
            row = {"symbol": "BTC", "exchange": venue, "time": time, key: kind, "price_usd": price}
            parts.append(pd.DataFrame(row))
    report = quality(pd.concat(parts, ignore_index=True)).set_index(["exchange", key])
    assert report["present"].tolist() == [200] * 6
    assert report["duplicates"].tolist() == [0] * 6
    assert report["spikes"].to_dict() == {key: float(key == ("b", "mark")) for key in report.index}


def _ledger(*rows: tuple[str, str | None, float, float, bool]) -> pd.DataFrame:
    at = pd.Timestamp("2026-01-01", tz="UTC")
    frame = pd.DataFrame(rows, columns=["exchange", "symbol", "start", "end", "answered"])
    return frame.assign(**{n: at + pd.to_timedelta(frame[n], unit="h") for n in ("start", "end")})


LACKING = [0, 1, 2, 6, 7, 9]
"""Hours of a series of BTC on venue a that lacks hours 3, 4, 5 and 8."""


def test_never_requested_rows_are_distinguished_from_missing_rows() -> None:
    """Hours 4 and 8 were answered; hour 3 failed, and hour 5 was requested for other series only."""
    ledger = _ledger(
        ("a", "BTC", 0, 3, True),
        ("a", "BTC", 3, 4, False),
        ("a", None, 4, 5, True),  # all symbols
        ("a", "ETH", 5, 6, True),
        ("b", "BTC", 5, 6, True),
        ("a", "BTC", 7.5, 12, True),
        ("a", "BTC", 8, 9, True),
    )
    row = only(series(LACKING), requests=ledger)
    assert (row["missing"], row["not_requested"]) == (4, 2)
    assert "2 of these never requested" in quality(series(LACKING), requests=ledger).attrs["summary"]


def test_count_of_never_requested_rows_needs_a_ledger() -> None:
    assert only(series(LACKING), requests=_ledger())["not_requested"] == 4
    assert np.isnan(only(series(LACKING))["not_requested"])


def test_ledger_of_two_tables_raises() -> None:
    ledger = _ledger(("a", "BTC", 0, 3, True))
    both = pd.concat([ledger.assign(table="oi_history"), ledger.assign(table="funding_history")])
    with pytest.raises(
        ValueError, match="requests must belong to one table, got funding_history, oi_history"
    ):
        quality(series(LACKING), requests=both)


def test_rates_that_are_polled_twice_a_minute_are_not_duplicates() -> None:
    """Four equal rows, 30 s apart: samples are four rows, but payments within a minute are one payment."""
    at = pd.date_range("2026-01-05", periods=4, freq="30s", tz="UTC")
    same: dict[str, object] = {"symbol": "BTC", "exchange": "okx", "rate_bps_8h": 1.0, "interval_hours": 8.0}
    for kind, duplicates in (("sampled", 0), ("settled", 3)):
        table = pd.DataFrame({**same, "time": at, "kind": kind})
        assert quality(table)["duplicates"].tolist() == [duplicates]


@pytest.mark.parametrize(("spike", "found"), [(2.0**63 - 1, 1), (9.7e11, 1), (0.0, 1), (9.8e9, 0)])
def test_one_spike_in_a_constant_series_is_an_outlier(spike: float, found: int) -> None:
    """Nine tenths of a percent above the constant may well be a move."""
    values = [9.7e9] * 90
    values[60] = spike
    frame = series(list(range(90)), values)
    assert only(frame)["outliers"] == found
    assert ("1 outliers" in quality(frame).attrs["summary"]) is bool(found)
    step = [9.7e9] * 60 + [2e10] * 30
    assert only(series(list(range(90)), step))["outliers"] == 0
    assert only(series(list(range(90)), [1.0] * 45 + [5.0, 5.0] + [1.0] * 43))["outliers"] == 0


@pytest.mark.parametrize(("rows", "tail"), [(600, 420), (100, 24), (100, 23)])
def test_rows_after_a_delisting_are_padded(rows: int, tail: int) -> None:
    values = 100.0 + np.cumsum(np.random.default_rng(1).standard_normal(rows))
    values[-tail:] = values[-tail]
    frame = series(list(range(rows)), values.tolist())
    row = only(frame)
    assert row["padded"] == (tail if tail >= 24 else 0)
    assert row["stale"] == (0 if tail >= 24 else tail)
    assert (f"{tail} padded points" in quality(frame).attrs["summary"]) is (tail >= 24)
    pinned = np.where(np.arange(rows) % 3 == 0, values, 1.0)
    pinned[-tail:] = 1.0
    assert only(series(list(range(rows)), pinned.tolist()))["padded"] == 0


def _stock_index(nights: bool) -> pd.DataFrame:
    """Three weeks of hours of a price that moves in sessions only: on weekdays, or also by day only."""
    times = pd.date_range("2026-01-05", periods=24 * 21, freq="1h", tz="UTC")  # a Monday
    is_open = times.day_of_week < 5
    if nights:
        is_open &= (times.hour >= 14) & (times.hour < 21)
    else:
        is_open &= ~((times.day_of_week == 4) & (times.hour >= 21))
    moves = np.where(is_open, np.random.default_rng(2).standard_normal(len(times)), 0.0)
    columns = {"symbol": "SPX", "exchange": "a", "kind": "index", "resolution": "1h"}
    return pd.DataFrame({**columns, "time": times, "price_usd": 6000.0 + np.cumsum(moves)})


@pytest.mark.parametrize("nights", [False, True])
def test_closed_sessions_of_stocks_are_not_stale(nights: bool) -> None:
    frame = _stock_index(nights)
    row = only(frame)
    assert row["stale"] == row["padded"] == 0
    assert row["session_closed"] >= 2 * 48
    assert "points in closed sessions" in quality(frame).attrs["summary"]


def test_constant_night_of_a_coin_is_stale() -> None:
    values = np.cumsum(np.random.default_rng(3).standard_normal(240))
    values[20:34] = values[20]  # from 20:00 to 09:00
    row = only(series(list(range(240)), values.tolist()))
    assert (row["stale"], row["session_closed"]) == (14, 0)


@pytest.mark.parametrize(("factor", "apart"), [(110.0, True), (0.91, True), (1.06, True), (1.04, False)])
def test_two_venues_whose_prices_differ_by_a_factor_are_flagged(factor: float, apart: bool) -> None:
    path = 100.0 * np.exp(np.cumsum(0.01 * np.random.default_rng(4).standard_normal(48)))
    times = pd.date_range("2026-01-05", periods=48, freq="1h", tz="UTC")
    parts = [
        pd.DataFrame(
            {"symbol": "X", "exchange": venue, "time": times, "price_usd": path * by, "kind": "mark"}
        )
        for venue, by in (("a", 1.0), ("b", factor))
    ]
    report = quality(pd.concat(parts)).set_index("exchange")
    expected = [1.0 / factor, factor] if apart else [1.0, 1.0]
    assert report["peer_scale"].tolist() == pytest.approx(expected)
    assert ("2 series out of scale" in report.attrs["summary"]) is apart
