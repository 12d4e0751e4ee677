"""Corrections of an archive reach the provenance of every table that is served from the corrected rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import derivdata as dd
from derivdata.archive import Archive, open_archive
from derivdata.service import corrections
from tests.archive.rates import START, rates

FUNDING = "funding_history"
WINDOW = ("2026-01-30", "2026-02-02")
DELETED = (
    "correction 1: 4 rows deleted (symbol=BTC, exchange=okx, before 2026-01-30T04:00:00Z): wrong sign, ×100"
)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    filled = open_archive(tmp_path / "mine")
    filled.append(FUNDING, rates())
    yield filled
    dd.disconnect()


def notices(symbol: str = "BTC", **chosen: object) -> list[str]:
    return dd.provenance(dd.funding.history(symbol, *WINDOW, **chosen))["notices"]


def test_a_correction_is_stated_wherever_its_rows_are_served(archive: Archive) -> None:
    """Four hours of okx' BTC are gone: said of BTC, over and over, not of ETH nor of binance alone."""
    archive.delete(
        FUNDING,
        {"symbol": "BTC", "exchange": "okx"},
        end=START + pd.Timedelta("4h"),
        reason="wrong sign, ×100",
    )
    dd.connect(str(archive.path))
    for _ in range(2):
        assert notices() == [DELETED]
    assert notices(exchanges=["okx"]) == [DELETED]
    assert notices("ETH") == []
    assert notices(exchanges=["binance"]) == []
    late = dd.funding.history("BTC", "2026-02-01", "2026-02-02", exchanges=["okx"])
    assert dd.provenance(late)["notices"] == [], "rows that no correction touched"
    assert archive.read(FUNDING, *(pd.Timestamp(t, tz="UTC") for t in WINDOW)).attrs["provenance"][
        "notices"
    ] == [DELETED]
    archive.undo(1)
    dd.connect(str(archive.path))
    assert notices() == []


def test_what_was_remembered_still_states_it(archive: Archive) -> None:
    """The state of all venues is made once and shared: later answers state the correction as the first."""
    interest = rates().drop(columns="kind").rename(columns={"rate_bps_8h": "oi_usd"})
    archive.append("oi_history", interest.assign(oi_usd=1e9))
    newest = START + pd.Timedelta("95h")
    right = interest.query("symbol == 'ETH' and exchange == 'okx' and time == @newest").assign(oi_usd=2e9)
    archive.replace("oi_history", right, {"symbol": "ETH", "exchange": "okx"}, start=newest, reason="coins")
    stated = "correction 1: 1 rows replaced by 1 (symbol=ETH, exchange=okx, from 2026-02-02T23:00:00Z): coins"
    dd.connect(str(archive.path))
    for chosen in (None, ["binance"], ["okx"]):
        assert stated in dd.provenance(dd.markets.symbols(exchanges=chosen))["notices"]


def test_a_header_holds_what_it_can() -> None:
    many = [f"correction {i}: {'x' * 1000}" for i in range(25)]
    value = corrections.header_value([*many, *many])
    assert value.count("%0A") == 20
    assert value.endswith("and 5 more corrections")
    assert len(value) < 8000
    assert corrections.header_value([]) == ""


def test_blocks_within_blocks_keep_their_notes_apart() -> None:
    corrections.note(["outside any answer"])
    with corrections.noted() as outer:
        corrections.note(["a"])
        with corrections.noted() as inner:
            corrections.note(["b"])
        corrections.note(["c"])
    assert (outer, inner) == (["a", "b", "c"], ["b"])
