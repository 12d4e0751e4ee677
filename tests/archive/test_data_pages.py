"""Single pages of numbers: what is decoded is what pyarrow reads; damage is found, other layouts are left."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from derivdata.errors import ArchiveError
from derivdata.sources.archive import footers, open_archive, parquet_writer, series_reader, storage
from derivdata.sources.archive.data_pages import numbers_of_page
from tests.archive.rates import EVER, START, rates

_KINDS = {pa.float64(): "<f8", pa.int64(): "<i8"}


def _page(values: pa.Array, *, nullable: bool, **options: Any) -> memoryview:
    """Return the bytes of the only column of a file, as the archive's writer stores it."""
    sink = pa.BufferOutputStream()
    table = pa.table([values], schema=pa.schema([pa.field("x", values.type, nullable=nullable)]))
    stored = {"compression": "zstd", "use_dictionary": False, "write_page_checksum": True} | options
    pq.write_table(table, sink, **stored)
    data = sink.getvalue()
    chunk = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0)
    start = chunk.data_page_offset
    return memoryview(data).cast("B")[start : start + chunk.total_compressed_size]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=12
    ),  # runs of rows with a value and without
    st.sampled_from([pa.float64(), pa.int64()]),
)
def test_numbers_and_gaps_are_those_that_were_written(
    runs: list[tuple[int, bool]], kind: pa.DataType
) -> None:
    present = [there for count, there in runs for _ in range(count)]
    expected = [3 * i - 20 if there else None for i, there in enumerate(present)]
    page = _page(pa.array(expected, kind), nullable=True)
    numbers = numbers_of_page(page, len(expected), _KINDS[kind], optional=True)
    assert numbers is not None
    mask = None if numbers.present is None else ~numbers.present
    assert pa.array(numbers.values, mask=mask).to_pylist() == expected
    assert (numbers.present is None) == all(present)


def test_numbers_of_a_column_that_lacks_none() -> None:
    page = _page(pa.array([1.5, -2.0, 7.25]), nullable=False)
    numbers = numbers_of_page(page, 3, "<f8", optional=False)
    assert numbers is not None
    assert numbers.values.tolist() == [1.5, -2.0, 7.25]
    assert numbers.of_rows(np.array([2, 0])).values.tolist() == [7.25, 1.5]


@pytest.mark.parametrize(
    "options",
    [
        {"use_dictionary": True},
        {"column_encoding": {"x": "DELTA_BINARY_PACKED"}},
        {"data_page_version": "2.0"},
        {"data_page_size": 512, "write_batch_size": 16},
    ],
)
def test_pages_of_other_layouts_are_left_to_pyarrow(options: dict[str, Any]) -> None:
    page = _page(pa.array(range(1_000)), nullable=True, **options)
    assert numbers_of_page(page, 1_000, "<i8", optional=True) is None


def test_every_flipped_byte_of_a_page_is_noticed_or_harmless() -> None:
    expected = [None if i % 5 == 2 else i / 4 for i in range(40)]
    whole = bytes(_page(pa.array(expected), nullable=True))
    noticed = 0
    for at in range(len(whole)):
        for flip in (0x01, 0x40, 0x80):
            page = memoryview(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            try:
                numbers = numbers_of_page(page, 40, "<f8", optional=True)
            except OSError:  # pyarrow's errors of damaged compression are of this kind too
                noticed += 1
                continue
            if numbers is not None:
                assert numbers.present is not None
                assert pa.array(numbers.values, mask=~numbers.present).to_pylist() == expected
    assert noticed > len(whole)
    for length in range(len(whole)):
        with suppress(OSError):
            assert numbers_of_page(memoryview(whole[:length]), 40, "<f8", optional=True) is None


def _uneven() -> pd.DataFrame:
    """Six series of two months, of which every ninth value is missing."""
    frame = rates(["A", "B", "C"], ["okx", "zo"], hours=96)
    frame["rate_bps_8h"] = np.where(np.arange(len(frame)) % 9 == 4, np.nan, np.arange(len(frame)) / 8)
    return frame


_ONE: dict[str, Any] = {"symbols": ["B"], "venues": ["zo"]}


def test_one_series_is_read_without_pyarrow_opening_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening a file and parsing its footer costs several times what the page of a series costs."""
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 30)
    open_archive(tmp_path).append("funding_history", _uneven())
    footers._footer.cache_clear()

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a file was opened as a whole")

    monkeypatch.setattr(pq, "read_metadata", refuse)
    monkeypatch.setattr(pq, "ParquetFile", refuse)
    rows = open_archive(tmp_path).read("funding_history", *EVER, **_ONE)
    expected = _uneven().query("symbol == 'B' and exchange == 'zo'")
    assert len(rows) == 96
    pd.testing.assert_series_equal(
        rows["rate_bps_8h"], expected["rate_bps_8h"].reset_index(drop=True), check_exact=True
    )
    assert rows["time"].tolist() == expected["time"].tolist()
    with pytest.raises(AssertionError, match="opened as a whole"):  # all series are more than a few groups
        open_archive(tmp_path).read("funding_history", *EVER)


def test_pages_and_whole_groups_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 50)
    archive = open_archive(tmp_path)
    archive.append("funding_history", _uneven())
    window = (START + pd.Timedelta("30h"), START + pd.Timedelta("60h30min"))
    for symbols in (None, ["A"], ["A", "C"]):
        for columns in (None, ["time"], ["rate_bps_8h", "kind", "exchange"]):
            read: dict[str, Any] = {"symbols": symbols, "venues": ["zo"], "columns": columns}
            few = archive.read("funding_history", *window, **read)
            with monkeypatch.context() as patch:
                patch.setattr(series_reader, "_FEW_GROUPS", -1)
                whole = archive.read("funding_history", *window, **read)
            by = [name for name in ("symbol", "exchange", "time") if name in few] or list(few)
            pd.testing.assert_frame_equal(
                few.sort_values(by, ignore_index=True), whole.sort_values(by, ignore_index=True)
            )


def test_footers_and_indexes_longer_than_one_read_of_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 50)
    archive = open_archive(tmp_path)
    archive.append("funding_history", _uneven())
    expected = archive.read("funding_history", *EVER, **_ONE)
    for size in (8, 100, 4_000):
        monkeypatch.setattr(storage, "_TAIL_BYTES", size)
        footers._footer.cache_clear()
        (file, *_) = archive._manifest().tables["funding_history"].files
        assert footers.footer(archive._storage, file).index is not None
        pd.testing.assert_frame_equal(archive.read("funding_history", *EVER, **_ONE), expected)


def test_a_damaged_index_or_page_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bits of every seventh byte of the page and the index, and of some others: an error, or the rows."""
    monkeypatch.setattr(parquet_writer, "GROUP_ROWS", 100)
    archive = open_archive(tmp_path)
    archive.append("funding_history", _uneven()[lambda x: x["time"] < "2026-02-01"])
    expected = archive.read("funding_history", *EVER, **_ONE)
    (path,) = tmp_path.rglob("*.parquet")
    whole = path.read_bytes()
    (file,) = archive._manifest().tables["funding_history"].files
    index = footers.footer(archive._storage, file).index
    assert index is not None
    footer = len(footers.footer_of(whole))
    noticed = {"page": 0, "index": 0, "footer": 0}
    column = index.columns["rate_bps_8h"]
    pages = set(range(int(column.offsets[1]), int(column.offsets[1] + column.sizes[1])))
    assert whole[: len(whole) - footer].endswith(b"ddSERIES")
    start = len(whole) - footer - 400  # most of the index
    for at in {*range(min(pages), max(pages), 7), *range(start, start + 400, 7), *range(0, len(whole), 211)}:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        footers._footer.cache_clear()
        try:
            rows = archive.read("funding_history", *EVER, **_ONE)
        except ArchiveError as problem:
            part = "page" if at in pages else "index" if at < len(whole) - footer else "footer"
            noticed[part] += "the file is damaged" in str(problem)
        else:
            pd.testing.assert_frame_equal(rows, expected)
    assert noticed["page"] > 20
    assert noticed["index"] > 50
    assert noticed["footer"] > 5
