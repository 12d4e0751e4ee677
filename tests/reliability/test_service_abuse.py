"""The service alone in a process: many, huge, malicious, slow or rude clients, and their cost."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest
import requests

from derivdata.sources import service
from derivdata.sources.service.data.store import Refusal
from derivdata.sources.service.http import access
from derivdata.sources.service.http.access import Keys
from tests.reliability.conftest import Measured
from tests.reliability.processes import ROOT
from tests.reliability.promises import SOAK, count
from tests.support.threads import in_threads, together

KEY = "k-team-5d0c5a2f"
SERVE = [sys.executable, "-W", "error", "-m", "derivdata", "serve"]
NO_MORE_MIB = 192
"""Maximum growth of the process [MiB]: it caches up to 128 MiB of encoded responses."""

PATIENCE = 120.0
"""Seconds that only a hang reaches."""


class Served:
    """The service in a separate process."""

    def __init__(self, process: subprocess.Popen[str], said: str) -> None:
        self.process = process
        url = urlsplit(re.findall(r"http://\S+", said)[0])
        self.host, self.port = "127.0.0.1", int(url.port or 0)

    def get(self, path: str, *, key: str = KEY, seconds: float = PATIENCE) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        try:
            connection.request("GET", path, headers={"X-Api-Key": key})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def raw(self, sent: bytes, *, seconds: float = PATIENCE) -> bytes:
        """Return the response to these bytes, until the service closes or pauses for `seconds`."""
        came = b""
        with suppress(OSError), socket.create_connection((self.host, self.port), timeout=seconds) as line:
            line.sendall(sent)
            while part := line.recv(65536):
                came += part
        return came

    def mib(self) -> float:
        """Memory of the process now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024

    def peak_mib(self) -> float:
        """The most memory that the process ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1024

    def well(self) -> float:
        """Seconds that a plain request takes."""
        began = time.monotonic()
        assert self.get("/oi/exchanges-summary")[0] == 200
        return time.monotonic() - began


def run(*arguments: str) -> subprocess.Popen[str]:
    command = [*SERVE, *arguments, "--port", "0"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


PLAIN = [
    "/funding",
    "/oi/exchanges-summary",
    "/markets/symbols",
    "/options/snapshot?symbol=BTC&exchange=deribit",
]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    process = run("sample", "--key", f"team={KEY}")
    assert process.stdout is not None
    local = Served(process, process.stdout.readline())
    assert {local.get(path)[0] for path in PLAIN} == {200}
    yield local
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, ""), "nothing is said after the start"
    assert set(errors.splitlines()) <= {"Invalid HTTP request received."}


Caller = Callable[[str], requests.Response]

WRONG = [
    "/nowhere",
    "/oi/BTC/timeseries?range=5y",
    "/oi/NOSUCH/timeseries?range=7d",
    "/oi/BTC/timeseries?range=",
]


def any_path(chance: random.Random) -> str:
    """Return a plain path, one that requires computation, or an invalid one."""
    day, hour = chance.randrange(1, 29), chance.randrange(24)
    symbol = chance.choice(["BTC", "ETH", "SOL", "DOGE"])
    work = f"/oi/{symbol}/timeseries?start=2026-06-{day:02d}T{hour:02d}:00:00Z&end=2026-06-{day + 1:02d}"
    return chance.choice([*PLAIN, *[work] * 4, *WRONG])


@pytest.fixture(scope="module")
def quiet() -> Iterator[Caller]:
    """Yield a client of the same service without other clients."""
    local = service.start("sample", keys={KEY: "team"})
    session = requests.Session()
    session.headers["X-Api-Key"] = KEY
    yield lambda path: session.get(f"{local.url}{path}", timeout=PATIENCE)
    session.close()
    local.close()


def test_64_concurrent_clients_get_correct_responses(
    served: Served, quiet: Caller, measured: Measured
) -> None:
    """Every response equals the response to a client alone."""
    seconds = 20
    until = time.monotonic() + seconds
    statuses: Counter[int] = Counter()
    hashes: dict[str, set[tuple[int, str]]] = {}
    lock = threading.Lock()

    def client(number: int) -> None:
        chance = random.Random(number)
        asked = 0
        while time.monotonic() < until if SOAK else asked < 6:
            asked += 1
            path = any_path(chance)
            status, body = served.get(path)
            with lock:
                statuses[status] += 1
                hashes.setdefault(path, set()).add((status, hashlib.sha256(body).hexdigest()))

    before = served.mib()
    in_threads(64, client)
    recovered, grown = served.well(), served.mib() - before
    assert set(statuses) == {200, 400, 404}
    assert all(len(result) == 1 for result in hashes.values()), "one request, two answers"
    for path in random.Random(0).sample(sorted(hashes), min(count(40, 400), len(hashes))):
        right = quiet(path)
        assert hashes[path] == {(right.status_code, hashlib.sha256(right.content).hexdigest())}, path
    assert not SOAK or recovered < 1.0
    assert grown < NO_MORE_MIB
    total = statuses.total()
    figure = f"64 clients for {seconds} s: {total:,} answers, 0 × 500, 0 wrong, {grown:.0f} MiB more"
    measured("service: crowd", f"{figure}, well again after {recovered * 1000:.0f} ms")


def request(path: str, *headers: str, method: str = "GET") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        f"X-Api-Key: {KEY}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


OVERSIZED = {
    "query of 1 MB": request("/funding?x=" + "a" * 10**6),
    "known parameter of 60 kB": request("/oi/BTC/timeseries?range=" + "9" * 60_000),
    "list of 60 kB": request("/funding/historical?symbol=BTC&exchanges=" + "binance," * 7_000 + "okx"),
    "9,000 parameters": request("/funding?" + "&".join(f"p{n}=" for n in range(9_000))),
    "6,000 times one parameter": request("/oi/BTC/timeseries?" + "range=7d&" * 6_000),
    "symbol of 60 kB": request("/oi/" + "A" * 60_000 + "/timeseries?range=7d"),
    "header of 1 MB": request("/funding", "X-Long: " + "a" * 10**6),
    "key of 60 kB": request("/funding", "X-Api-Key: " + "a" * 60_000),
    "2,000 headers": request("/funding", *(f"X-{n}: 1" for n in range(2_000))),
    "a body on POST": request("/funding", "Content-Length: 5000000", method="POST") + b"x" * 5_000_000,
    "endless chunks": request("/funding", "Transfer-Encoding: chunked") + b"10000\r\n" + b"x" * 65536,
    "no line end": b"G" * 10**6,
    "binary": bytes(range(256)) * 1000,
    "two requests in one": request("/funding") + request("/nowhere"),
    "HTTP/0.9": b"GET /funding\r\n\r\n",
    "two lengths": request("/funding", "Content-Length: 1", "Content-Length: 2") + b"xx",
}


def status_of(answer: bytes) -> int:
    """Return the status of a response; 0 if the connection was closed without one."""
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


def test_oversized_and_broken_requests_are_rejected(served: Served, measured: Measured) -> None:
    before = served.mib()
    results: dict[str, int] = {}
    for name, sent in OVERSIZED.items():
        results[name] = status_of(served.raw(sent, seconds=2))
        served.well()
    assert set(results.values()) <= {0, 200, 400, 401, 404, 405, 413, 421, 431}, results
    assert served.mib() - before < NO_MORE_MIB
    measured("service: oversized", f"{len(results)} requests: 0 × 500, answered at once after each")


PATHS = r"""
/../../etc/passwd  /..%2f..%2fetc%2fpasswd  /%2e%2e/%2e%2e/etc/passwd  /....//....//etc/passwd
/etc/passwd  /oi/../../../etc/passwd/timeseries  /oi/..%2f..%2f..%2fetc%2fpasswd/timeseries
/oi/%2e%2e/timeseries  /oi/./timeseries  /oi//timeseries  //funding  ///  /funding/  /funding//
/funding/.  /funding;a=b  /funding%00  /funding%0d%0aX-Evil:%20yes
/funding?exchanges=a%0d%0aX-Evil:%20yes  /oi/a%0d%0aX-Evil:%20yes/timeseries  /%ff%fe%00
/oi/%ff/timeseries  /oi/%c0%ae%c0%ae/timeseries  /oi/BTC%2Ftimeseries  /oi/BTC%00/timeseries?range=7d
/oi/%25/timeseries?range=7d  /oi/${jndi:ldap:x}/timeseries?range=7d  /oi/';drop%20table%20x;--/timeseries
/\..\..\etc\passwd  /archive.json  /.lock  /docs/../funding  /openapi.json/..  /fault:503/funding  /%
/%zz  /%%  http://localhost/funding  *  /?  /#  /funding#x  /funding?fault=503  /funding?__class__=x
/markets/symbols?exchanges=%f0%9f%98%80  /funding?exchanges=%ff  /funding?exchanges=all&exchanges=all
""".split()


def test_path_traversal_is_rejected(served: Served, measured: Measured) -> None:
    """Only the endpoints themselves respond, in any spelling; all else is a 400 or a 404."""
    known = {path: served.get(path)[1] for path in ("/", "/funding", "/oi/BTC/timeseries")}
    for path in PATHS:
        answer = served.raw(request(path))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert status_of(answer) in (200, 400, 404), (path, answer[:200])
        assert b"x-evil" not in head.lower(), path
        assert b"root:" not in body, path
        assert KEY.encode() not in answer, path
        assert b"Traceback" not in body, path
        assert status_of(answer) != 200 or body in known.values(), path
    assert b"another-key" not in served.get("/funding", key="another-key")[1]
    measured("service: paths", f"{len(PATHS)} paths: none leads out, 0 × 500")


def test_slow_clients_do_not_delay_others(served: Served, measured: Measured) -> None:
    """Half requests that never end, and large responses, each another, that no one reads."""
    many, start, each = count(40, 256), "2026-05-01" if not SOAK else "2026-03-01", count(4, 1)
    symbols = [row["symbol"] for row in json.loads(served.get("/markets/symbols")[1])["symbols"]]
    large = [
        request(f"/oi/{name}/timeseries?start={start}&resolution=1h") for name in filter(str.isascii, symbols)
    ]
    before = served.mib()
    with ExitStack() as lines:
        for number in range(many):
            line = lines.enter_context(socket.create_connection((served.host, served.port), timeout=PATIENCE))
            line.sendall(large[number] if number % each == 0 else request("/funding")[: 5 + number % 40])
        longest = max(served.well() for _ in range(10))
        grown = served.mib() - before
    after = served.well()
    assert not SOAK or max(longest, after) < 2.0
    assert served.peak_mib() < 1024
    figure = (
        f"{many} slow clients: the longest plain answer took {longest * 1000:.0f} ms, {grown:.0f} MiB more"
    )
    measured("service: slow clients", figure)


def test_every_known_key_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    real = access.hmac.compare_digest
    monkeypatch.setattr(access.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or real(a, b))
    keys = Keys({"k-one": "free", "k-two": "pro", "k-three": "team"})
    assert keys.caller("k-one").tier == "free"
    for wrong in ("k-tw", "k-twoo", "", None, "ü", "\udcff"):
        with pytest.raises(Refusal):
            keys.caller(wrong)
    assert len(compared) == 3 * 7
    assert {len(digest) for pair in compared for digest in pair} == {32}


GREEDY, OTHER = "k-greedy-2b7c", "k-other-91aa"
END = pd.Timestamp("2026-06-30T00:00Z")
LIMIT = 48 << 20
LARGE = (
    "/funding/historical?symbol=BTC&resolution=1m",
    "/funding/historical?symbol=ETH&resolution=raw",
    "/funding/historical?symbol=XRP&resolution=1m",
    "/funding/historical?symbol=SOL&resolution=1m",
)
PAUSE = 1.1
"""Seconds after which the documented rate, two requests a second for each key, admits two more."""


@pytest.fixture
def alone() -> Iterator[Served]:
    """Start a service per test, so that its peak memory is the test's."""
    process = run("sample", "--key", f"team={GREEDY}", "--key", f"pro={OTHER}")
    assert process.stdout is not None
    try:
        yield Served(process, process.stdout.readline())
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def longest(local: Served, path: str) -> pd.Timedelta:
    """Return the longest window that the error message names."""
    time.sleep(PAUSE)
    status, body = local.get(f"{path}&start=2025-09-01", key=GREEDY)
    assert status == 400
    result = re.findall(rb"at most (\d+) (days|minutes) at once", body)
    return pd.Timedelta(int(result[0][0]), result[0][1].decode())


def test_four_of_the_largest_answers_at_once_stay_under_2_gib(alone: Served, measured: Measured) -> None:
    before, began = alone.peak_mib(), time.monotonic()
    windows = {path: longest(alone, path) for path in LARGE}
    refused = (time.monotonic() - began) / len(LARGE) - PAUSE
    assert alone.peak_mib() - before < 256
    sizes: list[int] = []

    def ask(path: str, key: str) -> None:
        start = END - (windows[path] if SOAK else pd.Timedelta(6, "h"))
        status, body = alone.get(
            f"{path}&start={start:%Y-%m-%dT%H:%M:%SZ}&end=2026-06-30", key=key, seconds=900
        )
        assert status == 200, body[:200]
        sizes.append(len(body))

    threads = [
        threading.Thread(target=ask, args=(path, key))
        for path, key in zip(LARGE, (GREEDY, GREEDY, OTHER, OTHER), strict=True)
    ]
    time.sleep(PAUSE)
    together(threads)
    assert len(sizes) == 4
    assert max(sizes) <= LIMIT
    assert not SOAK or min(sizes) > 0.6 * LIMIT
    peak = alone.peak_mib()
    assert peak < 2048
    mib = max(sizes) / 2**20
    figure = f"refused after {refused:.2f} s; four answers of up to {mib:.0f} MiB at once: {peak:,.0f} MiB"
    measured("service: one request", figure)


def send(stack: ExitStack, local: Served, path: str) -> None:
    line = stack.enter_context(socket.create_connection((local.host, local.port), timeout=PATIENCE))
    line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: {GREEDY}\r\n\r\n".encode())


def test_long_requests_of_one_key_do_not_block_another(alone: Served, measured: Measured) -> None:
    number, waits = count(16, 64), []
    with ExitStack() as stack:
        for n in range(number):
            start = f"2026-{2 + n % 4:02d}-{1 + n % 28:02d}T{n % 24:02d}:00Z"
            send(stack, alone, f"/volume-oi-ratio?window_days=30&start={start}")
        for hour in range(count(3, 10)):
            began = time.monotonic()
            path = f"/oi/BTC/timeseries?start=2026-06-29T{hour:02d}:00Z&end=2026-06-30"
            status, body = alone.get(path, key=OTHER)
            waits.append(time.monotonic() - began)
            assert status == 200, body[:200]
    began = time.monotonic()
    while alone.get("/oi/exchange-totals?range=1d&resolution=1h", key=GREEDY)[0] != 200:
        pass
    after = time.monotonic() - began
    assert not SOAK or max(waits) < 2.0
    measured(
        "service: one request",
        f"{number} long requests of one key: another's took at most {max(waits):.2f} s; "
        f"{after:.1f} s after they had left, that key's next was answered",
    )


VENUES = [
    "binance", "bybit", "hyperliquid", "bitget", "gateio", "okx", "mexc", "aster", "bingx", "lighter",
    "kucoin", "edgex",
]  # fmt: skip
"""By their size in the sample, the largest first."""


def schemathesis(url: str, folder: Path, *options: str) -> str:
    """Output of a run without findings."""
    scripts = str(Path(sys.executable).parent)
    command = shutil.which("schemathesis", path=scripts) or shutil.which("schemathesis")
    assert command is not None, "schemathesis is not installed: pip install -e '.[dev]'"
    config = ["--config-file", str(Path(__file__).with_name("schemathesis.toml"))]
    asked = ["run", f"{url}/openapi.json", "-H", f"X-Api-Key: {KEY}", "--request-timeout", "120"]
    plain = ["--no-color", "--generation-database", "none", "--suppress-health-check", "all"]
    done = subprocess.run(
        [command, *config, *asked, *plain, *options], capture_output=True, text=True, cwd=folder, timeout=1800
    )
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_random_requests_never_cause_a_server_error(
    served: Served, tmp_path: Path, measured: Measured
) -> None:
    url, each = f"http://{served.host}:{served.port}", str(count(1, 20))
    said = schemathesis(url, tmp_path, "--phases", "fuzzing", "--seed", "1", "--max-examples", each)
    cases = sum(int(result.replace(",", "")) for result in re.findall(r"([\d,]+) generated", said))
    assert cases >= count(50, 1000), said[-4000:]
    recovered = served.well()
    assert not SOAK or recovered < 1.0
    peak = served.peak_mib()
    assert peak < 2048
    figure = f"{cases:,} requests: no failure, at most {peak:,.0f} MiB, well again after"
    measured("service: any request", f"{figure} {recovered * 1000:.0f} ms")


def test_many_large_requests_stay_within_the_memory_limit(measured: Measured) -> None:
    """Twelve long windows of twelve venues at once, against one window of the largest venue."""
    start = "2026-03-01" if SOAK else "2026-06-10"
    process = run("sample", "--key", f"team={KEY}")
    try:
        assert process.stdout is not None
        local = Served(process, process.stdout.readline())
        statuses: list[int] = []

        def ask(venue: str, since: str) -> None:
            path = f"/oi/exchange-top-symbols-timeseries?exchange={venue}&start={since}"
            statuses.append(local.get(path, seconds=900)[0])

        ask(VENUES[0], "2026-06-29")
        before = local.mib()
        ask(VENUES[0], start)
        alone = local.peak_mib() - before
        together(threading.Thread(target=ask, args=(venue, f"{start}T01:00Z")) for venue in VENUES)
        at_once = local.peak_mib() - before
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert statuses == [200] * (len(VENUES) + 2)
    assert at_once < 5 * alone
    measured(
        "service: any request",
        f"{len(VENUES)} long windows at once: {at_once:.0f} MiB, where one takes {alone:.0f}",
    )
