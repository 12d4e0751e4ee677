"""Tables larger than memory: dask frames, one partition per million rows, and panels, a chunk per window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from derivdata.errors import ArchiveError
from derivdata.sources.archive import manifest as manifests
from derivdata.sources.archive import scanning
from derivdata.sources.archive.manifest import DataFile, TableEntry
from derivdata.sources.archive.scanning import Selection, TimeRange
from derivdata.sources.archive.schemas import frame_of, sorting
from derivdata.sources.archive.storage import Storage
from derivdata.support import times
from derivdata.support.text import import_extra
from derivdata.tables.panels import panel as tables_panel
from derivdata.tables.schema import Kind, Table

_CHUNK_CELLS = 4_000_000
_PART_ROWS = 1_000_000
_DIMS = ("symbol", "exchange", "time")


def lazy_frame(storage: Storage, table: Table, entry: TableEntry, chosen: Selection) -> Any:
    """Return a selection as a dask frame; text columns have the categories of the whole archive."""
    frames = import_extra("dask.dataframe", "dask", "lazy()")
    empty = _labelled(table, table.empty(), entry)
    parts = list(_parts(table, entry, chosen))
    if not parts:
        return frames.from_pandas(empty, npartitions=1)

    def load(part: tuple[DataFile, Selection]) -> pd.DataFrame:
        file, rows = part
        return _labelled(table, frame_of(table, _read(storage, table, [file], rows)), entry)

    return frames.from_map(load, parts, meta=empty)


def _parts(table: Table, entry: TableEntry, chosen: Selection) -> Iterator[tuple[DataFile, Selection]]:
    """Divide a selection by file, and large files by their symbols, in parts of about a million rows."""
    lead = sorting(table)[0]
    words = sorted(chosen.where.get(lead) or entry.values.get(lead, []))
    for file in scanning.plan(entry.files, chosen):
        count = min(-(-file.rows // _PART_ROWS), len(words))
        if count < 2:
            yield file, chosen
            continue
        for part in np.array_split(np.array(words, dtype=object), count):
            yield file, chosen.narrowed(lead, part.tolist())


def lazy_panel(
    storage: Storage,
    table: Table,
    column: str,
    entry: TableEntry,
    chosen: Selection,
    *,
    step: str | pd.Timedelta,
    chunk: int | None,
) -> Any:
    """Return one column as a lazy panel on a grid, `chunk` instants at a time; see `ArchiveReader.panel`."""
    arrays = import_extra("dask.array", "dask", "panel()")
    delayed = import_extra("dask", "dask", "panel()").delayed
    import xarray as xr

    if set(table.key) - {"kind"} != set(_DIMS):  # `where` chooses one kind
        raise ValueError(f"table={table.name!r} is not keyed by symbol, exchange and time: no panel")
    if column not in table.columns or table.columns[column].kind is not Kind.NUMBER:
        raise ValueError(f"column={column!r} is not a column of numbers of {table.name}")
    micros = int(times.length(step, "step") / pd.Timedelta(1, "us"))
    if micros <= 0:
        raise ValueError(f"step={step!r} is not a length of time")
    attrs = dict(tables_panel(table.empty(), column).attrs)
    for stated in ("resolution", "kind") if column.startswith("rate_") else ("resolution",):
        if len(entry.values.get(stated, [])) == 1:  # the whole table has one word for it
            attrs[stated] = entry.values[stated][0]
    # What a settlement pays for is read with it, from the same rows, as `derivdata.panel` has it.
    settled = attrs.get("kind") == "settled" and "interval_hours" in table.columns
    columns = [column, "interval_hours"] if settled else [column]
    where, window = chosen
    labels = [sorted(where.get(name, entry.values.get(name, []))) for name in _DIMS[:2]]
    stamps = np.arange(window.start, window.end, micros)
    size = chunk or max(1, _CHUNK_CELLS // max(1, len(labels[0]) * len(labels[1])))
    blocks = []
    for at in range(0, stamps.size, size):
        block = stamps[at : at + size]
        part = TimeRange(int(block[0]), int(block[-1]) + micros)
        rows = Selection(where, part)
        files = scanning.plan(entry.files, rows)
        shape = (len(columns), len(labels[0]), len(labels[1]), block.size)
        values = delayed(_panel_block, pure=True)(storage, table, columns, files, rows, labels, micros)
        blocks.append(arrays.from_delayed(values, shape, dtype=np.float64))
    empty = np.full((len(columns), len(labels[0]), len(labels[1]), 0), np.nan)
    values = arrays.concatenate(blocks, axis=3) if blocks else arrays.from_array(empty)
    coords = {**dict(zip(_DIMS, labels, strict=False)), "time": stamps.view("datetime64[us]")}
    for place, name in enumerate(columns[1:], 1):
        coords[name] = (_DIMS, values[place], {"units": table.columns[name].unit})
    return xr.DataArray(values[0], dims=_DIMS, coords=coords, name=column, attrs=attrs)


def _panel_block(
    storage: Storage,
    table: Table,
    columns: list[str],
    files: list[DataFile],
    chosen: Selection,
    labels: list[list[str]],
    step: int,
) -> np.ndarray[Any, Any]:
    # `labels`, `step` and the window give the block its shape; `place` is a row's place on the time axis.
    window = chosen.window
    steps = -(-(window.end - window.start) // step)
    result = np.full((len(columns), len(labels[0]), len(labels[1]), steps), np.nan)
    indexes = [pd.Index(words) for words in labels]
    for found in _read(storage, table, files, chosen, [*_DIMS, *columns]):
        rows = found.combine_chunks()
        stamps = np.asarray(rows["time"].cast("int64"))
        place, remainder = np.divmod(stamps - window.start, step)
        if remainder.any():
            first = pd.Timestamp(int(stamps[remainder > 0][0]), unit="us")
            raise ValueError(
                f"a row of {table.name} at {first} is not on the grid: align it, or choose another step"
            )
        codes = []
        for index, name in zip(indexes, _DIMS[:2], strict=True):
            words = rows[name].chunk(0)
            places = index.get_indexer(words.dictionary.to_pylist())
            _refuse_unlisted(table, name, words.dictionary.filter(pa.array(places < 0)))
            codes.append(places[np.asarray(words.indices)])
        for values, name in zip(result, columns, strict=True):
            values[codes[0], codes[1], place] = rows[name].to_numpy(zero_copy_only=False)
    return result


def _read(
    storage: Storage,
    table: Table,
    files: list[DataFile],
    chosen: Selection,
    columns: list[str] | None = None,
) -> list[pa.Table]:
    """Read planned files; where one is gone, say whether it was merged since or is missing."""
    try:
        return scanning.read(storage, table, files, chosen, columns)
    except FileNotFoundError as problem:
        named = (manifests.load(storage) or manifests.new()).files()
        if problem.filename in [storage.place(file.path) for file in named]:
            raise ArchiveError(
                f"a file of the archive is missing: {problem.filename}: restore it from a copy"
            ) from None
        raise ArchiveError(
            f"{problem.filename}: is gone: the archive was written to since this was planned, and these rows "
            "are in another file now: call lazy() or panel() again"
        ) from None


def _labelled(table: Table, frame: pd.DataFrame, entry: TableEntry) -> pd.DataFrame:
    """Give text columns the categories of the whole archive, so that all partitions have the same."""
    text = frame.select_dtypes("category").columns
    words = {}
    for name in text:
        listed = {*entry.values.get(name, []), table.columns[name].default or ""} - {""}
        words[name] = pd.Index(sorted(listed), dtype="str")
        _refuse_unlisted(table, name, frame[name].cat.categories.difference(words[name]))
    return frame.assign(**{name: frame[name].cat.set_categories(words[name]) for name in text})


def _refuse_unlisted(table: Table, name: str, words: Sequence[Any]) -> None:
    """Refuse rows with words that the manifest does not list: they would have no place, or another's."""
    if len(words):
        why = f"{name} {str(words[0])!r} is in a file, but not in the archive's list"
        raise ArchiveError(f"{table.name}: {why}: restore the archive from a copy")
