"""Outputs below the commands of a page: each line ``derivdata …`` of a block is run, in the page's folder.

A block after ``<!-- file: NAME -->`` is written to that file first; of a notebook each paragraph is a cell.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import derivdata as dd
from derivdata.cli import main

__all__ = ["commands", "run", "write_files"]

_FILE = re.compile(r"^<!-- file: ([\w.-]+) -->\n```\w+\n(.*?)^```$", flags=re.M | re.S)


def write_files(page: str) -> None:
    """Write the files that a page shows into the current folder."""
    for name, text in _FILE.findall(page):
        if name.endswith(".ipynb"):
            empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
            cells = [{**empty, "source": cell} for cell in text.strip().split("\n\n")]
            text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
        Path(name).write_text(text, encoding="utf-8")


def commands(code: str) -> list[list[str]]:
    """Return the arguments of each command ``derivdata`` of a block; comments are omitted."""
    lines = code.replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines]
    return [line[1:] for line in words if line and line[0] == "derivdata"]


def run(code: str) -> list[tuple[str, str]]:
    """Run the commands of a block, and return each with its output, and its exit code if it is not 0."""
    return [(shlex.join(["derivdata", *words]), _output(words)) for words in commands(code)]


def _output(words: list[str]) -> str:
    if words[0] == "serve":
        return _served(words)
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            status: Any = main(words)
        except SystemExit as end:
            status = end.code
    dd.connect("sample")  # the blocks below go on as those before
    return text.getvalue() + (f"(exit code {status})\n" if status else "")


def _served(words: list[str]) -> str:
    """Start the service, return its output, and interrupt it."""
    command = [sys.executable, "-m", "derivdata", *words]
    with subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "http://" in line:
                break
        for _ in range(12):  # an interrupt while workers start may be lost
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
                return "".join(lines)
        process.kill()
        raise TimeoutError(f"{words} does not end at Ctrl-C")
