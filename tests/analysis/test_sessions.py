"""Sessions of underlying markets: calendars against published hours, and results computed by hand."""

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from derivdata.analysis import sessions
from derivdata.sources import sample


def at(text: str) -> pd.Timestamp:
    return pd.Timestamp(text, tz="UTC").as_unit("us")


def spans(*rows: tuple[str, str, str]) -> list[tuple[str, pd.Timestamp, pd.Timestamp]]:
    """Return expected spans; times are of one month, e.g. ``07T14:30``."""
    return [(name, at(start), at(end)) for name, start, end in rows]


def rows(frame: pd.DataFrame) -> list[tuple[str, pd.Timestamp, pd.Timestamp]]:
    return list(frame.itertuples(index=False, name=None))


def regular(market: str, start: str, end: str) -> list[str]:
    """Return open and close of each regular session in UTC."""
    frame = sessions.calendar(market, start, end)
    frame = frame[frame["session"] == "regular"]
    return [f"{row.start:%m-%d %H:%M}-{row.end:%H:%M}" for row in frame.itertuples()]


def test_three_weeks_in_march_differ_between_new_york_and_london() -> None:
    """In 2026 the US switch on 8 March and the EU and the UK on 29 March."""
    days = ("2026-03-06", "2026-03-07"), ("2026-03-09", "2026-03-10"), ("2026-03-30", "2026-03-31")
    assert [regular("XNYS", *day) for day in days] == [
        ["03-06 14:30-21:00"],
        ["03-09 13:30-20:00"],
        ["03-30 13:30-20:00"],
    ]
    assert [regular("XLON", *day) for day in days] == [
        ["03-06 08:00-16:30"],
        ["03-09 08:00-16:30"],
        ["03-30 07:00-15:30"],
    ]


def test_one_week_in_autumn_differs_between_new_york_and_london() -> None:
    """In 2025 the EU and the UK switch back on 26 October and the US on 2 November."""
    days = ("2025-10-24", "2025-10-25"), ("2025-10-27", "2025-10-28"), ("2025-11-03", "2025-11-04")
    assert [regular("XNYS", *day) for day in days] == [
        ["10-24 13:30-20:00"],
        ["10-27 13:30-20:00"],
        ["11-03 14:30-21:00"],
    ]
    assert [regular("XLON", *day) for day in days] == [
        ["10-24 07:00-15:30"],
        ["10-27 08:00-16:30"],
        ["11-03 08:00-16:30"],
    ]


def test_a_weekend_with_a_change_of_clocks_is_an_hour_shorter_or_longer() -> None:
    """From Friday 20:00 to Monday 04:00 in New York pass 56 hours by the clock on the wall."""
    for start, end, length in (
        ("2026-02-27", "2026-03-03", 56.0),
        ("2026-03-06", "2026-03-10", 55.0),
        ("2025-10-31", "2025-11-04", 57.0),
    ):
        frame = sessions.calendar("XNYS", start, end)
        weekend = frame[frame["session"] == "weekend"]
        assert ((weekend["end"] - weekend["start"]) / pd.Timedelta(1, "h")).tolist() == [length]


def test_thanksgiving_is_a_holiday_and_the_day_after_closes_early() -> None:
    """New York closes at 13:00 on 28 November 2025, and extended trading ends at 17:00."""
    frame = sessions.calendar("XNYS", "2025-11-26T20:00", "2025-12-01T10:00")
    assert rows(frame) == spans(
        ("regular", "2025-11-26T20:00", "2025-11-26T21:00"),
        ("extended", "2025-11-26T21:00", "2025-11-27T01:00"),
        ("holiday", "2025-11-27T01:00", "2025-11-28T09:00"),
        ("extended", "2025-11-28T09:00", "2025-11-28T14:30"),
        ("regular", "2025-11-28T14:30", "2025-11-28T18:00"),
        ("extended", "2025-11-28T18:00", "2025-11-28T22:00"),
        ("weekend", "2025-11-28T22:00", "2025-12-01T09:00"),
        ("extended", "2025-12-01T09:00", "2025-12-01T10:00"),
    )


def test_past_and_coming_windows_have_their_own_rules() -> None:
    """Tokyo closes at 15:30 since 5 November 2024 and at 15:00 before; 12 January 2026 is a holiday."""
    assert regular("XTKS", "2024-11-01", "2024-11-02") == ["11-01 00:00-02:30", "11-01 03:30-06:00"]
    assert regular("XTKS", "2024-11-05", "2024-11-06") == ["11-05 00:00-02:30", "11-05 03:30-06:30"]
    frame = sessions.calendar("XTKS", "2026-01-09", "2026-01-13")
    assert frame["session"].tolist() == ["regular", "break", "regular", "holiday"]
    assert regular("XNYS", "2001-09-10", "2001-09-18") == ["09-10 13:30-20:00", "09-17 13:30-20:00"]


def test_the_sample_has_the_same_sessions_as_the_published_calendars() -> None:
    """Weeks about changes of clocks, early closes and holidays."""
    for day in ("2025-10-29", "2025-11-27", "2025-12-29", "2026-03-17", "2026-04-04", "2026-05-23"):
        now = at(day)
        table = sample.open().latest("rwa_market_hours", now, within=pd.Timedelta(1, "D"))
        window = now - pd.Timedelta(9, "D"), now + pd.Timedelta(9, "D")
        for market in ("XNYS", "XNAS", "XLON", "XTKS"):
            result = sessions.calendar(market, *window, hours=table)
            pd.testing.assert_frame_equal(result, sessions.calendar(market, *window))


def test_futures_of_the_sample_have_their_break_and_early_closes() -> None:
    """Chicago: 17:00 to 16:00, and to 12:00 on Thanksgiving and the day after; Christmas is closed."""
    table = sample.open().latest("rwa_market_hours", at("2025-11-28"), within=pd.Timedelta(1, "D"))
    result = sessions.calendar("CME", "2025-11-26T12:00", "2025-12-01", hours=table)
    assert rows(result) == spans(
        ("regular", "2025-11-26T12:00", "2025-11-26T22:00"),
        ("overnight", "2025-11-26T22:00", "2025-11-26T23:00"),
        ("regular", "2025-11-26T23:00", "2025-11-27T18:00"),
        ("overnight", "2025-11-27T18:00", "2025-11-27T23:00"),
        ("regular", "2025-11-27T23:00", "2025-11-28T18:00"),
        ("weekend", "2025-11-28T18:00", "2025-11-30T23:00"),
        ("regular", "2025-11-30T23:00", "2025-12-01T00:00"),
    )
    table = sample.open().latest("rwa_market_hours", at("2025-12-26"), within=pd.Timedelta(1, "D"))
    result = sessions.calendar("cme", "2025-12-24T12:00", "2025-12-26", hours=table)
    assert rows(result)[1] == ("holiday", at("2025-12-24T18:00"), at("2025-12-25T23:00"))


def hours_table() -> pd.DataFrame:
    """Return two trading days of a market in London, with a holiday between them."""
    day = [("regular", "08:00", "16:30", True), ("late", "17:00", "19:00", True)]
    frame = pd.DataFrame(
        [
            (name, at(f"{d}T{a}"), at(f"{d}T{b}"), ok)
            for d in ("2026-01-06", "2026-01-08")
            for name, a, b, ok in day
        ]
        + [("holiday", at("2026-01-07"), at("2026-01-08"), False)],
        columns=["session", "start", "end", "is_tradable"],
    )
    return frame.assign(exchange_id="x1", mic="XXXX", timezone="Europe/London", time=at("2026-01-06"))


def test_a_table_of_hours_serves_markets_without_a_calendar() -> None:
    frame = sessions.calendar("xxxx", "2026-01-06T08:00", "2026-01-08T12:00", hours=hours_table())
    assert rows(frame) == spans(
        ("regular", "2026-01-06T08:00", "2026-01-06T16:30"),
        ("break", "2026-01-06T16:30", "2026-01-06T17:00"),
        ("extended", "2026-01-06T17:00", "2026-01-06T19:00"),
        ("holiday", "2026-01-06T19:00", "2026-01-08T08:00"),
        ("regular", "2026-01-08T08:00", "2026-01-08T12:00"),
    )


def test_the_newest_row_of_a_session_applies() -> None:
    """An early close that was announced later."""
    table = hours_table()
    later = table[table["start"] == at("2026-01-08T08:00")].assign(
        end=at("2026-01-08T12:30"), time=at("2026-01-07")
    )
    late = (table["session"] == "late") & (table["start"] > at("2026-01-08"))
    joined = pd.concat([later, table[~late]], ignore_index=True)
    frame = sessions.calendar("x1", "2026-01-08T09:00", "2026-01-08T12:30", hours=joined)
    assert frame["end"].tolist() == [at("2026-01-08T12:30")]


WINDOW = "2026-01-06T08:00", "2026-01-08T12:00"


@pytest.mark.parametrize(
    ("market", "change", "message"),
    [
        (
            "x1",
            lambda table: table[table["session"] != "holiday"],
            "hours lacks a session or holiday of 'x1' on 2026-01-07",
        ),
        ("x2", lambda table: table, "the market 'x2'; available: x1"),
        (
            "x1",
            lambda table: table.assign(end=table["end"] + pd.Timedelta(1, "h")),
            r"sessions of 'x1' must not overlap, got an overlap at 2026-01-06 17:00:00\+00:00",
        ),
        ("x1", lambda table: table.drop(columns="start"), "'start'"),
        ("x1", lambda table: table.drop(columns="timezone"), "hours must have a timezone for 'x1'"),
    ],
)
def test_invalid_hours_are_rejected(market: str, change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sessions.calendar(market, *WINDOW, hours=change(hours_table()))


def test_hours_must_cover_the_window_and_exclude_extended_hours() -> None:
    with pytest.raises(ValueError, match="but the window is from 2026-01-05"):
        sessions.calendar("x1", "2026-01-05", "2026-01-08", hours=hours_table())
    with pytest.raises(ValueError, match="extended= does not apply"):
        sessions.calendar("x1", *WINDOW, hours=hours_table(), extended=("04:00", "20:00"))


def test_unknown_market_or_empty_window_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"no market 'XNYSE'; did you mean .*hours=dd\.rwa\.market_hours"):
        sessions.calendar("XNYSE", *WINDOW)
    with pytest.raises(ValueError, match="end must be after start, got start 2026-01-08 "):
        sessions.calendar("XNYS", "2026-01-08", "2026-01-08")


def test_extended_hours_must_be_times_around_the_regular_hours() -> None:
    with pytest.raises(
        ValueError, match=r"must include the regular hours of XLON on 2025-12-17, got \('09:00', '20:00'\)"
    ):
        sessions.calendar("XLON", *WINDOW, extended=("09:00", "20:00"))
    with pytest.raises(ValueError, match="extended must have local times such as '04:00', got '4 am'"):
        sessions.calendar("XLON", *WINDOW, extended=("4 am", "20:00"))


def test_calendar_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "exchange_calendars", None)
    with pytest.raises(ImportError, match=r"derivdata\[sessions\]"):
        sessions.calendar("XNYS", *WINDOW)


def made_calendar() -> pd.DataFrame:
    """Return four hours regular, two overnight, four regular, six of a weekend, two regular."""
    edges = pd.DatetimeIndex([at("2026-01-08T12:00") + pd.Timedelta(h, "h") for h in (0, 4, 6, 10, 16, 18)])
    names = ["regular", "overnight", "regular", "weekend", "regular"]
    return pd.DataFrame({"session": names, "start": edges[:-1], "end": edges[1:]})


def series(values: list[float], name: str, step: str = "2h", start: str = "2026-01-08T12:00") -> xr.DataArray:
    stamps = pd.date_range(start, periods=len(values), freq=step)
    return xr.DataArray(np.array(values), {"time": stamps}, "time", name)


def of(found: xr.DataArray) -> dict[str, float]:
    return {name: round(float(found.sel(session=name)), 9) for name in ("regular", "overnight", "weekend")}


def test_sampled_rates_are_weighted_with_the_time_for_which_they_hold() -> None:
    """Values at 0 h to 16 h; the value at 3 h is valid until 6 h: one hour regular, two overnight."""
    stamps = pd.Timestamp("2026-01-08T12:00") + pd.to_timedelta([0, 3, 6, 8, 10, 12, 14, 16], "h")
    rates = xr.DataArray(
        [8.0, 16.0, 4.0, 4.0, -8.0, -8.0, np.nan, 0.0], {"time": stamps}, "time", "rate_bps_8h"
    )
    result = sessions.by_session(made_calendar(), funding=rates.assign_attrs(kind="sampled"))
    # regular: 3 h at 8, 1 h at 16, 4 h at 4, 2 h at 0; overnight: 2 h at 16; weekend: 4 h at -8, 2 h unknown
    assert of(result["funding_hours"]) == {"regular": 10.0, "overnight": 2.0, "weekend": 4.0}
    assert of(result["funding_bps_8h"]) == {"regular": 5.6, "overnight": 16.0, "weekend": -8.0}
    assert of(result["funding_bps"]) == {"regular": 7.0, "overnight": 4.0, "weekend": -4.0}
    assert of(result["hours"]) == {"regular": 10.0, "overnight": 2.0, "weekend": 6.0}
    assert np.isnan(result["funding_bps"].sel(session="holiday"))


def test_a_sampled_rate_holds_for_two_usual_steps_at_most() -> None:
    """Hourly samples with a gap from 3 h to 10 h: the rate of 3 h is valid until 5 h."""
    stamps = pd.Timestamp("2026-01-08T12:00") + pd.to_timedelta([0, 1, 2, 3, 10], "h")
    rates = xr.DataArray([8.0, 8.0, 8.0, 16.0, 4.0], {"time": stamps}, "time", "rate_bps_8h")
    result = sessions.by_session(made_calendar(), funding=rates.assign_attrs(kind="sampled"))
    assert of(result["funding_hours"]) == {"regular": 4.0, "overnight": 1.0, "weekend": 1.0}
    assert of(result["funding_bps"]) == {"regular": 5.0, "overnight": 2.0, "weekend": 0.5}


def test_settled_rates_accrue_over_their_interval_and_add_up_to_the_payments() -> None:
    """Payments every 8 h: at 8 h for 4 regular, 2 overnight, 2 regular; at 16 h for 2 regular, 6 weekend."""
    rates = series([8.0, -16.0], "rate_bps_8h", "8h", "2026-01-08T20:00")
    rates = rates.assign_coords(interval_hours=8.0).assign_attrs(kind="settled")
    result = sessions.by_session(made_calendar(), funding=rates)
    assert of(result["funding_bps"]) == {"regular": 6.0 - 4.0, "overnight": 2.0, "weekend": -12.0}
    assert of(result["funding_bps_8h"]) == {"regular": 2.0, "overnight": 8.0, "weekend": -16.0}
    assert float(result["funding_bps"].sum()) == pytest.approx(8.0 - 16.0, abs=1e-12)


def test_a_payment_without_an_interval_is_counted() -> None:
    """It pays for the 8 h since the last one: 6 regular and 2 overnight ones, and 10 bps."""
    rates = series([8.0, np.nan, -16.0], "rate_bps_8h", "8h", "2026-01-08T12:00")
    rates = rates.assign_coords(
        interval_hours=("time", [8.0, np.nan, 8.0]), payment_bps=("time", [np.nan, 10.0, np.nan])
    ).assign_attrs(kind="settled")
    result = sessions.by_session(made_calendar(), funding=rates.isel(time=slice(1, None)))
    assert float(result["funding_hours"].sum()) == 9.0, "the first of a series counts for one hour"
    result = sessions.by_session(made_calendar(), funding=rates)
    assert of(result["funding_bps"]) == {"regular": 5.0 + 2.5 - 4.0, "overnight": 2.5, "weekend": -12.0}
    closed = sessions.closures(made_calendar(), funding=rates)
    np.testing.assert_array_equal(closed["funding_bps"], [0.0, -16.0])  # that of the open is paid


def test_stamps_of_payments_without_an_interval_may_be_late() -> None:
    """Hourly payments of 1 bps, up to 0.55 s late; weekends last 65.5 h, that of a holiday 89.5 h."""
    stamps = pd.date_range("2026-01-08", "2026-01-27", freq="1h", inclusive="left")
    late = pd.to_timedelta(np.random.default_rng(0).integers(0, 551, stamps.size), unit="ms")
    rates = xr.DataArray(np.full(stamps.size, np.nan), {"time": stamps + late}, "time", "rate_bps_8h")
    rates = rates.assign_coords(
        interval_hours=("time", np.full(stamps.size, np.nan)), payment_bps=("time", np.ones(stamps.size))
    ).assign_attrs(kind="settled", units="bps/8h")
    spans = sessions.calendar("XNYS", "2026-01-08", "2026-01-27")
    closed = sessions.closures(spans, funding=rates)
    hours = {"overnight": 17.0, "weekend": 65.0, "holiday": 89.0}
    assert closed["funding_bps"].values.tolist() == [hours[name] for name in closed["session"].values]
    assert closed.sizes["closure"] == 11


def test_premium_and_open_interest_by_session() -> None:
    mark = series([101.0, 99.0, 102.0, 100.0, 100.0, 98.0, 98.0, 98.0, 100.0], "mark_usd")
    index = series([100.0] * 9, "index_usd")
    oi = series([1.0, 3.0, 10.0, 2.0, 2.0, 5.0, 5.0, 8.0, 0.0], "oi_usd")
    result = sessions.by_session(made_calendar(), mark=mark, index=index, oi=oi)
    assert of(result["premium_bps"]) == {"regular": 0.0, "overnight": 200.0, "weekend": -200.0}
    assert of(result["premium_size_bps"]) == {"regular": 40.0, "overnight": 200.0, "weekend": 200.0}
    assert of(result["mean_oi"]) == {"regular": 1.6, "overnight": 10.0, "weekend": 6.0}
    assert result["mean_oi"].attrs == {"units": "USD"}


def test_volatility_uses_returns_within_one_span() -> None:
    """Returns of ±1 % in 2 h while open, 2 % overnight, none at the weekend; one price is missing."""
    logs = np.array([0.0, 0.01, 0.0, 0.02, 0.03, 0.02, np.nan, 0.02, 0.02])
    mark = series(np.exp(logs).tolist(), "mark_usd")
    result = sessions.by_session(made_calendar(), mark=mark)
    # regular 0.01, −0.01 (0 to 4 h), 0.01, −0.01 (6 to 10 h); overnight 0.02; weekend 0 over 4 h and 2 h
    regular_variance, overnight_variance = 4 * 1e-4 / 8, 4e-4 / 2
    assert of(result["volatility_hours"]) == {"regular": 8.0, "overnight": 2.0, "weekend": 6.0}
    assert float(result["volatility"].sel(session="regular")) == pytest.approx(
        np.sqrt(regular_variance * 8760)
    )
    assert float(result["volatility"].sel(session="overnight")) == pytest.approx(
        np.sqrt(overnight_variance * 8760)
    )
    assert float(result["crossing"].max()) == 0.0


def test_returns_over_an_edge_are_counted_and_left_out() -> None:
    mark = series([100.0, 101.0, 102.0, 103.0], "mark_usd", "3h")  # 0, 3, 6, 9 h: 3 to 6 h spans two
    result = sessions.by_session(made_calendar(), mark=mark)
    assert of(result["crossing"]) == {"regular": 1.0, "overnight": 1.0, "weekend": 1.0}
    assert of(result["volatility_hours"]) == {"regular": 6.0, "overnight": 0.0, "weekend": 0.0}


def test_closures_have_move_gap_funding_and_carry() -> None:
    """Closures from 4 h to 6 h and from 10 h to 16 h; marks every 2 h, payments every hour."""
    mark = series([100.0, 101.0, 100.0, 102.0, 101.0, 100.0, 104.0, 103.0, 105.0], "mark_usd")
    index = series([100.0, 100.0, 100.0, 101.0, 101.0, 100.0, 100.0, 100.0, 98.0], "index_usd")
    oi = series([4.0, 4.0, 4.0, 5.0, 5.0, 10.0, 1.0, 1.0, 5.0], "oi_usd")
    rates = (
        series([8.0] * 19, "rate_bps_8h", "1h").assign_coords(interval_hours=1.0).assign_attrs(kind="settled")
    )
    result = sessions.closures(made_calendar(), mark=mark, index=index, funding=rates, oi=oi)
    assert result["session"].values.tolist() == ["overnight", "weekend"]
    assert result["closed_hours"].values.tolist() == [2.0, 6.0]
    assert result["closure"].dt.hour.values.tolist() == [16, 22]
    assert result["end"].dt.hour.values.tolist() == [18, 4]
    np.testing.assert_allclose(result["move_bps"], [200.0, 500.0])
    np.testing.assert_allclose(result["gap_bps"], [100.0, -200.0])
    np.testing.assert_allclose(result["implied_gap_bps"], [200.0, 500.0])
    np.testing.assert_allclose(result["funding_bps"], [2.0, 6.0])  # a payment at the open is paid
    np.testing.assert_allclose(result["carry_bps"], [198.0, 494.0])
    np.testing.assert_allclose(result["oi_change"], [0.25, -0.5])


def test_a_closure_without_all_of_its_payments_or_prices_is_missing() -> None:
    """Payments every 2 h; the one at 12 h is missing. The mark of 10 h is older than two steps at 16 h."""
    rates = series([8.0, 8.0, 8.0, 8.0, 8.0, 8.0, np.nan, 8.0, 8.0], "rate_bps_8h")
    settled = rates.assign_coords(interval_hours=2.0).assign_attrs(kind="settled")
    mark = series([100.0, 100.0, 100.0, 101.0, 100.0, 100.0, np.nan, np.nan, np.nan], "mark_usd")
    result = sessions.closures(made_calendar(), mark=mark, funding=settled)
    np.testing.assert_allclose(result["funding_bps"], [2.0, np.nan])
    np.testing.assert_allclose(result["move_bps"], [100.0, np.nan])
    np.testing.assert_allclose(result["carry_bps"], [98.0, np.nan])
    sampled = rates.assign_attrs(kind="sampled")
    np.testing.assert_allclose(
        sessions.closures(made_calendar(), funding=sampled)["funding_bps"], [2.0, np.nan]
    )
    late = settled.isel(time=slice(7, None))  # begins at 14 h: the payment of 12 h is not known
    np.testing.assert_allclose(
        sessions.closures(made_calendar(), funding=late)["funding_bps"], [np.nan, np.nan]
    )


def test_a_payment_longer_than_a_closure_is_not_due_in_it() -> None:
    """Every 8 h, at 8 h and 16 h: nothing between 4 h and 6 h, and the second one at the open."""
    rates = series([4.0, 6.0], "rate_bps_8h", "8h", "2026-01-08T20:00")
    settled = rates.assign_coords(interval_hours=8.0).assign_attrs(kind="settled")
    earlier = series([1.0, 4.0, 6.0], "rate_bps_8h", "8h")
    earlier = earlier.assign_coords(interval_hours=8.0).assign_attrs(kind="settled")
    np.testing.assert_allclose(sessions.closures(made_calendar(), funding=earlier)["funding_bps"], [0.0, 6.0])
    # Without the payment of 0 h it is not known whether one was due between 4 h and 6 h.
    np.testing.assert_allclose(
        sessions.closures(made_calendar(), funding=settled)["funding_bps"], [np.nan, 6.0]
    )


def test_an_interval_may_become_longer_in_a_closure() -> None:
    """From 10 h to 16 h: hourly payments until 12 h, then one of 8 h at 20 h, which covers the rest."""
    stamps = at("2026-01-08T12:00") + pd.to_timedelta([*range(2, 13), 20], "h")
    rates = xr.DataArray([8.0] * 12, {"time": stamps.tz_localize(None)}, "time", "rate_bps_8h")
    rates = rates.assign_attrs(kind="settled")
    for last, expected in ((8.0, 2.0), (7.0, np.nan)):
        hours = ("time", [1.0] * 11 + [last])
        closed = sessions.closures(made_calendar(), funding=rates.assign_coords(interval_hours=hours))
        np.testing.assert_array_equal(closed["funding_bps"], [2.0, expected])


def test_the_index_is_read_after_the_open() -> None:
    """The index begins to move an hour after the open."""
    index = series([100.0] * 7 + [102.0] * 12, "index_usd", "1h")
    calendar = made_calendar()
    assert sessions.closures(calendar, index=index)["gap_bps"].values.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(sessions.closures(calendar, index=index, after="1h")["gap_bps"], [200.0, 0.0])


def test_symbols_and_venues_are_independent_and_lazy() -> None:
    rng = np.random.default_rng(5)
    stamps = pd.date_range("2026-03-02", "2026-03-16", freq="30min")
    coords = {"symbol": ["TSLA", "XAU"], "exchange": ["aster", "bybit"], "time": stamps}
    shape = (2, 2, stamps.size)
    mark = xr.DataArray(100.0 * np.exp(0.01 * rng.normal(size=shape)), coords, tuple(coords), "mark_usd")
    index = xr.DataArray(np.full(shape, 100.0), coords, tuple(coords), "index_usd")
    rates = xr.DataArray(rng.normal(size=shape), coords, tuple(coords), "rate_bps_8h").assign_attrs(
        kind="sampled"
    )
    mark = mark.where(rng.random(shape) > 0.1)
    calendar = sessions.calendar("XNYS", stamps[0], stamps[-1])
    for function in (sessions.by_session, sessions.closures):
        whole = function(calendar, mark=mark, index=index, funding=rates)
        one = function(calendar, mark=mark[1, 0], index=index[1, 0], funding=rates[1, 0])
        for name, values in whole.data_vars.items():
            picked = values.sel(symbol="XAU", exchange="aster") if "symbol" in values.dims else values
            np.testing.assert_allclose(picked, one[name], rtol=1e-12, equal_nan=True)
        lazy = function(
            calendar, mark=mark.chunk(symbol=1), index=index.chunk(symbol=1), funding=rates.chunk()
        )
        xr.testing.assert_allclose(lazy.compute(), whole)


def test_panels_that_do_not_fit_are_rejected() -> None:
    calendar = made_calendar()
    mark = series([100.0] * 9, "mark_usd")
    with pytest.raises(ValueError, match="mark, funding or oi is missing"):
        sessions.by_session(calendar, index=mark)
    with pytest.raises(ValueError, match="mark, index, funding or oi is missing"):
        sessions.closures(calendar)
    with pytest.raises(ValueError, match="sessions must be contiguous"):
        sessions.by_session(calendar.drop(index=1), mark=mark)
    with pytest.raises(
        ValueError, match="be named regular, extended, break, overnight, weekend, holiday, got 'lunch'"
    ):
        sessions.by_session(calendar.replace("overnight", "lunch"), mark=mark)
    with pytest.raises(ValueError, match="covers the panel"):
        sessions.by_session(calendar, mark=series([100.0] * 11, "mark_usd"))
    with pytest.raises(ValueError, match="the panels must have the same symbols and venues"):
        sessions.closures(
            calendar, mark=mark.expand_dims(symbol=["A"]), oi=mark.rename("oi_usd").expand_dims(symbol=["B"])
        )
    rates = mark.rename("rate_bps_8h")
    with pytest.raises(ValueError, match=r"panel\.attrs\['kind'\] must be 'sampled'"):
        sessions.by_session(calendar, funding=rates)
