"""The index of a file: reads by it give what reads without it give, of whatever rows."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derivdata import tables
from derivdata.sources.archive import Archive, footers, manifest, open_archive, parquet_reader, parquet_writer
from derivdata.sources.archive.index_builder import IndexBuilder
from derivdata.sources.archive.series_index import SeriesIndex
from tests.archive.rates import EVER, START, rates


def _indexes(archive: Archive, table: str = "funding_history") -> list[SeriesIndex | None]:
    storage = archive._storage
    state = manifest.load(storage)
    assert state is not None
    return [footers.footer(storage, file).index for file in state.tables[table].files]


def _without_index(archive: Archive, monkeypatch: pytest.MonkeyPatch, **read: Any) -> pd.DataFrame:
    with monkeypatch.context() as patch:
        patch.setattr(footers.Footer, "index", None)
        return archive.read(**read)


def _uneven(seed: int) -> pd.DataFrame:
    """Series of one step with gaps, late starts and early ends; some have one row, venues differ."""
    rng = np.random.default_rng(seed)
    frame = rates(["A", "B", "Bé", "千"], ["binance", "okx", "zo"], hours=60)
    frame["rate_bps_8h"] = rng.normal(size=len(frame)).round(3)
    keep = rng.random(len(frame)) > 0.04
    keep &= ~((frame["symbol"] == "B") & (frame["exchange"] == "zo")).to_numpy()
    keep &= ~((frame["symbol"] == "千") & (frame["time"] > START + pd.Timedelta("30h"))).to_numpy()
    return frame[keep]


@pytest.mark.parametrize("rows_per_group", [7, 40])
def test_reads_by_the_index_give_what_reads_without_it_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows_per_group: int
) -> None:
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", rows_per_group)
    archive = open_archive(tmp_path)
    archive.append("funding_history", _uneven(rows_per_group))
    assert all(index is not None for index in _indexes(archive))
    for symbols in (None, ["B", "千"]):
        for venues in (None, ["okx"]):
            for first, last in ((-5, 90), (23, 25), (29.5, 31.25)):
                read: dict[str, Any] = {
                    "table": "funding_history",
                    "start": START + pd.Timedelta(first, "h"),
                    "end": START + pd.Timedelta(last, "h"),
                    "symbols": symbols,
                    "venues": venues,
                }
                plain = _without_index(archive, monkeypatch, **read)
                pd.testing.assert_frame_equal(archive.read(**read), plain)
                columns = ["exchange", "time", "rate_bps_8h"]
                some = archive.read(**read, columns=columns).sort_values(columns, ignore_index=True)
                expected = plain[columns].sort_values(columns, ignore_index=True)
                pd.testing.assert_frame_equal(some, expected, check_categorical=False)


def _random_rows(rng: np.random.Generator) -> pd.DataFrame:
    """Series of several steps with holes, shifted and lone rows and values that are missing."""
    frame = rates(["A", "B", "BTC", "Bé"], ["okx", "zo"], hours=120)
    hour = np.tile(np.arange(120), 8)
    series = np.repeat(np.arange(8), 120)
    step = rng.choice([1, 1, 1, 1, 2], 8)[series]
    first, last = rng.integers(0, 50, 8)[series], rng.integers(40, 121, 8)[series]
    keep = (hour % step == 0) & (hour >= first) & (hour < last) & (rng.random(hour.size) > 0.03)
    frame["rate_bps_8h"] = rng.normal(size=hour.size).round(3)
    frame.loc[rng.random(hour.size) < 0.1, "rate_bps_8h"] = np.nan
    frame["time"] += pd.to_timedelta(np.where(rng.random(hour.size) < 0.01, 1, 0), unit="us")
    frame["resolution"] = np.where(series < rng.choice([0, 3, 8]), "raw", "1h")
    return frame[keep]


def _chosen(frame: pd.DataFrame, read: dict[str, Any]) -> np.ndarray[Any, Any]:
    chosen = (frame["time"] >= read["start"]) & (frame["time"] < read["end"])
    for column, values in (("symbol", read["symbols"]), ("exchange", read["venues"])):
        if values is not None:
            chosen &= frame[column].isin(values)
    return chosen.to_numpy()


@pytest.mark.parametrize("seed", range(3))
def test_reads_of_random_archives_give_the_rows_that_were_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """The rows that merges, a deletion and a replacement leave are kept in a frame beside, and filtered."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", int(rng.integers(3, 60)))
    monkeypatch.setattr(parquet_writer, "_CHUNK_GROUPS", int(rng.integers(1, 5)))

    def some_read() -> dict[str, Any]:
        start = START + pd.Timedelta(int(rng.integers(-5, 115)), "h")
        return {
            "start": start + pd.Timedelta(int(rng.integers(0, 2)), "us"),
            "end": start + pd.Timedelta(int(rng.integers(1, 80)), "h"),
            "symbols": [None, ["B"], ["A", "Bé", "absent"]][rng.integers(3)],
            "venues": [None, ["zo"]][rng.integers(2)],
        }

    archive = open_archive(tmp_path)
    key = ["symbol", "exchange", "time"]
    stored = _random_rows(rng)
    archive.merge("funding_history", stored)
    more = _random_rows(rng)
    archive.merge("funding_history", more)
    stored = pd.concat([stored, more]).drop_duplicates(key)
    cut = {"start": START + pd.Timedelta("20h"), "end": START + pd.Timedelta("70h")}
    archive.delete("funding_history", {"symbol": "BTC"}, **cut)
    stored = stored[~_chosen(stored, {**cut, "symbols": ["BTC"], "venues": None})]
    other = _random_rows(rng)
    other = other[other["symbol"] == "A"]
    archive.replace("funding_history", other, {"symbol": "A"})
    stored = pd.concat([stored[stored["symbol"] != "A"], other]).sort_values(key, ignore_index=True)

    everything = {"start": EVER[0], "end": EVER[1], "symbols": None, "venues": None}
    assert any(index is not None for index in _indexes(archive))
    for read in (everything, *(some_read() for _ in range(6))):
        expected = stored[_chosen(stored, read)].reset_index(drop=True)
        answer = archive.read("funding_history", **read)
        pd.testing.assert_frame_equal(
            answer.astype({name: object for name in answer if answer[name].dtype == "category"}),
            expected[list(answer)],
            check_dtype=False,
        )


def test_the_index_names_each_series_its_instants_and_what_all_rows_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 8)
    frame = rates(["A", "B"], ["okx", "zo"], hours=10)
    gap = (
        (frame["symbol"] == "A") & (frame["exchange"] == "zo") & (frame["time"] == START + pd.Timedelta("4h"))
    )
    archive = open_archive(tmp_path)
    archive.append("funding_history", frame[~gap])
    (index,) = _indexes(archive)
    assert index is not None
    runs = index.runs
    assert [runs.words[0][code] for code in runs.codes[0]] == ["A", "A", "A", "B", "B"]
    assert [runs.words[1][code] for code in runs.codes[1]] == ["okx", "zo", "zo", "okx", "zo"]
    assert runs.bounds.tolist() == [0, 10, 14, 19, 29, 39]
    assert (index.origin * 1000, runs.unit) == (START.as_unit("ns").value, 5 * 3_600_000_000)
    assert runs.units.tolist() == [0, 0, 1, 0, 0]
    assert runs.step == 3_600_000_000
    assert runs.constants["kind"] == "sampled"
    assert runs.edges.tolist() == [0, 8, 16, 24, 32, 39]
    assert (runs.table, runs.names) == ("funding_history", set(frame.columns))
    assert list(index.columns) == ["rate_bps_8h"]


def test_a_word_that_changes_from_one_written_chunk_to_the_next_is_no_constant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 8)
    monkeypatch.setattr(parquet_writer, "_CHUNK_GROUPS", 1)
    frame = rates(["A", "B"], ["okx"], hours=16)
    frame["resolution"] = np.where(frame["symbol"] == "A", "raw", "1h")
    archive = open_archive(tmp_path)
    archive.merge("funding_history", frame)
    (index,) = _indexes(archive)
    assert index is not None
    assert index.runs.constants == {"kind": "sampled"}
    assert archive.read("funding_history", *EVER)["resolution"].tolist() == ["raw"] * 16 + ["1h"] * 16


def test_a_file_of_irregular_rows_has_none_and_is_read_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 8)
    frame = rates(["A", "B"], ["okx", "zo"], hours=30)
    jitter = np.random.default_rng(3).integers(0, 3_000, len(frame))
    frame["time"] = frame["time"] + pd.to_timedelta(jitter, unit="s")
    archive = open_archive(tmp_path)
    archive.append("funding_history", frame, accept=["interval"])
    assert _indexes(archive) == [None]
    assert len(archive.read("funding_history", *EVER, symbols=["A"])) == 60


@pytest.fixture(scope="module")
def uneven_months(tmp_path_factory: pytest.TempPathFactory) -> tuple[Archive, pd.DataFrame]:
    """Four months with gaps, two of which have the same, and their rows as pyarrow decodes whole files.

    The last is too uneven for an index.
    """
    archive = open_archive(tmp_path_factory.mktemp("months"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_writer, "GROUP_ROWS", 16)
        for k, seed in enumerate((0, 0, 11, 1)):
            frame = _random_rows(np.random.default_rng(seed))
            frame["time"] += _month(k) - START
            archive.merge("funding_history", frame)
    files = sorted(archive.path.rglob("*.parquet"))
    indexes = _indexes(archive)
    assert [index is None for index in indexes] == [False, False, False, True]
    assert len({index.runs for index in indexes[:2] if index is not None}) == 1
    return archive, pd.concat([pq.read_table(file).to_pandas() for file in files])


@settings(max_examples=20, deadline=None)
@given(
    first=st.integers(-24, 24 * 100),
    hours=st.integers(1, 24 * 100),
    micros=st.sampled_from([0, 1]),
    symbols=st.none() | st.lists(st.sampled_from(["A", "B", "BTC", "Bé", "absent"]), min_size=1, max_size=3),
    venues=st.none() | st.sampled_from([["okx"], ["zo"]]),
)
def test_reads_of_any_window_and_series_are_the_rows_of_the_whole_files(
    uneven_months: tuple[Archive, pd.DataFrame],
    first: int,
    hours: int,
    micros: int,
    symbols: list[str] | None,
    venues: list[str] | None,
) -> None:
    archive, stored = uneven_months
    start = _month(0) + pd.Timedelta(first, "h") + pd.Timedelta(micros, "us")
    read = {"start": start, "end": start + pd.Timedelta(hours, "h"), "symbols": symbols, "venues": venues}
    rows = archive.read("funding_history", **read)
    expected = tables.TABLES["funding_history"].conform(stored[_chosen(stored, read)])
    pd.testing.assert_frame_equal(rows, expected, check_categorical=False)


def test_files_with_and_without_an_index_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a version before indexes, of the same series, and with gaps of their own."""
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 20)
    monkeypatch.setattr(parquet_reader, "_FEW_FILES", 3)  # several threads read these
    archive = open_archive(tmp_path)
    names = ["A", "B", "C"], ["okx", "zo"]
    days = [rates(*names, hours=48, start=_month(k), plus=100.0 * k) for k in range(6)]
    days[3] = days[3].drop(index=[7, 60, 61])
    days[4] = days[4][days[4]["symbol"] != "A"]
    for k, frame in enumerate(days):
        with monkeypatch.context() as patch:
            if k in (1, 2):
                patch.setattr(IndexBuilder, "packed", lambda *_: b"")
            archive.merge("funding_history", frame)
    indexes = _indexes(archive)
    assert [index is None for index in indexes] == [k in (1, 2) for k in range(6)]
    runs = [index.runs for index in indexes if index is not None]
    assert len({id(each) for each in runs}) == 3  # those without gaps share theirs
    stored = pd.concat(days)
    for read in ({"symbols": ["B"], "venues": ["zo"]}, {"symbols": ["A"]}, {"exchanges": ["okx"]}):
        window = (_month(0) + pd.Timedelta("5h"), _month(5) + pd.Timedelta("30h"))
        rows = archive.read("funding_history", *window, **read)
        wanted = {"start": window[0], "end": window[1], "symbols": None, "venues": None, **read}
        expected = tables.TABLES["funding_history"].conform(stored[_chosen(stored, wanted)])
        pd.testing.assert_frame_equal(rows, expected, check_categorical=False)


def _month(number: int) -> pd.Timestamp:
    return pd.Timestamp(2025, 1 + number, 3, tz="UTC")


def test_an_index_of_a_later_version_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 8)

    content = msgspec.msgpack.encode({"version": 3, "runs": [30]})
    numbers = np.array([len(content), zlib.crc32(content)], "<u4").tobytes()
    monkeypatch.setattr(IndexBuilder, "packed", lambda *_: content + numbers + b"ddSERIES")
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["A"], ["okx"], hours=30))
    assert _indexes(archive) == [None]
    assert len(archive.read("funding_history", *EVER, symbols=["A"])) == 30


def test_chains_that_share_an_instant_are_runs_of_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chain has many rows at one instant: a step of zero."""
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 8)
    expiry = START + pd.Timedelta("30D")
    rows = [
        {
            "symbol": "BTC",
            "exchange": "deribit",
            "time": START + pd.Timedelta(hour, "h"),
            "instrument_name": f"BTC-{strike}-C",
            "expiry": expiry,
            "strike": float(strike),
            "side": "call",
            "iv": 0.5 + hour / 100,
        }
        for hour in range(3)
        for strike in range(10, 20)
    ]
    table = tables.TABLES["options_snapshot"]
    archive = open_archive(tmp_path)
    archive.merge("options_snapshot", table.empty().reindex(range(30)).assign(**pd.DataFrame(rows)))
    (index,) = _indexes(archive, "options_snapshot")
    assert index is not None
    assert (index.runs.step, index.runs.bounds.tolist()) == (0, [0, 10, 20, 30])
    second = START + pd.Timedelta("1h")
    chain = archive.read("options_snapshot", second, second + pd.Timedelta("1us"), symbols=["BTC"])
    assert chain["iv"].tolist() == [0.51] * 10
    before = archive.read("options_snapshot", START, second)  # the end is not of the window
    assert before["iv"].tolist() == [0.5] * 10
