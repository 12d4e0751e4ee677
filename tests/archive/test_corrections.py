"""Rows replaced and deleted by hand: removed, added and restored rows, and the report of each step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive, open_archive
from tests.archive.rates import EVER, START, rates

FUNDING = "funding_history"
OKX_BTC = {"exchange": "okx", "symbol": "BTC"}


@pytest.fixture(scope="module", params=[30, 32_768], ids=["small groups", "one group"])
def filled(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Path]:
    """96 hours of BTC and ETH on binance and okx over two months, the rate is the hour's number."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("derivdata.sources.archive.schemas.GROUP_ROWS", request.param)
        archive = open_archive(tmp_path_factory.mktemp("filled") / "mine")
        archive.append(FUNDING, rates())
        yield archive.path


@pytest.fixture
def archive(filled: Path, tmp_path: Path) -> Archive:
    return open_archive(shutil.copytree(filled, tmp_path / "mine"))


def read(archive: Archive, **chosen: Any) -> pd.DataFrame:
    return archive.read(FUNDING, *EVER, **chosen)


def hour(number: int) -> pd.Timestamp:
    return START + pd.Timedelta(number, "h")


def files_on_disk(archive: Archive) -> set[str]:
    return {str(p.relative_to(archive.path)) for p in archive.path.glob("*/*/*.parquet")}


def test_wrong_rows_are_replaced_and_the_others_stay(archive: Archive) -> None:
    """A unit mistake on one pair: 96 rows, each 8 times too small."""
    others = read(archive, venues=["binance"])
    right = rates(["BTC"], ["okx"])
    done = archive.replace(FUNDING, right.assign(rate_bps_8h=right["rate_bps_8h"] * 8), OKX_BTC, reason="1 h")
    assert done == (1, 96, 96)
    assert read(archive, symbols=["BTC"], venues=["okx"])["rate_bps_8h"].tolist() == [
        8.0 * i for i in range(96)
    ]
    pd.testing.assert_frame_equal(read(archive, venues=["binance"]), others)
    assert len(read(archive)) == 384


def test_deleted_venue_or_table_is_unlisted_and_undo_restores_it(archive: Archive) -> None:
    before = read(archive)
    with pytest.raises(ArchiveError, match="nothing was corrected: no row of funding_history matches"):
        archive.delete(FUNDING, {"symbol": "LTC"})
    archive.delete(FUNDING, {"exchange": "okx"})
    assert archive.exchanges(FUNDING) == ("binance",)
    assert archive.undo(1) == (2, 0, 192)
    archive.delete(FUNDING, start=hour(0))
    assert archive.tables() == frozenset()
    assert len(read(archive)) == 0
    archive.undo(3)
    pd.testing.assert_frame_equal(read(archive), before)


def test_undo_restores_old_values_and_undo_of_undo_the_new_ones(archive: Archive) -> None:
    before = read(archive)
    archive.replace(FUNDING, rates(["BTC"], ["okx"], plus=0.5), OKX_BTC)
    corrected = read(archive)
    archive.undo(1)
    pd.testing.assert_frame_equal(read(archive), before)
    archive.undo(2)
    pd.testing.assert_frame_equal(read(archive), corrected)
    log = archive.corrections()
    assert log["action"].tolist() == ["replace", "undo", "undo"]
    assert log["undone"].tolist() == [False, True, False]
    with pytest.raises(ValueError, match="number=2: this correction was already undone"):
        archive.undo(2)


@pytest.mark.parametrize("gone", [3, 1])
def test_rows_stored_after_a_deletion_survive_its_undo_and_redo(archive: Archive, gone: int) -> None:
    """The first deleted hour was stored again as 9.99; the other rows return and are deleted again."""
    archive.delete(FUNDING, OKX_BTC, end=hour(gone))
    archive.append(FUNDING, rates(["BTC"], ["okx"], hours=1, plus=9.99))
    assert archive.undo(1) == (2, 0, gone - 1)
    assert archive.corrections()["undone"].tolist() == [True, False]
    assert archive.undo(2) == (3, gone - 1, 0)
    changes = archive.corrections()[["removed", "added"]]
    assert changes.to_numpy().tolist() == [[gone, 0], [0, gone - 1], [gone - 1, 0]]
    result = read(archive, symbols=["BTC"], venues=["okx"])["rate_bps_8h"].tolist()
    assert result == [9.99, *map(float, range(gone, 96))]


def test_appending_deleted_rows_again_does_not_damage_the_correction(archive: Archive) -> None:
    """Their file would equal the file of the record, byte for byte, and is merged immediately."""
    archive.delete(FUNDING, OKX_BTC)
    archive.append(FUNDING, rates(["BTC"], ["okx"]))
    archive.delete(FUNDING, OKX_BTC)
    archive.undo(2)
    archive.undo(1)
    assert len(read(archive)) == 384


def test_overlapping_corrections_are_undone_newest_first(archive: Archive) -> None:
    archive.replace(FUNDING, rates(["BTC"], ["okx"], plus=1.0), OKX_BTC)
    archive.replace(FUNDING, rates(["ETH"], ["okx"], plus=1.0), {"exchange": "okx", "symbol": "ETH"})
    archive.delete(FUNDING, {"symbol": ["BTC"]}, end=hour(3))
    with pytest.raises(ValueError, match="the later correction 3 changed the same rows: undo 3 first"):
        archive.undo(1)
    archive.undo(2)
    archive.undo(3)
    archive.undo(1)
    assert read(archive)["rate_bps_8h"].tolist() == [float(i) for i in range(96)] * 4


def test_correction_changes_identity_and_version_of_the_past(archive: Archive) -> None:
    name, state = archive.id, archive.identity
    archive.delete(FUNDING, {"symbol": "ETH"})
    assert archive.id == name
    assert archive.identity != state
    past = archive.version.partition(".")[0]
    assert past == archive.identity[:16]
    archive.append(FUNDING, rates(["BTC"], ["okx"], hours=1, start=hour(96)))
    assert archive.version == f"{past}.{archive.identity[:16]}"
    assert past != archive.identity[:16]


def test_corrections_are_reported_with_the_rows_read(archive: Archive) -> None:
    import derivdata as dd

    assert dd.provenance(read(archive))["notices"] == []
    archive.replace(FUNDING, rates(["BTC"], ["okx"], plus=1.0), OKX_BTC, reason="the venue sent cents")
    archive.delete(FUNDING, {"exchange": "binance"}, start=hour(90))
    provenance = dd.provenance(read(archive))
    assert provenance["notices"] == [
        "correction 1: 96 rows replaced by 96 (symbol=BTC, exchange=okx): the venue sent cents",
        "correction 2: 12 rows deleted (exchange=binance, from 2026-02-02T18:00:00Z)",
    ]
    assert (provenance["source"], provenance["synthetic"]) == ("mine", False)
    assert provenance["archive"] == {"id": archive.id, "version": archive.version}
    assert provenance["as_of"] == "2026-02-02T23:01:00Z"
    eth = archive.read(FUNDING, hour(0), hour(5), symbols=["ETH"])
    assert dd.provenance(eth)["notices"] == []
    archive.undo(2)
    assert len(dd.provenance(read(archive))["notices"]) == 1


def test_control_characters_in_a_reason_are_escaped(archive: Archive) -> None:
    import derivdata as dd

    archive.delete(FUNDING, OKX_BTC, reason="\x1b[2Jwrong")
    assert archive.corrections()["reason"].tolist() == [r"\x1b[2Jwrong"]
    assert dd.provenance(read(archive))["notices"][0].endswith(r": \x1b[2Jwrong")


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (None, "select rows"),
        (
            {"rate_bps_8h": "1"},
            "where: 'rate_bps_8h' cannot select rows of funding_history; use symbol, exchange, or start=",
        ),
        ({"exchange": "okx", "symbol": "ETH"}, "96 rows are outside the selection to replace, first"),
    ],
)
def test_invalid_filters_of_a_correction_raise(archive: Archive, where: Any, told: str) -> None:
    state = archive.identity
    with pytest.raises(ValueError, match=told):
        archive.replace(FUNDING, rates(["BTC"], ["okx"]), where)
    assert archive.identity == state


@pytest.mark.parametrize("at", [1, 2, 3])
def test_interrupted_correction_leaves_the_previous_state(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    before, state, files = read(archive), archive.identity, files_on_disk(archive)
    calls, real = [], os.replace

    def cut_off(*arguments: Any) -> None:
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", cut_off)
        with pytest.raises(KeyboardInterrupt):
            archive.replace(FUNDING, rates(["BTC"], ["okx"], plus=1.0), OKX_BTC)
    assert (archive.identity, files_on_disk(archive)) == (state, files)
    pd.testing.assert_frame_equal(read(archive), before)
