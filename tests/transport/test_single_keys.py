"""A key that stands twice in an object is refused, wherever it is and however it is written."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def keys_once(value: Any) -> bool:
    """Whether no object in a value has a key twice; '"a":' and its escapes are names like others."""
    if isinstance(value, tuple):
        names = [name for name, _ in value]
        return len(set(names)) == len(names) and all(keys_once(one) for _, one in value)
    return not isinstance(value, list) or all(map(keys_once, value))


@given(VALUES, st.sampled_from(["", " "]))
def test_an_object_is_refused_if_and_only_if_a_key_stands_twice(value: Any, blank: str) -> None:
    with nullcontext() if keys_once(value) else pytest.raises(NotJson, match="same key twice"):
        check_json(written(value, blank).encode(), {})
