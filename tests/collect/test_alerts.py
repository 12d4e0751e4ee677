"""Alerts: rules that apply to an archive, signed posts, and a missing receiver."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.cli import main
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.archive.ledger import LedgerEntry
from derivdata.sources.collect.reporting import SIGNATURE, TIMESTAMP, Alerts, parse_rule
from tests.archive.rates import START, rates
from tests.collect.clocks import SimulatedClock

FUNDING = "funding_history"
NOON = START + pd.Timedelta(12, "h")
SECRET = "only the receiver knows"


class Receiver:
    """The user's web server: stores posts and rejects the first `failures` of them with a status."""

    def __init__(self, failures: int = 0, status: int = 503) -> None:
        self.posted: list[tuple[dict[str, str], bytes]] = []
        self.left, self.status = failures, status
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.posted.append((dict(self.headers), body))
                status = 204
                if outer.left > 0:
                    outer.left -= 1
                    status = outer.status
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook/secret-path"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def alerts(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.posted]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Rates of BTC and ETH on binance and okx, hour by hour from 0 to 12 bps."""
    made = open_archive(tmp_path / "archive")
    requests = [LedgerEntry("okx", None, START, NOON), LedgerEntry("binance", None, START, NOON)]
    made.merge(FUNDING, rates(hours=13), requests=requests)
    return made


def alerts(receiver: Receiver, folder: Path, *rules: str, tries: int = 3) -> tuple[Alerts, list[str]]:
    lines: list[str] = []
    clock = SimulatedClock("2026-01-30T12:00")
    parsed = [parse_rule(rule) for rule in rules]
    return Alerts(parsed, receiver.url, SECRET, folder / "failed.jsonl", clock, tries, lines.append), lines


@pytest.mark.parametrize(
    ("rule", "now", "series"),
    [
        ("funding_history.rate_bps_8h >= 12 symbol=BTC", "12:00", ["binance BTC", "okx BTC"]),
        ("funding_history.rate_bps_8h>=12 symbol=BTC exchange=okx,bybit", "12:00", ["okx BTC"]),
        ("funding_history.rate_bps_8h > 12", "12:00", []),
        ("abs funding_history.rate_bps_8h < 1e1", "12:00", []),
        ("gap funding_history 30m", "12:30", []),
        ("gap funding_history 30m symbol=ETH", "12:31", ["binance ETH", "okx ETH"]),
        ("silent 15m", "12:15", []),
        ("silent 15m exchange=okx", "12:16", ["okx"]),
    ],
)
def test_alert_rules_match_the_series_beyond_their_limit(
    archive: Archive, rule: str, now: str, series: list[str]
) -> None:
    breaches = parse_rule(rule).breaches(archive, pd.Timestamp(f"2026-01-30T{now}", tz="UTC"))
    assert sorted(breach.series for breach in breaches) == series


def test_absolute_rules_match_both_signs(archive: Archive) -> None:
    archive.merge(FUNDING, rates(["SOL"], ["okx"], hours=1, start=NOON, plus=-30.0))
    [breach] = parse_rule("abs funding_history.rate_bps_8h > 20").breaches(archive, NOON)
    assert (breach.series, breach.value, breach.time) == ("okx SOL", 30.0, NOON)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("funding_history.rate_bps_8h is high", "expected 'funding_history.rate_bps_8h > 20'"),
        ("funding_history.rate_bps > 1", "has no column 'rate_bps'; did you mean 'rate_bps_8h'?"),
        ("funding_histroy.rate_bps_8h > 1", "did you mean 'funding_history'?"),
        ("gap funding_history soon", "soon"),
        ("silent 15m venue=okx", "each with symbol=… or exchange=…"),
    ],
)
def test_unreadable_rules_are_rejected(rule: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"alert rule|table must have|soon") as caught:
        parse_rule(rule)
    assert words in str(caught.value)


def test_alert_is_posted_once_per_change_of_state_and_signed(
    archive: Archive, receiver: Receiver, tmp_path: Path
) -> None:
    rule = "funding_history.rate_bps_8h > 20 symbol=BTC exchange=okx"
    watched, lines = alerts(receiver, tmp_path, rule)
    watched.check(archive, NOON)
    high = NOON + pd.Timedelta(1, "h")
    archive.merge(FUNDING, rates(["BTC"], ["okx"], hours=1, start=high, plus=25.0))
    watched.check(archive, high)
    watched.check(archive, high)
    low = NOON + pd.Timedelta(2, "h")
    archive.merge(FUNDING, rates(["BTC"], ["okx"], hours=1, start=low, plus=5.0))
    watched.check(archive, low)
    watched.close()
    assert lines == []
    common = {"rule": rule, "series": "okx BTC", "value": 25.0, "last_row": "2026-01-30T13:00:00Z"}
    assert receiver.alerts == [
        common | {"state": "firing", "time": "2026-01-30T13:00:00Z"},
        common | {"state": "resolved", "time": "2026-01-30T14:00:00Z"},
    ]
    headers, body = receiver.posted[0]
    stamp = str(int(pd.Timestamp("2026-01-30T12:00", tz="UTC").timestamp()))
    assert headers[TIMESTAMP] == stamp
    expected = hmac.new(SECRET.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers[SIGNATURE] == f"sha256={expected}"


def test_alert_is_posted_again_when_the_receiver_is_busy(archive: Archive, tmp_path: Path) -> None:
    receiver = Receiver(failures=2)
    watched, lines = alerts(receiver, tmp_path, "silent 15m exchange=okx")
    watched.check(archive, NOON + pd.Timedelta(1, "h"))
    watched.close()
    receiver.close()
    assert len(receiver.posted) == 3
    assert lines == []
    assert not (tmp_path / "failed.jsonl").exists()


@pytest.mark.parametrize(("status", "posts"), [(503, 3), (400, 1)])
def test_undelivered_alert_is_stored_without_the_address(
    archive: Archive, tmp_path: Path, status: int, posts: int
) -> None:
    receiver = Receiver(failures=9, status=status)
    watched, lines = alerts(receiver, tmp_path, "silent 15m exchange=okx")
    watched.check(archive, NOON + pd.Timedelta(1, "h"))
    watched.close()
    receiver.close()
    assert len(receiver.posted) == posts
    [kept] = [json.loads(line) for line in (tmp_path / "failed.jsonl").read_text().splitlines()]
    assert (kept["series"], kept["state"]) == ("okx", "firing")
    assert f"HTTP {status}" in kept["error"]
    assert "alert not delivered to 127.0.0.1" in lines[0]
    assert "secret-path" not in lines[0] + json.dumps(kept)


def test_command_requires_an_address_and_a_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DERIVDATA_ALERT_URL", "DERIVDATA_ALERT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    command = ["collect", "--to", str(tmp_path / "archive"), "--alert", "silent 15m"]
    assert main(command) == 1
    assert "pass --alert-url or set DERIVDATA_ALERT_URL" in capsys.readouterr().err
    assert main([*command, "--alert-url", "https://127.0.0.1/hook"]) == 1
    assert "set DERIVDATA_ALERT_SECRET" in capsys.readouterr().err
