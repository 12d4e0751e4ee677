"""An archive of recorded data, made by the very commands of docs/real-data.md."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from filelock import FileLock

import derivdata as dd
from derivdata import cli
from tests.support.shared import shared_path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "real-data.md"
_SETS = (
    "funding_2020_2023",
    "open_interest_hyperliquid",
    "liquidations_hyperliquid",
    "options_deribit_2026",
    "funding_snapshots_2026",
)


def real_archive(temporary: pytest.TempPathFactory) -> Path:
    """Return an archive of the five recorded sets to read from, one for all workers of a run."""
    for name in _SETS:
        shared_path(f"data/{name}")
    base = temporary.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "recorded"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_suffix(".unfinished")
            _build(unfinished / "real")
            unfinished.rename(folder)
    return folder / "real"


def _build(archive: Path) -> None:
    data = shared_path("data")
    for command in imports(data, archive):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert cli.main(command) == 0
        assert said.getvalue().rstrip().endswith(", 0 rejected"), said.getvalue()
    script = next(block for block in _blocks("python") if "snapshots.json" in block)
    names: dict[str, Any] = {"DATA": data, "ARCHIVE": archive, "pd": pd, "dd": dd}
    exec(compile(script, str(_PAGE), "exec"), names)  # noqa: S102 - a page of ours


def imports(data: Path, archive: Path) -> list[list[str]]:
    """Arguments of every import command of the page, its patterns of files written out."""
    text = _unrolled("\n".join(_blocks("sh")).replace("\\\n", " "))
    return [
        [
            word
            for part in shlex.split(line)[1:]
            for word in _expanded(part.replace("$DATA", str(data)).replace("$ARCHIVE", str(archive)))
        ]
        for line in text.splitlines()
        if line.lstrip().startswith("derivdata import")
    ]


def _unrolled(script: str) -> str:
    """Return a shell script with the body of each ``for`` loop repeated for every value."""

    def bodies(loop: re.Match[str]) -> str:
        name, values, body = loop.groups()
        copies = [body.replace(f"${{{name}}}", value).replace(f"${name}", value) for value in values.split()]
        return "".join(copies)

    return re.sub(r"^for (\w+) in (.*?); do\n(.*?)^done$", bodies, script, flags=re.DOTALL | re.MULTILINE)


def _blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", _PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def _expanded(word: str) -> list[str]:
    if "*" not in word:
        return [word]
    path = Path(word)
    return sorted(map(str, path.parent.glob(path.name)))
