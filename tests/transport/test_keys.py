"""The key goes to its own origin, safely, and nowhere else."""

from __future__ import annotations

import io
import pickle  # noqa: TID251 - keys and connections refuse it
import traceback
from pathlib import Path
from typing import Any

import pytest
import requests
import urllib3
from requests.adapters import HTTPAdapter

from derivdata import errors
from derivdata.client import transport
from derivdata.client.transport.adapter import Adapter
from derivdata.client.transport.settings import Limits, Secret, Timing, site
from derivdata.tables.endpoints import FUNDING, Request
from tests.transport.conftest import KEY, Open, checked
from tests.transport.server import ReceivedRequest, Reply, serving

ASKED = Request("/funding", ())
TLS = Path(__file__).with_name("tls.pem")


def plain(_: ReceivedRequest) -> Reply:
    return Reply.json({})


def sent_key(request: ReceivedRequest) -> str | None:
    return request.headers.get("X-Api-Key")


def key_file(text: str, mode: int = 0o600) -> Path:
    path = Path.home() / ".config" / "derivdata" / "key"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def asked_with(**options: Any) -> str | None:
    with serving(plain) as server:
        transport.connect(server.url, **options)
        transport.raw("/funding")
        return sent_key(server.received[0])


def test_key_argument_precedes_environment_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked_with() is None
    key_file("from-file\n")
    assert asked_with() == "from-file"
    monkeypatch.setenv("DERIVDATA_API_KEY", " from-environment ")
    assert asked_with() == "from-environment"
    assert asked_with(api_key="from-argument\n") == "from-argument"


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_key_file_readable_by_others_is_rejected(mode: int) -> None:
    key_file("from-file", mode)
    with pytest.raises(ValueError, match="chmod 600") as raised:
        transport.connect("https://api.example.com")
    assert "from-file" not in str(raised.value)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel", "nul\0"])
def test_invalid_keys_are_rejected_and_not_shown(key: str) -> None:
    with pytest.raises(ValueError, match="not shown") as raised:
        transport.connect("https://api.example.com", api_key=key)
    shown = "".join(traceback.TracebackException.from_exception(raised.value).format())
    assert not key or key not in shown


@pytest.mark.parametrize(
    "url", ["http://api.example.com", "http://192.168.1.5:8080", "http://127.0.0.1.evil.com"]
)
def test_key_is_not_sent_over_plain_http(url: str) -> None:
    with pytest.raises(ValueError, match="plain http"):
        transport.connect(url, api_key=KEY)


@pytest.mark.parametrize(
    "url", ["http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1", "https://a.example"]
)
def test_key_is_sent_to_loopback_and_over_https(url: str) -> None:
    assert transport.connect(url, api_key=KEY)._holds_key(KEY.encode())


def test_untrusted_certificate_raises_before_anything_is_sent(
    open_connection: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "*")  # where a proxy is set up for the machine
    with serving(plain, tls=TLS) as server:
        with pytest.raises(errors.NetworkError, match="certificate") as raised:
            open_connection(server.url)._serve(ASKED, FUNDING)
        assert server.received == []
    assert not raised.value.retryable
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(TLS))
    with serving(plain, tls=TLS) as server:
        checked(open_connection(server.url)._serve(ASKED, FUNDING))
        assert sent_key(server.received[0]) == KEY


@pytest.mark.parametrize(
    ("location", "keyed"),
    [
        ("https://api.example.com/next", True),
        ("https://api.example.com:443/next", True),
        ("https://API.example.com/next", True),
        ("https://api.example.com:8443/next", False),
        ("https://api.example.com.evil.com/next", False),
        ("https://api.example.com@evil.com/next", False),
        ("https://evil.com/api.example.com/next", False),
    ],
)
@pytest.mark.parametrize(
    "base", ["https://api.example.com", "https://api.example.com:443/", "https://API.example.com"]
)
def test_key_is_sent_only_on_same_origin_redirects(
    base: str, location: str, keyed: bool, monkeypatch: pytest.MonkeyPatch, open_connection: Open
) -> None:
    seen: list[tuple[str, str | None]] = []
    real = HTTPAdapter.send

    def send(adapter: HTTPAdapter, request: requests.PreparedRequest, **rest: Any) -> requests.Response:
        if str(request.url).startswith("http://127."):  # a thread of another test that is not through yet
            return real(adapter, request, **rest)
        seen.append((str(request.url), put_on_wire(request)))
        return canned(request, None if len(seen) > 1 else location)

    monkeypatch.setattr(HTTPAdapter, "send", send)
    checked(open_connection(base)._serve(ASKED, FUNDING))
    assert [key == KEY for _, key in seen] == [True, keyed], seen


@pytest.mark.parametrize(
    ("url", "keyed"),
    [
        ("https://api.example.com/funding", True),
        ("http://api.example.com/funding", False),
        ("https://api.example.com:8443/funding", False),
        ("https://api.example.com.evil.com/funding", False),
    ],
)
def test_adapter_adds_the_key_only_for_its_origin(url: str, keyed: bool) -> None:
    """The session mounts it for that origin alone; the adapter checks it too."""
    origin, secret = "https://api.example.com:443", Secret(KEY)
    adapter = Adapter(origin=origin, secret=secret, turn=print, limits=Limits(), timing=Timing())
    request = requests.Request("GET", url).prepare()
    wire = adapter._wire(request)
    assert (put_on_wire(wire) == KEY) is keyed
    assert KEY not in repr([*wire.headers.items(), *map(str, wire.headers.values())])
    assert "X-Api-Key" not in request.headers, "what is kept of a request never has it"


def test_fingerprint_of_a_key_is_not_a_plain_hash() -> None:
    """Folders are named after it: a plain hash could be looked up in tables of hashes of known keys.

    The value is the sha256sum of "derivdata key", a zero byte and the key; cache keys depend on it.
    """
    assert Secret(KEY).fingerprint() == "5c9b3c5c209f677afd07da2bc1c8380b"


def put_on_wire(request: requests.PreparedRequest) -> str | None:
    """The key that http.client sends, of a header that shows a mask to everything else."""
    value = request.headers.get("X-Api-Key")
    return None if value is None else value.encode("latin-1").decode()


def canned(request: requests.PreparedRequest, location: str | None) -> requests.Response:
    headers = {"Date": "Tue, 30 Jun 2026 12:00:30 GMT"} | ({"Location": location} if location else {})
    response = requests.Response()
    response.status_code = 302 if location else 200
    response.headers.update(headers)
    response.url = str(request.url)
    response.request = request
    response.raw = urllib3.HTTPResponse(io.BytesIO(b"{}"), headers=headers, preload_content=False)
    return response


def test_redirect_loop_raises(open_connection: Open) -> None:
    with serving(lambda _: Reply(b"", status=302, headers={"Location": "/funding"})) as server:
        with pytest.raises(errors.NetworkError, match="too many redirects"):
            open_connection(server.url)._serve(ASKED, FUNDING)
        assert len(server.received) <= 7


def test_plain_http_does_not_use_a_proxy(monkeypatch: pytest.MonkeyPatch, open_connection: Open) -> None:
    with serving(plain) as proxy, serving(plain) as server:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        checked(open_connection(server.url)._serve(ASKED, FUNDING))
        assert proxy.received == []
        assert len(server.received) == 1


def test_netrc_credentials_are_not_used(monkeypatch: pytest.MonkeyPatch, open_connection: Open) -> None:
    netrc = Path.home() / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password hunter2\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with serving(plain) as server:
        open_connection(server.url)._serve(ASKED, FUNDING)
        assert "Authorization" not in server.received[0].headers


@pytest.mark.parametrize(("key", "said"), [("a", "a bad day"), ("abcdefgh", "***"), ("1234567", "1234567")])
def test_too_short_key_is_not_masked_in_messages(key: str, said: str) -> None:
    text = "a bad day" if key == "a" else key
    secret = Secret(key)
    assert secret.redact(text.encode()) == said.encode()
    assert secret.within(text.encode()) is (said == "***")


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (["https://api.example.com"], {"api_key": KEY, "cache": "maybe"}, ValueError, "one of"),
        (["https://api.example.com"], {"key": KEY}, TypeError, "no argument 'key'.*api_key"),
        (["https://api.example.com", KEY], {}, TypeError, "positional argument"),
        (["sample"], {"api_key": KEY}, ValueError, "takes no api_key"),
    ],
)
def test_a_failed_connect_leaves_no_key_in_its_traceback(
    arguments: list[str], options: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        transport.connect(*arguments, **options)  # type: ignore[arg-type]
    frames = raised.value.__traceback__
    while frames is not None:
        if frames.tb_frame.f_code.co_filename != __file__:
            assert KEY not in repr(frames.tb_frame.f_locals)
        frames = frames.tb_next


def test_keys_and_connections_are_neither_pickled_nor_shown(open_connection: Open) -> None:
    connection = open_connection("https://api.example.com")
    for thing in (connection, Secret(KEY)):
        assert KEY not in repr(thing)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)


def test_no_cookie_is_sent_back_along_a_redirect_or_later(open_connection: Open) -> None:
    def baked(request: ReceivedRequest) -> Reply:
        headers = {"Set-Cookie": "visitor=7; Path=/"}
        if request.path == "/funding":
            return Reply(b"", status=302, headers={**headers, "Location": "/there"})
        return Reply(b"{}", headers=headers)

    with serving(baked) as server:
        connection = open_connection(server.url, cache="off")
        for _ in range(2):
            checked(connection._serve(ASKED, FUNDING))
    assert [item.path for item in server.received] == ["/funding", "/there"] * 2
    assert [item.headers.get("Cookie") for item in server.received] == [None] * 4


def test_origin_matches_every_spelling_of_an_address() -> None:
    assert set(site("https://api.example.com/v1").prefixes) == {
        "https://api.example.com:443/",
        "https://api.example.com/",
    }
    assert site("https://api.example.com/v1/").base == "https://api.example.com/v1"
    assert site("http://127.0.0.1:80").host == "127.0.0.1"
    for code in range(256):
        url = f"https://h/%{code:02X}"
        if requests.Request("GET", url).prepare().url == url:
            assert site(url).base == url
        else:
            with pytest.raises(ValueError, match="must be percent-encoded"):
                site(url)
    assert site("https://h/a%20b%2Fc").base == "https://h/a%20b%2Fc"


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com",
        "HTTPS://API.Example.com/V1/",
        "http://localhost:8000/a/b.c~d",
        "https://api.example.com:443/v1",
        "http://127.0.0.1:80",
        "http://[::1]:9000/x",
        "https://h/fault:any=0.3:7;ok,(a)'!$&*+",
    ],
)
def test_address_is_normalised_as_requests_sends_it(url: str) -> None:
    """Else the key would stay at home, and nothing be found in the cache."""
    sent = str(requests.Request("GET", url).prepare().url)
    assert site(url).base == sent.rstrip("/")
    assert sent.startswith(site(url).prefixes)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://user:hunter2@a.example", "has a user or a password"),
        ("https://a.example/?q=1", "a query or a fragment"),
        ("https://a.example/#x", "a query or a fragment"),
        *((url, "must be an address such as") for url in (
            "https://", "http:///v1", "https://a b.com", "https://h:x", "https://h:70000", "https://[::1",
            "https://-h", "https://h/a b", "https://h/../b", "https://h/%7E", "https://h/%2f", "https://h/%2",
            "https://bücher.example", "https://h\\evil.example",
        )),
    ],
)  # fmt: skip
def test_invalid_addresses_are_rejected_without_showing_credentials(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        site(url)
    assert "hunter2" not in str(raised.value)
