"""The service alone, as ``python -m derivdata serve`` runs it, and in this process."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
import requests

from derivdata import tables
from derivdata.client.transport.connection import local_scope
from derivdata.errors import ArchiveError
from derivdata.sources import archive, service
from derivdata.support.files import package_digest
from tests.service import market
from tests.service.conftest import PATIENCE
from tests.service.conftest import serving as served

COMMAND = [sys.executable, "-W", "error", "-m", "derivdata", "serve"]


def test_hash_of_the_service_covers_all_imported_modules() -> None:
    """Responses are stored for later sessions by a hash of it: missing parts would change them unseen.

    The MCP server computes nothing: it calls the library, which requests the service.
    """
    package = Path(tables.__file__).parents[1]
    modules = re.compile(r"^ *(?:from|import) derivdata\.([a-z_0-9.]+)", re.MULTILINE)
    names = re.compile(r"^ *from derivdata import (.+)", re.MULTILINE)
    paths = [path for path in (package / "sources").rglob("*.py") if path.name != "mcp.py"]
    sources = [path.read_text(encoding="utf-8") for path in paths]
    imported = {name.replace(".", "/") for text in sources for name in modules.findall(text)}
    imported |= {name for text in sources for line in names.findall(text) for name in line.split(", ")}
    hashed = ("sources", "analysis/black76", "support", "tables", "units")
    others = ("errors", "client/transport")
    assert {name for name in imported if not name.startswith((*hashed, *others))} == set()
    assert service.server.code_digest() == package_digest(*hashed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with funding and open interest; its last row is of noon of 30 June."""
    path = tmp_path_factory.mktemp("recorded") / "desk"
    mine = archive.open_archive(path)
    mine.append("funding_history", market.funding())
    mine.append("oi_history", market.open_interest(), accept=["unit"])
    return path


@contextmanager
def serving(folder: Path, end: signal.Signals) -> Iterator[str]:
    """Output of `serve` before it was ready; then it is ended by a signal, and leaves no keys behind."""
    command = [*COMMAND, str(folder), "--port", "0", "--now", "2026-06-29T15:00:00Z"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = "".join(process.stdout.readline() for _ in range(3))
        try:
            yield lines
        finally:
            process.send_signal(end)
        _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")
    assert not key_file(lines).exists()


def key_file(said: str) -> Path:
    return Path(re.findall(r"keys for this run: (.+)", said)[0])


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_service_prints_address_and_a_generated_key_per_tier_not_in_logs(
    folder: Path, end: signal.Signals
) -> None:
    with serving(folder, end) as said:
        first = said.splitlines()[0]
        assert re.fullmatch(r"desk at 2026-06-29T15:00:00Z: http://127\.0\.0\.1:\d+", first)
        assert key_file(said).stat().st_mode & 0o077 == 0
        result = dict(line.split(": ") for line in key_file(said).read_text().splitlines())
        assert not any(key in said for key in result.values())
        assert list(result) == ["free", "dev", "pro", "team"]
        assert len(set(result.values())) == 4
        url = f"{first.split(': ')[1]}/oi/exchanges-summary"
        for tier, key in result.items():
            answer = requests.get(url, headers={"X-Api-Key": key}, timeout=PATIENCE)
            assert answer.status_code == (403 if tier == "free" else 200)
            assert answer.headers["Date"] == "Mon, 29 Jun 2026 15:00:00 GMT"


def failed(*arguments: str) -> str:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_service_that_cannot_start_prints_one_line_and_exits_1(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "notes.txt").write_text("not an archive")
    assert str(tmp_path) in failed(str(tmp_path), "--port", "0")
    with pytest.raises(ArchiveError):
        service.start(str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="the same key"):
        service.serve(str(folder), keys={"free": "k", "pro": "k"})


def test_archive_serves_its_own_span_before_the_documented_start(folder: Path) -> None:
    with served(str(folder)) as ask:
        local = ask.local
        assert (local.store.label, local.store.synthetic) == ("desk", False)
        assert ask("/").headers["Date"] == "Tue, 30 Jun 2026 12:01:00 GMT"
        body = ask.body("/funding/historical", symbol="BTC", exchanges="binance", start="2020-01-01")
        assert body["series"]["binance"][0]["t"] == "2026-05-20T00:00:00Z"
        none = ask.body("/funding/historical", symbol="BTC", start="2020-01-01", end="2021-01-01")
        assert none["notices"] == [
            "no data for this request: historical funding starts in May 2026 (2026-05-20 00:00:00 UTC)"
        ]
        before = local_scope(local)
        archive.open_archive(folder).append("volume_history", market.volume())
        assert local_scope(local) != before
        assert ask.body("/markets/symbols")["symbols"][0]["volume_24h_usd"] == 48e6


def test_keyless_service_on_all_addresses_warns_and_given_keys_are_not_printed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a server that ends as soon as it runs."""
    monkeypatch.setattr("derivdata.sources.service.server.uvicorn.Server", Mock())
    service.serve(str(folder), host="0.0.0.0", port=0, keyless=True)
    output = capsys.readouterr().out
    assert "every request counts as Team" in output
    assert "other machines can reach this; keys and data travel unencrypted" in output
    assert "key of tier" not in output
    service.serve(str(folder), port=0, keys={"pro": "my-secret"})
    output = capsys.readouterr().out
    assert re.search(r"http://127\.0\.0\.1:\d+$", output.strip())
    assert "my-secret" not in output
    assert "other machines" not in output
