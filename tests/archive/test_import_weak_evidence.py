"""Files whose columns may be read in several ways: weak evidence raises a question and stores nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import import_files, open_archive
from tests.archive.rates import EVER

_START = 1_772_323_200  # 2026-03-01T00:00Z
_BOOK = [("bid", "67000"), ("bid", "66999"), ("ask", "67001"), ("ask", "67002")]


def _import(folder: Path, name: str, content: str, **said: Any) -> Any:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return import_files(said.pop("table", None), path, folder / "to", **said)


def _rows(folder: Path, table: str) -> pd.DataFrame:
    return open_archive(folder / "to").read(table, *EVER)


@pytest.mark.parametrize("header", ["time,side,price", "time,id,side,price"])
def test_levels_of_a_book_without_sizes_are_rejected(tmp_path: Path, header: str) -> None:
    number = "7," if ",id," in header else ""
    lines = [header, *(f"{_START},{number}{side},{price}" for side, price in _BOOK)]
    with pytest.raises(ArchiveError, match=r"levels of an order book .+ without sizes"):
        _import(tmp_path, "book.csv", "\n".join(lines) + "\n", market="gateio:BTC")


@pytest.mark.parametrize("fields", [{}, {"contract": "BTC_USDT", "id": 5}])
def test_prices_of_a_book_of_gate_without_sizes_are_rejected(tmp_path: Path, fields: dict[str, Any]) -> None:
    body = {
        **fields,
        "t": _START,
        "asks": [{"p": "67001"}, {"p": "67002"}],
        "bids": [{"p": "67000"}, {"p": "66999"}],
    }
    with pytest.raises(ArchiveError, match=r"levels of an order book .+ without sizes"):
        _import(tmp_path, "book.json", json.dumps(body), set={"exchange": "gateio"})
