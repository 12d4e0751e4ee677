"""Guards behind other guards: each is tested alone, since whole requests never come to the second one."""

from __future__ import annotations

import gzip
import io
from typing import Any

import pytest
import requests
import urllib3

from derivdata.client.transport.adapter import Adapter
from derivdata.client.transport.body import BodyTooLarge, read_body
from derivdata.client.transport.origin import Secret
from derivdata.client.transport.settings import Limits, Timing
from tests.transport.conftest import KEY


@pytest.mark.parametrize(
    ("url", "keyed"),
    [
        ("https://api.example.com/funding", True),
        ("https://api.example.com:443/funding", True),
        ("http://api.example.com/funding", False),
        ("https://api.example.com:8443/funding", False),
        ("https://api.example.com.evil.com/funding", False),
        ("https://evil.com/api.example.com", False),
    ],
)
def test_the_adapter_itself_puts_the_key_on_its_own_origin_only(url: str, keyed: bool) -> None:
    """The session mounts it for that origin alone; it does not rely on it."""
    adapter = Adapter(
        origin="https://api.example.com:443",
        secret=Secret(KEY),
        turn=lambda _: None,
        limits=Limits(),
        timing=Timing(),
    )
    request = requests.Request("GET", url).prepare()
    assert (adapter._wire(request).headers.get("X-Api-Key") == KEY) is keyed
    assert "X-Api-Key" not in request.headers, "what is kept of a request never has it"


def reply(body: bytes, **headers: str) -> Any:
    return urllib3.HTTPResponse(io.BytesIO(body), headers=headers, preload_content=False)


def test_a_body_that_is_larger_on_the_wire_than_unpacked_is_cut_off_too() -> None:
    """Empty gzip members unpack to nothing: the size of what they become never reaches the cap."""
    empty = gzip.compress(b"", mtime=0)
    endless = reply(empty * 5_000, **{"Content-Encoding": "gzip"})
    with pytest.raises(BodyTooLarge):
        read_body(endless, deadline=60.0, cap=65_536, monotonic=lambda: 0.0)
    few = reply(empty * 5 + gzip.compress(b"{}", mtime=0), **{"Content-Encoding": "gzip"})
    assert read_body(few, deadline=60.0, cap=65_536, monotonic=lambda: 0.0) == b"{}"


def test_the_fingerprint_of_a_key_is_no_plain_hash_of_it() -> None:
    """Folders are named after it: a plain hash could be looked up in tables of hashes of known keys.

    The value is that of sha256sum for "derivdata key", a zero byte and the key; cache keys depend on it.
    """
    assert Secret(KEY).fingerprint() == "5c9b3c5c209f677afd07da2bc1c8380b"
