"""Scripts in separate processes, to be killed, stopped or raced."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

__all__ = ["finished", "started"]

ROOT = Path(__file__).resolve().parents[2]


def started(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that runs `script`; its output is to be read."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def finished(script: str, *arguments: object, seconds: float = 300) -> str:
    """Output of `script`, after it ended well."""
    return output(started(script, *arguments), seconds)


def output(process: subprocess.Popen[str], seconds: float = 300) -> str:
    """Output of a process, after it ended well."""
    said, errors = process.communicate(timeout=seconds)
    assert process.returncode == 0, errors
    return said
