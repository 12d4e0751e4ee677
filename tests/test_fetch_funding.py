"""Funding histories: the columns read venue by venue equal rows read one at a time from plain JSON."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import derivdata as dd
from derivdata.errors import DataNotice, SchemaError
from derivdata.tables.endpoints import Request
from tests.test_fetch_validation import always
from tests.test_fetch_validation import answering as answered

START, END = pd.Timestamp("2026-01-01T01:00", tz="UTC"), pd.Timestamp("2026-01-01T07:00", tz="UTC")


def answering(body: Any) -> AbstractContextManager[list[Request]]:
    """Serve every request with `body`."""
    return answered(always(body), END)


def one_by_one(series: dict[str, list[dict[str, Any]]]) -> list[tuple[str, pd.Timestamp, float]]:
    """The slow reference: venue, time and rate of every point inside the window that has a rate."""
    rows = [
        (venue, pd.Timestamp(point.get("timestamp") or point["t"]).tz_convert("UTC"), float(point["y"]))
        for venue, points in series.items()
        for point in points
        if point["y"] is not None
    ]
    return sorted(row for row in rows if START <= row[1] < END)


def history(series: Any) -> pd.DataFrame:
    body = {"symbol": "BTC", "unit": "bps_8h", "resolution": "30m", "series": series, "notices": []}
    with answering(body), warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)  # of rows at the edges, and of no rows
        return dd.funding.history("BTC", START, END, resolution="30m")


def by_pair(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The slow reference: symbol, venue, rate, native rate, hours and rank of each pair that has a rate."""
    rows = []
    for name, rates in body["funding_rates"].items():
        for symbol, rate in rates.items():
            if rate is not None:
                native = body.get("funding_rates_raw", {}).get(name, {}).get(symbol)
                hours = body.get("funding_intervals", {}).get(name, {}).get(symbol)
                rank = body["oi_rankings"].get(symbol, "500+")
                numbers = [None if v is None else float(v) for v in (rate, native, hours)]
                rows.append((symbol, name, *numbers, int(rank) if str(rank).isdecimal() else None))
    return sorted(rows, key=lambda row: row[:2])


def by_symbol(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(["BTC", "ETH", "kPEPE", "é"]), values)


def by_venue(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(["okx", "binance", "zo"]), by_symbol(values))


RATE = st.one_of(st.none(), st.floats(-75, 75))
NATIVE = st.one_of(
    RATE, st.floats(-0.1, 0.1).map(lambda v: f"{v:.15f}"), st.sampled_from(["-1e-05", "+0.5", " 1"])
)


def agreeing(body: dict[str, Any]) -> dict[str, Any]:
    """Make native rates consistent with the rate wherever both and the interval are known."""
    for name, natives in body.get("funding_rates_raw", {}).items():
        rates, hours = (body.get(field, {}).get(name, {}) for field in ("funding_rates", "funding_intervals"))
        for symbol in natives.keys() & rates.keys() & hours.keys():
            if None not in (natives[symbol], rates[symbol], hours[symbol]):
                natives[symbol] = repr(rates[symbol] / 1e4 * float(hours[symbol]) / 8)
    return body


@given(
    st.fixed_dictionaries(
        {
            "funding_rates": by_venue(RATE),
            "oi_rankings": by_symbol(st.sampled_from([1, "2", 499, "500+"])),
            "timestamp": st.sampled_from(["2026-01-01 00:00:00", "2026-01-01T00:00:00Z"]),
        },
        optional={
            "funding_rates_raw": by_venue(NATIVE),
            "funding_intervals": by_venue(st.sampled_from([1, 4.0, "8", None])),
        },
    ).map(agreeing)
)
def test_snapshot_equals_a_loop_over_pairs(body: dict[str, Any]) -> None:
    with answering(body), warnings.catch_warnings():
        warnings.simplefilter("ignore", DataNotice)  # the responses' own time is years before their Date
        frame = dd.funding.snapshot()
    columns = ["symbol", "exchange", "rate_bps_8h", "rate_native", "interval_hours", "oi_rank"]
    result = frame[columns].astype(object).where(frame[columns].notna(), None)
    assert list(result.itertuples(index=False, name=None)) == by_pair(body)
    assert set(zip(frame["time"], frame["kind"], strict=True)) <= {
        (pd.Timestamp("2026-01-01", tz="UTC"), "sampled")
    }


def test_a_native_rate_that_is_not_a_number_is_a_schema_error() -> None:
    pairs = {"okx": {"BTC": 1.0, "ETH": 1.0}}
    natives = {"okx": {"BTC": "0.1", "ETH": "much"}}
    body = {"funding_rates": pairs, "funding_rates_raw": natives, "timestamp": "2026-01-01 00:00:00"}
    with answering(body), pytest.raises(SchemaError, match=r"/funding\.funding_rates_raw.*'much'"):
        dd.funding.snapshot()


def point(place: int, rate: float | None, form: str) -> dict[str, Any]:
    """Times half an hour apart from midnight, as the API writes them now, before, or in both ways."""
    stamp = pd.Timestamp("2026-01-01") + pd.Timedelta(30, "min") * place
    written = f"{stamp.isoformat()}Z" if form != "zone" else f"{stamp.isoformat()}+00:00"
    fields = {"both": {"timestamp": written, "t": written}, "older": {"t": written}}
    return {**fields.get(form, {"timestamp": written}), "y": rate}


def venue(form: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    rates = st.one_of(st.none(), st.floats(-75, 75))
    return st.dictionaries(st.integers(2, 14), rates, max_size=8).map(
        lambda points: [point(place, rate, form) for place, rate in points.items()]
    )


@given(
    st.dictionaries(
        st.sampled_from(["okx", "binance", "Aster", "zo"]),
        st.sampled_from(["now", "both", "older", "zone"]).flatmap(venue),
    )
)
def test_history_equals_a_loop_over_rows(series: dict[str, list[dict[str, Any]]]) -> None:
    frame = history(series)
    rows = zip(frame["exchange"], frame["time"], frame["rate_bps_8h"], strict=True)
    assert list(rows) == one_by_one(series)
    columns = frame[["symbol", "resolution", "kind"]].astype("str")
    assert set(columns.itertuples(index=False, name=None)) <= {("BTC", "30m", "sampled")}


def test_venues_keep_their_own_times() -> None:
    hours = {"binance": [2, 4, 6], "bybit": [2, 4, 6], "okx": [2, 5, 6], "zo": [2, 4, 6], "aster": []}
    series = {v: [point(place, 1.5, "both") for place in places] for v, places in hours.items()}
    frame = history(series)
    for name, places in hours.items():
        result = frame.loc[frame["exchange"] == name, "time"]
        assert result.dt.strftime("%H:%M").tolist() == [f"{p // 2:02d}:{p % 2 * 30:02d}" for p in places]


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([{"timestamp": "2026-01-01T02:00:00Z", "y": "1"}], r"got `str` - at `\$\.series\.okx\[0\]\.y`"),
        ([{"y": 1.0}], r"missing required field `t` - at `\$\.series\.okx\[0\]`"),
        ({"y": 1.0}, r"Expected `array`, got `object` - at `\$\.series\.okx`"),
    ],
)
def test_invalid_point_is_a_schema_error_with_venue_and_index(points: Any, message: str) -> None:
    good = [point(2, 1.0, "both")]
    with pytest.raises(SchemaError, match=f"/funding/historical: .*{message}"):
        history({"binance": good, "okx": points})


def test_settlements_equal_a_loop_over_rows() -> None:
    series = {
        "okx": [{**point(2 * n, 0.5 * n, "both"), "intervalMinutes": 60 * n} for n in range(1, 6)],
        "binance": [{**point(8, 3.0, "now"), "intervalMinutes": None}],
    }
    doubt = "interval_hours is 2 h at 2026-01-01 02:00, 1 h after the previous payment .4 of 6 payments"
    with (
        answering({"symbol": "BTC", "series": series, "notices": []}),
        pytest.warns(DataNotice, match=doubt),
        pytest.warns(DataNotice, match="payment without an interval"),
    ):
        frame = dd.funding.settlements("BTC", START, END)
    rows = zip(frame["exchange"], frame["time"], frame["rate_bps_8h"], strict=True)
    assert list(rows) == one_by_one(series)
    assert set(frame["kind"]) == {"settled"}
    assert frame.loc[frame["exchange"] == "okx", "interval_hours"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert frame.loc[frame["exchange"] == "binance", "interval_hours"].isna().tolist() == [True]
