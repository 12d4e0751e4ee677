"""A cache and a bundle that version 0.1.0 wrote open unchanged, to the values that it read from them.

``tests/data/cache_0_1_0`` was written by the code of commit ebd42d4 from the sample: ``cache`` as that of a
service at https://api.example.com, ``bundle.ddz`` as a recording, and beside them the tables of that version.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import derivdata as dd
from derivdata import bundle

DATA = Path(__file__).resolve().parents[1] / "data" / "cache_0_1_0"
CLOSED = ("2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z")


@pytest.fixture(params=["cache", "bundle"])
def opened(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The cache, offline; or a replay of the bundle."""
    if request.param == "bundle":
        with dd.replay(DATA / "bundle.ddz"):
            yield
        return
    shutil.copytree(DATA / "cache", tmp_path / "cache")
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path / "cache"))
    dd.connect("https://api.example.com", offline=True)
    yield
    dd.disconnect()


def as_written(frame: pd.DataFrame, name: str) -> None:
    """Compare a table with what 0.1.0 made of the same answers; a later version may add columns."""
    expected = pd.read_csv(DATA / f"{name}.csv", parse_dates=["time"])
    found = frame[list(expected.columns)].astype({c: "str" for c in expected.columns if c != "time"})
    text = expected.astype({c: "str" for c in expected.columns if c != "time"})
    numbers = expected.select_dtypes("number").columns
    assert len(found) == len(text) > 0
    for column in expected.columns:
        if column in numbers:
            assert frame[column].tolist() == expected[column].tolist()
        else:
            assert found[column].tolist() == text[column].tolist()


@pytest.mark.usefixtures("opened")
def test_tables_clock_and_raw_answers_are_those_of_0_1_0() -> None:
    as_written(dd.funding.history("BTC", *CLOSED, venues=["binance", "okx"]), "funding_history")
    as_written(dd.oi.history("BTC", *CLOSED, venues=["okx"], resolution="4h"), "oi_history")
    assert dd.asof() == pd.Timestamp("2026-06-30T12:00Z")
    as_written(dd.funding.history("ETH", "6h", venues=["okx"]), "funding_history_open")
    assert dd.raw("/oi/exchanges-summary") == json.loads((DATA / "raw.json").read_text())


def test_a_bundle_says_what_it_did() -> None:
    assert bundle.verify(DATA / "bundle.ddz") == 5
    found = bundle.info(DATA / "bundle.ddz")
    assert found.manifest.about == {"made by": "0.1.0"}
    assert found.manifest.versions["derivdata"] == "0.1.0"
    with dd.replay(DATA / "bundle.ddz") as replayed:
        assert any(text.startswith("BLAS kernel unknown then") for text in replayed.differences)
