"""A key that stands twice in an object is refused: by counting where that is certain, else one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivdata.client.transport import body as bodies
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


def test_ordinary_answers_need_the_count_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the exact test was used")

    large = {"series": {f"venue{n}": POINTS * 20 for n in range(20)}}
    rows = {
        "data": [{"timestamp": "2026-06-01T00:00:00Z", "exchange": "okx", "oi_usd": n} for n in range(20_000)]
    }
    ordinary = (ORDINARY, large, rows, rows["data"], POINTS, {})
    compact = [json.dumps(one, separators=(",", ":")).encode() for one in ordinary]
    assert max(map(len, compact)) > bodies.PIECE_BYTES
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


@pytest.mark.parametrize("piece", [bodies.PIECE_BYTES, 0], ids=["whole", "part by part"])
@given(VALUES, st.sampled_from(["", " "]))
def test_the_count_never_passes_what_the_exact_test_refuses(piece: int, value: Any, blank: str) -> None:
    body = written([value, value], blank).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "PIECE_BYTES", piece)
        if bodies._has_single_keys(body):
            bodies._once_each.decode(body.decode())  # raises where a key stands twice


def alike_by_decoding(part: bytes) -> int | None:
    """The readable form of `_fields_of_alike`: None unless all keys are the first object's, each once."""
    fields: list[list[str]] = []

    def of_object(pairs: list[tuple[str, Any]]) -> None:
        fields.append([key for key, _ in pairs])

    objects = json.loads(part, object_pairs_hook=of_object)
    flat = len(fields) == len(objects) and all(one == fields[0] for one in fields)
    return sum(map(len, fields)) if flat and len(set(fields[0])) == len(fields[0]) else None


ALIKE = {
    b'[{"t":1,"a":2},{"t":3,"a":"x"}]': 4,
    b'[{"a_long_name_1":1,"another_long_name":null},{"a_long_name_1":1,"another_long_name":true}]': 4,
    b'[{"t":1,"t":2},{"t":1,"t":2}]': None,
    b'[{"t":1,"a":2,"b":3},{"t":1,"a":2,"a":3}]': None,
    b'[{"t":1,"a":1,"b":{"t":1},"a":2,"b":3}]': None,
    b'[{"t":1,"a":1},{"t":1,"a":[{"t":1,"a":2}]}]': None,
    b'[{"t":1,"a":1},{"t":1,"a": {"t":1,"a":2}}]': None,
    b'[{"t":1,"a":2},{"a":1,"t":2}]': None,
    b'[{"t":1},{"T":1}]': None,
    b'[{"t":1},{"xt":1}]': None,
    b'[{"x_long_name":1},{"y_long_name":1}]': None,
    b'[{"t":1,"a":"\\"t\\":"},{"t":1,"a":"b"}]': None,
    b'[{"t":":","a":"{"},{"t":":","a":"}"}]': None,
}


@pytest.mark.parametrize("part", ALIKE, ids=range(len(ALIKE)))
def test_objects_of_one_form_are_counted_without_being_decoded(part: bytes) -> None:
    count = bodies._fields_of_alike(part)
    assert count == ALIKE[part]
    assert count in (None, alike_by_decoding(part))
