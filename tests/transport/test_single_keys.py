"""A key that stands twice in an object is refused, wherever it is and however it is written."""

from __future__ import annotations

import json

import pytest

from derivdata.client.transport.body import NotJson, check_json

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
def test_a_key_that_stands_twice_is_refused(body: bytes) -> None:
    with pytest.raises(NotJson, match="same key twice"):
        check_json(body, {})


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("text", ["plain", 'a "quoted": text', "colon : blank", "back\\slash"])
def test_what_has_its_keys_once_passes(text: str, indent: int | None) -> None:
    check_json(json.dumps({**ORDINARY, "text": text}, indent=indent).encode(), {})
