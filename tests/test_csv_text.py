"""Cells of CSV files that a spreadsheet would compute, and back again by an import."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pandas as pd
import pytest

from derivdata.cli import main
from derivdata.sources.archive.importing import readers
from derivdata.sources.archive.importing.source_files import Source
from derivdata.support.files import csv_text, original_cell

CELLS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "'=1",
    "''-x",
    "\n=1",
    "\uff1d1",
    "\uff0b1",
    "\uff0d1",
    "\uff201",
    "\r=1",
    "'plain",
    "BTC",
    "",
    "a=b",
]


def test_csv_text_that_looks_like_a_formula_is_escaped() -> None:
    frame = pd.DataFrame({"=name": CELLS, "side": pd.Categorical(CELLS), "rate": -1.5})
    rows = list(csv.reader(io.StringIO(csv_text(frame), newline="")))
    assert rows[0] == ["'=name", "side", "rate"]
    for cell, (text, category, number) in zip(CELLS, rows[1:], strict=True):
        marked = cell.lstrip("'")[:1] in tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
        assert text == category == (f"'{cell}" if marked else cell)
        assert number == "-1.5"
        assert original_cell(text) == cell
    kept = list(csv.reader(io.StringIO(csv_text(frame, formulas=True), newline="")))
    assert [row[0] for row in kept] == ["=name", *CELLS]


def test_missing_numbers_next_to_a_carriage_return_are_empty() -> None:
    frame = pd.DataFrame(
        {"symbol": ["a\rb", 'c\r\n"d"', "e"], "rate": [1.5, None, 2.5], "count": [1, 2, None]}
    )
    assert csv_text(frame) == 'symbol,rate,count\n"a\rb",1.5,1.0\n"c\r\n""d""",,2.0\ne,2.5,\n'


def test_import_reads_exported_csv(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text(csv_text(pd.DataFrame({"symbol": CELLS, "rate": range(len(CELLS))})), newline="")
    read = list(readers.chunks(Source(path)))
    assert [cell for chunk in read for cell in chunk.columns["symbol"].to_pylist()] == [
        cell or None for cell in CELLS
    ]


def test_the_command_line_has_an_option_to_keep_formulas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import derivdata.matrix as fetchers

    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path))
    real = fetchers.FETCHERS["funding_metadata"]

    def fetcher() -> pd.DataFrame:
        frame = real()
        named = frame.assign(symbol="=1+1")
        named.attrs = frame.attrs
        return named

    monkeypatch.setitem(fetchers.FETCHERS, "funding_metadata", fetcher)
    command = ["fetch", "funding.metadata", "--source", "sample", "--to", "-"]
    assert main(command) == 0
    assert "'=1+1" in capsys.readouterr().out
    assert main([*command, "--keep-formulas"]) == 0
    out = capsys.readouterr().out
    assert "=1+1" in out
    assert "'=1+1" not in out
