"""Requests without a key: whole answers in bounded time, or an error."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import closing

import pytest

from derivdata.client.transport import keyless
from derivdata.errors import NetworkError
from tests.transport.server import Reply, endless, serving

BODY = b'{"result": [1, 2, 3]}' * 100


@pytest.fixture
def session() -> Iterator[keyless.KeylessSession]:
    with closing(keyless.KeylessSession()) as opened:
        yield opened


@pytest.mark.parametrize("compressed", [False, True])
def test_an_answer_comes_whole_and_decoded(compressed: bool, session: keyless.KeylessSession) -> None:
    headers = {"Content-Encoding": "gzip"} if compressed else {}
    reply = Reply(gzip.compress(BODY) if compressed else BODY, headers=headers)
    with serving(lambda _: reply) as server:
        assert session.send("GET", f"{server.url}/v5/tickers", {}).body == BODY


def test_a_compressed_answer_that_breaks_off_is_an_error(session: keyless.KeylessSession) -> None:
    """The length on the wire is that of the part: only the compression tells that the rest is missing."""
    reply = Reply(gzip.compress(BODY)[:-12], headers={"Content-Encoding": "gzip"})
    with serving(lambda _: reply) as server, pytest.raises(NetworkError, match="no whole answer came"):
        session.send("GET", f"{server.url}/v5/tickers", {})


@pytest.mark.parametrize(
    ("url", "proxy", "why"),
    [
        ("http://no-such-venue.invalid", "", r"the name no-such-venue.invalid is not found \(DNS\)"),
        ("http://127.0.0.1:9", "", "127.0.0.1:9 takes no connection"),
        ("http://venue.test", "http://127.0.0.1:9", "the proxy between this machine and venue.test does not"),
    ],
)
def test_what_was_never_reached_says_where_the_way_ends(
    url: str, proxy: str, why: str, session: keyless.KeylessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(keyless.Unreachable, match=f"^/v5/tickers: {why}"):
        session.send("GET", f"{url}/v5/tickers", {})


def test_an_answer_that_drips_ends_at_the_deadline(
    session: keyless.KeylessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then is never silence long enough for a time-out: only the deadline ends it."""
    monkeypatch.setattr(keyless, "WHOLE_SECONDS", 0.1)

    dripping = endless(b"Content-Length: 100000", b" ")
    with serving(lambda _: dripping) as server, pytest.raises(NetworkError, match="was not complete"):
        session.send("GET", f"{server.url}/v5/tickers", {})


def test_an_answer_that_is_too_large_is_an_error(
    session: keyless.KeylessSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyless, "LARGEST", len(BODY) - 1)
    with serving(lambda _: Reply(BODY)) as server, pytest.raises(NetworkError, match="larger than"):
        session.send("GET", f"{server.url}/v5/tickers", {})
