"""Bodies that were damaged in every structural way: refused, or a value is missing, but no row is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from typing import Any

import pytest

from derivdata.errors import SchemaError, VenueError
from derivdata.sources import venues
from derivdata.sources.venues.record_types import Instrument, Quotes, Records
from tests.reliability.promises import count
from tests.venues import recorded

FILES = [row["file"] for row in recorded.listed() if row["what"] != "error"]
MAY_DIFFER = {
    "kraken/tick": r"(null|nothing) at .*'indexPrice'",  # then the mark counts, and the rate is near
    "kucoin/funding_rates_bulk": r"number at .*'nextFundingRate'",  # clients have seen text and numbers
}
_FEW = 40  # places of one body that are damaged


def _places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of a body, of long lists only those of the first two elements."""
    if path:
        yield path
    if isinstance(body, dict):
        keys = list(body)
        for key in keys if len(keys) < 40 else keys[:2]:
            yield from _places(body[key], (*path, key))
    elif isinstance(body, list):
        for index in range(min(len(body), 2)):
            yield from _places(body[index], (*path, index))


def _holder(body: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        body = body[key]
    return body


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _others(value: Any) -> Iterator[tuple[str, Any]]:
    """What may stand in the place of a value that is wrong there."""
    yield "null", None
    if not isinstance(value, bool):
        yield "flag", True
    if not isinstance(value, str) or _is_number(value):  # another word is not another structure
        yield "text", "nonsense"
    yield "list", []
    yield "object", {}
    if isinstance(value, str | int | float):
        yield "number", 3 if isinstance(value, str) else "4"


def _damaged(body: Any) -> Iterator[tuple[str, bytes]]:
    """In the gate a third of the ways at each place, at the next place the next third."""
    for number, path in enumerate(list(_places(body))[:_FEW]):
        holder, key = _holder(body, path), path[-1]
        value = holder[key]
        for way, (name, other) in enumerate(_others(value), number):
            if way % count(3, 1) == 0 and not (value == other and type(value) is type(other)):
                holder[key] = other
                yield f"{name} at {path}", json.dumps(body).encode()
        holder[key] = value
        if isinstance(holder, dict):
            whole = dict(holder)
            del holder[key]
            yield f"nothing at {path}", json.dumps(body).encode()
            holder.clear()
            holder.update(whole)


def _read(file: str, body: bytes) -> Records | None:
    row = next(row for row in recorded.listed() if row["file"] == file)
    try:
        return venues.records(row["exchange"], recorded.request_of(file), body, **recorded.arguments(file))
    except (SchemaError, VenueError):
        return None


def _wrong_rows(sound: Records, found: Records) -> list[str]:
    """Records of a damaged body that the sound one does not have, but for values that are missing."""
    wrong = []
    for name in ("states", "payments", "oi", "prices", "liquidations", "books", "options"):
        known = getattr(sound, name)
        wrong += [
            f"{name}: {row}"
            for row in getattr(found, name)
            if not any(all(map(_same, row._fields, row, other)) for other in known)
        ]
    return wrong


def _same(field: str, value: Any, sound: Any) -> bool:
    """Whether a value is the sound one or is missing.

    Open interest that one field gives in USD and two others as coins and price differs by a rounding.
    """
    if value is None or value == sound or field in ("native", "order_id"):
        return True
    if isinstance(value, Instrument):
        return all(map(_same, value._fields, value._replace(active=True), sound._replace(active=True)))
    if isinstance(value, Quotes):
        return all(map(_same, value._fields, value, sound))
    if isinstance(value, list):
        return not value
    return field in ("oi_usd", "oi_coins") and value == pytest.approx(sound, rel=1e-2)


def wrong_rows(body: Any, read: Callable[[bytes], Records | None]) -> dict[str, list[str]]:
    """Some rows of damaged bodies that the sound one does not have, by the damage."""
    sound, wrong = read(json.dumps(body).encode()), {}
    assert sound is not None
    for name, changed in _damaged(body):
        found = read(changed)
        if found is not None and (rows := _wrong_rows(sound, found)):
            wrong[name] = rows[:2]
    return wrong


@pytest.mark.parametrize("file", FILES)
def test_a_damaged_body_gives_no_wrong_row(file: str) -> None:
    body = json.loads(recorded.body_of(file))
    body = body if len(json.dumps(body)) < 20_000 else _shortened(body)
    allowed = [place for of, place in MAY_DIFFER.items() if file.startswith(of)]
    wrong = wrong_rows(body, partial(_read, file))
    assert [name for name in wrong if not any(re.search(place, name) for place in allowed)] == []


@pytest.mark.parametrize("file", FILES)
def test_a_body_that_ends_early_is_refused(file: str) -> None:
    body = recorded.body_of(file).rstrip()
    for cut in sorted({1, len(body) // 3, len(body) // 2, len(body) - 1}):
        assert _read(file, body[:cut]) is None


@pytest.mark.parametrize("file", FILES)
def test_the_order_of_fields_does_not_matter(file: str) -> None:
    body = json.loads(recorded.body_of(file))
    sound, turned = _read(file, json.dumps(body).encode()), _read(file, json.dumps(_turned(body)).encode())
    assert sound is not None
    assert turned is not None
    for member in fields(sound):
        before, after = getattr(sound, member.name), getattr(turned, member.name)
        if isinstance(before, list):
            before, after = sorted(before, key=repr), sorted(after, key=repr)
        assert after == before


def _turned(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: _turned(body[key]) for key in reversed(body)}
    return [_turned(v) for v in body] if isinstance(body, list) else body


def _shortened(body: Any) -> Any:
    """The same body with a few elements of each long list, which still has all its shapes."""
    if isinstance(body, dict):
        return {key: _shortened(value) for key, value in body.items()}
    return [_shortened(v) for v in body[:5]] if isinstance(body, list) else body
