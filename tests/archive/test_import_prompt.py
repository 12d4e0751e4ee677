"""The question of an import on a terminal, and the error without one."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from derivdata.cli import main
from derivdata.sources.archive import open_archive
from tests.archive.rates import EVER

pty = pytest.importorskip("pty", reason="pseudo terminals are of POSIX systems")

_START = 1_772_323_200_000
_SECONDS = 60.0


def _file(folder: Path) -> Path:
    """Write hourly rates of a venue without a known interval, which are payments or samples."""
    lines = [f"BTC,myvenue,{_START + hour * 3_600_000},0.0000125" for hour in range(20)]
    path = folder / "x.csv"
    path.write_text("\n".join(["coin,venue,timestamp,funding_rate", *lines]) + "\n")
    return path


def _on_terminal(arguments: list[str], reply: bytes) -> tuple[str, int]:
    """Run the command on a pseudo terminal, and type a reply at the prompt."""
    own, other = pty.openpty()
    command = [sys.executable, "-m", "derivdata", *arguments]
    process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, close_fds=True)
    os.close(other)
    text = b""
    has_replied = False
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        ready, _, _ = select.select([own], [], [], 1.0)
        if not ready:
            continue
        try:
            block = os.read(own, 4096)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        text += block
        if not has_replied and b"(Enter stops)" in text:
            os.write(own, reply)
            has_replied = True
    process.wait(_SECONDS)
    os.close(own)
    return text.decode(), process.returncode


def test_a_terminal_shows_both_readings_and_asks(tmp_path: Path) -> None:
    arguments = ["import", str(_file(tmp_path)), "--to", str(tmp_path / "to"), "--set", "interval_hours=1"]
    text, code = _on_terminal(arguments, b"2\n")
    assert code == 0, text
    assert "1  funding_settlements" in text
    assert "2  funding_history" in text
    assert "--table: number of the right choice" in text
    assert open_archive(tmp_path / "to").tables() == {"funding_history"}


def test_an_empty_reply_stops_and_writes_nothing(tmp_path: Path) -> None:
    text, code = _on_terminal(["import", str(_file(tmp_path)), "--to", str(tmp_path / "to")], b"\n")
    assert code != 0, text
    assert open_archive(tmp_path / "to").tables() == frozenset()


def test_without_a_terminal_an_error_names_the_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(_file(tmp_path)), "--to", str(tmp_path / "to")]) != 0
    error = capsys.readouterr().err
    assert "--table funding_settlements" in error
    assert "--table funding_history" in error
    assert open_archive(tmp_path / "to").tables() == frozenset()


def test_open_interest_without_a_time_says_how_to_state_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ccxt 4.5.90's fetch_open_interest of hyperliquid has coins, but neither time nor value."""
    row = {
        "symbol": "BTC/USDC:USDC", "baseVolume": None, "quoteVolume": None, "openInterestAmount": 30000.5,
        "openInterestValue": None, "timestamp": None, "datetime": None, "info": {},
    }  # fmt: skip
    path = tmp_path / "hyperliquid-oi.json"
    path.write_text(json.dumps([row]))
    command = ["import", str(path), "--to", str(tmp_path / "to")]
    assert main(command) != 0
    assert "pass it with --set time=2026-03-27T08:00:00Z" in capsys.readouterr().err
    command += ["--set", "time=2026-03-27T08:00:00Z"]
    assert main(command) != 0
    assert "import prices_history first" in capsys.readouterr().err
    prices = tmp_path / "prices.csv"
    prices.write_text(
        "symbol,exchange,time,kind,price_usd\nBTC,hyperliquid,2026-03-27T07:59:00Z,mark,67000\n"
    )
    assert main(["import", "prices_history", str(prices), "--to", str(tmp_path / "to")]) == 0
    assert main(command) == 0
    rows = open_archive(tmp_path / "to").read("oi_history", *EVER)
    assert rows["oi_usd"].tolist() == [30000.5 * 67000]


def test_a_market_states_venue_and_symbol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rates.csv"
    lines = [f"{_START + row * 28_800_000},0.0001" for row in range(4)]
    path.write_text("\n".join(["time,rate", *lines]) + "\n")
    command = ["import", str(path), "--to", str(tmp_path / "to")]
    assert main(command) != 0
    assert "such as --market binance:BTC" in capsys.readouterr().err
    for wrong in ("binance", "BTC:binance", ":BTC"):
        assert main([*command, "--market", wrong]) != 0
        assert f"market='{wrong}'" in capsys.readouterr().err
    assert main([*command, "--market", "binance:BTC", "--set", "symbol=ETH"]) != 0
    assert "symbol is in both set and market" in capsys.readouterr().err
    assert main([*command, "--market", "binance:BTC"]) == 0
    rows = open_archive(tmp_path / "to").read("funding_settlements", *EVER)
    assert rows[["exchange", "symbol"]].drop_duplicates().to_numpy().tolist() == [["binance", "BTC"]]
    assert rows["rate_bps_8h"].tolist() == [1.0] * 4


def test_a_terminal_takes_pairs_of_set(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    row = {
        "exchange": "okx",
        "symbol": "BTCUSDT",
        "fundingTime": _START,
        "fundingRate": "0.0001",
        "markPrice": "67000",
    }
    path.write_text(json.dumps([row]))
    text, code = _on_terminal(["import", str(path), "--to", str(tmp_path / "to")], b"1\n")
    assert code == 0, text
    assert "--set: number of the right choice" in text
    assert {*open_archive(tmp_path / "to").read("funding_settlements", *EVER)["exchange"]} == {"okx"}
