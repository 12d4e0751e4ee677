"""An archive of recorded data, made by the very commands of docs/real-data.md."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd

import derivdata as dd
from derivdata import cli
from tests.shared import shared_path

__all__ = ["build_real_archive", "imports"]

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "real-data.md"
_SETS = (
    "funding_2020_2023",
    "open_interest_hyperliquid",
    "liquidations_hyperliquid",
    "options_deribit_2026",
    "funding_snapshots_2026",
)


def build_real_archive(folder: Path) -> Path:
    """Import the five recorded sets into ``folder/real``, or skip where they are absent; a few seconds."""
    for name in _SETS:
        shared_path(f"data/{name}")
    data = shared_path("data")
    archive = folder / "real"
    for command in imports(data, archive):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert cli.main(command) == 0
        assert said.getvalue().rstrip().endswith(", 0 rejected"), said.getvalue()
    script = next(block for block in _blocks("python") if "snapshots.json" in block)
    names: dict[str, Any] = {"DATA": data, "ARCHIVE": archive, "pd": pd, "dd": dd}
    exec(compile(script, str(_PAGE), "exec"), names)
    return archive


def imports(data: Path, archive: Path) -> list[list[str]]:
    """Arguments of every import command of the page, its patterns of files written out."""
    text = "\n".join(_blocks("sh")).replace("\\\n", " ")
    return [
        [
            word
            for part in shlex.split(line)[1:]
            for word in _expanded(part.replace("$DATA", str(data)).replace("$ARCHIVE", str(archive)))
        ]
        for line in text.splitlines()
        if line.startswith("derivdata import")
    ]


def _blocks(language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", _PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def _expanded(word: str) -> list[str]:
    if "*" not in word:
        return [word]
    path = Path(word)
    return sorted(map(str, path.parent.glob(path.name)))
