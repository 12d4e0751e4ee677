"""A key that stands twice in an object is refused: by counting where that is certain, else one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivdata.transport import body as bodies
from derivdata.transport.body import NotJson, check_json

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


def test_ordinary_answers_need_the_count_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the exact test was used")

    large = {"series": {f"venue{n}": POINTS * 20 for n in range(20)}}
    rows = {
        "data": [{"timestamp": "2026-06-01T00:00:00Z", "exchange": "okx", "oi_usd": n} for n in range(20_000)]
    }
    ordinary = (ORDINARY, large, rows, rows["data"], POINTS, {})
    compact = [json.dumps(one, separators=(",", ":")).encode() for one in ordinary]
    assert max(map(len, compact)) > bodies._PIECE_BYTES
    monkeypatch.setattr(bodies, "_once_each", type("Refused", (), {"decode": refuse}))
    for body in compact:
        check_json(body, {})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('ab": \\', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(st.sampled_from(['"a"', '"b"', '"a":', '"\\":"']), inner), max_size=3).map(tuple)
    ),
    max_leaves=12,
)


def written(value: Any, blank: str) -> str:
    """JSON of a value, where a tuple is an object that may have a key twice."""
    if isinstance(value, list):
        return "[" + ",".join(written(one, blank) for one in value) + "]"
    if isinstance(value, tuple):
        members = (f"{json.dumps(key)}{blank}:{written(one, blank)}" for key, one in value)
        return "{" + ",".join(members) + "}"
    return json.dumps(value)


@given(VALUES, st.sampled_from(["", " "]))
def test_the_count_never_passes_what_the_exact_test_refuses(value: Any, blank: str) -> None:
    body = written(value, blank).encode()
    if bodies._has_single_keys(body):
        bodies._once_each.decode(body.decode())  # raises where a key stands twice
