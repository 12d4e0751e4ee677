"""Commands that fetch, export, complete and check: their output and exit codes."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import derivdata as dd
from derivdata.cli import main
from derivdata.cli.reports import check_notebook

ROOT = Path(__file__).resolve().parents[1]
DAY = ["--source", "sample", "--since", "2026-06-01", "--until", "2026-06-02", "--venues", "okx"]


def test_fetch_prints_csv_to_stdout_and_notices_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """24 hourly samples of one venue for each of two symbols."""
    assert main(["fetch", "funding.history", "BTC", "ETH", *DAY, "--to", "-"]) == 0
    printed = capsys.readouterr()
    frame = pd.read_csv(io.StringIO(printed.out))
    assert len(frame) == 48
    dd.connect("sample")
    expected = dd.funding.history(["BTC", "ETH"], "2026-06-01", "2026-06-02", venues=["okx"])
    assert frame["rate_bps_8h"].tolist() == expected["rate_bps_8h"].tolist()
    assert printed.err == "derivdata: the data is synthetic\n"


def test_fetch_accepts_catalog_and_instruments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "catalog", "--source", "sample", "--to", "-"]) == 0
    held = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert set(held.loc[held["table"] == "funding_history", "exchange"]) > {"binance", "okx"}
    place = ["--venues", "okx", "bybit", "--source", "sample", "--to", str(tmp_path / "listed.parquet")]
    assert main(["fetch", "instruments", "BTC", *place]) == 0
    assert pd.read_parquet(tmp_path / "listed.parquet")["is_perpetual"].sum() == 2


def test_fetch_appends_to_an_archive_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = ["--set", "resolution=8h", "--to", str(tmp_path / "a")]
    arguments = ["fetch", "funding.history", "BTC", *DAY, *to]
    assert main(arguments) == 0
    assert "3 rows of funding_history, 3 new" in capsys.readouterr().out
    assert main(arguments) == 0
    assert "3 rows of funding_history, 0 new" in capsys.readouterr().out
    stored = dd.open_archive(tmp_path / "a").read("funding_history", "2026-06-01", "2026-06-02")
    assert len(stored) == 3
    assert dd.provenance(stored)["synthetic"]


def test_fetch_writes_typed_files_and_requires_a_destination(tmp_path: Path) -> None:
    file = tmp_path / "rates.parquet"
    assert main(["fetch", "funding.history", "BTC", *DAY, "--to", str(file)]) == 0
    frame = pd.read_parquet(file)
    assert str(frame["time"].dt.tz) == "UTC"
    assert dd.provenance(frame)["synthetic"]
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["fetch", "funding.history", "BTC"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["funding.nope", "BTC", "--to", "-"],
            "a table of funding: history, metadata, settlements, snapshot",
        ),
        (["funding_history", "--to", "-"], "got 'funding_history'; did you mean 'funding.history'?"),
        (["nonsense", "--to", "-"], "positioning, prices, rwa, volatility, volume\n"),
        (["options.surface", "BTC", "--to", "-"], "FETCHER must be a table of options: "),
        (["catalog", "BTC", "--to", "-"], "catalog does not have the option SYMBOL"),
        (["funding.history", "BTC", "--to", "-"], "funding.history needs --since"),
        (["orderbook.book", "--to", "-"], "orderbook.book needs SYMBOL, --venues"),
        (
            ["funding.history", "BTC", "--since", "1d", "--set", "depth=3", "--to", "-"],
            "does not have the argument depth",
        ),
        (["funding.history", "BTC", "--since", "1d", "--to", "x.xlsx"], "files must end in .parquet or .csv"),
    ],
)
def test_invalid_fetch_exits_1_before_a_request(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DERIVDATA_BASE_URL", raising=False)
    dd.disconnect()
    assert main(["fetch", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_export_writes_each_table_and_response(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two windows that overlap by half a day give each hour once; an error is listed without a table."""
    recording = tmp_path / "r.ddz"
    dd.connect("sample", cache="off")
    with dd.record(recording):
        dd.funding.history("BTC", "2026-06-01", "2026-06-02", venues=["okx"])
        dd.funding.history("BTC", "2026-06-01T12:00", "2026-06-03", venues=["okx"])
        whole = dd.oi.history("BTC", "2026-06-01", "2026-06-02", venues=["okx"])
        with pytest.raises(dd.errors.NotFound):
            dd.markets.symbol_stats("NOPE")
    assert main(["export", str(recording), "--to", str(tmp_path / "out"), "--format", "csv"]) == 0
    assert capsys.readouterr().err == "derivdata: the data is synthetic\n"
    rates = pd.read_csv(tmp_path / "out" / "funding_history.csv")
    assert len(rates) == 48
    assert pd.read_csv(tmp_path / "out" / "oi_history.csv")["oi_usd"].tolist() == whole["oi_usd"].tolist()
    answers = pd.read_csv(tmp_path / "out" / "answers.csv")
    tabled = answers.dropna(subset="table")
    assert tabled[["table", "rows"]].values.tolist()[:2] == [["funding_history", 24], ["funding_history", 36]]
    assert tabled.set_index("table")["rows"]["oi_history"] == 24
    assert answers.loc[answers["status"] != 200, "table"].isna().tolist() == [True]


def test_completion_is_a_script_that_the_shell_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert "fetch" in script
    assert "--since" in script
    if shutil.which("bash"):
        checked = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def notebook(folder: Path, *cells: tuple[str, str, str], run: bool = True) -> Path:
    """Write a notebook of ``(kind, source, printed)`` cells."""
    written: list[dict[str, Any]] = []
    for number, (kind, source, printed) in enumerate(cells, 1):
        cell: dict[str, Any] = {"cell_type": kind, "source": source, "metadata": {}}
        if kind == "code":
            out = [{"output_type": "stream", "name": "stdout", "text": [printed]}] if printed else []
            cell |= {"outputs": out, "execution_count": number if run else None}
        written.append(cell)
    path = folder / "n.ipynb"
    path.write_text(json.dumps({"cells": written, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}))
    return path


GOOD = (
    ("markdown", "# A question\n\nOn synthetic data.", ""),
    ("code", "import derivdata as dd\ndd.connect('sample', now='2026-06-01')", "sample"),
    ("code", "rates = dd.funding.history('BTC', '30d')\ndd.provenance(rates)['source']", "sample"),
)


@pytest.mark.parametrize(
    ("source", "printed", "kind"),
    [
        ("dd.connect('https://x.io', api_key='abc123')", "", "key"),
        ("import os; os.environ['DERIVDATA_API_KEY'] = 'abc123'", "", "key"),
        ("print(1)", "X-Api-Key: abc-123-def", "key"),
        ("open('/home/anna/rates.csv')", "", "path"),
        (r"open('C:\\Users\\anna')", "", "path"),
        ("print(p)", "wrote /Users/anna/report.html", "path"),
        ("import pandas as pd; pd.Timestamp.now('UTC')", "", "clock"),
    ],
)
def test_unpublishable_notebook_content_is_named_with_its_cell(
    source: str, printed: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = notebook(tmp_path, *GOOD)
    assert main(["notebook", "check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: nothing to fix\n"
    path = notebook(tmp_path, *GOOD, ("code", source, printed or "done"))
    assert [(p.cell, p.kind) for p in check_notebook(path)] == [(4, kind)]
    assert main(["notebook", "check", str(path)]) == 1
    output = capsys.readouterr().out
    assert output.startswith(f"{path}: cell 4: {kind}: ")
    assert "abc123" not in output


def test_notebook_check_finds_open_windows_and_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DERIVDATA_API_KEY", "zq81-secret")
    path = notebook(tmp_path, *GOOD, ("code", "headers", "{'x': 'zq81-secret'}"))
    assert [p.kind for p in check_notebook(path)] == ["key"]
    cells = (
        ("code", "import derivdata as dd\ndd.connect()\nr = dd.funding.history('BTC', '30d')", "x"),
        (
            "code",
            "dd.options.atm_history('BTC', 'deribit', '2026-01-01', '2026-02-01')\ndd.provenance(r)",
            "x",
        ),
        ("code", "dd.oi.history('BTC', start='30d', end='2026-02-01')", "x"),
    )
    assert [(p.cell, p.kind) for p in check_notebook(notebook(tmp_path, *cells))] == [(1, "window")]
    code = ("code", "import derivdata as dd\ndd.connect('sample', now='2026-06-01')", "")
    bare = check_notebook(notebook(tmp_path, ("markdown", "# Q", ""), code))
    assert [(p.cell, p.kind) for p in bare] == [(0, "outputs"), (0, "provenance"), (0, "synthetic")]
    out_of_order = check_notebook(notebook(tmp_path, *GOOD, ("code", "2", "2"), run=False))
    assert {p.kind for p in out_of_order} == {"outputs"}
    for text in ("[]", "[" * 100_000):
        (tmp_path / "bad.ipynb").write_text(text)
        with pytest.raises(ValueError, match="must be a notebook of format 4"):
            check_notebook(tmp_path / "bad.ipynb")
