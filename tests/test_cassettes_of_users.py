"""A user's test suite with vcrpy cassettes, as docs/caching.md shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import vcr

import derivdata as dd
from derivdata.sources import service

PAGE = Path(__file__).resolve().parents[1] / "docs" / "caching.md"
KEY = "team-key-of-a-cassette"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def local() -> Iterator[service.RunningService]:
    running = service.start("sample")
    yield running
    running.close()


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Write the example of the page into a folder."""
    [code] = re.findall(r"```python\n(# test_study\.py\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    (tmp_path / "test_study.py").write_text(code)
    return tmp_path


def run(folder: Path, url: str, *, key: str | None, mode: str = "none") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "DERIVDATA_API_KEY"}
    environment |= {"API_URL": url, "RECORD_MODE": mode, "DERIVDATA_CACHE_DIR": str(folder / "cache")}
    environment |= {"DERIVDATA_API_KEY": key} if key else {}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    command += ["-c", os.devnull, str(folder)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_the_suite_of_the_page_passes_with_and_without_a_key_and_with_a_warm_cache(
    suite: Path, local: service.RunningService, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert local.api_key is not None
    recorded = run(suite, local.url, key=local.api_key, mode="new_episodes")
    assert recorded.returncode == 0, recorded.stdout
    cassette = (suite / "cassettes" / "study.yaml").read_text()
    assert cassette.count("- request:") >= 5
    assert local.api_key not in cassette

    without_key = run(suite, NOWHERE, key=None)
    assert without_key.returncode == 0, without_key.stdout
    with_key = run(suite, NOWHERE, key=KEY)
    assert with_key.returncode == 0, with_key.stdout
    assert not (suite / "cache" / "answers").exists()

    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(suite / "cache"))
    dd.connect(local.url, api_key=local.api_key)
    dd.funding.history(["BTC", "ETH"], "2026-06-01", "2026-06-08")
    assert dd.cache_info().answers == 2
    for source in (NOWHERE, local.url):
        warm = run(suite, source, key=local.api_key)
        assert warm.returncode == 0, warm.stdout

    (suite / "cassettes" / "study.yaml").unlink()
    again = run(suite, local.url, key=local.api_key, mode="new_episodes")
    assert again.returncode == 0, again.stdout
    whole = (suite / "cassettes" / "study.yaml").read_text()
    assert whole.count("- request:") == cassette.count("- request:"), "a warm cache leaves nothing out"


@pytest.mark.parametrize("serializer", ["yaml", "json"])
def test_a_cassette_without_a_filter_has_a_mask(
    serializer: str, tmp_path: Path, local: service.RunningService
) -> None:
    """Many symbols at a time too, whose requests vcrpy would lose in several threads."""
    symbols = ["BTC", "ETH", "SOL", "XRP", "DOGE", "BNB", "ADA", "AVAX", "LINK", "LTC"]
    recorder = vcr.VCR(cassette_library_dir=str(tmp_path), serializer=serializer)
    tables = []
    for mode in ("once", "none"):
        with recorder.use_cassette("a", record_mode=mode) as cassette:
            dd.connect(local.url, cache="off", api_key=local.api_key)
            tables.append(dd.oi.history(symbols, "2026-06-01", "2026-06-03"))
            dd.disconnect()
        assert len(cassette) >= len(symbols)
    assert tables[0].equals(tables[1])
    text = (tmp_path / "a").read_text()
    assert local.api_key is not None
    assert local.api_key not in text
    assert "***" in text
