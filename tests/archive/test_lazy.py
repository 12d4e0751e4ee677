"""The dask reader gives what `read` gives, without reading it first."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from derivdata import tables
from derivdata.archive import data_files, open_archive
from tests.archive.rates import START, rates

pytest.importorskip("dask.dataframe")


def test_it_stays_lazy_and_gives_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates())
    start, end = START + pd.Timedelta("40h"), START + pd.Timedelta("60h")
    with monkeypatch.context() as patch:
        patch.setattr(data_files, "load", None)
        frame = archive.lazy("funding_history", start=start, end=end, symbols=["BTC"])
        assert frame.npartitions == 2
    found = tables.FUNDING_HISTORY.conform(frame.compute())
    pd.testing.assert_frame_equal(found, archive.read("funding_history", start, end, symbols=["BTC"]))


def test_partitions_agree_on_categories(tmp_path: Path) -> None:
    archive = open_archive(tmp_path)
    archive.append("funding_history", rates(["BTC"]))
    archive.append("funding_history", rates(["ETH"], start=START + pd.Timedelta(60, "D")))
    sums = archive.lazy("funding_history").groupby("symbol", observed=True)["rate_bps_8h"].sum().compute()
    assert sums.to_dict() == {"BTC": 2 * 4560.0, "ETH": 2 * 4560.0}


def test_nothing_there_is_an_empty_frame(tmp_path: Path) -> None:
    frame = open_archive(tmp_path).lazy("funding_history").compute()
    assert list(frame.columns) == list(tables.FUNDING_HISTORY.columns)
    assert frame.empty


def test_without_dask_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with pytest.raises(ImportError, match=r"derivdata\[dask\]"):
        open_archive(tmp_path).lazy("funding_history")
