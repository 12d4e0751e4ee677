"""The service described by itself: every answer is what its OpenAPI document says."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from derivdata.sources.service.openapi import page
from derivdata.sources.service.openapi_payloads import PAYLOADS
from derivdata.tables import endpoints
from tests.service.conftest import Caller
from tests.service.test_access import ENDPOINTS, PARAMS

TYPES = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def problems(value: Any, schema: dict[str, Any], where: str = "$") -> list[str]:
    """What does not fit, for the part of JSON Schema that the document uses."""
    if "anyOf" in schema:
        return [] if any(not problems(value, s, where) for s in schema["anyOf"]) else [f"{where}: {value!r}"]
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kinds = tuple(kind for n in names for kind in ([TYPES[n]] if isinstance(TYPES[n], type) else TYPES[n]))
    if not isinstance(value, kinds) or (isinstance(value, bool) and "boolean" not in names):
        return [f"{where}: {value!r} is not {names}"]
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return [f"{where}: {value!r} is not like {schema['pattern']}"]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in problems(v, schema["items"], f"{where}[{i}]")]
    return _in_object(value, schema, where) if isinstance(value, dict) else []


def _in_object(value: dict[str, Any], schema: dict[str, Any], where: str) -> list[str]:
    fields, rest = (
        schema.get("properties", {}),
        schema.get("additionalProperties", not schema.get("properties")),
    )
    found = [f"{where}.{name} is missing" for name in schema.get("required", []) if name not in value]
    for name, item in value.items():
        known = fields.get(name, rest)
        if known is False:
            found.append(f"{where}.{name} is not described")
        elif known is not True:
            found += problems(item, known, f"{where}.{name}")
    return found


def test_answers_are_as_described_and_a_wrong_one_would_be_noticed(ask: Caller) -> None:
    paths, failures = ask("/openapi.json", tier=None).json()["paths"], {}
    for path, url in ENDPOINTS.items():
        answer = paths[path]["get"]["responses"]["200"]["content"]["application/json"]
        if found := problems(ask.body(url, **PARAMS.get(path, {})), answer["schema"]):
            failures[path] = found[:5]
    assert failures == {}
    schema = PAYLOADS["/oi/{symbol}/timeseries"]
    row = {"timestamp": "2026-06-30 11:00:00", "exchange": None, "open_interest_usd": "1"}
    body = {"symbol": "BTC", "unit": "usd", "resolution": "1h", "data": [row], "extra": 1}
    assert len(problems(body, schema)) == 5


def test_every_endpoint_and_parameter_is_described(ask: Caller) -> None:
    document = ask("/openapi.json", tier=None).json()
    assert set(document["paths"]) == {e.path for e in endpoints.ENDPOINTS} == set(PAYLOADS)
    for endpoint in endpoints.ENDPOINTS:
        described = document["paths"][endpoint.path]["get"]
        assert [p["name"] for p in described["parameters"]] == [p.name for p in endpoint.params]
        assert [p["name"] for p in described["parameters"] if p["required"]] == [
            p.name for p in endpoint.params if p.required
        ]
        assert f"Tier: {endpoint.tier.title()}" in described["description"]
    assert len({d["get"]["operationId"] for d in document["paths"].values()}) == len(document["paths"])


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_nothing_from_elsewhere(ask: Caller) -> None:
    answer = ask("/docs", tier=None)
    page = _Links()
    page.feed(answer.text)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert page.found == ["/openapi.json"]
    assert "url(" not in answer.text
    assert all(f"GET {e.path}" in page.text for e in endpoints.ENDPOINTS)


def test_the_page_loads_nothing_and_shows_changes_of_direction_in_words() -> None:
    shown = page("desk\u202e<b>")
    assert "content=\"default-src 'none'; style-src 'unsafe-inline';" in shown
    assert "<h1>derivdata: desk\\u202e&lt;b&gt;</h1>" in shown
