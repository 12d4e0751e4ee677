"""A key is found and masked in every spelling of a server, a log or a proxy."""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Callable

import pytest

import derivdata as dd
from derivdata.client.transport.settings import Secret
from derivdata.errors import ArchiveError
from derivdata.sources.archive import open_archive

KEYS = ("TOPSECRET-77aa", "sk-live/Ab+9z=\"x\\&<Q'7")


def _spelled(key: str) -> dict[str, str]:
    quoted = urllib.parse.quote(key, safe="")
    as_json = json.dumps(key)
    return {
        "plain": key,
        "upper case": key.upper(),
        "JSON": as_json,
        "JSON with escaped slashes": as_json.replace("/", "\\/"),
        "JSON in JSON": json.dumps(as_json),
        "JSON codes": "".join(f"\\u{ord(item):04X}" for item in key),
        "JSON codes in JSON": json.dumps("".join(f"\\u{ord(item):04x}" for item in key)),
        "URL": quoted,
        "URL, all coded": "".join(f"%{ord(item):02x}" for item in key),
        "URL in URL": urllib.parse.quote(quoted, safe=""),
        "HTML": html.escape(key),
        "HTML, decimal": "".join(f"&#{ord(item)};" for item in key),
        "HTML, hexadecimal": "".join(f"&#x{ord(item):X};" for item in key),
        "HTML in HTML": html.escape(html.escape(key)),
        "repr": repr(key),
        "hex": key.encode().hex(),
        "hex of UTF-16": key.encode("utf-16-le").hex(),
        "hex of UTF-16, high bytes first": key.encode("utf-16-be").hex().upper(),
        "CSS": "".join(f"\\{ord(item):x} " for item in key),
        "CSS, six digits": "".join(f"\\{ord(item):06X}" for item in key),
        "CSS in JSON": json.dumps("".join(f"\\{ord(item):06x}" for item in key)),
    }


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("spelling", _spelled(KEYS[0]))
def test_key_is_masked_in_every_encoding(key: str, spelling: str) -> None:
    secret, text = Secret(key), _spelled(key)[spelling].encode()
    body = b'{"error": "bad key ' + text + b' of yours"}'
    assert secret.within(body)
    masked = secret.redact(body)
    assert b"***" in masked
    assert masked.startswith(b'{"error": "bad key ')
    assert masked.endswith(b' of yours"}')
    assert not secret.within(masked)
    assert key.encode()[-6:].lower() not in masked.lower()


_ENCODERS: dict[str, Callable[[str], str]] = {
    "JSON": lambda text: json.dumps(text).replace("/", "\\/"),
    "JSON codes": lambda text: "".join(f"\\u{ord(one):04x}" for one in text),
    "URL": lambda text: urllib.parse.quote(text, safe=""),
    "URL, all coded": lambda text: "".join(f"%{ord(one):02x}" for one in text),
    "HTML": html.escape,
    "HTML, decimal": lambda text: "".join(f"&#{ord(one)};" for one in text),
    "Basic": lambda text: base64.b64encode(f"user:{text}".encode()).decode(),
}


@pytest.mark.parametrize("key", [*KEYS, "~~~???>>>~~~??~"])
@pytest.mark.parametrize("inner", _ENCODERS)
def test_key_is_masked_in_encodings_of_encodings(key: str, inner: str) -> None:
    secret = Secret(key)
    for outer in _ENCODERS.keys() - {"Basic"}:
        text = _ENCODERS[outer](_ENCODERS[inner](key))
        body = f'{{"error": "bad key {text} of yours"}}'.encode()
        assert secret.within(body), outer
        masked = secret.redact(body)
        assert b"***" in masked, outer
        assert not secret.within(masked), outer


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("user", ["", "u", "us", "use", "me@example.com:"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_key_is_masked_in_basic_authorization(key: str, user: str, encode: object) -> None:
    secret = Secret(key)
    for end in (b"", b"\n", b"ab"):
        text = encode(user.encode() + key.encode() + end)  # type: ignore[operator]
        masked = secret.redact(b"Authorization: Basic " + text)
        assert b"***" in masked
        rest = masked.removeprefix(b"Authorization: Basic ").partition(b"***")[0]
        assert base64.b64decode(rest[: len(rest) // 4 * 4], altchars=None) in user.encode() + b""


def test_text_without_the_key_is_unchanged() -> None:
    secret = Secret(KEYS[0])
    for text in (
        b"",
        b"TOPSECRET",
        b"a %54%4F \\u0054 &#84; " * 50,
        json.dumps({"TOP": "SECRET-77"}).encode(),
    ):
        assert not secret.within(text)
        assert secret.redact(text) == text


@pytest.mark.parametrize(
    "source",
    [
        "TOPSECRET77aa",
        "sk_live_0123456789abcdef",
        "s3://AKIA:TOPSECRET77aa@bucket/path",
        "s3://bucket/path?secret=TOPSECRET77aa",
        "https://api.example.com/?api_key=TOPSECRET77aa",
        "https://user:TOPSECRET77aa@api.example.com",
        "https://api.example.com/#TOPSECRET77aa",
    ],
)
def test_source_containing_a_key_is_rejected_and_not_shown(source: str) -> None:
    with pytest.raises(ValueError, match="not shown") as refused:
        dd.connect(source)
    assert source not in str(refused.value)
    assert "TOPSECRET77aa" not in str(refused.value)
    trace, package = refused.value.__traceback__, dd.__path__[0]
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(package):
            assert source not in map(str, trace.tb_frame.f_locals.values()), trace.tb_frame.f_code.co_name
        trace = trace.tb_next


@pytest.mark.parametrize("path", ["s3://AKIA:TOPSECRET77aa@bucket/a", "S3://bucket/a?key=TOPSECRET77aa"])
def test_archive_address_with_credentials_is_rejected_and_not_shown(path: str) -> None:
    with pytest.raises(ArchiveError, match="not shown") as refused:
        open_archive(path)
    assert "TOPSECRET77aa" not in str(refused.value)
