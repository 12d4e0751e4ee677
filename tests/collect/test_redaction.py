"""Parts of bodies that are removed before they are attached to a report, and parts that stay."""

from __future__ import annotations

import json
from typing import Any

import pytest

from derivdata.sources.collect.checking import REDACTED, redacted


@pytest.mark.parametrize(
    "text",
    [
        "Your IP 203.0.113.7 is restricted",
        "from 2001:db8:85a3:0:0:8a2e:370:7334",
        "from 2001:db8::8a2e:370:7334 ",
        "write to someone.else+x@example.org",
        "of 0x41deec4e76e46c18719e90920c1efef370b7db0a",
        "ray 8f3a9c1be27d4f6087a1b2c3d4e5f607",
        "Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.abc.def",
    ],
)
def test_redaction_removes_addresses_keys_and_accounts(text: str) -> None:
    for body in (text.encode(), json.dumps({"msg": text}).encode()):
        result, removed = redacted(body)
        assert REDACTED in json.dumps(result)
        assert removed == ["an address, a key or an account in a text was removed"]
        secret = max(text.split(), key=len)
        assert secret not in json.dumps(result)


@pytest.mark.parametrize(
    "row",
    [
        {"requestId": "d1b9"},
        {"x-trace-id": "a-1"},
        {"traceId": "7"},
        {"user": "nobody"},
        {"clientIp": "::1"},
        {"account_id": 123456789},
        {"subaccountId": "2147050003876484"},
        {"walletAddress": "abc"},
        {"liquidator": "abc"},
        {"taker_address": "abc"},
    ],
)
def test_redaction_removes_fields_about_users_and_traders(row: dict[str, Any]) -> None:
    result, removed = redacted(json.dumps({"data": [row]}).encode())
    assert [*result["data"][0].values()] == [REDACTED]
    assert removed == [f"{next(iter(row))} was removed"]


def test_redaction_preserves_numbers_contracts_and_times() -> None:
    body = {
        "id": "bc7d5575-3711-4532-a000-312bfacfb767",
        "symbol": "BTC-PERP_USDT0",
        "maker": True,
        "takerFee": "0.0003",
        "makerFeeRate": 0.0001,
        "time": "2026-01-06T06:38:52.476166127Z",
        "ts": 1764774730025,
        "mark": "92697.300078773",
        "rate": "1.25E-5",
        "clock": "08:00:00",
        "version": "4.5.90",
        "users": 3,
        "tokenName": "",
        "empty": None,
    }
    assert redacted(json.dumps(body).encode()) == (body, [])


def test_long_lists_and_pages_are_shortened_and_reported() -> None:
    result, removed = redacted(json.dumps([{"n": number} for number in range(30)]).encode())
    assert result == [{"n": number} for number in range(20)]
    assert removed == ["a list of 30 rows was truncated to 20"]
    result, removed = redacted(b"<html>" + b"a b " * 1000)
    assert len(result) == 2000
    assert removed == ["a text of 4006 characters was truncated"]
    twice = json.dumps({"a": "1.2.3.4 and 5.6.7.8"}).encode()
    assert redacted(twice)[1] == ["an address, a key or an account in a text was removed (2 times)"]
