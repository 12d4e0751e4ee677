"""Every fault gives the right response or one typed error, after a known number of tries, with and without a
key.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import random
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
import urllib3

from derivdata import errors
from derivdata.client.transport import adapter
from derivdata.client.transport.body import BodyTooLarge, NotJson, check_json, read_body
from derivdata.client.transport.response import retry_after
from derivdata.client.transport.session import request_of
from derivdata.client.transport.settings import Limits, Timing
from derivdata.errors import NetworkError
from derivdata.tables.endpoints import FUNDING, FUNDING_HISTORICAL, MARKETS_SYMBOLS, Endpoint, Request
from tests.transport.conftest import FakeTime, Open, checked
from tests.transport.server import NOON, ReceivedRequest, Reply, endless, reset, serving

GOOD = Reply.json({"rate": 1.0})
ASKED = Request("/funding", ())


def error(status: int, **body: object) -> Reply:
    return Reply.json(body, status=status)


def asking(status: int, after: str) -> Reply:
    return Reply.json({"error": "slow down"}, status=status, headers={"Retry-After": after})


CUT = Reply(b'{"rate": 1.0', length=40)
CUT_UNFRAMED = Reply(b'{"rate": 1.', framed=False)
CUT_CHUNKED = Reply(b"ff\r\n{", headers={"Transfer-Encoding": "chunked"}, framed=False)
CUT_GZIP = Reply(gzip.compress(GOOD.body)[:-9], headers={"Content-Encoding": "gzip"}, framed=False)
RESET = Reply(raw=reset)
HTML = Reply(b"<html><body>log in</body></html>", kind="text/html")
AWAY = Reply(b"", status=302, headers={"Location": "http://127.0.0.1:9/x"})
BOMB = Reply(gzip.compress(b"0" * 300_000), headers={"Content-Encoding": "gzip"})

RECOVERED = [
    ("500 twice", [error(500), error(500), GOOD], [0.25, 0.5]),
    ("502 page, then well", [Reply(b"<html>", status=502, kind="text/html"), GOOD], [0.25]),
    ("503", [error(503), GOOD], [0.25]),
    ("504", [error(504), GOOD], [0.25]),
    ("429 asks for 1.5 s", [asking(429, "1.5"), GOOD], [1.5]),
    ("429 asks by date", [asking(429, "Tue, 30 Jun 2026 12:00:37 GMT"), GOOD], [7.0]),
    ("429 asks for a date gone by", [asking(429, "Tue, 30 Jun 2026 11:00:00 GMT"), GOOD], [0.25]),
    ("429 asks for nonsense", [asking(429, "abc"), GOOD], [0.25]),
    ("429 asks for -5", [asking(429, "-5"), GOOD], [0.25]),
    ("429 asks for nan", [asking(429, "nan"), GOOD], [0.25]),
    ("reset", [RESET, GOOD], [0.25]),
    ("cut by length", [CUT, GOOD], [0.25]),
    ("cut without length", [CUT_UNFRAMED, GOOD], [0.25]),
    ("cut in chunks", [CUT_CHUNKED, GOOD], [0.25]),
    ("cut while compressed", [CUT_GZIP, GOOD], [0.25]),
    ("four kinds in turn", [error(503), RESET, CUT, CUT_CHUNKED, GOOD], [0.25, 0.5, 1.0, 2.0]),
    ("JSON under another type", [Reply(GOOD.body, kind="text/html")], []),
]
LASTING = [
    ("400", [error(400, error="symbol is required")], errors.BadRequest, 1, "symbol is required"),
    ("400 as text", [Reply(b"bad", status=400, kind="text/plain")], errors.BadRequest, 1, ": bad"),
    ("401", [error(401, error="unknown key")], errors.AuthError, 1, "unknown key.*DERIVDATA_API_KEY"),
    ("403", [error(403, error="upgrade", required_tier="pro")], errors.TierError, 1, "needs the Pro tier"),
    ("404", [error(404, error="no such symbol")], errors.NotFound, 1, "no such symbol"),
    ("404 page", [Reply(b"<p>gone", status=404, kind="text/html")], errors.NotFound, 1, "returned HTTP 404"),
    ("redirect in clear", [AWAY], errors.NetworkError, 1, "plain http"),
    ("501", [error(501)], errors.ServerError, 1, "HTTP 501"),
    ("500 for ever", [error(500, error="boom")], errors.ServerError, 5, "boom"),
    ("429 for ever", [asking(429, "2")], errors.RateLimited, 5, "slow down.*in 2 s"),
    ("429 asks for a day", [asking(429, "86400")], errors.RateLimited, 1, "in 86400 s"),
    ("reset for ever", [RESET], errors.NetworkError, 5, "connection failed or was interrupted"),
    ("cut for ever", [CUT], errors.NetworkError, 5, "was interrupted"),
    ("200 page", [HTML], errors.SchemaError, 1, "HTML"),
    ("200 broken JSON", [Reply(b'{"rate": 1.0,}')], errors.SchemaError, 1, "not JSON"),
    ("200 short JSON of full length", [Reply(b'{"rate": 1.')], errors.SchemaError, 1, "not JSON"),
    ("200 latin-1", [Reply('{"rate": "é"}'.encode("latin-1"))], errors.SchemaError, 1, "UTF-8"),
    ("200 without a date", [Reply(b"{}", date=None)], errors.SchemaError, 1, "Date"),
    ("204", [Reply(b"", status=204)], errors.SchemaError, 1, "HTTP 204"),
    ("decompression bomb", [BOMB], errors.NetworkError, 1, "larger than"),
    (
        "bad gzip",
        [Reply(b"xx", headers={"Content-Encoding": "gzip"})],
        errors.NetworkError,
        5,
        "was interrupted",
    ),
]


@pytest.mark.parametrize(
    ("endpoint", "params", "says"),
    [
        (
            FUNDING_HISTORICAL,
            {"symbol": "BTC"},
            "lists this endpoint for the Dev tier .*Dev only the last 30 days: old",
        ),
        (MARKETS_SYMBOLS, {}, "lists this endpoint for the Dev tier and higher: old"),
    ],
)
def test_error_403_without_a_tier_does_not_name_the_tier_of_the_key(
    endpoint: Endpoint, params: dict[str, str], says: str, open_connection: Open
) -> None:
    with serving(lambda _: error(403, error="old")) as server:
        served = open_connection(server.url)._serve(request_of(endpoint, params), endpoint)
    with pytest.raises(errors.TierError, match=says) as raised:
        checked(served)
    assert "needs" not in str(raised.value), "the key may be of that very tier"


def answers(replies: list[Reply]):  # type: ignore[no-untyped-def]
    """The replies in turn, the last one indefinitely."""
    left = iter(replies)

    def answer(_: ReceivedRequest) -> Reply:
        return next(left, replies[-1])

    return answer


@pytest.mark.parametrize(("replies", "slept"), [c[1:] for c in RECOVERED], ids=[c[0] for c in RECOVERED])
def test_transient_fault_is_retried(
    replies: list[Reply], slept: list[float], open_connection: Open, fake: FakeTime
) -> None:
    with serving(answers(replies)) as server:
        served = checked(open_connection(server.url)._serve(ASKED, FUNDING))
    assert served.body == GOOD.body
    assert served.as_of == NOON
    assert len(server.received) == len(replies)
    assert fake.slept == slept


@pytest.mark.parametrize(
    ("replies", "kind", "tries", "says"), [c[1:] for c in LASTING], ids=[c[0] for c in LASTING]
)
def test_lasting_fault_raises_one_typed_error(
    replies: list[Reply], kind: type[Exception], tries: int, says: str, open_connection: Open
) -> None:
    with serving(answers(replies)) as server:
        connection = open_connection(server.url, limits=Limits(body_bytes=200_000))
        with pytest.raises(kind, match=says) as raised:
            checked(connection._serve(ASKED, FUNDING))
        assert len(server.received) == tries
        with pytest.raises(kind):
            checked(connection._serve(ASKED, FUNDING))
        assert len(server.received) == 2 * tries, "an error is never kept"
    assert str(raised.value).startswith("/funding")


def test_backoff_doubles_up_to_the_cap_within_the_time_budget(open_connection: Open, fake: FakeTime) -> None:
    with serving(answers([error(500)])) as server:
        connection = open_connection(server.url, limits=Limits(tries=50))
        with pytest.raises(errors.ServerError):
            checked(connection._serve(ASKED, FUNDING))
    assert fake.slept[:8] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert 100 < sum(fake.slept) <= 120


def test_retry_after_beyond_the_time_budget_raises_at_once(open_connection: Open, fake: FakeTime) -> None:
    with serving(answers([asking(503, "30")])) as server, pytest.raises(errors.ServerError):
        checked(open_connection(server.url)._serve(ASKED, FUNDING))
    assert sum(fake.slept) <= 120
    assert len(server.received) == 4


def test_rate_limit_error_has_the_seconds_stated_in_the_body(open_connection: Open) -> None:
    reply = Reply.json({"error": "slow", "message": "2 a second", "retry_after": 77}, status=429)
    match = "slow; 2 a second"
    with serving(answers([reply])) as server, pytest.raises(errors.RateLimited, match=match) as raised:
        checked(open_connection(server.url)._serve(ASKED, FUNDING))
    assert raised.value.retry_after == 77.0
    assert raised.value.status == 429
    assert raised.value.retryable


def test_a_rejected_connection_is_a_network_error(open_connection: Open) -> None:
    with serving(answers([GOOD])) as server:
        url = server.url
    with pytest.raises(errors.NetworkError, match="refused"):
        open_connection(url)._serve(ASKED, FUNDING)


@pytest.mark.parametrize(
    ("reply", "limit", "says"),
    [
        (endless(b"Content-Length: 1000000", b" "), {}, "not complete"),
        # Empty members: what is decompressed never grows.
        (endless(b"Content-Encoding: gzip", gzip.compress(b"") * 50), {}, "not complete"),
        (Reply(raw=lambda handler: handler.rfile.read(1)), {"read": 0.05}, "stopped sending"),
    ],
)
def test_endless_bodies_and_silence_end_at_size_limit_and_timeout(
    reply: Reply, limit: dict[str, float], says: str, open_connection: Open
) -> None:
    with serving(answers([reply])) as server:
        timing = Timing(monotonic=itertools.count(0.0, 10.0).__next__)  # ten seconds from look to look
        connection = open_connection(server.url, timing=timing, limits=Limits(**limit, tries=1))  # type: ignore[arg-type]
        with pytest.raises(errors.NetworkError, match=says):
            connection._serve(ASKED, FUNDING)


def reply(body: bytes) -> Any:
    return urllib3.HTTPResponse(io.BytesIO(body), {"Content-Encoding": "gzip"}, preload_content=False)


def test_size_limit_applies_to_compressed_bytes_too() -> None:
    """Empty gzip members unpack to nothing, so the unpacked size never reaches the limit."""
    empty = gzip.compress(b"", mtime=0)
    with pytest.raises(BodyTooLarge):
        read_body(reply(empty * 5_000), deadline=60.0, cap=65_536, monotonic=lambda: 0.0)
    few = reply(empty * 5 + gzip.compress(b"{}", mtime=0))
    assert read_body(few, deadline=60.0, cap=65_536, monotonic=lambda: 0.0) == b"{}"


@pytest.mark.parametrize("size", [0, 1, 2**16 - 2, 2**16 - 1, 2**16, 2**17, 2**17 + 1, 300_001])
def test_compressed_bodies_of_any_size_are_decoded_completely(size: int, open_connection: Open) -> None:
    """In one member, or in several, as concatenated gzip files have them."""
    text = (random.Random(size).randbytes(size).hex() + "0" * size)[:size]
    body = f'"{text}"'.encode()
    half = len(body) // 2
    for packed in (gzip.compress(body), gzip.compress(body[:half]) + gzip.compress(body[half:])):
        with serving(answers([Reply(packed, headers={"Content-Encoding": "gzip"})])) as server:
            assert open_connection(server.url)._serve(ASKED, FUNDING).body == body


def test_endless_headers_end_at_the_time_limit(open_connection: Open) -> None:
    over = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not over.wait(0.02):
            handler.wfile.write(b"x")
            handler.wfile.flush()

    with serving(answers([Reply(raw=drip)])) as server:
        connection = open_connection(server.url, timing=Timing(), limits=Limits(patience=0.2))
        with pytest.raises(errors.NetworkError, match="no response within"):
            connection._serve(ASKED, FUNDING)
        over.set()


def test_request_in_flight_is_not_retried_after_close(open_connection: Open, fake: FakeTime) -> None:
    with serving(answers([error(503)])) as server:
        connection = open_connection(
            server.url, timing=replace(fake.timing, sleep=lambda _: connection.close())
        )
        with pytest.raises(errors.ServerError):
            checked(connection._serve(ASKED, FUNDING))
        assert len(server.received) == 2


POINTS = [{"timestamp": "2026-06-01T00:00:00Z", "y": n / 8} for n in range(100)]
ORDINARY = {"symbol": "BTC", "series": {"okx": POINTS, "bybit": POINTS}, "data": POINTS, "notices": []}

TWICE = [
    b'{"a":1,"a":2}',
    b'{"a":1,"a" :2}',
    b'{"a":1,"a"\n:2}',
    b'{"a" :1,"b":"x","a":2,"c":3}',
    b'{"a":1,"\\u0061":2}',
    b'{"a":1,"a":"\\":"}',
    b'{"a":"\\":","a":2}',
    b'{"s":{"okx":[{"t":1,"y":2},{"t":1,"t":2}]}}',
    b'[{"t":1,"t":2}]',
    b'{"x":{"y":{"z":{"a":1,"a":2}}}}',
    b'{"x":[[{"a":1,"a":2}]]}',
    b'{"x":[' + b'{"a":1},' * 200_000 + b'{"a":1,"a":2}]}',
]


@pytest.mark.parametrize("body", TWICE)
def test_body_with_a_duplicate_key_is_rejected(body: bytes) -> None:
    with pytest.raises(NotJson, match="same key twice"):
        check_json(body, {})


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("text", ["plain", 'a "quoted": text', "colon : blank", "back\\slash"])
def test_body_with_unique_keys_passes(text: str, indent: int | None) -> None:
    check_json(json.dumps({**ORDINARY, "text": text}, indent=indent).encode(), {})


BODY = b'{"result": [1, 2, 3]}' * 100


@pytest.fixture
def session() -> Iterator[adapter.KeylessSession]:
    with closing(adapter.KeylessSession()) as opened:
        yield opened


def test_the_headers_of_a_venue_are_sent_with_each_request() -> None:
    messages: list[str | None] = []

    def answer(request: Any) -> Reply:
        messages.append(request.headers.get("X-Gate-Size-Decimal"))
        return Reply(BODY)

    with serving(answer) as server, closing(adapter.KeylessSession({"X-Gate-Size-Decimal": "1"})) as opened:
        opened.send("GET", f"{server.url}/contracts", {})
        opened.send("GET", f"{server.url}/tickers", {})
    assert messages == ["1", "1"]


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, b"until 1772442000000", 7.0),
        ({"X-Bapi-Limit-Reset-Timestamp": "1772438405000"}, b"", 5.0),
        ({"X-Gate-RateLimit-Reset-Timestamp": "1772438409"}, b"", 9.0),
        ({"gw-ratelimit-reset": "2500"}, b"", 2.5),
        ({"RateLimit": '"credits";r=10;t=45'}, b"", 45.0),
        ({"RateLimit": '"burst";r=10;t=1, "daily";r=0;t=3600, "minute";r=3;t=9000'}, b"", 3600.0),
        ({"RateLimit": '"burst";r=5;t=1, "daily";r=900;t=80000'}, b"", 1.0),
        ({"RateLimit": '"credits";t=20;r=0'}, b"", 20.0),
        ({"Retry-After": "1772438407000"}, b"", 7.0),
        ({"Retry-After": "1772438407"}, b"", 7.0),
        ({"Retry-After": "-1"}, b"", None),
        ({}, b'{"code": -1003, "msg": "Way too many requests; IP banned until 1772440200000."}', 1800.0),
        ({}, b'{"code": 100410, "msg": "disabled period and will be unblocked after 1772438460000"}', 60.0),
        ({"X-Bapi-Limit-Reset-Timestamp": "1772438390000"}, b"no end", None),
    ],
)
def test_retry_after_is_read_from_seconds_or_dates(
    headers: dict[str, str], body: bytes, seconds: Any
) -> None:
    """From its own date on, 2026-03-02 08:00."""
    dated = {"Date": "Mon, 02 Mar 2026 08:00:00 GMT", **headers}
    assert adapter.stated_wait(adapter.KeylessReply(429, dated, body)) == seconds


@pytest.mark.parametrize("compressed", [False, True])
def test_response_is_complete_and_decoded(compressed: bool, session: adapter.KeylessSession) -> None:
    headers = {"Content-Encoding": "gzip"} if compressed else {}
    reply = Reply(gzip.compress(BODY) if compressed else BODY, headers=headers)
    with serving(lambda _: reply) as server:
        assert session.send("GET", f"{server.url}/v5/tickers", {}).body == BODY


def test_truncated_compressed_response_raises(session: adapter.KeylessSession) -> None:
    """The length on the wire is that of the part: only the compression reveals the missing rest."""
    reply = Reply(gzip.compress(BODY)[:-12], headers={"Content-Encoding": "gzip"})
    with serving(lambda _: reply) as server, pytest.raises(NetworkError, match="no complete response"):
        session.send("GET", f"{server.url}/v5/tickers", {})


@pytest.mark.parametrize(
    ("url", "proxy", "why"),
    [
        ("http://no-such-venue.invalid", "", r"the name no-such-venue.invalid was not found \(DNS\)"),
        ("http://127.0.0.1:9", "", "127.0.0.1:9 does not accept connections"),
        ("http://venue.test", "http://127.0.0.1:9", "the proxy between this machine and venue.test does not"),
    ],
)
def test_connection_errors_name_the_failed_step(
    url: str, proxy: str, why: str, session: adapter.KeylessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(adapter.Unreachable, match=f"^/v5/tickers: {why}"):
        session.send("GET", f"{url}/v5/tickers", {})


def test_slow_response_ends_at_the_deadline(
    session: adapter.KeylessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then never triggers a timeout: only the deadline ends it."""
    monkeypatch.setattr(adapter, "WHOLE_SECONDS", 0.1)

    dripping = endless(b"Content-Length: 100000", b" ")
    with serving(lambda _: dripping) as server, pytest.raises(NetworkError, match="was not complete"):
        session.send("GET", f"{server.url}/v5/tickers", {})


def test_too_large_response_raises(session: adapter.KeylessSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "LARGEST", len(BODY) - 1)
    with serving(lambda _: Reply(BODY)) as server, pytest.raises(NetworkError, match="larger than"):
        session.send("GET", f"{server.url}/v5/tickers", {})


@pytest.mark.parametrize("value", ["1_0", "\u0661", "1e1", "-1", "NaN", ""])
def test_retry_after_that_is_not_a_plain_number_is_ignored(value: str) -> None:
    assert retry_after(value, None) is None
    assert retry_after("10", None) == 10.0
