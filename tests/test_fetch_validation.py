"""Responses that contradict the request: absent fields, invalid times, other subjects."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.client.retrieval import pieces
from derivdata.client.transport import SESSION, Response
from derivdata.errors import DataNotice, SchemaError, TierError
from derivdata.support import times
from derivdata.tables import endpoints
from derivdata.tables.endpoints import Request
from tests.support.records import assert_identical
from tests.support.rows import few_rows

DAY = ("2026-06-01", "2026-06-02")
NOW = pd.Timestamp("2026-06-30T12:00", tz="UTC")
STAMP = "2026-06-01T00:00:00Z"
Reply = Callable[[Request], tuple[int, Any]]


@contextmanager
def answering(reply: Reply, now: pd.Timestamp = NOW) -> Iterator[list[Request]]:
    """Serve every request with the status and the body of `reply`."""
    asked: list[Request] = []

    def answer(request: Request) -> Response:
        asked.append(request)
        status, body = reply(request)
        return Response(
            request=request,
            status=status,
            headers={"Content-Type": "application/json"},
            body=msgspec.json.encode(body),
            as_of=now,
            source="test",
            synthetic=False,
            sha256="0" * 64,
        )

    restore = SESSION.install(responder=answer, clock=lambda: now.floor("min"))
    try:
        yield asked
    finally:
        restore()


def always(body: Any) -> Reply:
    return lambda request: (200, body)


def history(*points: Any, symbol: str = "BTC") -> dict[str, Any]:
    return {"symbol": symbol, "unit": "bps_8h", "resolution": "1h", "series": {"okx": points}, "notices": []}


def held(*rows: Any) -> dict[str, Any]:
    return {"symbol": "BTC", "resolution": "1h", "data": [{"exchange": "okx", **row} for row in rows]}


def chain(**fields: Any) -> dict[str, Any]:
    option = {
        "instrument_name": "BTC-3JUL26-100000-C",
        "expiry": "2026-07-03T08:00:00Z",
        "strike": 1e5,
        "side": "call",
    }
    return {"symbol": "BTC", "exchange": "deribit", "instruments": [option | fields]}


DEPTH = {f"{side}_depth_{bps}bps_usd": 1.0 for side in ("bid", "ask") for bps in (10, 25, 50, 100)}


UNNAMED = {"symbol": "BTC", "timestamp": "2026-06-30 12:00:00", "exchanges": [{"venue": "okx"}]}
UNDATED: dict[str, Any] = {"exchange": "okx", "data": [{"at": STAMP} | DEPTH]}


@pytest.mark.parametrize(
    ("call", "body", "message"),
    [
        (lambda: dd.funding.history("BTC", *DAY), history({"timestamp": STAMP, "rate": 1.0}), "field `y`"),
        (lambda: dd.oi.history("BTC", *DAY), held({"timestamp": STAMP, "oi": 1.0}), "`open_interest_usd`"),
        (lambda: dd.oi.history("BTC", *DAY), held({"time": STAMP, "open_interest_usd": 1.0}), "no timestamp"),
        (lambda: dd.markets.symbol_exchanges("BTC"), UNNAMED, "`exchange`"),
        (lambda: dd.options.snapshot("BTC", "deribit"), chain(open_interest=1.0), r"\.iv is missing"),
        (lambda: dd.orderbook.depth_history("BTC", "okx", *DAY), {"symbol": "BTC"} | UNDATED, "no timestamp"),
        (lambda: dd.oi.top_symbols("okx", *DAY), {"symbols": [], "timeseries": [{"A": 1}]}, "no timestamp"),
    ],
)
def test_a_field_that_no_row_has_is_a_schema_error(call: Any, body: Any, message: str) -> None:
    with answering(always(body)), pytest.raises(SchemaError, match=message):
        call()


@pytest.mark.parametrize("count", [1, 256, 70_000])
def test_response_may_have_any_number_of_venues(count: int) -> None:
    venues = [f"venue{i:05d}" for i in range(count)]
    body = history() | {
        "series": {venue: [{"timestamp": STAMP, "y": i / 1e3}] for i, venue in enumerate(venues)}
    }
    with answering(always(body)), few_rows():
        frame = dd.funding.history("BTC", *DAY)
    assert frame["exchange"].tolist() == venues
    assert frame["rate_bps_8h"].tolist() == [i / 1e3 for i in range(count)]


def answered(body: Any, call: Callable[[], Any]) -> Any:
    with answering(always(body)):
        return call()


def test_fields_without_a_symbol_are_not_rows() -> None:
    body = {"symbols": ["BTC"], "timeseries": [{"timestamp": STAMP, "BTC": 1.0, "total": 3.0}]}
    frame = answered(body, lambda: dd.oi.top_symbols("okx", *DAY))
    assert frame[["symbol", "resolution"]].astype("str").to_numpy().tolist() == [["BTC", "unstated"]]


def test_resolution_is_that_of_the_response_or_unstated() -> None:
    rows = [{"timestamp": STAMP, "volume_usd": 1, "oi_usd": 2}]
    body = {"exchange": "okx", "resolution": "4h", "data": rows}
    with few_rows():
        frame = answered(body, lambda: dd.markets.exchange_history("okx", *DAY))
    assert set(frame["resolution"]) == {"4h"}
    body = {"symbol": "BTC", "exchange": "okx", "data": [{"timestamp": STAMP} | DEPTH]}
    with few_rows():
        frame = answered(body, lambda: dd.orderbook.depth_history("BTC", "okx", *DAY))
    assert set(frame["resolution"]) == {"unstated"}


def test_response_with_another_resolution_than_requested_has_a_notice() -> None:
    rows = [{"date": STAMP, "exchanges": {"okx": {"long_usd": 1, "short_usd": 2}}}]
    body = {"resolution": "1m", "data": rows}
    with few_rows(), pytest.warns(DataNotice, match="'raw', but the response has '1m'"):
        frame = answered(body, lambda: dd.liquidations.history(None, *DAY, resolution="raw"))
    assert frame["resolution"].tolist() == ["1m"]


def by_span(covered: pd.Timestamp, body: Any) -> Reply:
    """Return a reply of a tier that rejects windows ending before a time."""

    def reply(request: Request) -> tuple[int, Any]:
        query = dict(request.query)
        if pd.Timestamp(query["end"]) <= covered:
            return 403, {"error": "the range is outside the rolling 30 days", "required_tier": "pro"}
        return 200, body(query)

    return reply


def one_at_the_start(query: dict[str, str]) -> dict[str, Any]:
    return history({"timestamp": query["start"], "y": 1.0}) | {"resolution": query["resolution"]}


def test_parts_outside_the_tier_are_omitted_with_a_notice() -> None:
    floor = NOW - pd.Timedelta(30, "D")
    with (
        answering(by_span(floor, one_at_the_start)) as asked,
        few_rows(),
        pytest.warns(DataNotice, match=r"omitted 2026-05-21T12:00:00Z to 2026-05-.*outside the rolling"),
    ):
        frame = dd.funding.history("BTC", "40d", resolution="1m")
    assert len(frame) == len(asked) - 1, "older ones than the first that is refused are not asked for"
    spans = pieces(endpoints.FUNDING_HISTORICAL, times.Window(NOW - pd.Timedelta(40, "D"), NOW), "1m", None)
    assert frame["time"].tolist() == [span.start for span in spans if span.end > floor]
    with answering(by_span(NOW, one_at_the_start)) as asked, pytest.raises(TierError, match="Pro tier"):
        dd.funding.history("BTC", "40d", resolution="1m")
    assert len(asked) == 1


def test_no_data_notice_is_given_once_if_all_parts_are_empty() -> None:
    since = pd.Timestamp("2026-06-20", tz="UTC")

    def body(query: dict[str, str]) -> dict[str, Any]:
        if query["symbol"] == "BTC" and pd.Timestamp(query["start"]) >= since:
            return one_at_the_start(query)
        said = ["No data in the requested range; it starts later."]
        return history(symbol=query["symbol"]) | {"notices": said, "resolution": "1m"}

    with (
        answering(lambda r: (200, body(dict(r.query))) if "historical" in r.path else (404, {})),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        frame = dd.funding.history(["BTC", "NOSUCH"], "20d", resolution="1m")
    assert set(frame["symbol"]) == {"BTC"}
    messages = [str(w.message) for w in caught if "are missing" not in str(w.message)]
    assert [("NOSUCH" in text, "No data" in text) for text in messages] == [(True, True)]


def test_windows_are_split_by_row_size_and_venue_count() -> None:
    window = times.Window(NOW - pd.Timedelta(170, "D"), NOW)
    longest = max(b - a for a, b in pieces(endpoints.ORDERBOOK_DEPTH_HISTORY, window, "1m", "binance"))
    assert longest / pd.Timedelta("1min") * 304 < 20e6
    every = pieces(endpoints.OI_TIMESERIES, window, "1h", None)
    assert pieces(endpoints.OI_TIMESERIES, window, "1h", ["all"]) == every
    assert pieces(endpoints.OI_TIMESERIES, window, "1h", "all") == every
    assert len(pieces(endpoints.OI_TIMESERIES, window, "1m", "okx,zo")) == len(
        pieces(endpoints.OI_TIMESERIES, window, "1m", ["okx", "zo"])
    )


def option(iv: float, held: float, price: float, name: str = "") -> dict[str, Any]:
    place = {"expiry": "2026-07-03T08:00:00Z", "strike": 1e5, "side": "call", "instrument_name": name}
    return place | {"iv": iv, "open_interest": held, "underlying_price": price}


def snapshot(points: list[dict[str, Any]], fetch: str = "snapshot", **more: Any) -> Any:
    """Result of a fetcher for a chain."""
    body = {"symbol": "BTC", "exchange": "deribit", "instruments": points, **more}
    return answered(body, lambda: getattr(dd.options, fetch)("BTC", "deribit"))


def surfaces(snapshots: dict[str, Any]) -> Any:
    """Result of the fetcher for chains by time."""
    body = {"symbol": "BTC", "exchange": "deribit", "snapshots": snapshots}
    return answered(body, lambda: dd.options.surface_history("BTC", "deribit", "6h"))


def test_duplicate_instruments_are_treated_alike_in_snapshot_and_history() -> None:
    points = [
        option(0.4, 1.0, 101.0, "BTC-3JUL26-100000-C"),
        option(0.6, 2.0, 103.0, "BTC-3JUL26-100000-C-B"),
        option(0.5, 1.0, 5.0, "BTC-3JUL26-100000-P") | {"side": "put"},
    ]
    with (
        pytest.warns(DataNotice, match="1 instruments share"),
        pytest.warns(DataNotice, match="1 options have the same expiry, strike and side as another option"),
    ):
        surface = snapshot(points, "surface")
    with few_rows(), pytest.warns(DataNotice, match="1 instruments share"):
        history = surfaces({"2026-06-30T11:00:00Z": points}).isel(time=0)
    for result in (surface, history):
        assert result["iv"].sel(side="call").values.tolist() == [[0.6]]
        assert result["underlying_price"].values.tolist() == [54.0], "median of 103 and 5"
    with (
        pytest.warns(DataNotice, match="1 options have"),
        pytest.raises(SchemaError, match="1 rows repeat a key"),
    ):
        snapshot(points[:1] * 2, "surface")


def test_surface_equals_that_of_the_snapshot_with_its_notices() -> None:
    points = [
        option(0.1 * n, float(n), 100.0 + n, f"BTC-3JUL26-{100_000 + 500 * n}-{side[0].upper()}")
        | {"strike": 1e5 + 500 * n, "side": side}
        for n, side in enumerate(["put", "call", "call", "put"], start=1)
    ]
    with pytest.warns(DataNotice, match="thinned out"):
        surface = snapshot(points, "surface", notices=["thinned out"])
    with pytest.warns(DataNotice, match="thinned out"):
        chain = snapshot(points, notices=["thinned out"])
    assert_identical(surface, dd.tables.surface(chain))
    assert dd.provenance(surface) == dd.provenance(chain)
    assert dd.provenance(surface)["notices"][0] == "thinned out"


def test_mismatched_instrument_name_is_found_after_opaque_names() -> None:
    names = ["a", "BTC-3JUL26-100000-C", "no option", "BTC-3JUL26-100000-P"]
    with pytest.raises(SchemaError, match="'BTC-3JUL26-100000-P' has the side 'call'"):
        snapshot([option(0.4, 1.0, 101.0, name) for name in names])


@pytest.mark.filterwarnings("ignore:.*options of the other side are missing:derivdata.errors.DataNotice")
def test_field_present_only_in_later_rows_is_nan_before() -> None:
    points = [option(0.4, 1.0, 101.0, f"BTC-3JUL26-{n}-C") | {"strike": float(n)} for n in range(600)]
    for point in points[550:]:
        point["rho"] = 0.25
    chain = snapshot(points).set_index("instrument_name")
    assert chain["rho"].isna().sum() == 550
    assert set(chain["rho"].dropna()) == {0.25}
    assert chain.loc[["BTC-3JUL26-549-C", "BTC-3JUL26-550-C"], "rho"].isna().tolist() == [True, False]
    assert chain["volume"].isna().all()


def test_missing_options_give_an_empty_surface_and_a_notice() -> None:
    with pytest.warns(DataNotice, match="no options on BTC at deribit"):
        surface = snapshot([], "surface")
    assert surface.sizes == {"expiry": 0, "strike": 0, "side": 2}
    assert (surface["symbol"].item(), surface["exchange"].item()) == ("BTC", "deribit")
    assert surface["as_of"].values == np.datetime64("2026-06-30T12:00")
    with pytest.warns(DataNotice, match="the response has no rows"):
        history = surfaces({})
    assert history.sizes == {"time": 0, "expiry": 0, "strike": 0, "side": 2}
    assert history["symbol"].item() == "BTC"


@pytest.mark.parametrize(
    ("start", "asked"),
    [("6h", "1d"), ("2d", "3d"), ("47h", "2d"), ("90d", "90d"), ("91d", "92d")],
)
def test_first_hour_is_requested_if_the_clock_has_seconds(start: str, asked: str) -> None:
    """The service counts whole days from its own second, up to a minute after `asof`."""
    body = {"symbol": "BTC", "exchange": "deribit", "data": [], "notices": ["No data."]}
    with (
        pytest.warns(DataNotice, match="No data"),
        answering(always(body), now=NOW + pd.Timedelta(30, "s")) as requests,
    ):
        dd.options.atm_history("BTC", "deribit", start)
    assert dict(requests[0].query)["range"] == asked


@pytest.mark.parametrize("name", ["atm_history", "surface_history"])
def test_a_window_after_the_current_instant_is_rejected(name: str) -> None:
    with (
        answering(always({})) as asked,
        pytest.raises(ValueError, match=r"must begin before dd\.asof\(\), 2026-06-30"),
    ):
        getattr(dd.options, name)("BTC", "deribit", "2026-07-01", "2026-07-02")
    assert asked == []


@pytest.mark.parametrize(
    ("said", "notice", "accepted"),
    [
        ("4h", "liquidations of 3 venues are estimates", False),
        ("4h", "the range was clamped", True),
        ("4h", "this key sees the last 4h", True),
        ("1d", "", True),
        ("48h", "the range was clamped", False),
        ("999999d", "the range was clamped", False),
        ("soon", "the range was clamped", False),
    ],
)
@pytest.mark.filterwarnings("ignore::derivdata.errors.DataNotice")
def test_shorter_range_needs_a_notice_about_it(said: str, notice: str, accepted: bool) -> None:
    body = {"group_by": "exchange", "range": said, "groups": [], "notices": [notice] if notice else []}
    message = f"requested range '24h', but the response is about range '{said}'"
    with answering(always(body)), nullcontext() if accepted else pytest.raises(SchemaError, match=message):
        dd.liquidations.aggregates("24h", group_by="exchange")
