"""Every response matches the service's OpenAPI document."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from jsonschema_rs import Draft202012Validator

from derivdata.sources.service.http.pages import PAYLOADS, page
from derivdata.tables import endpoints
from tests.service.conftest import Caller
from tests.service.test_access import ENDPOINTS, PARAMS


def problems(value: Any, schema: Any) -> list[str]:
    """Contradictions, including undescribed fields."""
    return [str(error) for error in Draft202012Validator(closed(schema)).iter_errors(value)]


def closed(schema: Any) -> Any:
    """The schema, by which its objects have no other fields."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    none = {"additionalProperties": False} if "properties" in schema else {}
    return none | {name: closed(item) for name, item in schema.items()}


def test_responses_match_openapi_and_altered_ones_do_not(ask: Caller) -> None:
    paths, failures = ask("/openapi.json", tier=None).json()["paths"], {}
    for path, url in ENDPOINTS.items():
        answer = paths[path]["get"]["responses"]["200"]["content"]["application/json"]
        if result := problems(ask.body(url, **PARAMS.get(path, {})), answer["schema"]):
            failures[path] = result[:5]
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


def test_ranges_over_90_days_are_described_as_valid(ask: Caller) -> None:
    path = "/options/atm-history"
    described = ask("/openapi.json", tier=None).json()["paths"][path]["get"]["parameters"]
    schema = next(p["schema"] for p in described if p["name"] == "range")
    for text, status in (("1d", 200), ("120d", 200), ("0d", 400), ("99999d", 400)):
        assert ask(path, symbol="BTC", exchange="deribit", range=text).status_code == status
        assert bool(problems(text, schema)) == (status == 400)


def test_documentation_page_loads_only_the_openapi_file(ask: Caller) -> None:
    answer = ask("/docs", tier=None)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert re.findall(r"""(?:href|src)=["']?([^"'\s>]*)""", answer.text) == ["/openapi.json"]
    assert "url(" not in answer.text


def test_documentation_page_names_every_endpoint(ask: Caller) -> None:
    text = unescape(re.sub("<[^>]*>", "", ask("/docs", tier=None).text))
    assert [e.path for e in endpoints.ENDPOINTS if f"GET {e.path}" not in text] == []


def test_documentation_page_escapes_its_title() -> None:
    shown = page("desk\u202e<b>")
    assert "content=\"default-src 'none'; style-src 'unsafe-inline';" in shown
    assert "<h1>derivdata: desk\\u202e&lt;b&gt;</h1>" in shown
