"""Order books, depth, and trading hours."""

from __future__ import annotations

from tests.service.conftest import Caller

PAIR = {"symbol": "BTC", "exchange": "binance"}


def test_missing_order_books_return_404_with_the_reason(ask: Caller) -> None:
    assert (
        ask.error("/orderbook/book", 404, symbol="NOPE", exchange="binance")["error"]
        == "unknown symbol 'NOPE'"
    )
    assert (
        "no order book of BTC on okx now"
        in ask.error("/orderbook/book", 404, symbol="BTC", exchange="okx")["error"]
    )
    ask.error("/orderbook/book", 400, symbol="BTC", exchange="nasdaq")
    ask.error("/orderbook/depth-history", 404, symbol="NOPE", exchange="binance")


def test_order_book_is_the_newest_before_end(ask: Caller) -> None:
    """The market has books of BTC on binance at 11:30 and 11:58; now is 12:00."""
    now = ask.body("/orderbook/book", **PAIR)
    assert now["timestamp"] == "2026-06-30 11:58:00"
    assert ask.body("/orderbook/book", end="2026-07-05", **PAIR) == now
    earlier = ask.body("/orderbook/book", end="2026-06-30T11:57Z", **PAIR)
    assert earlier["timestamp"] == "2026-06-30 11:30:00"


def test_order_book_is_valid_for_an_hour(ask: Caller) -> None:
    error = ask.error("/orderbook/book", 404, end="2026-06-30T11:29Z", **PAIR)["error"]
    assert error == "no order book of BTC on binance in the hour before 2026-06-30T11:29:00Z"


def test_order_book_has_no_start_and_a_tier(ask: Caller) -> None:
    error = ask.error("/orderbook/book", 400, start="2026-06-30T11:00Z", **PAIR)["error"]
    assert error == "start is not supported: a book has one time; use end"
    error = ask.error("/orderbook/book", 403, tier="dev", end="2026-05-31T12:00Z", **PAIR)
    assert error["required_tier"] == "pro"


def test_depth_is_averaged_over_time(ask: Caller) -> None:
    """10 × bps for half an hour and 20 × bps for the other half: 15 × bps; asks a dollar more."""
    window = {"start": "2026-06-30T11:00Z", "end": "2026-06-30T12:00Z", **PAIR}
    body = ask.body("/orderbook/depth-history", resolution="1h", **window)
    assert (body["symbol"], body["exchange"], body["unit"], body["resolution"]) == (
        "BTC",
        "binance",
        "usd",
        "1h",
    )
    expected = {"timestamp": "2026-06-30T11:00:00Z"}
    for bps in (10, 25, 50, 100):
        expected |= {f"bid_depth_{bps}bps_usd": 15.0 * bps, f"ask_depth_{bps}bps_usd": 15.0 * bps + 1}
    assert body["data"] == [expected]
    raw = ask.body("/orderbook/depth-history", resolution="raw", **window)["data"]
    assert [row["bid_depth_25bps_usd"] for row in raw] == [250.0, 500.0]


def test_trading_hours_have_sessions_and_holidays(ask: Caller) -> None:
    body = ask.body("/rwa/market-hours")
    assert body["timestamp"] == "2026-06-30 12:00:00"
    london, new_york = body["exchanges"]
    regular = _interval("2026-06-30T13:30:00Z", "2026-06-30T20:00:00Z", "regular")
    assert new_york == {
        "id": "nyse",
        "name": "New York",
        "short_name": "NYSE",
        "mic": "XNYS",
        "timezone": "America/New_York",
        "is_tradable": True,
        "next_session": regular,
        "sessions": [_interval("2026-06-30T08:00:00Z", "2026-06-30T13:30:00Z", "pre"), regular],
        "holidays": [_interval("2026-07-03T04:00:00Z", "2026-07-04T04:00:00Z", "holiday", tradable=False)],
    }
    assert (london["is_tradable"], london["holidays"]) == (False, [])
    assert london["next_session"]["start"] == "2026-07-01T07:00:00Z"


def test_trading_hours_accept_id_short_name_and_code(ask: Caller) -> None:
    for name in ("nyse", "NYSE", "XNYS", "xnys"):
        assert [e["id"] for e in ask.body("/rwa/market-hours", exchange=name)["exchanges"]] == ["nyse"]
    both = ask.body("/rwa/market-hours", exchange="XNYS,LSE")["exchanges"]
    assert [e["id"] for e in both] == ["lse", "nyse"]
    error = ask.error("/rwa/market-hours", 400, exchange="binance")["error"]
    assert "an id, short name or market identifier code, got" in error


def _interval(start: str, end: str, session: str, *, tradable: bool = True) -> dict[str, object]:
    return {"start": start, "end": end, "session": session, "is_tradable": tradable}
