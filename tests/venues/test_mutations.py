"""Bodies damaged in every structural way: rejected, or a value is missing, but no row is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from derivdata.errors import SchemaError, VenueError
from derivdata.sources.venues.record_types import Instrument, Quotes, Records
from tests.reliability.promises import count
from tests.reliability.test_lying_server import as_number, at
from tests.venues.test_each_value import BODIES, FILES, TYPED, Told, told_of

MAY_DIFFER = {
    r"/derivatives/api/v3/tickers": r"(null|nothing) at .*'indexPrice'",  # the mark counts, and is near
    r"/api/v3/klines": r"(flag|number) at",
    r"market/funding-rate": r"number at .*'nextFundingRate'",
    r"futures.public_liquidates": r"number at .*'price'",
    r"/contract-biz/public/real-funding-rates": r"number at .*'fundingRate'",
    r"/api-data/public/data/funding-rate-history": r"number at .*'fundingRate'",
    r"/full/v1/(ticker|funding)": r"number at .*'funding_interval_hours'",
}
"""By request; a number may come as text and as a number where clients have seen both."""
UNRECORDED = (
    "bingx", "phemex", "bitmex", "cryptocom", "edgex", "backpack", "coinbase", "variational", "extended",
    "grvt", "nado", "pacifica", "woofipro", "ethereal", "apex",
)  # fmt: skip
"""Venues none of whose bodies anybody recorded for these tests."""
DAMAGED = [name for name, case in TYPED.items() if case["venue"] in UNRECORDED or "unrecorded" in case]
_FEW = 40  # places of one body that are damaged


def _places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield every place of a body; of long lists only the first two elements."""
    if path:
        yield path
    if isinstance(body, dict):
        keys = list(body)
        for key in keys if len(keys) < 40 else keys[:2]:
            yield from _places(body[key], (*path, key))
    elif isinstance(body, list):
        for index in range(min(len(body), 2)):
            yield from _places(body[index], (*path, index))


def _others(value: Any) -> Iterator[tuple[str, Any]]:
    """Wrong values to put in the place of a right one."""
    yield "null", None
    if not isinstance(value, bool):
        yield "flag", True
    if not isinstance(value, str) or as_number(value) is not None:  # another word is not another structure
        yield "text", "nonsense"
    yield "list", []
    yield "object", {}
    if isinstance(value, str | int | float):
        yield "number", 3 if isinstance(value, str) else "4"


def _damaged(body: Any) -> Iterator[tuple[str, Any]]:
    """In the gate a third of the ways at each place, at the next place the next third."""
    for number, path in enumerate(list(_places(body))[:_FEW]):
        holder, key = at(body, path[:-1]), path[-1]
        value = holder[key]
        for way, (name, other) in enumerate(_others(value), number):
            if way % count(3, 1) == 0 and not (value == other and type(value) is type(other)):
                holder[key] = other
                yield f"{name} at {path}", body
        holder[key] = value
        if isinstance(holder, dict):
            whole = dict(holder)
            del holder[key]
            yield f"nothing at {path}", body
            holder.clear()
            holder.update(whole)


def _read(told: Told, text: str) -> Records | None:
    try:
        return told.read_text(text)
    except (SchemaError, VenueError):
        return None


def _wrong_rows(sound: Records, found: Records) -> list[str]:
    """Records of a damaged body that the sound one does not have, except values that are missing."""
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


@pytest.mark.parametrize("name", [*FILES, *DAMAGED])
def test_damaged_body_never_gives_a_wrong_row(name: str) -> None:
    told, wrong = told_of(name), {}
    allowed = [place for request, place in MAY_DIFFER.items() if re.match(request, told.request)]
    for damage, changed in _damaged(told.body["$"]):
        result = _read(told, json.dumps(changed))
        if result is not None and not any(re.search(place, damage) for place in allowed):
            wrong[damage] = _wrong_rows(told.honest, result)[:2]
    assert {damage: rows for damage, rows in wrong.items() if rows} == {}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_ends_early_is_rejected(name: str) -> None:
    result = told_of(name)
    text = json.dumps(result.body["$"])
    for cut in sorted({1, len(text) // 3, len(text) // 2, len(text) - 1}):
        assert _read(result, text[:cut]) is None


@pytest.mark.parametrize("name", BODIES)
def test_the_order_of_fields_does_not_matter(name: str) -> None:
    result = told_of(name)
    turned = result.read(_turned(result.body["$"]))
    for member in fields(turned):
        before, after = getattr(result.honest, member.name), getattr(turned, member.name)
        if isinstance(before, list):
            before, after = sorted(before, key=repr), sorted(after, key=repr)
        assert after == before


def _turned(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: _turned(body[key]) for key in reversed(body)}
    return [_turned(v) for v in body] if isinstance(body, list) else body
