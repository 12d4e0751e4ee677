"""A client that has a response already is informed so: tags, times, 304."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import requests

from derivdata.sources.service.http.responses import Changes, is_current
from tests.service.conftest import Caller

NOON = pd.Timestamp("2026-06-30T12:00:00.5Z")
PATH = "/funding"


def conditional(ask: Caller, *, path: str = PATH, tier: str = "pro", **headers: str) -> requests.Response:
    """Request a path with conditions, whose names are written with ``_``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ask.session.get(ask.local.url + path, headers={"X-Api-Key": f"key-{tier}", **named}, timeout=60)


def test_response_has_etag_and_last_modified(ask: Caller) -> None:
    first, again = ask(PATH), ask(PATH)
    assert first.headers["ETag"] == again.headers["ETag"]
    assert first.headers["ETag"].startswith('W/"')
    assert first.headers["Last-Modified"] == "Tue, 30 Jun 2026 12:00:00 GMT"
    plain = conditional(ask, Accept_Encoding="identity")
    assert plain.headers["ETag"] == first.headers["ETag"], "one tag for both encodings"
    assert ask("/").headers["ETag"] != first.headers["ETag"]
    refused = ask("/nowhere")
    assert not {"ETag", "Last-Modified"} & set(refused.headers)


@pytest.mark.parametrize("form", ["{}", '"other", {}', "*", "{strong}"])
def test_current_etag_returns_304_without_a_body(form: str, ask: Caller) -> None:
    first = ask(PATH)
    tag = first.headers["ETag"]
    answer = conditional(ask, If_None_Match=form.format(tag, strong=tag.removeprefix("W/")))
    assert (answer.status_code, answer.content) == (304, b"")
    kept = ("Date", "ETag", "Cache-Control", "Vary", "X-Derivdata-Source", "X-Derivdata-Data-Version")
    assert {name: answer.headers[name] for name in kept} == {name: first.headers[name] for name in kept}
    assert not {"Content-Length", "Content-Type", "Content-Encoding"} & set(answer.headers)
    head = ask.session.head(ask.local.url + PATH, headers={"X-Api-Key": "key-pro", "If-None-Match": tag})
    assert head.status_code == 304


def test_outdated_etag_returns_the_body(ask: Caller) -> None:
    tag = ask("/markets/symbols").headers["ETag"]
    answer = conditional(ask, If_None_Match=tag)
    assert (answer.status_code, answer.content) == (200, ask(PATH).content)


def test_if_modified_since_is_used_only_without_an_etag(ask: Caller) -> None:
    modified = ask(PATH).headers["Last-Modified"]
    assert conditional(ask, If_Modified_Since=modified).status_code == 304
    assert conditional(ask, If_Modified_Since="Tue, 30 Jun 2026 12:00:01 GMT").status_code == 200
    assert conditional(ask, If_Modified_Since="soon").status_code == 200
    assert conditional(ask, If_Modified_Since=modified, If_None_Match='"x"').status_code == 200


def test_conditional_request_with_a_wrong_key_returns_401(ask: Caller) -> None:
    answer = ask.session.get(ask.local.url + PATH, headers={"X-Api-Key": "wrong", "If-None-Match": "*"})
    assert answer.status_code == 401


def test_last_modified_is_the_time_of_change_and_unique_per_second() -> None:
    changes = Changes()

    def stated(tag: str, seconds: float, resource: Any = "a") -> str | None:
        return changes.headers(resource, tag, NOON + pd.Timedelta(seconds, "s")).get("Last-Modified")

    assert stated("1", 0) == "Tue, 30 Jun 2026 12:00:00 GMT"
    assert stated("1", 60) == "Tue, 30 Jun 2026 12:00:00 GMT"
    assert stated("2", 61) == "Tue, 30 Jun 2026 12:01:01 GMT"
    assert stated("3", 61.2) is None, "within the second of another response"
    assert stated("3", 90) is None
    assert stated("4", 90) == "Tue, 30 Jun 2026 12:01:30 GMT"
    assert stated("5", 90, "b") == "Tue, 30 Jun 2026 12:01:30 GMT"


def test_unconditional_request_never_returns_304() -> None:
    assert not is_current({}, {"ETag": 'W/"1"'})
    assert not is_current({"If-Modified-Since": "x"}, {"ETag": 'W/"1"'})
