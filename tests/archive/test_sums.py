"""Sums over symbols: values by hand, missing values, corrections, and the same bits with any threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources import Query
from derivdata.sources.archive import Archive, open_archive, queries
from tests.archive.rates import EVER, START, interest
from tests.reliability.promises import count

OI = "oi_history"


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """At 02:00 SOL replaces ETH on binance: as many symbols, and others; at 03:00 its value is missing."""
    rows = [
        interest("BTC", "binance", 0, [1.0, 2.0, 4.0, 8.0]),
        interest("ETH", "binance", 0, [10.0, 20.0]),
        interest("SOL", "binance", 2, [100.25, np.nan]),
        interest("BTC", "okx", 0, [0.5, 0.5, 0.5, np.nan]),
        interest("ETH", "okx", 0, [5.0, 5.0, 5.0, np.nan]),
    ]
    filled = open_archive(tmp_path)
    filled.append(OI, pd.concat(rows, ignore_index=True), accept=["unit"])
    return filled


def test_sums_equal_hand_calculation_for_all_and_chosen_series(archive: Archive) -> None:
    sums = archive.sums(Query(OI, *EVER), "oi_usd")
    binance, okx = (sums[sums["exchange"] == name] for name in ("binance", "okx"))
    assert binance["time"].tolist() == [START + pd.Timedelta(hour, "h") for hour in range(4)]
    assert binance["value"].tolist() == [11.0, 22.0, 104.25, 8.0]
    assert binance["symbols"].tolist() == [2, 2, 2, 1]
    hashes = binance["symbol_hash"].tolist()
    assert hashes[0] == hashes[1] == okx["symbol_hash"].iloc[0]
    assert len(set(hashes)) == 3
    np.testing.assert_array_equal(okx["value"], [5.5, 5.5, 5.5, np.nan])
    assert okx["symbols"].tolist() == [2, 2, 2, 0]
    assert set(sums["resolution"]) == {"1h"}
    hour = pd.Timedelta(1, "h")
    sums = archive.sums(Query(OI, START + hour, START + 2 * hour, ["ETH"], ["okx"]), "oi_usd")
    assert sums[["value", "symbols"]].values.tolist() == [[5.0, 1.0]]
    assert archive.sums(Query(OI, START - hour, START), "oi_usd").empty
    assert archive.sums(Query("volume_history", *EVER), "volume_usd").empty
    with pytest.raises(
        ValueError, match=r"value must be a column of a table with .*, got 'oi_usd' of funding_history"
    ):
        archive.sums(Query("funding_history", *EVER), "oi_usd")


def test_large_values_are_added_exactly(archive: Archive) -> None:
    """2^43 units are 2^63 steps of 2^-20, one more than 64 bits hold; above 1e13 USD nothing is stored."""
    large, others = [2.0**43, 2.0**43 - 1, 2.0**31], [2.0**-9, 2.0**43, 2.0**-20]
    rows = pd.concat(
        [interest("BTC", "bybit", 0, large), interest("ETH", "bybit", 0, others)], ignore_index=True
    )
    archive.append(OI, rows, accept=["unit"])
    sums = archive.sums(Query(OI, *EVER, venues=["bybit"]), "oi_usd")
    assert sums["value"].tolist() == [2.0**43 + 2.0**-9, 2.0**44 - 1, 2.0**31 + 2.0**-20]
    with pytest.raises(ArchiveError, match="1 rows have impossible values, first 1e\\+33"):
        archive.append(OI, interest("BTC", "gateio", 0, [1e33]), accept=["unit", "venues"])


def test_corrections_are_included_in_sums_and_notices(archive: Archive) -> None:
    archive.delete(OI, {"symbol": "ETH"}, end=START + pd.Timedelta(1, "h"))
    sums = archive.sums(Query(OI, *EVER, venues=["binance"]), "oi_usd")
    assert sums["value"].tolist() == [1.0, 22.0, 104.25, 8.0]
    assert "2 rows deleted" in sums.attrs["provenance"]["notices"][0]


def test_sums_are_bit_identical_with_any_number_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of floats depend on their order, and threads on chance: 40 symbols in many row groups."""
    monkeypatch.setattr("derivdata.sources.archive.schemas.GROUP_ROWS", 2048)
    pairs = [(f"S{i:03d}", venue) for i in range(40) for venue in ("binance", "okx")]
    values = np.random.default_rng(4).lognormal(15, 1, (80, 72))
    rows = pd.concat([interest(*pair, 0, series) for pair, series in zip(pairs, values, strict=True)])
    archive = open_archive(tmp_path)
    archive.append(OI, rows, accept=["unit"])
    exact = rows.groupby(["exchange", "time"])["oi_usd"].sum().to_numpy()
    queries_by_name: dict[str, Callable[[], pd.DataFrame]] = {
        "sums": lambda: archive.sums(Query(OI, *EVER), "oi_usd"),
        "rows": lambda: archive.rows(Query(OI, *EVER)),
        "columns": lambda: archive.rows(Query(OI, *EVER, columns=["time", "symbol", "oi_usd"])),
        "newest": lambda: archive.newest(Query(OI, *EVER)),
        "sql": lambda: archive.sql(
            f"SELECT exchange, sum(oi_usd) AS usd FROM {OI} GROUP BY ALL ORDER BY ALL"
        ),
    }
    expected = {name: query() for name, query in queries_by_name.items()}
    repetitions = count(gate=2, soak=100)
    for threads in (1, 2, 8):
        engine = queries.Engine(threads)
        with monkeypatch.context() as patch:
            patch.setattr(queries.engine, "_engine", engine)
            for _ in range(repetitions):
                for name, query in queries_by_name.items():
                    pd.testing.assert_frame_equal(query(), expected[name], check_exact=True, obj=name)
        engine.close()
    np.testing.assert_allclose(expected["sums"]["value"], exact, rtol=1e-12)
