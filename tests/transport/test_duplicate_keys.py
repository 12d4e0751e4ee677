"""A key that is in an object twice is seen, however large the text and wherever the object is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from derivdata.client.transport import body
from derivdata.client.transport.body import DuplicateKey, check_keys

ROWS = 2_000


def history(row: str = "", *, compact: bool = True) -> str:
    """The text of two venues' series; `row` is the source of one more row of the second venue."""
    rows = [
        {"timestamp": f"2026-01-{n // 24 % 28 + 1:02}T{n % 24:02}:00:00Z", "y": n / 8} for n in range(ROWS)
    ]
    separators = (",", ":") if compact else None
    text = json.dumps({"symbol": "BTC", "series": {"okx": rows, "bybit": rows}}, separators=separators)
    return text.removesuffix("]}}") + f",{row}]}}}}" if row else text


def parsed(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Check a text, and return how many of its bytes were parsed in Python."""
    sizes: list[int] = []
    parse = body._parse

    def count(part: bytes) -> None:
        sizes.append(len(part))
        parse(part)

    with monkeypatch.context() as patch:
        patch.setattr(body, "_parse", count)
        check_keys(text.encode())
    return sum(sizes)


def test_long_history_is_checked_without_parsing_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    outline = '{"symbol":"BTC","series":{"okx":0,"bybit":0}}'
    assert parsed(history(), monkeypatch) == len(outline)


@pytest.mark.parametrize(
    "text",
    [
        history(compact=False),
        history('{"timestamp":"x","y":1,"more":2}'),
        history('{"timestamp":"x"}'),
        history('{"timestamp":{"a":1},"y":2}'),
        history('{"timestamp":":x","y":2}'),
        history('{"timestamp" :"x","y":2}'),
        history('{"timest\\u0061mp":"x","y":2}'),
        history("1"),
        history("{}"),
        history().replace('"bybit":', '"bybit" :'),
        history().replace('"BTC"', '"\\"BTC"'),
        history().replace('"BTC"', '"BTC ₿ perpetual"'),
        f" {history()}",
        json.dumps([history()]),
        json.dumps({"é": [{"ü": n} for n in range(ROWS)]}, ensure_ascii=False, separators=(",", ":")),
    ],
)
def test_json_without_duplicate_keys_passes(text: str) -> None:
    json.loads(text)
    check_keys(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        history('{"timestamp":"x","y":1,"y":1}'),
        history('{"y":1,"y":1}'),
        history('{"timestamp":"x","y":1,"y":1},{"y":1}'),
        history('{"timestamp":"x","y":1,"y":1},{"timestamp" :"x","y":1}'),
        history('{"timestamp":"x","y":1,"\\u0079":1}'),
        history('{"timestamp":"x","y":{"a":1,"a":2}}'),
        history('[{"a":1,"a":2}]'),
        history().replace('"bybit":', '"okx":'),
        history().replace('"symbol":', '"series":[],"symbol":'),
        history().replace('"okx":[', '"bybit":[],"okx":['),
        history().replace('"symbol":"BTC"', '"symbol":"BTC","symbol":"BTC"'),
        history().replace("[{", '[{"y":0,', 1),
        history(compact=False).replace('"bybit": ', '"okx": '),
        json.dumps([json.loads(history())], separators=(",", ":")).replace('"bybit":', '"okx":'),
    ],
)
def test_duplicate_key_is_detected(text: str) -> None:
    json.loads(text)
    with pytest.raises(DuplicateKey, match="same key twice"):
        check_keys(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        history()[:-1],
        history()[:40_000],
        history() + "]",
        history().replace('"series"', "series"),
        history().replace('"bybit"', "bybit"),
        history("{y:1}"),
    ],
)
def test_large_invalid_json_has_the_same_message_as_small(text: str) -> None:
    with pytest.raises(msgspec.DecodeError) as expected:
        msgspec.json.decode(text, type=msgspec.Raw)
    with pytest.raises(msgspec.DecodeError) as error:
        check_keys(text.encode())
    assert str(error.value) == str(expected.value)


@pytest.mark.parametrize(
    "text",
    [
        history('{"timestamp":"x","y":{"timestamp":1},"y":2}'),
        history('{"timestamp":[{},{"timestamp":"x","y":1}],"timestamp":2}'),
        history('{"timestamp":"},{","timestamp":"x"}'),
        history('{"timestamp":"x","y":1,"y":1},{}'),
        history('{"xtimestamp":"x","y":1,"xtimestamp":1}'),
    ],
)
def test_nesting_and_braces_in_strings_hide_no_duplicate_key(text: str) -> None:
    json.loads(text)
    with pytest.raises(DuplicateKey):
        check_keys(text.encode())


_LEAVES = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", ":", "a", " b", '"', "\\", "é"])
)
_KEYS = st.sampled_from(["", "a", "b", "é", ":", '"', "\\"])


def _members(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(_KEYS, children), max_size=4).map(_Pairs) | st.lists(children, max_size=4)


class _Pairs(list[Any]):
    """An object as pairs, where a key may be there twice."""


def _text(value: Any, colon: str) -> str:
    if isinstance(value, _Pairs):
        return "{" + ",".join(f"{json.dumps(k)}{colon}{_text(v, colon)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(item, colon) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _repeats(value: Any) -> bool:
    if isinstance(value, _Pairs):
        keys = [key for key, _ in value]
        return len(set(keys)) < len(keys) or any(_repeats(item) for _, item in value)
    return isinstance(value, list) and any(map(_repeats, value))


@pytest.mark.drawn
@given(st.recursive(_LEAVES, _members, max_leaves=25), st.sampled_from([":", " :", ": "]))
def test_small_and_large_bodies_are_checked_alike(value: Any, colon: str) -> None:
    """Large parts use faster comparisons, which must agree at every size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(body, "_SMALL_BYTES", 0)
        check: Callable[[], None] = lambda: check_keys(_text(value, colon).encode())  # noqa: E731
        if _repeats(value):
            with pytest.raises(DuplicateKey):
                check()
        else:
            check()
