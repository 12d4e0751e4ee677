"""Corrections of an archive reach the provenance of every table that is served from the corrected rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np
import pandas as pd
import pytest

import derivdata as dd
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.service.data import store as corrections
from tests.archive.rates import START, rates
from tests.service.conftest import serving

FUNDING = "funding_history"
WINDOW = ("2026-01-30", "2026-02-02")
DELETED = (
    "correction 1: 4 rows deleted (symbol=BTC, exchange=okx, before 2026-01-30T04:00:00Z): wrong sign, ×100"
)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    filled = open_archive(tmp_path / "mine")
    of_okx = rates(venues=["okx"], plus=0.5)  # equal rates of two venues would give a notice of a copy
    rows = pd.concat([rates(venues=["binance"]), of_okx], ignore_index=True)
    # Rates on a line would give a notice of interpolated rows
    filled.append(FUNDING, rows.assign(rate_bps_8h=2.0 + np.sin(rows["rate_bps_8h"])))
    yield filled
    dd.disconnect()


def notices(symbol: str = "BTC", **chosen: object) -> list[str]:
    return dd.provenance(dd.funding.history(symbol, *WINDOW, **chosen))["notices"]


def test_every_response_with_corrected_rows_states_the_correction(archive: Archive) -> None:
    """Four hours of okx' BTC were deleted: reported for BTC each time, not for ETH nor for binance alone."""
    archive.delete(
        FUNDING,
        {"symbol": "BTC", "exchange": "okx"},
        end=START + pd.Timedelta("4h"),
        reason="wrong sign, ×100",
    )
    dd.connect(str(archive.path))
    for _ in range(2):
        assert notices() == [DELETED]
    assert notices(venues=["okx"]) == [DELETED]
    assert notices("ETH") == []
    assert notices(venues=["binance"]) == []
    late = dd.funding.history("BTC", "2026-02-01", "2026-02-02", venues=["okx"])
    assert dd.provenance(late)["notices"] == [], "rows that no correction touched"
    assert archive.read(FUNDING, *(pd.Timestamp(t, tz="UTC") for t in WINDOW)).attrs["provenance"][
        "notices"
    ] == [DELETED]
    archive.undo(1)
    dd.connect(str(archive.path))
    assert notices() == []


def test_cached_state_still_states_the_correction(archive: Archive) -> None:
    """The state of all venues is computed once and shared: later responses report the correction too."""
    interest = rates().drop(columns="kind").rename(columns={"rate_bps_8h": "oi_usd"})
    archive.append("oi_history", interest.assign(oi_usd=1e9))
    newest = START + pd.Timedelta("95h")
    right = interest.query("symbol == 'ETH' and exchange == 'okx' and time == @newest").assign(oi_usd=2e9)
    archive.replace("oi_history", right, {"symbol": "ETH", "exchange": "okx"}, start=newest, reason="coins")
    stated = "correction 1: 1 rows replaced by 1 (symbol=ETH, exchange=okx, from 2026-02-02T23:00:00Z): coins"
    dd.connect(str(archive.path))
    for chosen in (None, ["binance"], ["okx"]):
        assert stated in dd.provenance(dd.markets.symbols(venues=chosen))["notices"]


DAYS = {"1 to 3 January": ("2026-01-01", "2026-01-04"), "1 January": ("2026-01-01", "2026-01-02")}


def headers(path: Path, *asked: str) -> dict[str, str | None]:
    """Return headers of the totals of all venues over some windows of `DAYS`, requested in turn."""
    results = {}
    with serving(open_archive(path), now="2026-01-05") as ask:
        for name in asked:
            start, end = DAYS[name]
            answer = ask("/oi/exchange-totals", start=start, end=end, resolution="1h")
            assert answer.status_code == 200, answer.text
            assert answer.json()["data"]
            results[name] = answer.headers.get(corrections.HEADER)
    return results


def test_day_states_only_its_own_corrections_after_other_requests(tmp_path: Path) -> None:
    """Noon of 3 January is gone, by the first correction, and noon of 2 January, by the second."""
    interest = rates(["BTC"], hours=72, start=pd.Timestamp("2026-01-01", tz="UTC")).drop(columns="kind")
    archive = open_archive(tmp_path / "mine")
    archive.append("oi_history", interest.rename(columns={"rate_bps_8h": "oi_usd"}).assign(oi_usd=1e9))
    for number, noon in enumerate(("2026-01-03T12:00Z", "2026-01-02T12:00Z"), start=1):
        start = pd.Timestamp(noon)
        end = start + pd.Timedelta("1h")
        archive.delete("oi_history", {"exchange": "okx"}, start=start, end=end, reason=f"no. {number}")
    one, other = (headers(archive.path, *asked) for asked in (DAYS, reversed(DAYS)))
    assert one == other
    assert one["1 January"] is None
    stated = one["1 to 3 January"]
    assert stated is not None
    assert [line[-5:] for line in stated.split("%0A")] == ["no. 1", "no. 2"]


@pytest.mark.parametrize("character", ["x", "×", "🙃"])  # 1, 6 and 12 bytes in the header
def test_corrections_header_is_shortened_to_2000_bytes(character: str) -> None:
    """The first of many corrections, shortened, in 2,000 bytes; no character is cut in the middle."""
    many = [f"correction {i}: {character * 300}" for i in range(10, 35)]
    value = corrections.header_value([*many, *many])
    assert 1500 < len(value) < 2100
    *stated, more = unquote(value, errors="strict").split("\n")
    room = 265 // len(quote(character))
    assert stated == [f"correction {i}: {character * room}..." for i in range(10, 10 + len(stated))]
    assert more == f"and {25 - len(stated)} more corrections"
    assert corrections.header_value([]) == ""
    short = corrections.header_value([f"correction {i}: x" for i in range(25, 0, -1)])
    twenty = [f"correction {i}: x" for i in range(1, 21)]
    assert short.split("%0A") == [*twenty, "and 5 more corrections"]


def test_nested_blocks_collect_their_own_notes() -> None:
    corrections.note(["outside any answer"])
    with corrections.noted() as outer:
        corrections.note(["a"])
        with corrections.noted() as inner:
            corrections.note(["b"])
        corrections.note(["c"])
    assert (outer, inner) == (["a", "b", "c"], ["b"])
