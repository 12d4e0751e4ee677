"""Figures for the tests of drawing in a second process, which imports this module and no test."""

from __future__ import annotations

import os
import warnings
from typing import Any


def line(height: float, *, ax: Any) -> None:
    """Draw one line, with a title."""
    ax.plot([0.0, 1.0, 2.0], [0.0, height, 1.0])
    ax.set_title(f"up to {height:g}")


def warn(*, ax: Any) -> None:
    """Draw with a warning."""
    warnings.warn("the line is thin", UserWarning, stacklevel=1)
    line(2.0, ax=ax)


def fail(*, ax: Any) -> None:
    """Fail after something is drawn."""
    line(3.0, ax=ax)
    raise ZeroDivisionError("no line has this height")


def process(*, ax: Any) -> None:
    """Write which process draws, and print, as some library might."""
    os.write(1, b"a figure is drawn\n")
    ax.set_title(f"process {os.getpid()}")
