"""SQL over an archive: the rows that count and nothing else, read only, and the same every time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from derivdata.errors import ArchiveError
from derivdata.sources.archive import Archive, open_archive
from derivdata.sources.archive.queries import engine
from tests.archive.rates import EVER, START, rates

FUNDING = "funding_history"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two months, a correction whose old rows are in a separate file, and a missing rate."""
    archive = open_archive(tmp_path_factory.mktemp("filled") / "derivs")
    frame = rates(hours=72)
    frame.loc[5, "rate_bps_8h"] = np.nan
    archive.append(FUNDING, frame)
    archive.append(FUNDING, rates(["SOL"], start=START + pd.Timedelta("40D")))
    archive.replace(FUNDING, rates(["ETH"], hours=72, plus=0.5), {"symbol": "ETH"}, reason="units")
    return archive.path


@pytest.fixture
def archive(filled: Path, tmp_path: Path) -> Archive:
    return open_archive(shutil.copytree(filled, tmp_path / "derivs"))


def test_sql_rows_equal_read_and_tables_are_listed(archive: Archive) -> None:
    result = archive.sql("SELECT * FROM funding_history ORDER BY symbol, exchange, time")
    rows = archive.read(FUNDING, *EVER)
    assert list(result) == list(rows)
    texts = {"symbol": str, "exchange": str, "resolution": str, "kind": str}
    pd.testing.assert_frame_equal(result, rows.astype(texts), check_dtype=False)
    assert str(result["time"].dtype) == "datetime64[us, UTC]"
    assert "units" in result.attrs["provenance"]["notices"][0]
    assert archive.sql("SHOW TABLES")["name"].tolist() == [FUNDING]
    described = archive.sql("DESCRIBE funding_history").set_index("column_name")["column_type"].to_dict()
    assert described["rate_bps_8h"] == "DOUBLE"
    assert described["time"] == "TIMESTAMP WITH TIME ZONE"


def test_sql_days_are_utc_in_any_session_time_zone(filled: Path) -> None:
    """DuckDB takes its zone from the first use in a process: 72 hours from 30 January are three days."""
    query = (
        "SELECT date_trunc('day', time) AS day, count(*) AS rows FROM funding_history "
        "WHERE symbol = 'BTC' AND exchange = 'okx' GROUP BY day ORDER BY day"
    )
    code = (
        "import sys\nfrom derivdata.sources.archive import open_archive\n"
        "days = open_archive(sys.argv[1]).sql(sys.argv[2])\n"
        "print(*days['day'].dt.strftime('%Y-%m-%dT%H:%M'), *days['rows'])"
    )
    environment = {**os.environ, "TZ": "Asia/Kolkata"}
    command = [sys.executable, "-c", code, str(filled), query]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    midnights = [f"{day}T00:00" for day in ("2026-01-30", "2026-01-31", "2026-02-01")]
    assert printed.split() == [*midnights, "24", "24", "24"]


def test_values_by_hand(archive: Archive) -> None:
    """Hours 0 to 71 of BTC at binance without hour 5: 2556 − 5."""
    result = archive.sql(
        "SELECT exchange, sum(rate_bps_8h) AS total, count(rate_bps_8h) AS present, count(*) AS rows "
        "FROM funding_history WHERE symbol = 'BTC' GROUP BY exchange ORDER BY exchange"
    )
    assert result.to_numpy().tolist() == [["binance", 2551.0, 71, 72], ["okx", 2556.0, 72, 72]]
    missing = archive.sql("SELECT time FROM funding_history WHERE rate_bps_8h IS NULL")
    assert missing["time"].tolist() == [START + pd.Timedelta("5h")]
    joined = archive.sql(
        "WITH a AS (FROM funding_history WHERE exchange = 'okx'), "
        "b AS (FROM funding_history WHERE exchange = 'binance') "
        "SELECT max(a.rate_bps_8h - b.rate_bps_8h) AS d FROM a JOIN b USING (symbol, time)"
    )
    assert joined["d"].tolist() == [0.0]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_parquet('{parquet}')",
        "SELECT * FROM read_parquet('https://example.com/a.parquet')",
        "COPY (SELECT 1) TO '{folder}/written.csv'",
        "COPY (SELECT 1) TO 'derivdata://written.parquet'",
        "ATTACH '{folder}/written.db'",
        "INSTALL httpfs",
        "SET threads = 8",
        "SET disabled_filesystems = ''",
        "SET allowed_directories = ['/']",
        "PRAGMA enable_profiling",
        "CREATE TABLE mine AS SELECT 1",
        "INSERT INTO funding_history SELECT * FROM funding_history",
        "DELETE FROM funding_history",
        "SELECT 1; SELECT 2",
        "SELECT getenv('HOME')",
        "SELECT * FROM secret_frame",
        "SELECT * FROM oi_history",
        "SELEKT 1",
        "",
    ],
)
def test_sql_reads_only_the_archive_and_writes_nothing(archive: Archive, tmp_path: Path, query: str) -> None:
    secret_frame = pd.DataFrame({"secret": [1]})
    secret = tmp_path / "secret.txt"
    secret.write_text("password")
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")}
    places = {"secret": secret, "folder": tmp_path, "parquet": next(archive.path.rglob("*.parquet"))}
    with pytest.raises(ValueError, match=r"^query(: | must be one SELECT)"):
        archive.sql(query.format(**places))
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*")} == before
    assert len(secret_frame) == 1


def test_sql_cannot_read_files_of_removed_rows(archive: Archive) -> None:
    """Rows removed by a correction are in a separate file and cannot be queried."""
    removed = archive._manifest().corrections[0].removed[0]
    with pytest.raises(ValueError, match="query: "):
        archive.sql(f"SELECT * FROM read_parquet('derivdata://0000000000000000/{removed.path}')")


def test_damaged_file_raises_and_gives_no_result(archive: Archive) -> None:
    path = max(archive.path.glob("*/2026-03/*.parquet"))
    good = path.read_bytes()
    for at in (60, len(good) // 2, len(good) - 40):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(ArchiveError, match=f"{path.name}: the file is damaged"):
            archive.sql("SELECT sum(rate_bps_8h) FROM funding_history")
    path.unlink()
    with pytest.raises(ArchiveError, match=rf"the file .*{path.name} of the archive is missing"):
        archive.sql("SELECT count(*) FROM funding_history")


def test_query_above_the_memory_limit_raises(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("derivdata.sources.archive.reading.SQL_MEMORY", "10MB")
    with pytest.raises(ValueError, match="query: Out of Memory Error"):
        archive.sql("SELECT count(DISTINCT range) FROM range(5000000)")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_parent_and_forked_child_can_both_query(archive: Archive) -> None:
    assert len(archive.read(FUNDING, *EVER)) == 480
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if len(archive.read(FUNDING, *EVER)) == 480 and len(archive.sql("FROM funding_history")) == 480:
                code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert len(archive.read(FUNDING, *EVER)) == 480


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork_does_not_replace_the_parents_engine() -> None:
    with engine() as asked:
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        with engine() as other:
            assert other is asked
