"""The command line: exit codes, and one clear line for a job that failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

import derivdata as dd
from derivdata.cli import _parser, main
from tests.support.rows import rows


def test_wrong_usage_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    imported = ["import", "t", "f", "--to", "a"]
    for arguments, message in (
        ([], "usage: derivdata"),
        (["serve", "sample", "--key", "dev"], "expected NAME=VALUE (the value is not shown"),
        (["serve", "sample", "--key", "dev=a", "--key", "dev=b"], "--key must have dev once"),
        ([*imported, "--map", "time=x", "--map", "time=y"], "--map must have time once"),
        ([*imported, "--set", "side=x", "--set", "side=x"], "--set must have side once"),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(arguments)
        assert message in capsys.readouterr().err
    [commands] = [action for action in _parser()._actions if action.dest == "command"]
    for command in commands.choices or ():
        with pytest.raises(SystemExit, match=r"^2$"):
            main([command, "--nonsense"])
        assert "usage: derivdata" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "/no/such/archive"], "/no/such/archive"),
        (["serve", "sample", "--now", "soon"], "--now must be a time such as '2026-01-31T08:00', got 'soon'"),
        (["serve", "sample", "--workers", "0"], "workers must be at least 1, got 0"),
        (["serve", "venues", "--workers", "2"], "workers must be 1 for venues"),
        (["serve", "sample", "--key", "gold=k"], "gold"),
        (["report", "sample", "--window", "10y"], "10y"),
        (["import", "funding_history", "/no/such/file.csv", "--to", "/tmp/none"], "/no/such/file.csv"),
        (["bundle", "verify", "/no/such.ddz"], "/no/such.ddz"),
        (["export", "/no/such.ddz", "--to", "/tmp/none"], "/no/such.ddz"),
        (["notebook", "check", "/no/such.ipynb"], "/no/such.ipynb"),
        (["status", "/no/such/archive"], "/no/such/archive"),
    ],
)
def test_failed_command_prints_one_line_and_exits_1(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    output = capsys.readouterr().err
    assert message in output
    assert len(output.strip().splitlines()) == 1
    assert "Traceback" not in output


def test_interrupted_command_exits_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("shtab.complete", interrupt)
    assert main(["completion", "bash"]) == 130
    assert capsys.readouterr().err == "derivdata completion: interrupted\n"


def test_version_option_prints_the_package_version() -> None:
    """In a separate process, as a shell starts it."""
    command = [sys.executable, "-m", "derivdata", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (shown.returncode, shown.stdout) == (0, f"derivdata {dd.__version__}\n")


@pytest.mark.parametrize(
    "arguments", [["--debug", "bundle", "verify", "none"], ["bundle", "verify", "none", "--debug"]]
)
def test_debug_option_prints_the_traceback(arguments: list[str]) -> None:
    with pytest.raises(dd.errors.BundleError) as failed:
        main(arguments)
    assert "_bundle" in [frame.name for frame in failed.traceback]


@pytest.mark.parametrize("path", ["no\nsuch\rfile", "\x1b[31mred", "an\udcffother", "na\u2028me"])
def test_control_characters_are_printed_escaped(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bundle", "verify", path]) == 1
    output = capsys.readouterr().err.removesuffix("\n")
    assert output.isprintable()
    assert f"derivdata bundle: {ascii(path)[1:-1]}: file not found" in output


def test_output_is_printed_in_a_terminal_without_unicode(tmp_path: Path) -> None:
    """The name is UTF-8 on disk in any locale."""
    recorded, name = tmp_path / "recorded.ddz", os.fsdecode(b"m\xc3\xa4rz.ddz")
    dd.connect("sample")
    with dd.record(recorded):
        dd.funding.metadata()
    kept = recorded.rename(tmp_path / name)
    result = subprocess.run(
        [sys.executable, "-m", "derivdata", "bundle", "verify", str(kept)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    printed = name.encode("ascii", "backslashreplace").decode()
    assert result.stdout.endswith(f"{printed}: 1 responses, all hashes match\n")


def test_import_prints_counts_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "rates.csv"
    source.write_text("when,rate\n2024-01-01 03:00:00,0.0001\n2024-01-01 11:00:00,0.0002\nsoon,1\n")
    arguments = ["import", "funding_settlements", str(source), "--to", str(tmp_path / "mine")]
    arguments += ["--map", "time=when", "--map", "rate_bps_8h=rate", "--tz", "Etc/GMT-3", "--unit", "native"]
    for constant in ("symbol=BTC", "exchange=binance", "interval_hours=8", "kind=settled"):
        arguments += ["--set", constant]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert "3 rows read, 2 written, 0 already there, 1 rejected; the first: rates.csv" in output
    dd.connect(str(tmp_path / "mine"))
    frame = dd.funding.settlements("BTC", "2024-01-01", "2024-01-02")
    assert frame["rate_bps_8h"].tolist() == [1.0, 2.0]
    arguments[1] = "funding.settlements"
    assert main(arguments) == 0
    assert "0 written, 2 already there" in capsys.readouterr().out
    assert [str(t) for t in frame["time"]] == ["2024-01-01 00:00:00+00:00", "2024-01-01 08:00:00+00:00"]


@pytest.mark.slow
def test_report_is_reproduced_from_its_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, one, two = tmp_path / "r.ddz", tmp_path / "one.html", tmp_path / "two.html"
    source = ["sample", "--symbols", "ETH", "--window", "1d", "--sections", "funding", "liquidations"]
    assert main(["report", *source, "--out", str(one), "--bundle", str(kept)]) == 0
    dd.disconnect()
    monkeypatch.setenv("DERIVDATA_CACHE_DIR", str(tmp_path / "another"))
    with monkeypatch.context() as shut:
        for name in ("socket.socket.connect", "socket.socket.bind", "socket.getaddrinfo"):
            shut.setattr(name, lambda *_: pytest.fail("the network was asked for"))
        assert main(["report", str(kept), "--out", str(two)]) == 0
    assert one.read_text(encoding="utf-8") == two.read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["bundle", "verify", str(kept)]) == 0
    assert "all hashes match" in capsys.readouterr().out
    assert main(["bundle", "info", str(kept)]) == 0
    output = capsys.readouterr().out
    assert "source: sample (synthetic)" in output
    assert "/funding/historical?" in output
    assert main(["report", str(kept), "--symbols", "BTC", "--out", str(two)]) == 1
    assert "symbol=BTC" in capsys.readouterr().err, "what was not recorded is named"


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("dev my-secret", [], "line 1 must be 'TIER: KEY'"),
        ("dev: a\ndev: my-secret", [], "line 2 has a second key of 'dev'"),
        ("dev: my-secret", ["--key", "dev=a"], "line 1 has a second key of 'dev'"),
        ("\n", [], "no key found"),
        ("gold: my-secret", [], "gold"),
    ],
)
def test_invalid_key_file_prints_one_line_without_keys(
    text: str, arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys").write_text(text)
    assert main(["serve", "sample", "--port", "0", "--key-file", str(tmp_path / "keys"), *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "my-secret" not in error


def test_service_uses_the_keys_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "keys").write_text("dev: one\n\n team : two: three \n")
    given: dict[str, Any] = {}
    monkeypatch.setattr("derivdata.sources.service.serve", lambda source, **options: given.update(options))
    keys = ["--key-file", str(tmp_path / "keys"), "--key", "pro=four"]
    assert main(["serve", "sample", *keys]) == 0
    assert given["keys"] == {"pro": "four", "dev": "one", "team": "two: three"}


def test_archives_on_object_storage_keep_their_address(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path of a file system would make one slash of the two."""
    given: list[object] = []

    def opened(address: object, **_: object) -> NoReturn:
        given.append(address)
        raise ValueError("stop here")

    monkeypatch.setattr("derivdata.sources.archive.open_archive", opened)
    monkeypatch.setattr("derivdata.sources.archive.import_files", lambda to, **options: opened(to))
    assert main(["info", "s3://bucket/mine"]) == 1
    assert main(["import", "funding_history", "a.csv", "--to", "s3://bucket/mine"]) == 1
    assert given == ["s3://bucket/mine"] * 2


def test_info_lists_the_tables_of_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two hourly rates on one venue; a folder without an archive fails."""
    stamps, about = ["2024-03-01T00:00:00Z", "2024-03-01T01:00:00Z"], {"resolution": "1h", "kind": "sampled"}
    frame = rows("funding_history", symbol="BTC", exchange="okx", timestamp=stamps, y=[1.0, 2.0], **about)
    dd.open_archive(tmp_path / "mine").append("funding_history", frame)
    assert main(["info", str(tmp_path / "mine")]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("funding_history")]
    assert line.split()[1] == "2"
    assert "2024-03-01 01:00" in line
    assert main(["info", str(tmp_path / "none")]) == 1
    assert "archive not found" in capsys.readouterr().err
